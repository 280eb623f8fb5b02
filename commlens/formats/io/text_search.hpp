#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace commlens::formats {

/// Whether a line within the first `furthest` bytes of a text file is of the kind sought; for formats that
/// stand somewhere in a log. Never of a binary file (`head` is its start) or one with a line beyond 16 MiB.
bool any_line(const std::filesystem::path& path, std::string_view head, std::int64_t furthest,
              const std::function<bool(std::string_view)>& is_sought);

/// What separates words within a line.
constexpr std::string_view k_blanks = " \t\r\f\v";

/// The text without `blanks` at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = k_blanks);

/// The text from its first character on that is no white space, if that opens a JSON object; else empty.
std::string_view json_object_in(std::string_view text);

/// Whether the text has that part.
inline bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The words between blanks, at most `most` of them.
std::vector<std::string_view> blank_separated(std::string_view text, std::size_t most);

/// How far the searches for what a job prints among its own lines go.
constexpr std::int64_t k_furthest_in_log = std::int64_t{1} << 30;

/// How far the searches for the tables of benchmarks go.
constexpr std::int64_t k_furthest_table = std::int64_t{64} << 20;

}  // namespace commlens::formats
