#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Consecutive calls of a stream and their times: none, or one each.
struct CallSpan {
  std::span<const CommEvent> events;
  std::span<const Times> times;
};

/// How far a reader of a stream has come. `next` means something to the source alone.
struct StreamCursor {
  std::size_t stream = 0;
  std::size_t next = 0;
};

/// The calls of a trace, every stream read at a pace of its own: for analyses that look at the same calls of
/// several ranks at once. The calls that were given are valid until calls are asked for again, the intervals
/// until intervals are.
struct CallSource {
  const Trace& tables;          // all that events refer to; of `streams` the ranks alone need be there
  std::vector<bool> has_times;  // per stream; a stream without calls has times
  std::vector<bool> has_compute;
  /// The next calls of a stream, at most `most`; none at its end.
  std::function<CallSpan(StreamCursor&, std::size_t most)> calls;
  /// The next compute intervals of a stream, ascending by start; none at its end.
  std::function<std::span<const ComputeInterval>(StreamCursor&)> compute;
};

/// Of a trace in memory, which outlives the source.
CallSource call_source(const Trace& trace);

/// Of one or two files each: far fewer than the 65,530 mappings that Linux lets a process have
/// (vm.max_map_count).
constexpr std::size_t k_most_mapped_streams = 4096;

/// A native trace directory that is open: the calls of all its streams can be read again and again without
/// being held in memory. Calls, times and what is skipped are those of read_trace.
class DirectoryCalls {
 public:
  /// Reads all tables and goes through all records once to check them. Fails as read_trace does.
  /// `most_mapped`: streams whose files are in memory at once, above 0; others are mapped when their calls
  /// are asked for, which throws SystemError where a file is gone or has become shorter.
  static Result<DirectoryCalls> open(const std::filesystem::path& directory,
                                     std::size_t most_mapped = k_most_mapped_streams);
  DirectoryCalls(DirectoryCalls&&) noexcept;
  DirectoryCalls& operator=(DirectoryCalls&&) noexcept;
  DirectoryCalls(const DirectoryCalls&) = delete;
  DirectoryCalls& operator=(const DirectoryCalls&) = delete;
  ~DirectoryCalls();

  /// Of `streams` the ranks alone. Provenance counts what is skipped from the first visit on.
  const Trace& tables() const;
  /// Gives all calls, as visit_calls does. Once.
  void visit(const CallSink& sink);
  /// For as long as this lives and is not moved.
  CallSource source() const;
  /// The tables, after which nothing else is there.
  Trace take_tables() &&;

 private:
  struct State;
  explicit DirectoryCalls(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace commlens
