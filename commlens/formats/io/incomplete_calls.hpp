#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// Calls that lack something a format needs, for the line that refuses them.
struct IncompleteCalls {
  std::int64_t calls = 0;      // of all ranks looked at, each time a rank makes one
  Rank rank;                   // of the first, in the order of the streams
  const CommOp* op = nullptr;  // of the first
};

/// The calls whose op `lacks` it, among those of all streams.
IncompleteCalls incomplete_calls(const Trace& trace, const std::function<bool(const CommOp&)>& lacks);

/// The same among the calls of one rank.
IncompleteCalls incomplete_calls_of(const Trace& trace, Rank rank,
                                    const std::function<bool(const CommOp&)>& lacks);

/// "24 calls (the first: all_reduce of rank 0 on a group of 4 ranks, comm 0x7f)".
std::string text_of(const Trace& trace, const IncompleteCalls& incomplete);

/// "a group of 4 ranks", "a group of unknown size", and after a comma what the source calls it.
std::string group_text(const Trace& trace, GroupId group);

}  // namespace commlens::formats
