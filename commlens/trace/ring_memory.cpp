#include "commlens/trace/ring_memory.hpp"

namespace commlens {
namespace {

void put(std::uint64_t& place, std::uint64_t value) {
  std::atomic_ref(place).store(value, std::memory_order_relaxed);
}

}  // namespace

RingHead ring_head(const StreamHeader& stream, std::uint64_t capacity, std::uint64_t lanes) {
  RingHead head{.stream = stream,
                .ring = {.capacity = capacity, .lapped_rows = k_lapped_rows, .lanes = lanes}};
  head.stream.version = k_ring_version;
  head.stream.header_bytes = static_cast<std::uint32_t>(ring_header_bytes(k_lapped_rows, lanes));
  return head;
}

RingMemory::RingMemory(std::byte* bytes)
    : head_(reinterpret_cast<RingHeader*>(bytes + sizeof(StreamHeader))),
      lapped_(reinterpret_cast<LappedCall*>(bytes + sizeof(RingHead))),
      counts_(reinterpret_cast<std::uint64_t*>(bytes + sizeof(RingHead) +
                                               head_->lapped_rows * sizeof(LappedCall))) {}

void RingMemory::keep(std::uint64_t index, const StreamRecord& old) {
  const std::uint64_t number = count(old.op_number);
  const std::uint64_t row = head_->lapped;
  if (row == head_->lapped_rows) {
    put(head_->unkept, head_->unkept + 1);
    return;
  }
  lapped_[row] = {.index = index, .number = number, .record = old};
  std::atomic_ref(head_->lapped).store(row + 1, std::memory_order_release);
}

std::optional<std::uint64_t> RingMemory::row_of(std::uint64_t index) const {
  for (std::uint64_t row = 0; row < head_->lapped; ++row) {
    if (lapped_[row].index == index) {
      return row;
    }
  }
  return std::nullopt;
}

// What a reader copies while `changes` is odd, or has changed, it copies again.
void RingMemory::start_change() {
  put(head_->changes, head_->changes + 1);
  std::atomic_thread_fence(std::memory_order_release);
}

void RingMemory::end_change() {
  std::atomic_ref(head_->changes).store(head_->changes + 1, std::memory_order_release);
}

void RingMemory::remove(std::uint64_t row) {
  lapped_[row] = lapped_[head_->lapped - 1];
  put(head_->lapped, head_->lapped - 1);
}

void RingMemory::uncount(std::uint32_t number) {
  const std::uint32_t lane = lane_of(number);
  std::uint64_t& counter = lane < head_->lanes ? counts_[lane] : head_->uncounted;
  put(counter, counter - (counter > 0 ? 1 : 0));
}

void RingMemory::end(std::uint64_t index) noexcept {
  if (const std::optional<std::uint64_t> row = row_of(index)) {
    start_change();
    remove(*row);
    end_change();
  }
}

void RingMemory::cancel(std::uint64_t index) noexcept {
  const std::optional<std::uint64_t> row = row_of(index);
  if (!row) {
    return;
  }
  start_change();
  const std::uint32_t number = lapped_[*row].record.op_number;
  remove(*row);
  uncount(number);
  for (std::uint64_t other = 0; other < head_->lapped; ++other) {
    const bool is_later = lapped_[other].index > index;
    if (is_later && lane_of(lapped_[other].record.op_number) == lane_of(number)) {
      put(lapped_[other].number, lapped_[other].number - 1);
    }
  }
  end_change();
}

void RingMemory::end_as(std::uint64_t index, std::uint32_t number) noexcept {
  const std::optional<std::uint64_t> row = row_of(index);
  if (!row || lane_of(lapped_[*row].record.op_number) == lane_of(number)) {
    end(index);
    return;
  }
  cancel(index);
  start_change();
  count(number);
  for (std::uint64_t other = 0; other < head_->lapped; ++other) {
    const bool is_later = lapped_[other].index > index;
    if (is_later && lane_of(lapped_[other].record.op_number) == lane_of(number)) {
      put(lapped_[other].number, lapped_[other].number + 1);
    }
  }
  end_change();
}

}  // namespace commlens
