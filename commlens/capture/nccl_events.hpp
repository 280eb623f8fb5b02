#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
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
  bool has_kernels = false;  // NCCL reports its kernel, by which its end is known
};

/// The events of one stream that NCCL may still name; the most recent k_most of them, older ones are given
/// up. All is called in the stream's turn.
///
/// A call whose kernel NCCL reports is under way in the file until that ends, and its start is written when
/// it is known. NCCL loses events of kernels when its progress thread is slow. So the call counts as enqueued
/// only when k_overtaken later collectives of its communicator have ended, when it is given up, and when its
/// communicator or the process ends; so do all calls after the first k_patience while no kernel was ever
/// reported.
class NcclEvents {
 public:
  static constexpr std::size_t k_most = std::size_t{1} << 14;
  static constexpr std::uint64_t k_overtaken = 32;
  static constexpr std::uint64_t k_patience = 1024;

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
  /// The calls under way of a communicator that ends, or all of them.
  void finish_calls_of(std::uint64_t comm);
  void finish_calls();

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
    std::int64_t enqueued_ns = 0;     // 0: it is not yet
    std::int64_t first_start_ns = 0;  // of a channel; 0: none has started
    std::int64_t last_stop_ns = 0;
    std::uint64_t first_timer = 0;
    std::uint64_t last_timer = 0;
    std::uint64_t group = 0;   // of the program; an api event's
    std::uint64_t comm = 0;    // of a call
    std::uint64_t number = 0;  // of a collective among those of its communicator, from 1
    bool is_taken = false;     // an api event whose call was enqueued
    bool is_captured = false;
    bool has_kernels = false;     // NCCL reports them
    bool is_under_way = false;    // enqueued, and its end is awaited
    bool is_complete = false;     // a channel has ended
    bool is_misnumbered = false;  // its kernel events are those of an earlier call
  };

  Event& add();
  Event* find(std::uint64_t sequence);
  template <typename Wanted>
  void finish_calls(const Wanted& is_wanted);
  void finish_enqueued(Event& event);
  void set_under_way(Event& event, bool is_under_way);
  void complete(Event& event);
  void overtake(const Event& event);

  /// Collectives of a communicator, which the GPU carries out one after the other.
  struct Line {
    std::uint64_t entered = 0;
    std::deque<std::uint64_t> under_way;  // sequences; those that have ended since may be among them
  };

  NcclStream& stream_;
  std::uint64_t next_ = 1;
  std::vector<Event> events_;
  std::size_t under_way_ = 0;            // events
  std::map<std::uint64_t, Line> lines_;  // by communicator
  std::uint64_t without_kernels_ = 0;    // calls before the first kernel that was reported
  bool has_seen_kernels_ = false;
  std::vector<std::uint64_t> quiet_;  // api events of broadcasts of groups that have not ended
};

}  // namespace commlens::capture
