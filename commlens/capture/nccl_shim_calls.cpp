#include "commlens/capture/nccl_shim_calls.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>
#include <utility>

#include "commlens/capture/nccl_process.hpp"

namespace commlens::capture {
namespace {

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
  const NcclStream::Turn turn(*record.recording);
  if (is_good(code)) {
    finish_enqueued(record);
  } else {
    record.recording->recorder().fail(record.slot, CallEnd::failed);
  }
}

/// Whether the end of a call that was enqueued will be seen.
bool is_awaited(const ShimRecord& record) {
  try {
    PendingCalls::of_process().add(record);
    return true;
  } catch (const std::exception&) {
    return false;
  }
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
    record.enqueued_ns = record.recording->now_ns();
    if (record.span == nullptr || !is_good(code)) {
      end(record, code);
      continue;
    }
    const auto [found, is_new] = closed.try_emplace(record.span.get(), false);
    if (is_new) {
      found->second = GpuTimes::of_process()->close(*record.span, record.stream);
    }
    if (!found->second || !is_awaited(record)) {
      end(record, code);
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
  if (NcclProcess::of_process() == nullptr) {  // a child of fork may have inherited mutexes locked
    return;
  }
  try {
    timed(records, [&] { end_each(records, code); });
  } catch (const std::exception&) {
    return;  // enqueued only
  }
}

void not_carried_out(std::span<ShimRecord> records) noexcept {
  if (NcclProcess::of_process() == nullptr) {
    return;
  }
  for (ShimRecord& record : records) {
    if (record.recording != nullptr) {
      const NcclStream::Turn turn(*record.recording);
      record.recording->recorder().fail(record.slot, CallEnd::cancelled);
    }
  }
}

}  // namespace commlens::capture
