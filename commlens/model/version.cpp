#include "commlens/model/version.hpp"

#include <algorithm>
#include <array>
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

/// Where a version is among releases. Of pre-releases only this counts: they are compared with releases.
enum class Stage : std::uint8_t { before, release, after };
struct Position {
  std::vector<std::int64_t> parts;
  Stage stage = Stage::release;
};

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

std::optional<Stage> stage_of(std::string_view suffix) {
  suffix.remove_prefix(std::min(suffix.find_first_not_of(".-_"), suffix.size()));
  const std::string_view word = suffix.substr(0, suffix.find_first_of("0123456789.-_"));
  if (word.empty()) {
    return suffix.empty() ? std::optional(Stage::release) : std::nullopt;
  }
  constexpr std::array<std::string_view, 9> before = {"dev", "a",  "alpha", "b",      "beta",
                                                      "c",   "rc", "pre",   "preview"};
  constexpr std::array<std::string_view, 3> after = {"post", "rev", "r"};
  if (suffix.find("dev") != std::string_view::npos ||
      std::find(before.begin(), before.end(), word) != before.end()) {
    return Stage::before;
  }
  return std::find(after.begin(), after.end(), word) != after.end() ? std::optional(Stage::after)
                                                                    : std::nullopt;
}

/// std::nullopt if the text is neither a release nor what precedes or follows one.
std::optional<Position> position(std::string_view text) {
  text = text.substr(0, text.find('+'));
  const std::size_t first = std::min(text.find_first_of("0123456789"), text.size());
  std::size_t end = first;
  while (end < text.size() &&
         (is_digit(text[end]) || (text[end] == '.' && end + 1 < text.size() && is_digit(text[end + 1])))) {
    ++end;
  }
  const std::optional<Release> numbers = release(text.substr(0, end));
  const std::optional<Stage> stage = stage_of(text.substr(end));
  if (!numbers || !stage) {
    return std::nullopt;
  }
  return Position{numbers->parts, *stage};
}

/// Negative, 0 or positive; missing parts are 0.
int compare(const Position& a, const Position& b) {
  for (std::size_t i = 0; i < std::max(a.parts.size(), b.parts.size()); ++i) {
    const std::int64_t left = i < a.parts.size() ? a.parts[i] : 0;
    const std::int64_t right = i < b.parts.size() ? b.parts[i] : 0;
    if (left != right) {
      return left < right ? -1 : 1;
    }
  }
  return static_cast<int>(a.stage) - static_cast<int>(b.stage);
}

constexpr std::size_t k_parts_of_a_release = 3;

/// Whether `version` is one of the releases of a line such as "2.11".
bool is_of_line(const std::vector<std::int64_t>& version, const std::vector<std::int64_t>& line) {
  return line.size() < k_parts_of_a_release && version.size() > line.size() &&
         std::equal(line.begin(), line.end(), version.begin());
}

bool is_recorded(std::string_view named, std::string_view recorded) {
  while (!recorded.empty()) {
    const std::size_t end = std::min(recorded.find(' '), recorded.size());
    if (is_same_version(named, recorded.substr(0, end))) {
      return true;
    }
    recorded.remove_prefix(std::min(end + 1, recorded.size()));
  }
  return false;
}

/// The last of the known releases that is not after `version`; the first one if all are.
std::optional<VersionChoice> by_order(std::span<const KnownVersion> known, const Position& version) {
  std::optional<VersionChoice> choice;
  for (std::size_t index = 0; index < known.size(); ++index) {
    const KnownVersion& row = known[index];
    const std::optional<Position> last = is_commit(row.last) ? std::nullopt : position(row.last);
    if (!last) {
      continue;
    }
    const std::optional<Position> first = position(row.first);
    if (!first || compare(version, *first) >= 0) {
      const bool is_read = compare(version, *last) <= 0 || is_of_line(version.parts, last->parts);
      choice = {index, is_read ? VersionMatch::in_range : VersionMatch::nearest_older};
    } else if (!choice) {
      choice = {index, VersionMatch::oldest};
    }
  }
  return choice;
}

}  // namespace

VersionChoice choose_version(std::span<const KnownVersion> known, std::size_t default_index,
                             std::string_view named) {
  if (named.empty()) {
    return {default_index, VersionMatch::recorded};
  }
  for (std::size_t index = 0; index < known.size(); ++index) {
    const bool is_row = named == known[index].name && !known[index].recorded.empty();
    if (is_row || is_recorded(named, known[index].recorded)) {
      return {index, VersionMatch::recorded};
    }
  }
  const bool has_order = named.size() <= k_longest_version && !is_commit(named);
  const std::optional<Position> version = has_order ? position(named) : std::nullopt;
  const std::optional<VersionChoice> choice = version ? by_order(known, *version) : std::nullopt;
  return choice.value_or(VersionChoice{default_index, VersionMatch::not_comparable});
}

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
  return a->parts == b->parts || is_of_line(a->parts, b->parts);
}

}  // namespace commlens
