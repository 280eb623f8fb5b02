#include "commlens/app/reproduce/sheet.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens::study {
namespace {

std::vector<ColumnUse> with_series(std::vector<ColumnUse> own) {
  own.insert(own.end(), {"series", "evidence", "provenance"});
  return own;
}

std::string ends_text(const Series& series) {
  constexpr double percent = 100;
  return fmt::format("-{:.0f} to +{:.0f} %", percent * series.below, percent * series.above);
}

std::string interval_text(const Series& series) {
  return fmt::format("the 90 % interval of an iteration is {}", ends_text(series));
}

std::string unmeasured_text(const std::vector<std::string>& settings) {
  std::string text;
  for (const std::string& setting : settings) {
    text += fmt::format("; not measured: {}", setting);
  }
  return text;
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
  std::string provenance = series.provenance + unmeasured_text(series.unmeasured);
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
  for (const std::string& setting : series.unmeasured) {
    if (std::ranges::find(found->series.unmeasured, setting) == found->series.unmeasured.end()) {
      found->series.unmeasured.push_back(setting);
    }
  }
}

namespace {

/// Series that one sentence tells.
using ToldTogether = std::vector<Series>;

std::string note_of(const ToldTogether& together, bool has_others) {
  const Series& first = together.front();
  if (together.size() == 1) {
    return fmt::format("{}: {}, {}{}{}{}.", first.name, name_of(first.evidence),
                       has_others ? "row by row as the data have it, such as " : "", first.provenance,
                       unmeasured_text(first.unmeasured),
                       first.above > 0 ? fmt::format("; {} at the widest", interval_text(first)) : "");
  }
  std::string names;
  for (const Series& series : together) {
    names += fmt::format("{}{}{}", names.empty() ? "" : "; ", series.name,
                         series.above > 0 ? fmt::format(" ({})", ends_text(series)) : "");
  }
  return fmt::format("{}, {}{}: {}.", name_of(first.evidence), first.provenance,
                     first.above > 0 ? ", with the 90 % interval of an iteration" : "", names);
}

/// "Not measured: latent attention (DeepSeek-V3, Megatron 0.19; …)." of series that are told together.
std::vector<std::string> unmeasured_notes(const ToldTogether& together) {
  std::vector<std::pair<std::string, std::string>> names_of_settings;
  for (const Series& series : together) {
    for (const std::string& setting : series.unmeasured) {
      auto found = std::ranges::find(names_of_settings, setting, &std::pair<std::string, std::string>::first);
      if (found == names_of_settings.end()) {
        names_of_settings.emplace_back(setting, series.name);
      } else {
        found->second += "; " + series.name;
      }
    }
  }
  std::vector<std::string> notes;
  for (const auto& [setting, names] : names_of_settings) {
    notes.push_back(fmt::format("Not measured: {} ({}).", setting, names));
  }
  return notes;
}

}  // namespace

std::vector<std::string> Sheet::notes(const std::vector<std::string>* names) const {
  std::vector<std::pair<ToldTogether, bool>> groups;
  for (const auto& [series, others] : told_) {
    if (names != nullptr && std::ranges::find(*names, series.name) == names->end()) {
      continue;
    }
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      const Series& first = group.first.front();
      return !group.second && first.evidence == series.evidence && first.provenance == series.provenance;
    });
    if (others == 0 && same != groups.end()) {
      same->first.push_back(series);
    } else {
      groups.push_back({{series}, others > 0});
    }
  }
  std::vector<std::string> notes;
  for (const auto& [together, has_others] : groups) {
    notes.push_back(note_of(together, has_others));
    if (together.size() > 1) {
      std::ranges::move(unmeasured_notes(together), std::back_inserter(notes));
    }
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
