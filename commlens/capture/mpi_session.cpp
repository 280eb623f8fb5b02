#include "commlens/capture/mpi_session.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "commlens/capture/mpi_sizes.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::capture {

std::atomic<Session*> Session::current_ = nullptr;

Session::Session(std::unique_ptr<Recorder> recorder, bool is_threaded)
    : clock_(Clock::of_process()),
      recorder_(std::move(recorder)),
      sites_(CallSites::if_asked(*recorder_)),
      is_threaded_(is_threaded),
      is_ring_(recorder_->is_ring()),
      communicators_(*recorder_) {
  set_phase(Phase::other);  // of somebody else's program nothing is known until it says so
  measure_cost();
}

std::int64_t Session::count_lost() noexcept {
  const std::int64_t lost = std::exchange(lost_, 0);
  try {
    if (lost > 0) {
      recorder_->skip(std::string(k_skipped_no_memory), lost);
    }
  } catch (const std::exception&) {
    return lost;  // which is reported at least
  }
  return lost;
}

/// What finding out about a call costs, besides the recorder's own work; median, nothing is recorded.
void Session::measure_cost() {
  constexpr std::size_t calls = 128;
  constexpr std::size_t batches = 41;
  std::array<std::int64_t, batches> costs = {};
  int has_self = 0;  // MPI_COMM_SELF comes with MPI_Init
  COMMLENS_REAL(PMPI_Initialized)(&has_self);
  const MPI_Comm comm = has_self != 0 ? handles().self : job_comm();
  const auto byte = handles().byte;
  for (std::int64_t& batch : costs) {
    const std::int64_t start = clock_.now_ns();
    for (std::size_t made = 0; made < calls; ++made) {
      const Turn turn(*this);
      Description described;
      describe_tensor(*this, described, CommKind::all_reduce, comm,
                      amount(static_cast<std::int64_t>(made), byte));
      asm volatile("" : : "r"(&described) : "memory");  // as if somebody used it
    }
    batch = clock_.now_ns() - start;
  }
  std::nth_element(costs.begin(), costs.begin() + batches / 2, costs.end());
  recorder_->add_cost(
      std::chrono::nanoseconds((costs[batches / 2] + std::int64_t{calls} - 1) / std::int64_t{calls}));
}

void Session::end(Slot slot, int code, std::int64_t now_ns) noexcept {
  if (slot == k_none) {
    return;
  }
  if (code == MPI_SUCCESS) {
    recorder_->finish(slot, now_ns);
  } else {
    recorder_->fail(slot, CallEnd::failed);
  }
}

RecordedCall Session::received(const RecordedCall& posted, RankGroup& source, const MPI_Status& status) {
  RecordedCall call = posted;
  call.group = source.from(status.MPI_SOURCE);
  const std::int64_t bytes = received_bytes(status);
  const std::int64_t size = size_of(posted.dtype);
  call.dtype = bytes % size == 0 ? posted.dtype : DType::uint8;
  call.output = Elements{bytes / size_of(call.dtype)};
  return call;
}

void Session::end_exchange(Slots slots, const Description& posted, const MPI_Status& status,
                           int code) noexcept {
  const std::int64_t now = clock_.now_ns();
  end_in_turn(slots.sent, code, now);
  end_receive(slots.received, posted, status, code, now);
}

void Session::end_receive(Slot slot, const Description& posted, const MPI_Status& status, int code,
                          std::int64_t now_ns) noexcept {
  if (slot == k_none) {
    return;
  }
  if (code != MPI_SUCCESS) {
    end_in_turn(slot, code, now_ns);
    return;
  }
  attempt([&] {
    const RecordedCall call = received(posted.call, *posted.source, status);
    if (call.group == posted.call.group && call.dtype == posted.call.dtype &&
        call.output == posted.call.output) {
      recorder_->finish(slot, now_ns);
    } else {
      recorder_->finish(slot, call, now_ns);
    }
  });
}

void Session::issued(const Description& call, Slot slot, const MPI_Request* request, int code) noexcept {
  if (slot != k_none) {
    issued({.call = call.call, .source = call.source, .slot = slot}, request, code);
  }
}

void Session::issued(const PendingCall& call, const MPI_Request* request, int code) noexcept {
  if (call.slot == k_none && call.sent_slot == k_none) {
    return;
  }
  if (code != MPI_SUCCESS || *request == handles().no_request) {
    end(call.slot, code);
    end(call.sent_slot, code);
    return;
  }
  attempt([&] {
    PendingCall followed = call;
    followed.key = key_of(*request);
    followed.is_active = true;
    requests_.add(followed);  // with too many at a time it stays unfinished, which readers count
  });
}

void Session::starting(std::uint64_t request) noexcept {
  const Turn turn(*this);
  PendingCall* const call = requests_.find(request);
  if (call == nullptr || !call->is_persistent) {
    return;
  }
  if (is_stopped_) {
    ++lost_;
    return;
  }
  const std::int64_t now = clock_.now_ns();
  call->is_active = true;
  call->is_cancelled = false;
  call->slot = recorder_->begin(call->call, now);
}

void Session::start_failed(std::uint64_t request) noexcept {
  attempt([&] {
    if (PendingCall* const call = requests_.find(request); call != nullptr && call->is_active) {
      end_pending(*call, nullptr, MPI_ERR_OTHER);
    }
  });
}

