#include "commlens/trace/ring_file.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

namespace commlens {
namespace {

bool read_head(const ReadAt& read, RingHead& head) {
  return read(0, std::as_writable_bytes(std::span(&head, 1))) == sizeof head;
}

/// How many records of a file are whole when so many bytes of them are.
std::size_t whole_records(std::size_t bytes) { return bytes / sizeof(StreamRecord); }

bool is_same(const StreamRecord& a, const StreamRecord& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// What a recorder changes when a call is overwritten, or a lapped one ends.
bool is_between_changes(const RingHead& head) {
  return head.ring.begun == head.stream.records && head.ring.changes % 2 == 0;
}

template <typename Row>
bool read_rows(const ReadAt& read, std::uint64_t offset, std::vector<Row>& rows) {
  const auto bytes = std::as_writable_bytes(std::span(rows));
  return bytes.empty() || read(offset, bytes) == bytes.size();
}

}  // namespace

std::string ring_fault(const RingHead& head) {
  const RingHeader& ring = head.ring;
  if (ring.capacity < 1 || ring.capacity > std::uint64_t{k_most_ring_records}) {
    return fmt::format("is a ring of {} records, at most {} are possible", ring.capacity,
                       k_most_ring_records);
  }
  if (ring.lapped_rows > k_most_lapped_rows || ring.lanes > k_most_ring_lanes ||
      head.stream.header_bytes != ring_header_bytes(ring.lapped_rows, ring.lanes)) {
    return fmt::format("header of {} bytes, which {} rows of calls under way and {} counts do not make",
                       head.stream.header_bytes, ring.lapped_rows, ring.lanes);
  }
  if (head.stream.records > std::uint64_t{1} << 62) {
    return fmt::format("says that {} calls were made", head.stream.records);
  }
  return {};
}

RingWindow window_of(const RingHead& head) {
  const std::uint64_t begun = std::max(head.ring.begun, head.stream.records);
  const std::uint64_t first = begun - std::min(begun, head.ring.capacity);
  return {std::min(first, head.stream.records), head.stream.records};
}

// A recorder stores how far it has begun before it overwrites, and that a call is under way before it changes
// what is said of it. So a copy that is older than the header is whole, and of two copies that are alike
// neither was made while the record changed.
RingPart read_ring(const ReadAt& read, const RingHead& head, std::uint64_t index, std::size_t most,
                   RecordBlock& block) {
  const std::uint64_t place = index % head.ring.capacity;
  RingPart part;
  part.asked = static_cast<std::size_t>(
      std::min({std::uint64_t{most}, std::uint64_t{RecordBlock::k_records}, head.ring.capacity - place}));
  if (part.asked == 0) {
    return part;
  }
  const std::uint64_t offset = head.stream.header_bytes + place * sizeof(StreamRecord);
  const std::size_t first =
      whole_records(read(offset, std::as_writable_bytes(std::span(block.first).first(part.asked))));
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::size_t got =
      whole_records(read(offset, std::as_writable_bytes(std::span(block.second).first(first))));
  std::atomic_thread_fence(std::memory_order_acquire);
  RingHead now;
  if (!read_head(read, now)) {
    return part;
  }
  const std::uint64_t begun = std::max(now.ring.begun, now.stream.records);
  const std::uint64_t still_there = begun - std::min(begun, head.ring.capacity);
  part.overwritten = static_cast<std::size_t>(
      std::min(still_there - std::min(still_there, index), std::uint64_t{part.asked}));
  for (std::size_t row = part.overwritten; row < got; ++row) {
    if (!is_same(block.first[row], block.second[row])) {
      block.second[row].duration_ns = k_unfinished;
    }
  }
  part.records =
      std::span(block.second).subspan(std::min(part.overwritten, got), got - std::min(part.overwritten, got));
  return part;
}

RingRemains read_remains(const ReadAt& read, std::size_t lanes) {
  constexpr int most_tries = 64;
  RingRemains remains;
  for (int attempt = 0; attempt < most_tries && !remains.is_whole; ++attempt) {
    RingHead head;
    if (!read_head(read, head) || !ring_fault(head).empty() || head.ring.lapped > head.ring.lapped_rows) {
      return remains;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    remains.first = window_of(head).first;
    constexpr std::uint64_t enough = std::uint64_t{1} << 40;
    remains.unknown = std::min(head.ring.unkept, enough) + std::min(head.ring.uncounted, enough);
    remains.lapped.resize(static_cast<std::size_t>(head.ring.lapped));
    remains.counts.resize(std::min<std::size_t>(lanes, head.ring.lanes));
    const std::uint64_t counts = sizeof head + head.ring.lapped_rows * sizeof(LappedCall);
    if (!read_rows(read, sizeof head, remains.lapped) || !read_rows(read, counts, remains.counts)) {
      return remains;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    RingHead now;
    remains.is_whole = read_head(read, now) && is_between_changes(head) && is_between_changes(now) &&
                       now.ring.begun == head.ring.begun && now.ring.changes == head.ring.changes;
  }
  const std::size_t impossible = std::erase_if(remains.lapped, [&](const LappedCall& call) {
    return call.index >= remains.first || call.number > remains.first;
  });
  for (std::uint64_t& count : remains.counts) {  // there were no more
    remains.unknown += count > remains.first ? 1 : 0;
    count = std::min(count, remains.first);
  }
  remains.unknown += impossible;
  return remains;
}

}  // namespace commlens
