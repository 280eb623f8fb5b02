#include "commlens/live/stream_follower.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "commlens/trace/stream_checks.hpp"

namespace commlens {
namespace {

std::uint64_t offset_of(std::uint64_t slot) { return sizeof(StreamHeader) + slot * sizeof(StreamRecord); }

}  // namespace

StreamFollower::Status StreamFollower::look(const PlainFile& directory, bool is_final) {
  error_.clear();
  if (!file_.is_open()) {
    file_ = PlainFile::open_in(directory, entry_.file);
    if (!file_.is_open() && file_.cause() != ENOENT) {
      error_ = fmt::format("{}: {}", entry_.file,
                           file_.cause() == EINVAL ? "not a regular file" : std::strerror(file_.cause()));
      return file_.may_open_later() ? Status::absent : Status::unusable;
    }
  }
  StreamHeader header;
  if (!file_.is_open() || !read_header(header)) {
    return Status::absent;
  }
  if (is_lost(header) && entry_.version == k_files_version) {
    if (!is_final) {
      return Status::absent;
    }
    has_lost_header_ = true;
    header = header_instead();
  }
  std::string fault = fault_of(header, entry_);
  std::optional<RingHead> ring;
  if (fault.empty() && header.version == k_ring_version) {
    ring.emplace();
    if (file_.read(0, std::as_writable_bytes(std::span(&*ring, 1))) != sizeof *ring) {
      return Status::absent;
    }
    header = ring->stream;
    fault = ring_fault(*ring);
  }
  if (!fault.empty()) {
    error_ = fmt::format("{}: {}", entry_.file, fault);
    return Status::unusable;
  }
  if (header.records < cursor_) {
    return Status::replaced;
  }
  header_ = header;
  ring_ = ring;
  return Status::open;
}

bool StreamFollower::read_header(StreamHeader& header) const {
  return file_.read(0, std::as_writable_bytes(std::span(&header, 1))) == sizeof header;
}

/// As StreamFile::open makes it up: without the manifest's word, calls end where zeros begin.
StreamHeader StreamFollower::header_instead() const {
  StreamHeader header;
  header.first_rank = entry_.ranks.first.value;
  header.last_rank = entry_.ranks.last.value;
  if (entry_.ring > 0) {  // where its records begin and end is not known
    return header;
  }
  const std::optional<PlainFile::Look> look = file_.look();
  const std::uint64_t bytes = look ? look->bytes - std::min<std::uint64_t>(look->bytes, sizeof header) : 0;
  std::uint64_t end = bytes / sizeof(StreamRecord);
  if (entry_.events) {
    header.records = static_cast<std::uint64_t>(*entry_.events);
    return header;
  }
  std::vector<std::byte> part(RecordBlock::k_records * sizeof(StreamRecord));
  while (end > 0) {
    const std::uint64_t begin = end - std::min<std::uint64_t>(end, RecordBlock::k_records);
    const std::size_t got =
        file_.read(offset_of(begin), std::span(part).first((end - begin) * sizeof(StreamRecord)));
    const std::uint64_t used = records_before_zeros(std::span(part).first(got), sizeof(StreamRecord));
    if (used > 0) {
      header.records = begin + used;
      break;
    }
    end = begin;
  }
  return header;
}

RingPart StreamFollower::next(RecordBlock& block) const {
  const std::uint64_t left = header_.records - std::min(header_.records, cursor_);
  return from(cursor_, static_cast<std::size_t>(std::min<std::uint64_t>(left, RecordBlock::k_records)),
              block);
}

ReadAt StreamFollower::reader() const {
  return [this](std::uint64_t offset, std::span<std::byte> into) { return file_.read(offset, into); };
}

// A recorder stores what a call was and when it started before it stores its duration. A copy of a record may
// have old fields beside a new duration; read once more after the duration was seen, they are new as well.
RingPart StreamFollower::from(std::uint64_t slot, std::size_t most, RecordBlock& block) const {
  if (ring_) {
    return read_ring(reader(), *ring_, slot, most, block);
  }
  const std::size_t wanted = std::min(most, RecordBlock::k_records);
  const auto read_into = [&](std::vector<StreamRecord>& records, std::size_t count) {
    const std::size_t bytes =
        file_.read(offset_of(slot), std::as_writable_bytes(std::span(records).first(count)));
    return bytes / sizeof(StreamRecord);
  };
  const std::size_t got = wanted == 0 ? 0 : read_into(block.first, wanted);
  const std::size_t again = got == 0 ? 0 : read_into(block.second, got);
  for (std::size_t row = 0; row < again; ++row) {
    StreamRecord& record = block.second[row];
    if (block.first[row].duration_ns == k_unfinished) {
      record.duration_ns = k_unfinished;
    }
    if (header_.version == 1) {
      record = as_version_2(record);
    }
  }
  return {.asked = wanted, .overwritten = 0, .records = std::span(block.second).first(again)};
}

std::uint64_t StreamFollower::missing_at_end() const {
  if (ring_) {
    return 0;
  }
  const std::optional<PlainFile::Look> look = file_.look();
  const std::uint64_t bytes = look ? look->bytes : 0;
  const std::uint64_t whole =
      bytes < sizeof(StreamHeader) ? 0 : (bytes - sizeof(StreamHeader)) / sizeof(StreamRecord);
  const std::uint64_t promised =
      std::max(header_.records, entry_.events ? static_cast<std::uint64_t>(*entry_.events) : 0);
  return promised - std::min(promised, std::min(header_.records, whole));
}

}  // namespace commlens
