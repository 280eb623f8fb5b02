#include "commlens/trace/compute_recorder.hpp"

#include <atomic>
#include <span>
#include <utility>

#include "commlens/trace/compute_file.hpp"

namespace commlens {
namespace {

// Intervals of a microsecond and more fill 0.25 MiB in the 10 ms between two looks of the file's thread.
constexpr std::uint64_t k_reserve = std::uint64_t{1} << 20;

}  // namespace

ComputeRecorder::ComputeRecorder(const std::filesystem::path& file, Rank rank,
                                 std::chrono::nanoseconds shortest)
    : head_(compute_header({rank, rank}, static_cast<std::uint32_t>(rank.value), 0)),
      file_(file, std::as_bytes(std::span(&head_, 1)), k_reserve),
      header_(reinterpret_cast<StreamHeader*>(file_.bytes())),
      records_(reinterpret_cast<ComputeRecord*>(file_.bytes() + sizeof(StreamHeader))),
      shortest_ns_(shortest.count()) {
  static_cast<void>(make_room());
}

bool ComputeRecorder::make_room() noexcept {
  const std::uint64_t bytes = file_.capacity();
  room_ = bytes < sizeof(StreamHeader) ? 0 : (bytes - sizeof(StreamHeader)) / sizeof(ComputeRecord);
  return count_ < room_;
}

void ComputeRecorder::start(std::int64_t now_ns) noexcept {
  if (since_ns_ == k_no_time) {
    since_ns_ = now_ns;
  }
}

void ComputeRecorder::stop(std::int64_t now_ns, Iteration iteration) noexcept {
  const std::int64_t since_ns = std::exchange(since_ns_, k_no_time);
  if (since_ns == k_no_time || now_ns - since_ns < shortest_ns_ || header_ == nullptr) {
    return;
  }
  if (count_ >= room_ && !make_room()) {
    drop();
    return;
  }
  // A reader, and the file of a killed process, has the record before it is counted.
  ComputeRecord record{.started_ns = since_ns, .duration_ns = now_ns - since_ns, .iteration = iteration};
  record.check = compute_check(record);
  records_[count_] = record;
  std::atomic_ref(header_->records).store(++count_, std::memory_order_release);
  file_.set_used(sizeof(StreamHeader) + count_ * sizeof(ComputeRecord));
}

void ComputeRecorder::divide(std::int64_t now_ns, Iteration iteration) noexcept {
  if (since_ns_ != k_no_time) {
    stop(now_ns, iteration);
    start(now_ns);
  }
}

void ComputeRecorder::drop() noexcept {
  const bool is_full = file_.is_full();
  const std::atomic_ref dropped(is_full ? header_->dropped_full : header_->dropped_late);
  dropped.store(dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void ComputeRecorder::close() noexcept {
  header_ = nullptr;
  file_.close();
}

}  // namespace commlens
