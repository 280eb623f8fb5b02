#include "commlens/report/html_table.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/report/figures/formulas_figure.hpp"
#include "commlens/report/html_text.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_long_cell = 48;  // a sentence: its column does not shrink to one word

bool is_number(const FigureColumn& column) { return !std::holds_alternative<TextColumn>(column.values); }

std::string_view class_of(const FigureColumn& column, std::string_view cell) {
  if (is_number(column)) {
    return " class=\"number\"";
  }
  return cell.size() > k_long_cell ? " class=\"long\"" : "";
}

/// The value, where the text of a cell is rounded.
std::string value_attribute(const FigureColumn& column, std::size_t row) {
  const bool is_rounded = is_number(column) && !column.unit.empty() && column.unit != "bytes";
  const std::string plain = is_rounded ? column.plain(row) : "";
  return plain.empty() ? "" : fmt::format(" data-value=\"{}\"", plain);
}

void append_row(std::string& out, const Figure& figure, std::size_t row) {
  const bool is_formula = figure.id == "formulas" && row < formulas().size();
  out += is_formula ? fmt::format("<tr id=\"formula-{}\"", formulas()[row].id) : "<tr";
  for (const FigureColumn& column : figure.columns) {
    if (column.name == "op" || column.name == "axis") {
      out += fmt::format(" data-{}=\"{}\"", column.name, html_text(column.cell(row)));
    }
  }
  out += ">";
  bool is_first = true;
  for (const FigureColumn& column : figure.columns) {
    if (!column.in_table) {
      continue;
    }
    const std::string cell = html_text(column.cell(row));
    out += is_first
               ? fmt::format("<th scope=\"row\"{}{}>{}</th>", is_number(column) ? "" : class_of(column, cell),
                             value_attribute(column, row), cell)
               : fmt::format("<td{}{}>{}</td>", class_of(column, cell), value_attribute(column, row), cell);
    is_first = false;
  }
  out += "</tr>\n";
}

/// Settings in the order of their first trace, and what they are in each.
struct SettingsOfTraces {
  std::vector<std::string> traces;
  std::vector<std::string> what;
  std::map<std::pair<std::string, std::size_t>, std::string> values;  // by setting and place of the trace
};

/// Of columns `what` and `value` for one trace, or `trace`, `what` and `value`. Rows of a trace stand
/// together, and begin with a setting again where traces have the same name.
SettingsOfTraces settings_of(const Figure& figure) {
  const std::size_t first = figure.columns.size() - 2;
  const auto text_at = [&](std::size_t column, std::size_t row) { return figure.columns[column].cell(row); };
  SettingsOfTraces settings;
  for (std::size_t row = 0; row < figure.rows(); ++row) {
    const std::string trace = first == 0 ? "" : text_at(0, row);
    const std::string what = text_at(first, row);
    const bool is_new = settings.traces.empty() || settings.traces.back() != trace ||
                        settings.values.contains({what, settings.traces.size() - 1});
    if (is_new) {
      settings.traces.push_back(trace);
    }
    if (std::find(settings.what.begin(), settings.what.end(), what) == settings.what.end()) {
      settings.what.push_back(what);
    }
    settings.values[{what, settings.traces.size() - 1}] = text_at(first + 1, row);
  }
  return settings;
}

}  // namespace

void append_table(std::string& out, const Figure& figure) {
  const std::size_t rows = std::min(figure.rows(), k_most_table_rows);
  out += fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}, "
      "table\">\n<table>\n<caption>{0}</caption>\n"
      "<thead><tr>",
      html_text(figure.title));
  for (const FigureColumn& column : figure.columns) {
    if (!column.in_table) {
      continue;
    }
    out += fmt::format("<th scope=\"col\"{}>{}</th>", is_number(column) ? " class=\"number\"" : "",
                       html_text(column.title));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < rows; ++row) {
    append_row(out, figure, row);
  }
  out += "</tbody>\n</table>\n</div>\n";
  if (rows < figure.rows()) {
    out += fmt::format(
        "<p class=\"note\">The first {} of {} rows; <code>commlens report --data DIR</code> writes all of "
        "them to {}.csv.</p>\n",
        with_commas(static_cast<std::int64_t>(rows)), with_commas(static_cast<std::int64_t>(figure.rows())),
        figure.id);
  }
}

void append_facts(std::string& out, const Figure& figure) {
  const SettingsOfTraces settings = settings_of(figure);
  if (settings.traces.size() == 1) {
    out += "<dl class=\"facts\">\n";
    for (const std::string& what : settings.what) {
      out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html_text(what),
                         html_text(settings.values.at({what, 0})));
    }
    out += "</dl>\n";
    return;
  }
  out += fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}, table\">\n<table "
      "class=\"fixed-order\">\n<caption>{0}</caption>\n<thead><tr><th scope=\"col\">what</th>",
      html_text(figure.title));
  for (const std::string& trace : settings.traces) {
    out += fmt::format("<th scope=\"col\">{}</th>", html_text(trace));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::string& what : settings.what) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", html_text(what));
    for (std::size_t at = 0; at < settings.traces.size(); ++at) {
      const auto value = settings.values.find({what, at});
      out += fmt::format("<td>{}</td>", value == settings.values.end() ? "-" : html_text(value->second));
    }
    out += "</tr>\n";
  }
  out += "</tbody>\n</table>\n</div>\n";
}

}  // namespace commlens
