#include "commlens/capture/nccl_shim_calls.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <numeric>
#include <utility>

#include "commlens/capture/nccl_process.hpp"

namespace commlens::capture {
namespace {

using std::chrono::nanoseconds;

/// Calls whose end on the GPU is still to be seen. Until it is, they are in the file as enqueued only.
class PendingCalls {
 public:
  static PendingCalls& of_process() {
    static PendingCalls& only = *new PendingCalls;
    return only;
  }

  void add(const ShimRecord& record) {
    const std::lock_guard guard(mutex_);
    if (calls_.size() == k_most) {
      calls_.pop_front();
    }
    calls_.push_back(record);
  }

  /// Streams of the GPU run beside each other, so that a later call may end first.
  void look(std::size_t most) {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock()) {
      return;  // another thread looks
    }
    for (std::size_t at = 0, seen = 0; at < calls_.size() && seen < most; ++seen) {
      if (is_over(calls_[at])) {
        calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        ++at;
      }
    }
  }

 private:
  static bool is_over(const ShimRecord& record) {
    GpuTimes::Times times;
    const GpuTimes::State state = GpuTimes::of_process()->look(*record.span, times);
    if (state == GpuTimes::State::done) {
      const std::int64_t started = std::max(times.started_ns, record.issued_ns);
      const std::int64_t took = times.finished_ns - times.started_ns;
      const NcclStream::Turn turn(*record.recording);
      record.recording->finish(
          record.slot, record.call,
          {nanoseconds(record.issued_ns), nanoseconds(started), nanoseconds(started + took)},
          record.position);
    }
    return state != GpuTimes::State::running;
  }

  static constexpr std::size_t k_most = k_all_pending;
  std::mutex mutex_;
  std::deque<ShimRecord> calls_;
};

Elements sum_of(const std::size_t* counts, int members) {
  return Elements{static_cast<std::int64_t>(std::accumulate(counts, counts + members, std::size_t{0}))};
}

std::optional<RecordedCall> described(NcclComm& comm, const ShimCall& call) {
  const std::optional<DType> dtype = nccl_dtype(call.dtype);
  std::optional<RecordedCall> result = dtype ? comm.call({.function = call.function,
                                                          .dtype = *dtype,
                                                          .count = call.count,
                                                          .root_or_peer = call.root_or_peer,
                                                          .reduction = nccl_reduction(call.reduction)})
                                             : std::nullopt;
  if (result && call.sent != nullptr && call.received != nullptr) {
    result->input = sum_of(call.sent, comm.identity().size);
    result->output = sum_of(call.received, comm.identity().size);
  }
  return result;
}

void end(ShimRecord& record, int code) {
  NcclStream& recording = *record.recording;
  const NcclStream::Turn turn(recording);
  if (!is_good(code)) {
    recording.recorder().fail(record.slot, CallEnd::failed);
    return;
  }
  RecordedCall call = record.call;
  call.note = recording.note(NcclNote::enqueued);
  const nanoseconds issued(record.issued_ns);
  recording.finish(record.slot, call, {issued, issued, nanoseconds(recording.now_ns())}, record.position);
}

/// Adds the time that `action` takes to the cost of recording these calls.
template <typename Action>
void timed(std::span<ShimRecord> records, const Action& action) {
  const auto first = std::find_if(records.begin(), records.end(),
                                  [](const ShimRecord& record) { return record.recording != nullptr; });
  if (first == records.end()) {
    return;
  }
  NcclStream& recording = *first->recording;
  const std::int64_t start = recording.now_ns();
  action();
  const NcclStream::Turn turn(recording);
  recording.add_cost(start, 0);
}

void open_each(GpuTimes& gpu, std::span<ShimRecord> records) {
  std::map<std::pair<void*, int>, std::shared_ptr<GpuTimes::Span>> spans;
  for (ShimRecord& record : records) {
    if (record.recording == nullptr) {
      continue;
    }
    const auto [found, is_new] = spans.try_emplace({record.stream, record.device});
    if (is_new) {
      found->second = gpu.open(record.stream, record.device);
    }
    record.span = found->second;
  }
}

void end_each(std::span<ShimRecord> records, int code) {
  std::map<GpuTimes::Span*, bool> closed;
  for (ShimRecord& record : records) {
    if (record.recording == nullptr) {
      continue;
    }
    end(record, code);
    if (record.span == nullptr || !is_good(code)) {
      continue;
    }
    const auto [found, is_new] = closed.try_emplace(record.span.get(), false);
    if (is_new) {
      found->second = GpuTimes::of_process()->close(*record.span, record.stream);
    }
    if (found->second) {
      PendingCalls::of_process().add(record);
    }
  }
}

}  // namespace

