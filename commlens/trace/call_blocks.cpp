#include "commlens/trace/call_blocks.hpp"

namespace commlens {

void visit_calls(const Trace& trace, const CallSink& sink) {
  for (std::size_t row = 0; row < trace.streams.size(); ++row) {
    const RankStream& stream = trace.streams[row];
    sink({.tables = trace, .stream = row, .events = stream.events, .times = stream.times});
  }
}

}  // namespace commlens
