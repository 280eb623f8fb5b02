#include "commlens/capture/nccl_shim_pending.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "commlens/capture/nccl_poller.hpp"
#include "commlens/capture/nccl_process.hpp"

namespace commlens::capture {
namespace {

using std::chrono::nanoseconds;

/// Without a recording, or in a child of fork, the GPU is none of our business.
bool is_recorded() noexcept {
  return NcclProcess::of_process() != nullptr && GpuTimes::of_process() != nullptr;
}

CallPoller& poller() {
  static CallPoller& only = *new CallPoller([]() noexcept {
    try {
      return is_recorded() && PendingCalls::of_process().look_apart();
    } catch (const std::exception&) {
      return true;
    }
  });
  return only;
}

/// CUDA ends after this, since it began before the first call.
void stop_polling() {
  if (is_recorded()) {
    poller().stop();
    look_at_pending(k_all_pending);
  }
}

void write_times(const ShimRecord& record, const GpuTimes::Times& times) {
  const std::int64_t started = std::max(times.started_ns, record.issued_ns);
  const std::int64_t took = times.finished_ns - times.started_ns;
  record.recording->finish(record.slot, record.call,
                           {nanoseconds(record.issued_ns), nanoseconds(started), nanoseconds(started + took)},
                           record.position);
}

/// Writes what is known of a call by now; whether that is all.
bool is_over(ShimRecord& record, GpuTimes::State state, const GpuTimes::Times& times) {
  const bool has_begun = state == GpuTimes::State::running && times.started_ns != 0;
  if (state == GpuTimes::State::running && (!has_begun || record.has_started)) {
    return false;
  }
  const NcclStream::Turn turn(*record.recording);
  if (state == GpuTimes::State::done) {
    write_times(record, times);
  } else if (state == GpuTimes::State::lost) {
    finish_enqueued(record);
  } else {
    record.has_started = true;
    record.recording->recorder().start(record.slot, nanoseconds(record.issued_ns),
                                       nanoseconds(times.started_ns));
  }
  return state != GpuTimes::State::running;
}

}  // namespace

void finish_enqueued(const ShimRecord& record) {
  NcclStream& recording = *record.recording;
  RecordedCall call = record.call;
  call.note = recording.note(NcclNote::enqueued);
  const nanoseconds issued(record.issued_ns);
  recording.finish(record.slot, call, {issued, issued, nanoseconds(record.enqueued_ns)}, record.position);
}

PendingCalls& PendingCalls::of_process() {
  static PendingCalls& only = *new PendingCalls;
  return only;
}

void PendingCalls::add(const ShimRecord& record) {
  std::list<ShimRecord> added(1, record);
  std::list<ShimRecord> given_up;
  {
    const std::lock_guard guard(mutex_);
    if (calls_.size() >= k_most) {
      given_up.splice(given_up.end(), calls_, calls_.begin());
    }
    calls_.splice(calls_.end(), added);
  }
  static const bool is_stopped_at_end = std::atexit(&stop_polling) == 0;
  if (is_stopped_at_end) {
    poller().wake();
  }
  for (const ShimRecord& old : given_up) {
    const NcclStream::Turn turn(*old.recording);
    finish_enqueued(old);
  }
}

void PendingCalls::look(std::size_t most) {
  const std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) {
    return;
  }
  std::size_t seen = 0;
  for (auto call = calls_.begin(); call != calls_.end() && seen < most; ++seen) {
    GpuTimes::Times times;
    const GpuTimes::State state = GpuTimes::of_process()->look(*call->span, times);
    call = is_over(*call, state, times) ? calls_.erase(call) : std::next(call);
  }
}

// The driver may keep a caller waiting, so it is asked while the program can add calls.
bool PendingCalls::look_apart() {
  std::list<ShimRecord> running;
  for (std::size_t left = k_most; left > 0; left -= k_few) {
    std::list<ShimRecord> looked_at;
    {
      const std::lock_guard guard(mutex_);
      const auto end = std::next(calls_.begin(), static_cast<std::ptrdiff_t>(std::min(k_few, calls_.size())));
      looked_at.splice(looked_at.end(), calls_, calls_.begin(), end);
    }
    if (looked_at.empty()) {
      break;
    }
    looked_at.remove_if([](ShimRecord& call) {
      GpuTimes::Times times;
      const GpuTimes::State state = GpuTimes::of_process()->look_apart(*call.span, times);
      return is_over(call, state, times);
    });
    running.splice(running.end(), looked_at);
  }
  const std::lock_guard guard(mutex_);
  calls_.splice(calls_.begin(), running);
  return !calls_.empty();
}

void PendingCalls::finish() {
  look(k_most);
  std::list<ShimRecord> left;
  {
    const std::lock_guard guard(mutex_);
    left.swap(calls_);
  }
  for (const ShimRecord& call : left) {
    const NcclStream::Turn turn(*call.recording);
    finish_enqueued(call);
  }
}

void look_at_pending(std::size_t most) noexcept {
  if (!is_recorded()) {
    return;
  }
  try {
    PendingCalls::of_process().look(most);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace commlens::capture

namespace {

/// Runs before the recording is closed (nccl_process.cpp).
__attribute__((destructor)) void finish_pending_when_the_process_ends() {
  using commlens::capture::GpuTimes;
  using commlens::capture::NcclProcess;
  if (NcclProcess::of_process() != nullptr && GpuTimes::of_process() != nullptr) {
    commlens::capture::PendingCalls::of_process().finish();
  }
}

}  // namespace
