#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// Where the ranks of a group are.
struct Placement {
  std::int64_t ranks = 2;
  std::int64_t nodes = 1;
  std::int64_t per_node() const { return std::max<std::int64_t>(ranks / nodes, 1); }
};

/// A call whose time is wanted. `bytes` is the message of comm/volume.hpp: all_gather the gathered whole,
/// reduce_scatter and all_to_all the whole input.
struct TimedCall {
  CommKind op = CommKind::all_reduce;
  Bytes bytes;
  DType dtype = DType::fp16;
  Placement place;
};

/// One way to carry a call out, with the library's own estimate.
struct Candidate {
  std::string algorithm;
  std::string protocol;
  double latency_us = 0;
  double bandwidth = 0;  // GB/s, bytes of the call over time
  double library_us = 0;
};

/// Steps of a call in which each rank sends once: n - 1 for one pass around a ring.
std::int64_t ring_steps(CommKind op, std::int64_t ranks);

/// Bytes that every rank must send, over the bytes of the call.
double sent_share(CommKind op, std::int64_t ranks);

}  // namespace commlens
