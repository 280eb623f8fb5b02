#include "commlens/transport/comm_recording.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "commlens/trace/clock.hpp"
#include "commlens/transport/call_check.hpp"

namespace commlens {
namespace {

/// Adds the time of a scope to one kind of call, and reports to the recorder that the rank does not compute
/// in it, also if an exception ends it. Uses the recorder's clock, so that one reading is enough.
class BlockedTime {
 public:
  BlockedTime(CommClock& clock, CommKind kind, Recorder& recorder)
      : blocked_(clock.blocked[static_cast<std::size_t>(kind)]),
        recorder_(recorder),
        start_ns_(Clock::of_process().now_ns()) {
    recorder_.stop_computing(start_ns_);
  }
  BlockedTime(const BlockedTime&) = delete;
  BlockedTime& operator=(const BlockedTime&) = delete;
  ~BlockedTime() {
    if (!is_over_) {
      end();
    }
  }

  std::int64_t start_ns() const { return start_ns_; }

  /// Ends the measurement before the end of the scope; returns the time now.
  std::int64_t end() {
    const std::int64_t now_ns = Clock::of_process().now_ns();
    blocked_ += std::chrono::nanoseconds(now_ns - start_ns_);
    recorder_.start_computing(now_ns);
    is_over_ = true;
    return now_ns;
  }

 private:
  std::chrono::nanoseconds& blocked_;
  Recorder& recorder_;
  std::int64_t start_ns_;
  bool is_over_ = false;
};

/// A call that is recorded when it is known to be complete, or calls that are complete together.
class RecordedWork final : public Work {
 public:
  struct Issued {
    CommKind kind = CommKind::barrier;
    Recorder::Slot slot = Recorder::k_dropped;
    std::int64_t issued_ns = 0;
    std::vector<Recorder::Slot> others;  // of calls that were issued as one with it
  };

  RecordedWork(std::unique_ptr<Work> work, Recorder& recorder, CommClock& clock, Issued issued)
      : work_(std::move(work)), recorder_(recorder), clock_(clock), issued_(std::move(issued)) {}

  void wait() override {
    if (is_recorded_) {
      work_->wait();
      return;
    }
    BlockedTime blocked(clock_, issued_.kind, recorder_);
    work_->wait();
    record(blocked.start_ns(), blocked.end());
  }

  bool is_complete() override {
    if (is_recorded_) {
      return true;
    }
    BlockedTime blocked(clock_, issued_.kind, recorder_);
    if (!work_->is_complete()) {
      return false;
    }
    record(blocked.start_ns(), blocked.end());
    return true;
  }

  std::optional<MovedTimes> moved() const override { return work_->moved(); }

 private:
  /// The call occupies its rank from the start of its data movement, or of the rank's wait, whichever is
  /// first, to the end of the movement. If the transport does not know these times, it occupies the rank from
  /// its issue.
  void record(std::int64_t waits_from_ns, std::int64_t now_ns) {
    is_recorded_ = true;
    const std::optional<MovedTimes> moved = work_->moved();
    std::optional<Times> times;
    if (moved) {
      const std::int64_t started_ns = std::max(issued_.issued_ns, std::min(moved->started_ns, waits_from_ns));
      const std::int64_t finished_ns = std::max(started_ns, std::min(moved->finished_ns, now_ns));
      times = Times{.issued = std::chrono::nanoseconds(issued_.issued_ns),
                    .started = std::chrono::nanoseconds(started_ns),
                    .finished = std::chrono::nanoseconds(finished_ns)};
    }
    finish(issued_.slot, times, now_ns);
    for (const Recorder::Slot slot : issued_.others) {
      finish(slot, times, now_ns);
    }
  }

  void finish(Recorder::Slot slot, const std::optional<Times>& times, std::int64_t now_ns) {
    if (times) {
      recorder_.finish(slot, *times);
    } else {
      recorder_.finish(slot, now_ns);
    }
  }

  std::unique_ptr<Work> work_;
  Recorder& recorder_;
  CommClock& clock_;
  Issued issued_;
  bool is_recorded_ = false;
};

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> communicator, Axis axis, Recorder& recorder,
                        CommClock& clock, CommunicatorId number)
      : communicator_(std::move(communicator)),
        axis_(axis),
        recorder_(recorder),
        clock_(clock),
        number_(number),
        sent_(communicator_->members().size()),
        received_(communicator_->members().size()) {}

  const std::vector<Rank>& members() const override { return communicator_->members(); }
  GroupRank rank() const override { return communicator_->rank(); }
  bool makes_progress() const override { return communicator_->makes_progress(); }
  bool starting_pays() const override { return communicator_->starting_pays(); }

  std::unique_ptr<Work> start(const CommCall& call) override {
    if (is_skipped(call)) {
      return communicator_->start(call);
    }
    const BlockedTime blocked(clock_, call.kind, recorder_);
    ++clock_.calls[static_cast<std::size_t>(call.kind)];
    const Recorder::Slot slot = recorder_.begin(record_of(call, false), blocked.start_ns());
    return std::make_unique<RecordedWork>(
        communicator_->start(call), recorder_, clock_,
        RecordedWork::Issued{.kind = call.kind, .slot = slot, .issued_ns = blocked.start_ns()});
  }

