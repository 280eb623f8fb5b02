#pragma once
#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// Defines what the sizes of a call mean. For a group of n ranks (docs/volumes.md derives each row):
///
///   kind            input      output     message m      wire bytes each rank sends
///   all_reduce      tensor     tensor     tensor         2 m (n-1)/n
///   all_gather      shard      whole      output         m (n-1)/n
///   reduce_scatter  whole      shard      input          m (n-1)/n
///   all_to_all      all sent   all recvd  input          m (n-1)/n
///   broadcast       tensor     tensor     tensor         m (n-1)/n, averaged over ranks
///   reduce          tensor     tensor     tensor         m (n-1)/n, averaged over ranks
///   send            message    0          input          m
///   recv            0          message    output         0
///   barrier         0          0          0              0
///   other           -          -          input          0 (unknown)
///
/// Wire bytes are 0 when n = 1.

/// The payload that the framework requested.
Bytes message_bytes(const CommOp& op);

/// What a bandwidth-optimal algorithm makes each rank send, `ranks` >= 1. `message` may be the sum of several
/// calls (the formula is linear). Rounded down to whole bytes once; exact when `ranks` divides the message.
Bytes wire_bytes(CommKind kind, Bytes message, std::int64_t ranks);

/// Bus factor of nccl-tests: bus bandwidth = message / time * factor. Source: nccl-tests doc/PERFORMANCE.md.
double bus_factor(CommKind kind, std::int64_t ranks);

}  // namespace commlens
