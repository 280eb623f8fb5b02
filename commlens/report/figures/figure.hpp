#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "commlens/base/table.hpp"

namespace commlens {

/// How a figure is drawn (docs/report.md): `table` has no chart, the others one drawer each in web/.
enum class FigureKind : std::uint8_t { table, bars, histogram, matrix, timeline, lines, scatter };
std::string_view name_of(FigureKind kind);

/// Texts with few distinct values: `codes` are indices into `dictionary`.
class TextColumn {
 public:
  void add(std::string_view text);
  std::size_t size() const { return codes_.size(); }
  const std::string& at(std::size_t row) const { return dictionary_[codes_[row]]; }
  const std::vector<std::string>& dictionary() const { return dictionary_; }
  const std::vector<std::uint32_t>& codes() const { return codes_; }

 private:
  std::vector<std::string> dictionary_;
  std::vector<std::uint32_t> codes_;
  std::vector<std::pair<std::string, std::uint32_t>> sorted_;  // ascending by text
};

/// A missing value in a column of integers.
constexpr std::int64_t k_no_value = std::numeric_limits<std::int64_t>::min();

/// One column of a figure: integers (k_no_value: missing), numbers (NaN: missing), or texts.
struct FigureColumn {
  std::string name;   // of the JSON key and the CSV column: "message_bytes", ends in its unit
  std::string title;  // for people: "message"
  std::string unit;   // "bytes", "ns", "s", "share" (of 1), "bytes_per_second", or empty: a count or a text
  std::variant<std::vector<std::int64_t>, std::vector<double>, TextColumn> values;
  /// Ascending values, such as start times: stored as differences in the page.
  bool ascending = false;
  /// Whether the page's table has it; the data always do.
  bool in_table = true;

  std::size_t rows() const;
  /// As in the page's tables: "4,213,760", "1.25 ms", "12.5 %", "-" for a missing value.
  std::string cell(std::size_t row) const;
  /// As in CSV: plain digits, empty for a missing value.
  std::string plain(std::size_t row) const;
};

/// A setting of a drawer, by name: docs/report.md lists which drawer reads which.
using OptionValue =
    std::variant<bool, std::int64_t, std::string, std::vector<std::string>, std::vector<std::int64_t>>;
using FigureOptions = std::vector<std::pair<std::string, OptionValue>>;

/// A link to another page.
struct PageLink {
  std::string text;
  std::string address;  // relative: "jobs-frontier.html"
};

/// The data and texts of one figure of a report. All columns have the same number of rows.
struct Figure {
  std::string id;       // of the page and of --data: lower case letters and '-'
  std::string title;    // "Message sizes"
  std::string caption;  // what is counted, over what, in which unit
  FigureKind kind = FigureKind::table;
  std::vector<FigureColumn> columns;
  FigureOptions options;
  std::vector<std::string> formulas;  // ids of entries of formulas.hpp this figure's numbers follow
  std::vector<std::string> notes;     // what was skipped or approximated, one sentence each
  std::vector<PageLink> links;        // pages with more of it

  std::size_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
};

/// The reason, in one sentence, why a report lacks a figure.
struct NoFigure {
  std::string reason;
};
using FigureResult = tl::expected<Figure, NoFigure>;

inline tl::unexpected<NoFigure> no_figure(std::string reason) {
  return tl::unexpected(NoFigure{std::move(reason)});
}

/// Options of a chart of bars: groups of bars by the column `category`, one bar (or part, if stacked) per
/// value of `series`. Its length is the first column of `toggles`; the page switches between them.
FigureOptions bar_options(const char* category, const char* series, bool is_stacked,
                          const std::vector<std::string>& toggles);

/// The columns of a table with their rows, named by their keys.
std::vector<FigureColumn> figure_columns(const Table& table);

/// The same, with those of `hidden` in the data alone.
std::vector<FigureColumn> figure_columns(const Table& table, std::initializer_list<std::string_view> hidden);

/// Columns with a name, a title and a unit, to fill one by one where there may be millions of rows.
FigureColumn text_column(std::string name, std::string title);
FigureColumn whole_column(std::string name, std::string title, std::string unit = "");
FigureColumn number_column(std::string name, std::string title, std::string unit = "");

/// The values of a column made by the functions above.
inline TextColumn& texts(FigureColumn& column) { return std::get<TextColumn>(column.values); }
inline std::vector<std::int64_t>& wholes(FigureColumn& column) {
  return std::get<std::vector<std::int64_t>>(column.values);
}
inline std::vector<double>& numbers(FigureColumn& column) {
  return std::get<std::vector<double>>(column.values);
}

/// "1.25 ms", "830 ns", "2.50 s": at most three significant digits.
std::string time_text(double nanoseconds);

}  // namespace commlens
