#include "commlens/model/version.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_shortest_commit = 7;
constexpr std::size_t k_longest_version = 100;

/// "core_v0.7.0" as its prefix and its numbers.
struct Release {
  std::string_view prefix;
  std::vector<std::int64_t> parts;
};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool is_commit(std::string_view text) {
  return text.size() >= k_shortest_commit && std::all_of(text.begin(), text.end(), [](char letter) {
           return is_digit(letter) || (letter >= 'a' && letter <= 'f');
         });
}

/// Without a label that names only the platform of the build.
std::string_view without_build(std::string_view text) {
  const std::size_t plus = text.find('+');
  if (plus == std::string_view::npos) {
    return text;
  }
  const std::string_view label = text.substr(plus + 1);
  const auto is_platform = [&](std::string_view name) {
    const std::string_view number = label.substr(std::min(name.size(), label.size()));
    return label.starts_with(name) && !number.empty() &&
           number.find_first_not_of("0123456789.") == std::string_view::npos;
  };
  return label == "cpu" || is_platform("cu") || is_platform("rocm") ? text.substr(0, plus) : text;
}

std::optional<Release> release(std::string_view text) {
  const std::size_t first = std::min(text.find_first_of("0123456789"), text.size());
  Release result;
  result.prefix = text.substr(0, first) == "v" ? "" : text.substr(0, first);
  text.remove_prefix(first);
  while (true) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    const std::string_view part = text.substr(0, dot);
    const Result<std::int64_t> number = parse_integer(part);
    if (!std::all_of(part.begin(), part.end(), is_digit) || !number) {
      return std::nullopt;
    }
    result.parts.push_back(*number);
    if (dot == text.size()) {
      return result;
    }
    text.remove_prefix(dot + 1);
  }
}

}  // namespace

bool is_same_version(std::string_view named, std::string_view recorded) {
  if (named.size() > k_longest_version) {
    return false;
  }
  if (is_commit(recorded)) {
    return is_commit(named) && (named.starts_with(recorded) || recorded.starts_with(named));
  }
  const std::optional<Release> a = release(without_build(named));
  const std::optional<Release> b = release(recorded);
  if (!a || !b || a->prefix != b->prefix) {
    return false;
  }
  constexpr std::size_t parts_of_a_release = 3;
  const bool is_line = b->parts.size() < parts_of_a_release;
  return a->parts == b->parts || (is_line && a->parts.size() > b->parts.size() &&
                                  std::equal(b->parts.begin(), b->parts.end(), a->parts.begin()));
}

}  // namespace commlens
