#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/base/table.hpp"
#include "commlens/report/figures/figure.hpp"

namespace commlens::study {

/// What the numbers of a series are. Nothing else is shown.
enum class Evidence : std::uint8_t {
  exact,               // follows from equations or from the rules of a framework
  recorded_here,       // by a training on this machine
  recorded_framework,  // by a run of the framework itself, which came with the program
  simulated            // on a described machine
};
std::string_view name_of(Evidence evidence);

/// A line or a colour of a figure: its name, what its numbers are, and where they come from: the rule set,
/// the command, the recording, the machine and how far off its times may be.
struct Series {
  std::string name;
  Evidence evidence = Evidence::exact;
  std::string provenance;
  double below = 0;  // of simulated times: how far the 90 % interval reaches below, as a share
  double above = 0;
  std::vector<std::string> unmeasured = {};  // settings whose rules no run was compared with
};

/// The rows of a figure of the paper: columns of its own, then series, evidence and provenance.
class Sheet {
 public:
  explicit Sheet(std::vector<ColumnUse> own);
  /// A row: a cell for each own column.
  void add(std::vector<Cell> cells, const Series& series);
  const Table& table() const { return table_; }
  bool empty() const { return table_.empty(); }
  /// One sentence for each series, or for those together that differ in their names and intervals alone: "Eq.
  /// 2 as printed: exact theory, …". With `names`, of these series alone.
  std::vector<std::string> notes(const std::vector<std::string>* names = nullptr) const;

 private:
  /// A series, with the widest of its intervals, and how many provenances it has.
  struct Told {
    Series series;
    std::int64_t others = 0;
  };

  Table table_;
  std::vector<Told> told_;
};

/// The rows whose text in the column `key` is `value`.
Table rows_with(const Table& table, std::string_view key, std::string_view value);
/// The values of that column, each once, in the order of the rows.
std::vector<std::string> values_of(const Table& table, std::string_view key);

/// How the panels of a figure are drawn: the kind, its options, and the columns that only the data have.
struct Drawing {
  FigureKind kind = FigureKind::table;
  FigureOptions options = {};
  std::vector<std::string_view> hidden = {};
};

/// A figure of the paper: all its rows, and the panels that the page draws in their place (none: the page
/// has the whole figure). With `more`, the item has a page of its own, with its panels, these and its notes.
struct Item {
  Figure whole;
  std::vector<Figure> panels;
  std::vector<Figure> more = {};
};

/// The columns of a table as a figure's, those of `hidden` in the data alone.
std::vector<FigureColumn> shown_columns(const Table& table, const std::vector<std::string_view>& hidden);

/// A figure of all rows of a sheet, with its notes.
Figure whole_of(const Sheet& sheet, std::string caption, const Drawing& drawing);

/// A panel of some of the rows. `id` ends in the panel's letter.
Figure panel_of(const Table& rows, std::string id, std::string title, std::string caption,
                const Drawing& drawing);

}  // namespace commlens::study
