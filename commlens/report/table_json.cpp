#include "commlens/report/table_json.hpp"

#include <string_view>
#include <type_traits>
#include <variant>

#include <nlohmann/json.hpp>

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

Json value_json(const Cell& cell) {
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return Json();
        } else {
          return Json(value);
        }
      },
      cell.value());
}

/// The member at "time.p50_ns", made with the objects around it.
Json& member(Json& object, std::string_view path) {
  const std::size_t dot = path.find('.');
  Json& inner = object[std::string(path.substr(0, dot))];
  return dot == std::string_view::npos ? inner : member(inner, path.substr(dot + 1));
}

}  // namespace

Json row_json(std::span<const Column> columns, std::span<const Cell> cells) {
  Json row = Json::object();
  for (std::size_t at = 0; at < cells.size(); ++at) {
    const Column& column = columns[at];
    if (column.in_json && !column.key.empty() && !(column.optional && cells[at].is_missing())) {
      member(row, column.json.empty() ? column.key : column.json) = value_json(cells[at]);
    }
  }
  return row;
}

Json rows_json(const Table& table) {
  Json rows = Json::array();
  for (const std::vector<Cell>& cells : table.rows()) {
    rows.push_back(row_json(table.columns(), cells));
  }
  return rows;
}

}  // namespace commlens
