#include "commlens/report/figures/figure.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/base/units.hpp"

namespace commlens {
namespace {

std::string whole_cell(std::int64_t value, const std::string& unit) {
  if (value == k_no_value) {
    return "-";
  }
  return unit == "ns" ? time_text(static_cast<double>(value)) : with_commas(value);
}

std::string number_cell(double value, const std::string& unit) {
  if (std::isnan(value)) {
    return "-";
  }
  if (unit == "ns" || unit == "s") {
    constexpr double billion = 1e9;
    return time_text(unit == "s" ? billion * value : value);
  }
  if (unit == "share") {
    return fmt::format("{:.1f} %", 100 * value);
  }
  if (unit == "bytes_per_second") {
    constexpr double giga = 1e9;
    return fmt::format("{:.2f} GB/s", value / giga);
  }
  constexpr double largest_exact = 9007199254740992.0;  // 2^53
  const bool is_whole = value == std::floor(value) && std::fabs(value) < largest_exact;
  constexpr double most_with_fractions = 1000;
  const bool is_large = std::fabs(value) >= most_with_fractions && std::fabs(value) < largest_exact;
  return is_whole || is_large ? with_commas(std::llround(value)) : fmt::format("{:.4g}", value);
}

}  // namespace

std::string_view name_of(FigureKind kind) {
  switch (kind) {
    case FigureKind::table:
      return "table";
    case FigureKind::bars:
      return "bars";
    case FigureKind::histogram:
      return "histogram";
    case FigureKind::matrix:
      return "matrix";
    case FigureKind::timeline:
      return "timeline";
    case FigureKind::lines:
      return "lines";
    case FigureKind::scatter:
      return "scatter";
  }
  return "";
}

FigureOptions bar_options(const char* category, const char* series, bool is_stacked,
                          const std::vector<std::string>& toggles) {
  return {{"category", std::string(category)},
          {"series", std::string(series)},
          {"value", toggles.front()},
          {"stacked", is_stacked},
          {"toggles", toggles}};
}

void TextColumn::add(std::string_view foreign) {
  const std::string text = shown_foreign(std::string(foreign));
  const auto place =
      std::lower_bound(sorted_.begin(), sorted_.end(), text,
                       [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (place != sorted_.end() && place->first == text) {
    codes_.push_back(place->second);
    return;
  }
  const auto code = static_cast<std::uint32_t>(dictionary_.size());
  dictionary_.emplace_back(text);
  sorted_.emplace(place, text, code);
  codes_.push_back(code);
}

std::size_t FigureColumn::rows() const {
  return std::visit([](const auto& column) { return column.size(); }, values);
}

std::string FigureColumn::cell(std::size_t row) const {
  if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&values)) {
    return whole_cell((*whole)[row], unit);
  }
  if (const auto* number = std::get_if<std::vector<double>>(&values)) {
    return number_cell((*number)[row], unit);
  }
  return std::get<TextColumn>(values).at(row);
}

std::string FigureColumn::plain(std::size_t row) const {
  if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&values)) {
    return (*whole)[row] == k_no_value ? "" : fmt::format("{}", (*whole)[row]);
  }
  if (const auto* number = std::get_if<std::vector<double>>(&values)) {
    return std::isnan((*number)[row]) ? "" : fmt::format("{}", (*number)[row]);
  }
  return std::get<TextColumn>(values).at(row);
}

std::vector<FigureColumn> figure_columns(const Table& table) {
  std::vector<FigureColumn> columns;
  for (std::size_t at = 0; at < table.columns().size(); ++at) {
    const Column& from = table.columns()[at];
    const auto has_fractions = [&](const std::vector<Cell>& row) {
      return std::holds_alternative<double>(row[at].value());
    };
    const bool is_text = from.unit == ColumnUnit::text;
    const bool is_number = std::any_of(table.rows().begin(), table.rows().end(), has_fractions);
    const std::string unit(name_of(from.unit));
    FigureColumn& column = columns.emplace_back(is_text     ? text_column(from.key, from.title)
                                                : is_number ? number_column(from.key, from.title, unit)
                                                            : whole_column(from.key, from.title, unit));
    for (const std::vector<Cell>& row : table.rows()) {
      const auto* const whole = std::get_if<std::int64_t>(&row[at].value());
      const auto* const number = std::get_if<double>(&row[at].value());
      if (is_text) {
        texts(column).add(row[at].plain());
      } else if (is_number) {
        numbers(column).push_back(number != nullptr  ? *number
                                  : whole != nullptr ? static_cast<double>(*whole)
                                                     : std::numeric_limits<double>::quiet_NaN());
      } else {
        wholes(column).push_back(whole != nullptr ? *whole : k_no_value);
      }
    }
  }
  return columns;
}

std::vector<FigureColumn> figure_columns(const Table& table, std::initializer_list<std::string_view> hidden) {
  std::vector<FigureColumn> columns = figure_columns(table);
  for (FigureColumn& column : columns) {
    column.in_table = std::find(hidden.begin(), hidden.end(), column.name) == hidden.end();
  }
  return columns;
}

FigureColumn text_column(std::string name, std::string title) {
  return {std::move(name), std::move(title), "", TextColumn{}};
}

FigureColumn whole_column(std::string name, std::string title, std::string unit) {
  return {std::move(name), std::move(title), std::move(unit), std::vector<std::int64_t>{}};
}

FigureColumn number_column(std::string name, std::string title, std::string unit) {
  return {std::move(name), std::move(title), std::move(unit), std::vector<double>{}};
}

std::string time_text(double nanoseconds) {
  struct Unit {
    double ns;
    const char* name;
  };
  constexpr Unit units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}};
  for (const Unit& unit : units) {
    const double value = nanoseconds / unit.ns;
    if (std::fabs(value) >= 0.9995) {
      const double size = std::fabs(value);
      return fmt::format("{:.{}f} {}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, unit.name);
    }
  }
  return fmt::format("{:.0f} ns", nanoseconds);
}

}  // namespace commlens
