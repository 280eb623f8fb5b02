#include "commlens/report/figure_files.hpp"

#include <cmath>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/csv.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

void append_value(std::string& out, bool value) { out += value ? "true" : "false"; }
void append_value(std::string& out, std::int64_t value) { append_number(out, value); }
void append_value(std::string& out, const std::string& value) { append_json_string(out, value); }
template <typename Item>
void append_value(std::string& out, const std::vector<Item>& values) {
  out += '[';
  for (std::size_t at = 0; at < values.size(); ++at) {
    out += at == 0 ? "" : ",";
    append_value(out, values[at]);
  }
  out += ']';
}

/// "key": "text", separated by `separator`.
void append_fields(std::string& out, std::string_view separator,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  std::string_view before;
  for (const auto& [key, text] : fields) {
    out += fmt::format("{}\"{}\": ", before, key);
    append_json_string(out, text);
    before = separator;
  }
}

void append_values(std::string& out, const FigureColumn& column) {
  out += '[';
  for (std::size_t row = 0; row < column.rows(); ++row) {
    out += row == 0 ? "" : ",";
    const std::string plain = column.plain(row);
    if (std::holds_alternative<TextColumn>(column.values)) {
      append_json_string(out, plain);
    } else {
      out += plain.empty() ? "null" : plain;
    }
  }
  out += ']';
}

}  // namespace

void append_options_json(std::string& out, const FigureOptions& options) {
  out += '{';
  for (std::size_t at = 0; at < options.size(); ++at) {
    out += at == 0 ? "" : ",";
    append_json_string(out, options[at].first);
    out += ':';
    std::visit([&](const auto& value) { append_value(out, value); }, options[at].second);
  }
  out += '}';
}

std::string figure_json(const Figure& figure) {
  std::string out = "{\n \"schema\": \"commlens.figure/1\",\n ";
  append_fields(out, ",\n ",
                {{"id", figure.id},
                 {"title", figure.title},
                 {"caption", figure.caption},
                 {"kind", name_of(figure.kind)}});
  out += ",\n \"notes\": ";
  append_value(out, figure.notes);
  out += ",\n \"options\": ";
  append_options_json(out, figure.options);
  out += fmt::format(",\n \"rows\": {},\n \"columns\": [", figure.rows());
  for (std::size_t at = 0; at < figure.columns.size(); ++at) {
    const FigureColumn& column = figure.columns[at];
    out += at == 0 ? "\n  {" : ",\n  {";
    append_fields(out, ", ", {{"name", column.name}, {"title", column.title}, {"unit", column.unit}});
    out += ", \"values\": ";
    append_values(out, column);
    out += '}';
  }
  return out + "\n ]\n}\n";
}

std::string figure_csv(const Figure& figure) {
  std::vector<std::string> cells;
  for (const FigureColumn& column : figure.columns) {
    cells.push_back(column.name);
  }
  std::string out = csv_line(cells);
  for (std::size_t row = 0; row < figure.rows(); ++row) {
    for (std::size_t at = 0; at < figure.columns.size(); ++at) {
      cells[at] = figure.columns[at].plain(row);
    }
    out += csv_line(cells);
  }
  return out;
}

}  // namespace commlens
