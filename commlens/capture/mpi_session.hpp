#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include <sched.h>

#include "commlens/capture/call_sites.hpp"
#include "commlens/capture/mpi_api.hpp"
#include "commlens/capture/mpi_callers.hpp"
#include "commlens/capture/mpi_rank_groups.hpp"
#include "commlens/capture/mpi_types.hpp"
#include "commlens/capture/request_table.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/trace/recorder.hpp"

namespace commlens::capture {

/// A call as a wrapper describes it: what is recorded, or why nothing is.
struct Description {
  enum class Kind : std::uint8_t {
    call,
    nothing,     // no message: the peer is MPI_PROC_NULL, the handle none
    outside,     // with processes that are not of this job
    unreported,  // a receive whose source and size the library does not report
  };
  RecordedCall call;
  RankGroup* source = nullptr;  // receives
  Kind kind = Kind::nothing;
};

/// All ranks of the job that is recorded, in its order: of MPI_COMM_WORLD, or of the process set mpi://WORLD
/// where the program uses MPI sessions. Ours alone.
MPI_Comm job_comm() noexcept;

/// The recording of this process between MPI_Init and MPI_Finalize. Its functions never throw, block or
/// print; what goes wrong stops the recording, and the calls that follow are counted. Calls of several
/// threads take turns when the program asked for MPI_THREAD_MULTIPLE.
class Session {
 public:
  using Slot = Recorder::Slot;
  static constexpr Slot k_none = Recorder::k_dropped;

  /// Null when nothing is recorded: before MPI_Init, after MPI_Finalize, in a child of fork.
  static Session* of_process() noexcept { return current_.load(std::memory_order_acquire); }
  /// After MPI_Init: agrees with the other ranks on a directory and opens this rank's files.
  static void start() noexcept;
  /// The same over `world`, which will be job_comm().
  static void start_over(MPI_Comm world, const char* directory);
  /// Before MPI_Finalize: closes the files and says once what was lost.
  static void finish() noexcept;

  /// A call begins; `describe(Session&)` says what it is. `name` is the caller's, filled at its first call.
  template <typename Describe>
  Slot begin(const char* text, NameId& name, const Describe& describe) noexcept;
  /// A call begins that sends and receives: two messages, one moment.
  struct Slots {
    Slot sent = k_none;
    Slot received = k_none;
  };
  template <typename DescribeSend, typename DescribeReceive>
  Slots begin_exchange(const char* text, NameId& name, const DescribeSend& send,
                       const DescribeReceive& receive) noexcept;
  /// A blocking call returned.
  void end(Slot slot, int code) noexcept {
    if (slot != k_none) {
      end_in_turn(slot, code, clock_.now_ns());
    }
  }
  /// A blocking receive returned.
  void end_receive(Slot slot, const Description& posted, const MPI_Status& status, int code) noexcept {
    end_receive(slot, posted, status, code, slot == k_none ? 0 : clock_.now_ns());
  }
  /// A blocking exchange returned; `posted` and `status` are of its receive.
  void end_exchange(Slots slots, const Description& posted, const MPI_Status& status, int code) noexcept;

  /// A non-blocking call returned; its request will complete. `request` is read when `code` is success.
  void issued(const Description& call, Slot slot, const MPI_Request* request, int code) noexcept;
  void issued(const PendingCall& call, const MPI_Request* request, int code) noexcept;
  /// The same for a persistent one, which begins when it is started.
  template <typename Describe>
  void prepared(const char* text, NameId& name, const Describe& describe, const MPI_Request* request,
                int code) noexcept;
  void starting(std::uint64_t request) noexcept;
  void start_failed(std::uint64_t request) noexcept;

  /// Requests that completed now: their handles before the call, and what the call reported of each.
  void completed(std::uint64_t request, const MPI_Status& status, int code) noexcept;
  /// The request is complete but not given back yet.
  void seen_complete(std::uint64_t request, const MPI_Status& status) noexcept;
  void freed(std::uint64_t request) noexcept;
  void cancelling(std::uint64_t request) noexcept;

  /// Messages that a probe has taken out of the queue.
  void add_message(std::uint64_t message, MPI_Comm comm, const MPI_Status& status) noexcept;
  Description take_message(std::uint64_t message) noexcept;

  void set_iteration(std::int32_t iteration) noexcept;
  void set_phase(Phase phase) noexcept;
  void set_micro_batch(std::int32_t micro_batch) noexcept;
  void announce_pause(double seconds) noexcept;

  /// A call that makes a communicator returned `code`: CommunicatorNumbers. `made` is read when it is
  /// success.
  void made_by_all(MPI_Comm parent, const MPI_Comm* made, int code) noexcept;
  struct Part {
    MPI_Comm parent;
    MPI_Group group;
    int tag;
  };
  void made_by_part(const Part& part, const MPI_Comm* made, int code) noexcept;
  void made_by_members(const MPI_Comm* made, const char* word, int code) noexcept;
  void made_window(MPI_Comm comm, const MPI_Win* window, int code) noexcept;

  void forget_comm(std::uint64_t key) noexcept;
  void forget_window(std::uint64_t key) noexcept;

