#include "commlens/app/reproduce/sheet.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens::study {
namespace {

std::vector<ColumnUse> with_series(std::vector<ColumnUse> own) {
  own.insert(own.end(), {"series", "evidence", "provenance"});
  return own;
}

std::string interval_text(const Series& series) {
  constexpr double percent = 100;
  return fmt::format("the 90 % interval of an iteration is -{:.0f} to +{:.0f} %", percent * series.below,
                     percent * series.above);
}

std::optional<std::size_t> column_at(const Table& table, std::string_view key) {
  const auto found = std::ranges::find(table.columns(), key, &Column::key);
  return found == table.columns().end() ? std::nullopt
                                        : std::optional(std::size_t(found - table.columns().begin()));
}

}  // namespace

std::string_view name_of(Evidence evidence) {
  switch (evidence) {
    case Evidence::exact:
      return "exact theory";
    case Evidence::recorded_here:
      return "recorded here";
    case Evidence::recorded_framework:
      return "recorded from the framework";
    case Evidence::simulated:
      return "simulated";
  }
  return "";
}

Sheet::Sheet(std::vector<ColumnUse> own) : table_(columns(with_series(std::move(own)))) {}

void Sheet::add(std::vector<Cell> cells, const Series& series) {
  std::string provenance = series.provenance;
  if (series.above > 0) {
    provenance += fmt::format("; {}", interval_text(series));
  }
  cells.insert(cells.end(), {series.name, name_of(series.evidence), provenance});
  table_.add(std::move(cells));
  const auto found =
      std::ranges::find_if(told_, [&](const Told& told) { return told.series.name == series.name; });
  if (found == told_.end()) {
    told_.push_back({series});
    return;
  }
  found->others += found->series.provenance == series.provenance ? 0 : 1;
  found->series.below = std::max(found->series.below, series.below);
  found->series.above = std::max(found->series.above, series.above);
}

std::vector<std::string> Sheet::notes() const {
  std::vector<std::string> notes;
  for (const auto& [series, others] : told_) {
    std::string note =
        fmt::format("{}: {}, {}{}", series.name, name_of(series.evidence),
                    others > 0 ? "row by row as the data have it, such as " : "", series.provenance);
    note += series.above > 0 ? fmt::format("; {} at the widest", interval_text(series)) : "";
    notes.push_back(note + ".");
  }
  return notes;
}

Table rows_with(const Table& table, std::string_view key, std::string_view value) {
  Table chosen(table.columns());
  const std::optional<std::size_t> at = column_at(table, key);
  for (const std::vector<Cell>& row : table.rows()) {
    if (at && row[*at].plain() == value) {
      chosen.add(row);
    }
  }
  return chosen;
}

std::vector<std::string> values_of(const Table& table, std::string_view key) {
  std::vector<std::string> values;
  const std::optional<std::size_t> at = column_at(table, key);
  for (const std::vector<Cell>& row : table.rows()) {
    if (at && std::ranges::find(values, row[*at].plain()) == values.end()) {
      values.push_back(row[*at].plain());
    }
  }
  return values;
}

std::vector<FigureColumn> shown_columns(const Table& table, const std::vector<std::string_view>& hidden) {
  std::vector<FigureColumn> shown = figure_columns(table);
  for (FigureColumn& column : shown) {
    column.in_table = std::ranges::find(hidden, std::string_view(column.name)) == hidden.end();
  }
  return shown;
}

Figure whole_of(const Sheet& sheet, std::string caption, const Drawing& drawing) {
  Figure figure;
  figure.caption = std::move(caption);
  figure.kind = drawing.kind;
  figure.options = drawing.options;
  figure.columns = shown_columns(sheet.table(), drawing.hidden);
  figure.notes = sheet.notes();
  return figure;
}

Figure panel_of(const Table& rows, std::string id, std::string title, std::string caption,
                const Drawing& drawing) {
  Figure figure;
  figure.id = std::move(id);
  figure.title = std::move(title);
  figure.caption = std::move(caption);
  figure.kind = drawing.kind;
  figure.options = drawing.options;
  figure.columns = shown_columns(rows, drawing.hidden);
  return figure;
}

}  // namespace commlens::study
