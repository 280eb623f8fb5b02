#pragma once
#include <span>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"

namespace commlens {

/// An object per row, with the keys of the columns; null for a missing value.
nlohmann::ordered_json rows_json(const Table& table);

/// One such object.
nlohmann::ordered_json row_json(std::span<const Column> columns, std::span<const Cell> cells);

}  // namespace commlens