  // For descriptions; the session's turn is taken.
  HandleGroup* group_of(MPI_Comm comm) { return communicators_.of(comm); }
  HandleGroup* group_of_window(MPI_Win window) { return communicators_.of_window(window); }
  const Neighbours& neighbours(MPI_Comm comm) { return communicators_.neighbours(comm); }
  Amount amount(std::int64_t count, MPI_Datatype type) const { return types_.amount(count, type); }
  /// With MPI_NO_OP nothing is given, and count and type may be anything.
  Amount unless_no_op(MPI_Op op, std::int64_t count, MPI_Datatype type) const {
    return op == handles().no_op ? Amount{} : amount(count, type);
  }
  Recorder& recorder() { return *recorder_; }
  /// Puts into the file how many calls were not recorded because something had failed halfway; so many.
  std::int64_t count_lost() noexcept;
  /// The receive that `posted` turned out to be.
  RecordedCall received(const RecordedCall& posted, RankGroup& source, const MPI_Status& status);

 private:
  /// One thread at a time, where there are several.
  class Turn {
   public:
    explicit Turn(Session& session, bool is_needed = true)
        : lock_(session.is_threaded_ && is_needed ? &session.lock_ : nullptr) {
      while (lock_ != nullptr && lock_->exchange(true, std::memory_order_acquire)) {
        sched_yield();
      }
    }
    ~Turn() {
      if (lock_ != nullptr) {
        lock_->store(false, std::memory_order_release);
      }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    std::atomic<bool>* lock_;
  };

  Session(std::unique_ptr<Recorder> recorder, bool is_threaded);

  /// Runs `action` in this thread's turn, unless recording has stopped: what is under way stays unfinished
  /// then, because it is not known which requests were followed. Memory that is out stops it.
  template <typename Action>
  void attempt(const Action& action) noexcept {
    const Turn turn(*this);
    if (is_stopped_) {
      return;
    }
    try {
      action();
    } catch (const std::exception&) {
      is_stopped_ = true;
    }
  }
  Slot begun(const Description* call, std::int64_t now_ns) noexcept;
  void end(Slot slot, int code, std::int64_t now_ns) noexcept;
  /// The same outside of a turn: only a ring needs one for this.
  void end_in_turn(Slot slot, int code, std::int64_t now_ns) noexcept {
    const Turn turn(*this, is_ring_);
    end(slot, code, now_ns);
  }
  void end_receive(Slot slot, const Description& posted, const MPI_Status& status, int code,
                   std::int64_t now_ns) noexcept;
  template <typename Describe>
  Description* described(const char* text, NameId& name, const Describe& describe);
  void end_pending(PendingCall& call, const MPI_Status* status, int code);
  bool was_cancelled(const PendingCall& call, const MPI_Status& status) const;
  void measure_cost();

  static std::atomic<Session*> current_;

  const Clock& clock_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<CallSites> sites_;  // null: not asked for
  const bool is_threaded_;
  const bool is_ring_;
  std::atomic<bool> lock_ = false;
  bool is_stopped_ = false;  // something failed halfway; lost_ counts the calls since
  std::int64_t lost_ = 0;
  Types types_;
  CommunicatorRegistry communicators_;
  RequestTable requests_;
  RequestTable messages_;
};

/// A call that was described begins, unless there is none or recording has stopped.
inline Session::Slot Session::begun(const Description* call, std::int64_t now_ns) noexcept {
  if (call == nullptr) {
    return k_none;
  }
  if (is_stopped_) {
    ++lost_;
    return k_none;
  }
  return recorder_->begin(call->call, now_ns);
}

/// Whether there is a call to record; `described` has its name then.
template <typename Describe>
Description* Session::described(const char* text, NameId& name, const Describe& describe) {
  Description& call = describe(*this);
  if (call.kind == Description::Kind::nothing) {
    return nullptr;
  }
  if (call.kind == Description::Kind::outside) {
    recorder_->skip("call with processes outside of the job");
    return nullptr;
  }
  if (call.kind == Description::Kind::unreported) {
    recorder_->skip("receive whose size the MPI library does not tell");
    return nullptr;
  }
  if (name == NameId{}) {
    name = recorder_->name(text);
  }
  call.call.name = name;
  if (sites_ != nullptr) {
    call.call.site = sites_->of(caller_in_program());
  }
  return &call;
}

template <typename Describe>
Session::Slot Session::begin(const char* text, NameId& name, const Describe& describe) noexcept {
  const Turn turn(*this);
  try {
    const Description* const call = described(text, name, describe);
    return begun(call, clock_.now_ns());
  } catch (const std::exception&) {
    is_stopped_ = true;
    ++lost_;
    return k_none;
  }
}

template <typename DescribeSend, typename DescribeReceive>
Session::Slots Session::begin_exchange(const char* text, NameId& name, const DescribeSend& send,
                                       const DescribeReceive& receive) noexcept {
  const Turn turn(*this);
  try {
    const Description* const sent = described(text, name, send);
    const Description* const received = described(text, name, receive);
    const std::int64_t now = clock_.now_ns();
    return {.sent = begun(sent, now), .received = begun(received, now)};
  } catch (const std::exception&) {
    is_stopped_ = true;
    lost_ += 2;
    return {};
  }
}

template <typename Describe>
void Session::prepared(const char* text, NameId& name, const Describe& describe, const MPI_Request* request,
                       int code) noexcept {
  if (code != MPI_SUCCESS || *request == handles().no_request) {
    return;
  }
  attempt([&] {
    if (const Description* const call = described(text, name, describe); call != nullptr) {
      if (!requests_.add(
              {.key = key_of(*request), .call = call->call, .source = call->source, .is_persistent = true})) {
        recorder_->skip("persistent request not recorded, too many requests at a time");
      }
    }
  });
}

}  // namespace commlens::capture
