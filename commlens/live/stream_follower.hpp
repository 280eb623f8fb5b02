#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/plain_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/ring_file.hpp"
#include "commlens/trace/stream_layout.hpp"

namespace commlens {

/// Reads one rank's file of calls while it grows. The cursor is the caller's: what it does not take is given
/// again at the next poll, so that a record whose page is not there yet (zeros) is never passed unseen.
class StreamFollower {
 public:
  explicit StreamFollower(StreamEntry entry) : entry_(std::move(entry)) {}

  enum class Status : std::uint8_t {
    absent,    // no file yet, or no header in it
    open,      // it can be read
    replaced,  // it has fewer calls than were read: another recording is in its place
    unusable   // error() says why
  };
  /// Opens the file if it is not open, and reads its header. `is_final`: what is not there will not come: a
  /// lost header is made up.
  Status look(const PlainFile& directory, bool is_final);
  /// Of the last look; of a file that is absent: why it cannot be opened now, empty where there is none.
  const std::string& error() const { return error_; }
  /// What the manifest says of the file by now.
  void set_entry(const StreamEntry& entry) { entry_ = entry; }
  const StreamEntry& entry() const { return entry_; }

  /// The records from the cursor on, at most a block of them; valid until the next reading. What says it has
  /// finished is whole; what seems under way may have changed meanwhile, and is to be read again.
  RingPart next(RecordBlock& block) const;
  void take(std::size_t records) { cursor_ += records; }
  std::uint64_t cursor() const { return cursor_; }
  /// The same from any record on that is not overwritten.
  RingPart from(std::uint64_t slot, std::size_t most, RecordBlock& block) const;

  bool is_ring() const { return ring_.has_value(); }
  /// Of a ring: the first record that was there at the last look, 0 of others.
  std::uint64_t first() const { return ring_ ? window_of(*ring_).first : 0; }
  /// Whether two records, in this order, follow each other in the file.
  bool are_together(std::uint64_t slot, std::uint64_t later) const {
    return !ring_ || slot % ring_->ring.capacity + (later - slot) < ring_->ring.capacity;
  }
  /// What is left of those that were overwritten; `lanes`: how many there are by the tables.
  RingRemains remains(std::size_t lanes) const { return read_remains(reader(), lanes); }
  void skip_to(std::uint64_t slot) { cursor_ = slot; }

  /// As the header said when it was last looked at.
  std::uint64_t written() const { return header_.records; }
  std::uint64_t dropped_full() const { return header_.dropped_full; }
  std::uint64_t dropped_late() const { return header_.dropped_late; }
  bool has_lost_header() const { return has_lost_header_; }
  /// Records that are promised, by the manifest too, and lie beyond the end of the file.
  std::uint64_t missing_at_end() const;

 private:
  bool read_header(StreamHeader& header) const;
  StreamHeader header_instead() const;
  ReadAt reader() const;

  StreamEntry entry_;
  PlainFile file_;
  StreamHeader header_;
  std::optional<RingHead> ring_;
  std::uint64_t cursor_ = 0;
  bool has_lost_header_ = false;
  std::string error_;
};

}  // namespace commlens
