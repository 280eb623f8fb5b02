#include "commlens/machine/cost/restriction.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

using Words = std::vector<std::string>;

constexpr std::array<std::string_view, 5> k_timed_algorithms = {"tree", "ring", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, 3> k_timed_protocols = {"ll", "ll128", "simple"};

/// As NCCL compares: without regard to case; with or without underscores.
std::string bare(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter != '_' && letter != ' ') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return result;
}

std::optional<std::string> known_name(std::string_view word, std::span<const std::string_view> names) {
  const auto found =
      std::ranges::find_if(names, [&](std::string_view name) { return bare(name) == bare(word); });
  return found == names.end() ? std::nullopt : std::optional<std::string>(*found);
}

Words words_between(std::string_view text, char separator) {
  Words words(1);
  for (const char letter : text) {
    if (letter == separator) {
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words;
}

/// The list that counts for an operation; empty: none does.
std::string list_for(std::string_view text, CommKind op) {
  std::string list;
  for (const std::string& part : words_between(text, ';')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) {
      list = part;
    } else if (bare(part.substr(0, colon)) == bare(name_of(op))) {
      list = part.substr(colon + 1);
    }
  }
  return list;
}

bool is_collnet(std::string_view word) { return bare(word).starts_with("collnet"); }

Result<Words> left_of(std::string_view text, CommKind op, std::string_view what,
                      std::span<const std::string_view> names) {
  const std::string list = list_for(text, op);
  const bool excludes = list.starts_with('^');
  Words named;
  for (const std::string& word : words_between(excludes ? list.substr(1) : list, ',')) {
    if (bare(word).empty() || (excludes && is_collnet(word))) {
      continue;
    }
    if (is_collnet(word) && what == "algorithm") {
      return failure(
          fmt::format("algorithm '{}' has no time model here (CollNet adds in the switches)", word));
    }
    const std::optional<std::string> name = known_name(word, names);
    if (!name) {
      return failure(fmt::format("{} '{}' is not known; choose of {}", what, word, fmt::join(names, ", ")));
    }
    named.push_back(*name);
  }
  if (!excludes) {
    return named;
  }
  Words left;
  for (const std::string_view name : names) {
    if (std::ranges::find(named, name) == named.end()) {
      left.emplace_back(name);
    }
  }
  return left.empty() ? failure(fmt::format("'{}' leaves no {}", list, what))
                      : Result<Words>(std::move(left));
}

}  // namespace

Result<std::vector<std::string>> algorithms_left(std::string_view text, CommKind op) {
  return left_of(text, op, "algorithm", k_timed_algorithms);
}

Result<std::vector<std::string>> protocols_left(std::string_view text, CommKind op) {
  return left_of(text, op, "protocol", k_timed_protocols);
}

}  // namespace commlens