  void run(const CommCall& call) override {
    if (is_skipped(call)) {
      communicator_->run(call);
      return;
    }
    BlockedTime blocked(clock_, call.kind, recorder_);
    ++clock_.calls[static_cast<std::size_t>(call.kind)];
    const Recorder::Slot slot = recorder_.begin(record_of(call, true), blocked.start_ns());
    communicator_->run(call);
    recorder_.finish(slot, blocked.end());
  }

  /// The time in it counts as that of its first call's kind.
  std::unique_ptr<Work> start_group(std::span<const CommCall> calls) override {
    std::vector<const CommCall*> seen;
    for (const CommCall& call : calls) {
      if (!is_skipped(call)) {
        seen.push_back(&call);
      }
    }
    if (seen.empty()) {
      return communicator_->start_group(calls);
    }
    const CommKind kind = seen.front()->kind;
    const BlockedTime blocked(clock_, kind, recorder_);
    std::vector<Recorder::Slot> slots;
    for (const CommCall* const call : seen) {
      ++clock_.calls[static_cast<std::size_t>(call->kind)];
      slots.push_back(recorder_.begin(record_of(*call, false), blocked.start_ns()));
    }
    RecordedWork::Issued issued{.kind = kind, .slot = slots.front(), .issued_ns = blocked.start_ns()};
    issued.others.assign(slots.begin() + 1, slots.end());
    return std::make_unique<RecordedWork>(communicator_->start_group(calls), recorder_, clock_,
                                          std::move(issued));
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    return communicator_->split(color, key);
  }

  std::vector<std::string> algorithms(CommKind kind) const override {
    return communicator_->algorithms(kind);
  }

  /// Recorded as calls of the same communicator.
  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& algorithm) override {
    return communicator_->with_algorithm(kind, algorithm).map([&](std::unique_ptr<Communicator> chosen) {
      return recorded(std::move(chosen), axis_, recorder_, clock_, number_);
    });
  }

  void abort(std::string_view reason) override { communicator_->abort(reason); }

 private:
  bool is_skipped(const CommCall& call) const {
    return (call.kind == CommKind::barrier && size() == 1) || names_unknown_peer(call);
  }

  /// Whether the peer of the call is not in the group: the transport refuses the call, and no reader would
  /// accept a record of it.
  bool names_unknown_peer(const CommCall& call) const {
    return (names_root(call) || is_point_to_point(call.kind)) &&
           (call.peer.value < 0 || call.peer.value >= size());
  }

  static bool names_root(const CommCall& call) { return has_root(call.kind) || call.kind == CommKind::other; }

  RecordedCall record_of(const CommCall& call, bool blocking) {
    return {.kind = call.kind,
            .dtype = call.dtype,
            .group = is_point_to_point(call.kind) ? pair_of(call) : whole(),
            .input = call.input,
            .output = call.output,
            .root = names_root(call) ? std::optional(call.peer) : std::nullopt,
            .reduction = reduction_of(call),
            .blocking = blocking,
            .tag = call.tag,
            .name = call.kind == CommKind::other ? recorder_.name(name_of(call.other)) : NameId{}};
  }

  static Reduction reduction_of(const CommCall& call) {
    if (!is_reducing(call.kind)) {
      return Reduction::unknown;
    }
    switch (call.reduction) {
      case ReduceOp::sum:
        return Reduction::sum;
      case ReduceOp::max:
        return Reduction::max;
      case ReduceOp::avg:
        return Reduction::avg;
    }
    return Reduction::unknown;
  }

  /// All members. A communicator with messages only is not a group of the trace.
  GroupId whole() {
    if (!whole_) {
      whole_ = recorder_.group(members(), axis_, number_);
    }
    return *whole_;
  }

  /// The ordered pair of a send or recv.
  GroupId pair_of(const CommCall& call) {
    const bool sends = call.kind == CommKind::send;
    std::optional<GroupId>& known = (sends ? sent_ : received_)[static_cast<std::size_t>(call.peer.value)];
    if (!known) {
      const Rank self = members()[static_cast<std::size_t>(rank().value)];
      const Rank peer = members()[static_cast<std::size_t>(call.peer.value)];
      known = recorder_.group(sends ? std::vector{self, peer} : std::vector{peer, self}, axis_, number_);
    }
    return *known;
  }

  std::unique_ptr<Communicator> communicator_;
  Axis axis_;
  Recorder& recorder_;
  CommClock& clock_;
  CommunicatorId number_;
  std::optional<GroupId> whole_;
  std::vector<std::optional<GroupId>> sent_;  // by peer
  std::vector<std::optional<GroupId>> received_;
};

}  // namespace

std::unique_ptr<Communicator> recorded(std::unique_ptr<Communicator> communicator, Axis axis,
                                       Recorder& recorder, CommClock& clock, CommunicatorId number) {
  return std::make_unique<RecordingCommunicator>(std::move(communicator), axis, recorder, clock, number);
}

}  // namespace commlens
