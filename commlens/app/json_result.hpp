#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace commlens {

/// A verb's result as it is printed, with U+FFFD for what is not UTF-8: names of files and texts of traces
/// may hold any bytes.
std::string json_result(const nlohmann::ordered_json& json);

}  // namespace commlens
