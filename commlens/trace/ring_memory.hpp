#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "commlens/trace/stream_layout.hpp"

namespace commlens {

/// The part of a ring's file before its records, as its recorder writes it: what is left of overwritten
/// calls. Without bytes, of a file that grows, nothing of it is used. One thread at a time; neither
/// allocates, locks nor throws, except add_row.
class RingMemory {
 public:
  RingMemory() = default;
  /// Of the `bytes` of a file that starts with ring_head(), or of memory like it.
  explicit RingMemory(std::byte* bytes);

  /// The row of ops after those before has this lane.
  void add_row(std::uint32_t lane) { lanes_of_rows_.push_back(lane); }

  /// A record that follows `records` others is about to be written over `old`, or (null) over none.
  void begin(std::uint64_t records, const StreamRecord* old) {
    // A reader that sees anything of what follows sees this too.
    std::atomic_ref(head_->begun).store(records + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    if (old != nullptr) {
      overwrite(records - head_->capacity, *old);
    }
  }

  /// A call whose record may have been overwritten is over: finished or failed, …
  void end(std::uint64_t index) noexcept;
  /// … turned out to be of another row of ops (number: row + 1), …
  void end_as(std::uint64_t index, std::uint32_t number) noexcept;
  /// … or cancelled.
  void cancel(std::uint64_t index) noexcept;

 private:
  void overwrite(std::uint64_t index, const StreamRecord& old) {
    if (old.duration_ns == k_unfinished) {
      keep(index, old);
    } else if (old.duration_ns != k_cancelled) {
      count(old.op_number);
    }
  }
  /// Returns how many of the lane were overwritten by now.
  std::uint64_t count(std::uint32_t number) {
    const std::uint32_t lane = lane_of(number);
    std::uint64_t& counter = lane < head_->lanes ? counts_[lane] : head_->uncounted;
    const std::uint64_t counted = counter + 1;
    std::atomic_ref(counter).store(counted, std::memory_order_relaxed);
    return counted;
  }
  void uncount(std::uint32_t number);
  std::uint32_t lane_of(std::uint32_t number) const {
    return number < lanes_of_rows_.size() ? lanes_of_rows_[number] : UINT32_MAX;
  }
  void keep(std::uint64_t index, const StreamRecord& old);
  /// The row of a lapped call, where it has one.
  std::optional<std::uint64_t> row_of(std::uint64_t index) const;
  void remove(std::uint64_t row);
  void start_change();
  void end_change();

  RingHeader* head_ = nullptr;
  LappedCall* lapped_ = nullptr;
  std::uint64_t* counts_ = nullptr;
  std::vector<std::uint32_t> lanes_of_rows_ = {UINT32_MAX};  // by number of a record's op: 0 is none
};

/// What a ring of `capacity` records starts with; all else before its records is zeros.
RingHead ring_head(const StreamHeader& stream, std::uint64_t capacity, std::uint64_t lanes = k_ring_lanes);

}  // namespace commlens