bool Session::was_cancelled(const PendingCall& call, const MPI_Status& status) const {
  int is_cancelled = 0;
  if (call.is_cancelled) {
    COMMLENS_REAL(PMPI_Test_cancelled)(&status, &is_cancelled);
  }
  return is_cancelled != 0;
}

/// Writes the end of what is under way. Without a status only that of sends is known: a receive stays
/// unfinished.
void Session::end_pending(PendingCall& call, const MPI_Status* status, int code) {
  call.is_active = false;
  const Slot slot = std::exchange(call.slot, k_none);
  const Slot sent_slot = std::exchange(call.sent_slot, k_none);
  if (code == MPI_SUCCESS && status != nullptr && was_cancelled(call, *status)) {
    recorder_->fail(slot, CallEnd::cancelled);
    recorder_->fail(sent_slot, CallEnd::cancelled);
    return;
  }
  const std::int64_t now = clock_.now_ns();
  end(sent_slot, code, now);
  if (call.source == nullptr || code != MPI_SUCCESS) {
    end(slot, code, now);
  } else if (slot != k_none && status != nullptr) {
    recorder_->finish(slot, received(call.call, *call.source, *status), now);
  }
}

void Session::completed(std::uint64_t request, const MPI_Status& status, int code) noexcept {
  attempt([&] {
    PendingCall* const call = requests_.find(request);
    if (call == nullptr) {
      return;
    }
    end_pending(*call, &status, code);
    if (!call->is_persistent) {
      requests_.remove(request);
    }
  });
}

void Session::seen_complete(std::uint64_t request, const MPI_Status& status) noexcept {
  attempt([&] {
    if (PendingCall* const call = requests_.find(request); call != nullptr) {
      end_pending(*call, &status, MPI_SUCCESS);
    }
  });
}

void Session::freed(std::uint64_t request) noexcept {
  attempt([&] {
    if (PendingCall* const call = requests_.find(request); call != nullptr) {
      end_pending(*call, nullptr, MPI_SUCCESS);
      requests_.remove(request);
    }
  });
}

void Session::cancelling(std::uint64_t request) noexcept {
  attempt([&] {
    if (PendingCall* const call = requests_.find(request); call != nullptr) {
      call->is_cancelled = true;
    }
  });
}

// A message from outside of the job has no source here; its receive is counted.
void Session::add_message(std::uint64_t message, MPI_Comm comm, const MPI_Status& status) noexcept {
  const Turn turn(*this);
  try {
    Description receive;
    describe_probed(*this, receive, comm, status);
    const bool is_outside = receive.kind == Description::Kind::outside;
    if ((is_outside || receive.kind == Description::Kind::call) &&
        !messages_.add(
            {.key = message, .call = receive.call, .source = is_outside ? nullptr : receive.source})) {
      recorder_->skip("receive of a probed message not recorded, too many at a time");
    }
  } catch (const std::exception&) {
    is_stopped_ = true;
    ++lost_;  // its receive
  }
}

Description Session::take_message(std::uint64_t message) noexcept {
  const Turn turn(*this);
  Description receive;
  if (const PendingCall* const call = messages_.find(message); call != nullptr) {
    receive = {.call = call->call,
               .source = call->source,
               .kind = call->source == nullptr ? Description::Kind::outside : Description::Kind::call};
    messages_.remove(message);
  }
  return receive;
}

void Session::set_iteration(std::int32_t iteration) noexcept {
  attempt([&] { recorder_->set_iteration(std::max(iteration, k_init_iteration)); });
}

void Session::set_phase(Phase phase) noexcept {
  attempt([&] { recorder_->set_phase(phase, recorder_->micro_batch()); });
}

void Session::set_micro_batch(std::int32_t micro_batch) noexcept {
  attempt([&] { recorder_->set_phase(recorder_->phase(), std::max(micro_batch, k_no_micro_batch)); });
}

void Session::announce_pause(double seconds) noexcept {
  attempt([&] { recorder_->announce_pause(seconds); });
}

void Session::made_by_all(MPI_Comm parent, const MPI_Comm* made, int code) noexcept {
  attempt(
      [&] { communicators_.numbers().made_by_all(parent, code == MPI_SUCCESS ? *made : handles().no_comm); });
}

void Session::made_by_part(const Part& part, const MPI_Comm* made, int code) noexcept {
  if (code == MPI_SUCCESS) {
    attempt([&] { communicators_.numbers().made_by_part(part.parent, part.group, part.tag, *made); });
  }
}

void Session::made_by_members(const MPI_Comm* made, const char* word, int code) noexcept {
  if (code == MPI_SUCCESS) {
    attempt([&] { communicators_.numbers().made_by_members(*made, word); });
  }
}

void Session::made_window(MPI_Comm comm, const MPI_Win* window, int code) noexcept {
  if (code == MPI_SUCCESS) {
    attempt([&] { communicators_.made_window(comm, *window); });
  }
}

void Session::forget_comm(std::uint64_t key) noexcept {
  attempt([&] { communicators_.forget_comm(key); });
}

void Session::forget_window(std::uint64_t key) noexcept {
  attempt([&] { communicators_.forget_window(key); });
}

}  // namespace commlens::capture
