#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace commlens {

/// How text is written: for a terminal of `width` columns (0: as wide as it needs), in colour or not.
struct TextStyle {
  std::size_t width = 0;
  bool colour = false;
};

/// A column of a table. When the table is too wide, columns go in ascending `drop_first` (0: never), then
/// those with a `least` width are cut to what remains.
struct Column {
  std::string title;
  enum class Align { left, right } align = Align::left;
  int drop_first = 0;
  std::size_t least = 0;
};

/// Rows of cells under titles, two spaces between columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell per column. Control characters (foreign names may hold any) are shown as '?'.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// Title line and rows, each line ended; `indent` spaces before each. Empty columns are left out.
  std::string text(const TextStyle& style, std::size_t indent = 0) const;
  /// Titles of the columns that have cells but no room.
  std::vector<std::string> hidden(const TextStyle& style, std::size_t indent = 0) const;
  /// The table, and a line that names what it hides.
  std::string text_with_hidden(const TextStyle& style) const {
    return text(style) + hidden_text(hidden(style), style);
  }
  /// "hidden for want of width: …" as a line of its own; empty when nothing is hidden. `format` has it all.
  static std::string hidden_text(const std::vector<std::string>& titles, const TextStyle& style,
                                 std::string_view format = "csv");

 private:
  std::vector<std::size_t> shown_widths(std::size_t width) const;
  static std::size_t room(const TextStyle& style, std::size_t indent);

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Foreign text with its control characters as '?'.
std::string printable(std::string text);

/// Columns a text takes on a terminal: its code points.
std::size_t display_width(std::string_view text);

/// `text` cut to `width` columns, its last one "…" when something is missing.
std::string cut_to(std::string_view text, std::size_t width);

enum class Colour { bold, red, green, yellow };
std::string in_colour(std::string_view text, Colour colour, const TextStyle& style);

}  // namespace commlens
