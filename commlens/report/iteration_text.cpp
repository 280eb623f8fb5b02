#include "commlens/report/iteration_text.hpp"

#include <nlohmann/json.hpp>

namespace commlens {

std::string iteration_text(Iteration iteration) {
  return iteration == k_unknown_iteration ? "unknown" : std::to_string(iteration);
}

nlohmann::ordered_json iteration_json(Iteration iteration) {
  return iteration == k_unknown_iteration ? nlohmann::ordered_json(nullptr)
                                          : nlohmann::ordered_json(iteration);
}

Cell iteration_cell(Iteration iteration) {
  return iteration == k_unknown_iteration ? Cell().shown("unknown") : Cell(iteration);
}

}  // namespace commlens
