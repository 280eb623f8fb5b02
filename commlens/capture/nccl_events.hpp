#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/capture/nccl_comm.hpp"

namespace commlens::capture {

/// What NCCL calls the handle of an event: not an address, so that one that is used too late, or twice, is
/// found out.
struct EventHandle {
  enum class Kind : std::uint8_t { none = 0, group = 1, api = 2, call = 3, kernel = 4 };
  Kind kind = Kind::none;
  std::uint32_t stream = 0;    // index in the process
  std::uint64_t sequence = 0;  // of the event in the stream

  void* pack() const;
  static EventHandle unpack(const void* handle);
};

/// A call as an event describes it.
struct CallSeen {
  NcclArguments arguments;
  bool is_captured = false;  // into a CUDA graph: not carried out now
};

/// The events of one stream that NCCL may still name; the most recent k_most of them, older ones are given
/// up (their records stay as they are). All is called in the stream's turn.
class NcclEvents {
 public:
  static constexpr std::size_t k_most = std::size_t{1} << 14;

  explicit NcclEvents(NcclStream& stream);

  /// The program calls a function of NCCL (v5 and later); `group` is the program's group that it is part of.
  EventHandle start_api(NcclComm& comm, const CallSeen& seen, std::uint64_t group);
  /// That group has ended. NCCL 2.31.2 enqueues broadcasts without an event of their own: those of the group
  /// count as enqueued now. (Those of a group that failed do too: NCCL ends it in the same way.) Other calls
  /// without an event were not carried out.
  void stop_group(std::uint64_t group);
  /// NCCL enqueues a call; `parent` is its start_api, where there is one. None when there is nothing to
  /// record.
  EventHandle start_call(NcclComm& comm, const CallSeen& seen, const EventHandle& parent);
  /// It is enqueued.
  void stop_call(std::uint64_t sequence);

  /// A channel of the GPU begins or ends its part of a call. `timer`: the GPU's clock, ns; 0: not known.
  EventHandle start_kernel(const EventHandle& call, std::uint64_t timer);
  void time_kernel(std::uint64_t sequence, std::uint64_t timer);
  void stop_kernel(std::uint64_t sequence);

 private:
  struct Event {
    std::uint64_t sequence = 0;  // 0: free
    RecordedCall call;
    Recorder::Slot slot = Recorder::k_dropped;
    NcclStream::Position position;
    std::int64_t issued_ns = 0;
    std::int64_t first_start_ns = 0;  // of a channel; 0: none has started
    std::int64_t last_stop_ns = 0;
    std::uint64_t first_timer = 0;
    std::uint64_t last_timer = 0;
    std::uint64_t group = 0;  // of the program; an api event's
    bool is_taken = false;    // an api event whose call was enqueued
    bool is_captured = false;
    bool is_complete = false;     // a channel has ended
    bool is_misnumbered = false;  // its kernel events are those of an earlier call
  };

  Event& add();
  Event* find(std::uint64_t sequence);
  void finish_enqueued(const Event& event);
  void complete(Event& event);

  NcclStream& stream_;
  std::uint64_t next_ = 1;
  std::vector<Event> events_;
  std::vector<std::uint64_t> quiet_;  // api events of broadcasts of groups that have not ended
};

}  // namespace commlens::capture
