#pragma once
#include <cstdint>

#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"

namespace commlens::engine {

/// An injected failure, to test how a job handles it (docs/training.md#faults), from the environment variable
/// COMMLENS_FAULT="rank=2,iteration=1,kind=throw"; kinds: throw (a SystemError, the default), kill (SIGKILL
/// of the process), nan (the loss of that rank), stall (the rank stops working).
struct Fault {
  enum class Kind : std::uint8_t { none, error, kill, nan, stall };
  Kind kind = Kind::none;
  std::int64_t rank = 0;
  std::int64_t iteration = 0;
};
Result<Fault> fault_from_environment();

}  // namespace commlens::engine
