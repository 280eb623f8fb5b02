#pragma once
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/base/units.hpp"

namespace commlens {

/// How text is written: for a terminal of `width` columns (0: as wide as it needs), in colour or not.
struct TextStyle {
  std::size_t width = 0;
  bool colour = false;
};

/// Unit of a column, which decides how its numbers are printed. CSV and JSON have plain numbers, whose keys
/// name the unit.
enum class ColumnUnit : std::uint8_t {
  text,         // or true and false
  id,           // a rank, an iteration: digits without separators
  count,        // "1,024"
  number,       // without a unit
  bytes,        // "2.00 KiB"
  nanoseconds,  // "12.3 µs"
  seconds,      // the same, from a number of seconds
  share,        // of 1: "12.5 %"
  bytes_per_s,  // "25.0 GB/s"
};
/// As the data of a figure have it: "bytes", "ns", "share", "bytes_per_second", empty for the others.
std::string_view name_of(ColumnUnit unit);

/// Scope of a column's numbers: what they are summed over.
enum class ColumnScope : std::uint8_t {
  none,       // a name, a property, or what the row says
  call,       // one call
  rank,       // one rank, or each rank of a class
  rank_0,     // rank 0 only
  all_ranks,  // all ranks that the output covers
};

/// A column of a table. On a narrow terminal, columns are hidden in ascending order of `drop_first` (0:
/// never), then columns with a `least` width are truncated to the remaining width.
struct Column {
  std::string key;    // of CSV and JSON, docs/output.md; empty: for people only
  std::string title;  // for people
  ColumnUnit unit = ColumnUnit::text;
  ColumnScope scope = ColumnScope::none;
  enum class Align { of_unit, left, right } align = Align::of_unit;  // of_unit: texts left, numbers right
  int drop_first = 0;
  std::size_t least = 0;
  bool in_text = true;
  bool in_csv = true;
  bool in_json = true;
  bool optional = false;  // JSON rows without a value have no such key; else it is null
  std::string json = {};  // where JSON has it when objects group it: "time.p50_ns"

  bool is_right() const { return align == Align::of_unit ? unit != ColumnUnit::text : align == Align::right; }
};

/// A column in a list of columns: its key, and optionally another title.
struct ColumnUse : Column {
  ColumnUse(const char* name) : Column{.key = name} {}
  ColumnUse(Column column) : Column(std::move(column)) {}
};

/// One value of a table, in the unit of its column.
class Cell {
 public:
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                             std::vector<std::int64_t>, std::vector<std::string>>;

  /// No value: nothing for people and in CSV, null in JSON.
  Cell() = default;
  // Implicit, so that a row is a list of values.
  Cell(bool value) : value_(value) {}
  Cell(double value) : value_(value) {}
  template <std::integral Integer>
  Cell(Integer value) : value_(static_cast<std::int64_t>(value)) {}
  Cell(Bytes value) : value_(value.value) {}
  Cell(BytesPerSecond value) : value_(value.value) {}
  Cell(std::chrono::nanoseconds value) : value_(value.count()) {}
  Cell(Rank value) : value_(value.value) {}
  Cell(std::string value) : value_(std::move(value)) {}
  Cell(std::string_view value) : value_(std::string(value)) {}
  Cell(const char* value) : value_(std::string(value)) {}
  Cell(std::vector<std::int64_t> value) : value_(std::move(value)) {}
  Cell(std::vector<std::string> value) : value_(std::move(value)) {}
  template <typename Item>
  Cell(const std::optional<Item>& value) {
    if (value) {
      *this = Cell(*value);
    }
  }

  /// The same value, which people are shown as `text`.
  Cell shown(std::string text) && {
    shown_ = std::move(text);
    return std::move(*this);
  }

  const Value& value() const { return value_; }
  bool is_missing() const { return std::holds_alternative<std::monostate>(value_); }
  /// For people, without control characters (foreign names may hold any).
  std::string text(ColumnUnit unit) const;
  /// For programs: plain digits, "true", numbers of a list with spaces between,
  /// texts with "; "; empty without a value.
  std::string plain() const;

 private:
  Value value_;
  std::optional<std::string> shown_;
};

using Cells = std::vector<Cell>;

/// One list of columns, or of cells, after the other.
template <typename Item, typename... Lists>
std::vector<Item> concatenated(std::vector<Item> first, const Lists&... more) {
  (first.insert(first.end(), more.begin(), more.end()), ...);
  return first;
}

/// Rows of typed cells under columns. Written once, shown as text, CSV, JSON (report/table_json.hpp) and data
/// of figures (report/figures/figure.hpp).
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One cell per column.
  void add(std::vector<Cell> cells);
  /// The same rows with these columns alone, in this order, as far as the table has them; with a title where
  /// `uses` have none.
  Table picked(const std::vector<ColumnUse>& uses) const;
  /// The rows that have a value in the column `key`.
  Table with_value(std::string_view key) const;
  /// The same with more columns: the first has `cells`, one per row, if there are any, the rest no values.
  Table with(const std::vector<Column>& more, const std::vector<Cell>& cells = {}) const;
  /// Removes the columns with these keys, which the rows have no values for.
  Table& remove(std::initializer_list<std::string_view> keys);
  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

  /// Two spaces between columns. Title line and rows, each line ended; `indent` spaces before each. Columns
  /// without a text are skipped.
  std::string text(const TextStyle& style, std::size_t indent = 0) const;
  /// Titles of the columns that are hidden because the terminal is too narrow.
  std::vector<std::string> hidden(const TextStyle& style, std::size_t indent = 0) const;
  /// The table, and a line that names what it hides.
  std::string text_with_hidden(const TextStyle& style, std::string_view format = "csv") const {
    return text(style) + hidden_text(hidden(style), style, format);
  }
  /// "hidden, too narrow: …" as a separate line; empty if no column is hidden. `format`: which output has all
  /// columns.
  static std::string hidden_text(const std::vector<std::string>& titles, const TextStyle& style,
                                 std::string_view format = "csv");

  /// RFC 4180: a line of keys and a line per row.
  std::string csv() const;
  /// The same in parts, for a table that is printed while it grows.
  std::string csv_keys() const;
  std::string csv_rows() const;

 private:
  std::optional<std::size_t> place_of(std::string_view key) const;
  std::vector<std::size_t> shown_widths(const std::vector<std::vector<std::string>>& texts,
                                        std::size_t width) const;
  std::vector<std::vector<std::string>> texts() const;
  static std::size_t room(const TextStyle& style, std::size_t indent);

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Foreign text with its control characters, and those that turn the direction of what follows, as '?'.
std::string printable(std::string text);

/// Columns of the longest name, and of the longest text of any kind, that people are shown; outputs for
/// programs have all of it.
constexpr std::size_t k_widest_name = 60;
constexpr std::size_t k_widest_text = 1000;
/// Foreign text as people are shown it in tables, charts and legends: printable, cut to a width.
std::string shown_foreign(std::string text, std::size_t width = k_widest_text);

/// Columns a text takes on a terminal: its code points.
std::size_t display_width(std::string_view text);

/// `text` cut to `width` columns, its last one "…" when something is missing.
std::string cut_to(std::string_view text, std::size_t width);

enum class Colour { bold, red, green, yellow };
std::string in_colour(std::string_view text, Colour colour, const TextStyle& style);

}  // namespace commlens
