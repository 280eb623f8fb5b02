#include "commlens/report/iteration_text.hpp"

namespace commlens {

std::string iteration_text(Iteration iteration) {
  return iteration == k_unknown_iteration ? "unknown" : std::to_string(iteration);
}

Cell iteration_cell(Iteration iteration) {
  return iteration == k_unknown_iteration ? Cell().shown("unknown") : Cell(iteration);
}

}  // namespace commlens
