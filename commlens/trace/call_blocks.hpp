#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Some consecutive calls of one stream of a trace.
struct CallBlock {
  const Trace& tables;     // all that events refer to; `streams[stream].ranks` made them
  std::size_t stream = 0;  // row of `tables.streams`
  std::span<const CommEvent> events;
  std::span<const Times> times;  // empty, or one per event; the same for all blocks of a stream
};

/// Sees a trace block by block: stream by stream, each in issue order, at least one block (of no calls) of
/// each.
using CallSink = std::function<void(const CallBlock&)>;

/// Gives the calls of a trace in memory, one block a stream.
void visit_calls(const Trace& trace, const CallSink& sink);

/// Gives the calls of a native trace directory without holding more than a block of them, with the checks and
/// the counting of read_trace: times are those that read_trace would keep. `tables` of a block has all
/// streams, their ranks alone; descriptions of a rank are there when its blocks are. Returns those tables.
/// Fails as read_trace does; then blocks may have been given already.
Result<Trace> visit_calls(const std::filesystem::path& directory, const CallSink& sink);

}  // namespace commlens