ShimThread& ShimThread::of_this() {
  static thread_local ShimThread only;
  return only;
}

ShimThread::Group* ShimThread::group() noexcept {
  if (group_ == nullptr) {
    group_ = new (std::nothrow) Group;
  }
  return group_;
}

void ShimThread::run_group() noexcept {
  if (group_ != nullptr) {
    open_spans(group_->records);
  }
}

void ShimThread::finish_group(int code, bool is_run) noexcept {
  const std::unique_ptr<Group> ended(std::exchange(group_, nullptr));
  if (ended == nullptr) {
    return;
  }
  for (const NewComm& comm : ended->comms) {
    if (is_good(code)) {
      made(comm);
    }
  }
  if (is_run) {
    enqueued(ended->records, code);
  } else {
    not_carried_out(ended->records);
  }
}

void ShimThread::made(const NewComm& comm) noexcept {
  if (is_inside_ || comm.comm == nullptr) {
    return;
  }
  if (Group* const open = depth_ > 0 ? group() : nullptr; open != nullptr) {
    try {
      open->comms.push_back(comm);
    } catch (const std::exception&) {
      NcclProcess::stop();
    }
    return;
  }
  if (comm.size > 0) {
    ShimComms::of_process().made(*comm.comm, comm.id, comm.rank, comm.size);
  } else {
    ShimComms::of_process().made_from(*comm.comm, comm.split);
  }
}

ShimRecord begin_record(const ShimCall& call, const void* caller) noexcept {
  ShimRecord record;
  NcclProcess* const process = NcclProcess::of_process();
  if (process == nullptr) {
    return record;
  }
  const std::int64_t start = Clock::of_process().now_ns();
  look_at_pending(k_few);
  const std::shared_ptr<NcclComm> comm =
      process->is_stopped() ? nullptr : ShimComms::of_process().find(call.comm);
  if (comm == nullptr) {
    if (call.comm != nullptr) {  // NCCL refuses that
      process->count_lost();
    }
    return record;
  }
  try {
    NcclStream& recording = comm->stream();
    const NcclStream::Turn turn(recording);
    std::optional<RecordedCall> seen = described(*comm, call);
    if (!seen) {
      recording.skip("NCCL call with arguments out of range or an element type that is not known");
      return record;
    }
    seen->site = recording.site(caller);
    record.recording = &recording;
    record.call = *seen;
    record.position = recording.position();
    record.issued_ns = recording.now_ns();
    record.slot = recording.recorder().begin(*seen, record.issued_ns);
    record.stream = call.stream;
    record.device = comm->identity().device;
    recording.add_cost(start, 1);
  } catch (const std::exception&) {
    record.recording = nullptr;
    NcclProcess::stop();
    process->count_lost();
  }
  return record;
}

void open_spans(std::span<ShimRecord> records) noexcept {
  GpuTimes* const gpu = GpuTimes::of_process();
  if (gpu == nullptr) {
    return;
  }
  try {
    timed(records, [&] { open_each(*gpu, records); });
  } catch (const std::exception&) {
    return;  // enqueued only
  }
}

void enqueued(std::span<ShimRecord> records, int code) noexcept {
  try {
    timed(records, [&] { end_each(records, code); });
  } catch (const std::exception&) {
    return;  // enqueued only
  }
}

void not_carried_out(std::span<ShimRecord> records) noexcept {
  for (ShimRecord& record : records) {
    if (record.recording != nullptr) {
      const NcclStream::Turn turn(*record.recording);
      record.recording->recorder().fail(record.slot, CallEnd::cancelled);
    }
  }
}

void look_at_pending(std::size_t most) noexcept {
  // Without a recording, or in a child of fork, the GPU is none of our business.
  if (NcclProcess::of_process() == nullptr || GpuTimes::of_process() == nullptr) {
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
__attribute__((destructor)) void look_when_the_process_ends() {
  commlens::capture::look_at_pending(commlens::capture::k_all_pending);
}

}  // namespace
