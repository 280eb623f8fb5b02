#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "commlens/trace/stream_layout.hpp"

// Reading a ring's file while it may be written, from whatever reads a file's bytes.
namespace commlens {

/// Room for a part of a file of calls, read twice; shared by all streams of a reader.
struct RecordBlock {
  static constexpr std::size_t k_records = 2048;  // 64 KiB
  std::vector<StreamRecord> first = std::vector<StreamRecord>(k_records);
  std::vector<StreamRecord> second = std::vector<StreamRecord>(k_records);
};

/// Reads the bytes from `offset` on; returns how many there were.
using ReadAt = std::function<std::size_t(std::uint64_t offset, std::span<std::byte> into)>;

/// What is wrong with the headers of a ring; empty: nothing. `fault_of` (stream_checks.hpp) has looked at the
/// first one.
std::string ring_fault(const RingHead& head);

/// The records that are there, by their index: how many were written before. Those before `first` are
/// overwritten, or are being.
struct RingWindow {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
RingWindow window_of(const RingHead& head);

/// Records that follow each other in the file, as they were at one moment each.
struct RingPart {
  std::size_t asked = 0;        // of those that were wanted: up to where the file goes on at its start
  std::size_t overwritten = 0;  // of these the first, by now
  std::span<const StreamRecord> records;  // the rest, valid until the next reading; the file may end before
};
/// Reads up to `most` records from that of `index` on. A record that was changed meanwhile is a call under
/// way; one that may have been overwritten is not given.
RingPart read_ring(const ReadAt& read, const RingHead& head, std::uint64_t index, std::size_t most,
                   RecordBlock& block);

/// What is left of the calls that were overwritten before some moment.
struct RingRemains {
  /// False when there was none to be had: the recorder is at it all the time, or was killed at it.
  bool is_whole = false;
  std::uint64_t first = 0;            // the record of this index was the first one that was there
  std::vector<std::uint64_t> counts;  // of each lane (OpLanes), cancelled calls left out
  std::vector<LappedCall> lapped;     // calls under way, in no order
  std::uint64_t unknown = 0;          // calls of which neither lane nor end is known
};
/// `lanes`: how many there are by the tables.
RingRemains read_remains(const ReadAt& read, std::size_t lanes);

}  // namespace commlens
