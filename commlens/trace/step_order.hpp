#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace commlens {

/// A call, or a piece of computing between calls.
struct OrderedStep {
  enum class Kind : std::uint8_t { call, work };
  Kind kind = Kind::call;
  std::uint32_t row = 0;         // of the stream's events, or of StepOrder::works
  std::uint32_t first_wait = 0;  // of StreamOrder::waits
  std::uint32_t waits = 0;
};

/// The steps of a stream of ranks in the order of issue; calls in the order of its events. Each begins once
/// those that it waits for have ended: earlier places of the list.
struct StreamOrder {
  std::vector<OrderedStep> steps;
  std::vector<std::uint32_t> waits;
};

/// A piece of computing as simulators take it.
struct ComputeWork {
  std::string name;  // "forward": the phase it belongs to
  double flops = 0;
  std::int64_t bytes = 0;  // read and written
};

/// What a prediction knows beside its calls: what is computed, and what waits for what.
struct StepOrder {
  std::vector<StreamOrder> streams;  // as the trace has them
  std::vector<ComputeWork> works;
};

}  // namespace commlens
