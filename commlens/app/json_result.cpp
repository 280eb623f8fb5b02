#include "commlens/app/json_result.hpp"

#include <nlohmann/json.hpp>

namespace commlens {

std::string json_result(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace commlens
