#pragma once
#include <functional>
#include <optional>
#include <string_view>

#include "commlens/base/rank.hpp"
#include "commlens/trace/step_order.hpp"

namespace commlens::formats {

/// What of a trace is written.
struct CallSelection {
  std::optional<Rank> rank;          // only this one's calls
  bool compute = false;              // after the calls of a rank, the lines that say when it computed
  const StepOrder* order = nullptr;  // of a prediction, for formats with dependencies; outlives the writing
};

/// Receives text (or bytes) in blocks of about 1 MiB.
using TextSink = std::function<void(std::string_view)>;

}  // namespace commlens::formats
