#pragma once
#include <string>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// An equation of arXiv 2408.10197 for one job.
struct EquationValue {
  std::string equation;    // "1" … "5"
  std::string text;        // as printed: "2 P (d-1)/d"
  double value = 0;        // as printed (2 and 3 with Eq. 1's parameter count; 4 and 5 for one micro-batch)
  double value_exact = 0;  // true parameter count of this rank, all micro-batches, missing terms
  std::string unit;        // "parameters", "elements"
  std::string scope;       // "model", "per rank", "all stages"
  std::string note;        // why the two differ
};

/// Every equation that model and layout make meaningful: 1 for a dense GPT, 2 or 3 with data parallelism as
/// well, 4 with stages, 5 with tensor ranks. Source: docs/rules.md#paper.
std::vector<EquationValue> equations(const Job& job);

/// Activation all_reduces of one micro-batch on a tensor rank that holds all layers (Eq. 5 counts 6L + 1).
std::int64_t tensor_all_reduces(const Job& job);

}  // namespace commlens
