#pragma once
#include <nlohmann/json.hpp>

#include "commlens/app/hang.hpp"

namespace commlens {

/// Schema commlens.hang/1 (docs/output.md).
nlohmann::ordered_json hang_json(const HangResult& result);

}  // namespace commlens
