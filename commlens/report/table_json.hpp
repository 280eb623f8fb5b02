#pragma once
#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"

namespace commlens {

/// An object per row, with the keys of the columns; null where there is no value.
nlohmann::ordered_json rows_json(const Table& table);

}  // namespace commlens
