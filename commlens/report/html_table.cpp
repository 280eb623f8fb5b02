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
    out += is_first ? fmt::format("<th scope=\"row\"{}>{}</th>", value_attribute(column, row), cell)
                    : fmt::format("<td{}{}>{}</td>", class_of(column, cell), value_attribute(column, row), cell);
    is_first = false;
  }
  out += "</tr>\n";
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
  const TextColumn& names = std::get<TextColumn>(figure.columns.at(0).values);
  const TextColumn& settings = std::get<TextColumn>(figure.columns.at(1).values);
  const TextColumn& values = std::get<TextColumn>(figure.columns.at(2).values);
  std::vector<std::string> traces;                                            // in order
  std::vector<std::string> what;                                              // in order
  std::map<std::pair<std::string, std::size_t>, std::string> value_of;        // by setting and place of the trace
  for (std::size_t row = 0; row < figure.rows(); ++row) {
    const bool is_next = row == 0 || names.at(row) != names.at(row - 1) || settings.at(row) == what.front();
    if (is_next) {
      traces.push_back(names.at(row));
    }
    if (std::find(what.begin(), what.end(), settings.at(row)) == what.end()) {
      what.push_back(settings.at(row));
    }
    value_of[{settings.at(row), traces.size() - 1}] = values.at(row);
  }
  if (traces.size() == 1) {
    out += "<dl class=\"facts\">\n";
    for (const std::string& setting : what) {
      out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html_text(setting),
                         html_text(value_of[{setting, 0}]));
    }
    out += "</dl>\n";
    return;
  }
  out += fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}, table\">\n<table "
      "class=\"fixed-order\">\n<caption>{0}</caption>\n<thead><tr><th scope=\"col\">what</th>",
      html_text(figure.title));
  for (const std::string& trace : traces) {
    out += fmt::format("<th scope=\"col\">{}</th>", html_text(trace));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::string& setting : what) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", html_text(setting));
    for (std::size_t at = 0; at < traces.size(); ++at) {
      const auto value = value_of.find({setting, at});
      out += fmt::format("<td>{}</td>", value == value_of.end() ? "-" : html_text(value->second));
    }
    out += "</tr>\n";
  }
  out += "</tbody>\n</table>\n</div>\n";
}

}  // namespace commlens
