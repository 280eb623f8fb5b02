#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/otf2/isolated.hpp"

namespace commlens::formats::otf2 {

/// The calls of one location of an OTF2 archive, put together from its events, which come in order of time.
/// A call lasts from the entry into the MPI function that makes it until the return from it or, when it has a
/// request, until the request is complete. Calls are handed over in the order in which they were made.
/// Times are nanoseconds.
class Otf2Calls {
 public:
  /// More calls than that after one that does not complete make it complete.
  static constexpr std::size_t k_most_waiting = 100'000;

  explicit Otf2Calls(const RecordSink& sink) : sink_(&sink) {}

  /// `is_call`: the region is a function of a communication library.
  void enter(std::int64_t time_ns, bool is_call);
  void leave(std::int64_t time_ns);
  void begin_collective(std::int64_t time_ns) { collective_began_ = time_ns; }

  /// A call that is over when its function returns.
  void call(std::int64_t time_ns, CallRecord record);
  /// A call that is over when `complete` names its request; `record` may be unfinished then.
  void start(std::int64_t time_ns, std::uint64_t request, std::optional<CallRecord> record);
  /// `record` replaces what was reported at the start.
  void complete(std::int64_t time_ns, std::uint64_t request, std::optional<CallRecord> record);
  void cancel(std::uint64_t request);

  /// No more events: hands over everything.
  void finish();

 private:
  struct Call {
    std::optional<CallRecord> record;  // nothing: a receive of which only the request is known
    std::int64_t started = 0;
    std::optional<std::int64_t> returned;   // from the function
    std::optional<std::int64_t> completed;  // the request, or the call
    std::optional<std::uint64_t> previous;  // number of the call before it in the same function
    bool has_request = false;
    bool is_complete = false;  // the request, by an event of its own
    bool is_cancelled = false;
  };
  struct Region {
    std::int64_t entered = 0;
    bool is_call = false;
    std::optional<std::uint64_t> last;  // number of the last call made in it
  };

  Call& append(std::int64_t time_ns);
  Call* of_request(std::uint64_t request);
  void hand_over(bool everything);
  void hand_over(Call& call);

  const RecordSink* sink_;
  std::vector<Region> regions_;
  std::optional<std::int64_t> collective_began_;
  std::deque<Call> calls_;
  std::uint64_t handed_over_ = 0;                                // calls that left the deque
  std::unordered_map<std::uint64_t, std::uint64_t> of_request_;  // request -> number of the call
};

}  // namespace commlens::formats::otf2
