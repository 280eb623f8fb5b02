#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "commlens/base/units.hpp"

namespace commlens {

/// Calls and bytes of one power-of-two class of message sizes: [lower, 2 * lower), one rank's calls times the
/// ranks of their class.
struct SizeBin {
  Bytes lower;
  std::int64_t calls = 0;
  Bytes message;
  std::int64_t timed_calls = 0;     // those that have a time
  std::chrono::nanoseconds time{};  // sum of their durations
};

/// The message-size histogram of calls, ascending, without empty bins. Shares of "small"
/// messages use messages below `small_limit`, 64 KiB as in arXiv 2408.10197's discussion of latency-bound
/// messages.
struct SizeHistogram {
  std::vector<SizeBin> bins;
  std::int64_t calls = 0;
  Bytes message;
  Bytes small_limit{64 * 1024};
  std::int64_t small_calls = 0;
  Bytes small_message;
  std::int64_t timed_calls = 0;
  std::chrono::nanoseconds time{};
  std::chrono::nanoseconds small_time{};
  bool averaged_times = false;  // as in Provenance: sums of averages, so shares of them are meaningless
  bool has_time_shares() const { return timed_calls > 0 && !averaged_times; }
  double small_share_by_calls() const { return calls == 0 ? 0.0 : double(small_calls) / double(calls); }
  double small_share_by_bytes() const {
    return message.value == 0 ? 0.0 : double(small_message.value) / double(message.value);
  }
  double small_share_by_time() const {
    return time.count() == 0 ? 0.0 : double(small_time.count()) / double(time.count());
  }
};

/// Makes a histogram of calls that are given size by size.
class HistogramBuilder {
 public:
  explicit HistogramBuilder(Bytes small_limit) { histogram_.small_limit = small_limit; }
  /// Calls of one message size each; `calls.lower` is not read.
  void add(Bytes size, const SizeBin& calls);
  SizeHistogram take();

 private:
  SizeHistogram histogram_;
  std::map<Bytes, SizeBin> bins_;
};

}  // namespace commlens
