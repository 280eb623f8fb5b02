#include "commlens/trace/stream_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/ring_memory.hpp"
#include "commlens/trace/stream_checks.hpp"

namespace commlens {
namespace {

StreamRecord record_of(const CommEvent& event, const Times* times) {
  StreamRecord record{.op_number = static_cast<std::uint32_t>(event.op) + 1,
                      .iteration = event.iteration,
                      .started_ns = k_no_time,
                      .duration_ns = 0,
                      .issue_lead_ns = 0,
                      .micro_batch = event.micro_batch};
  if (times != nullptr) {
    const std::int64_t lead = (times->started - times->issued).count();
    record.started_ns = times->started.count();
    record.duration_ns = (times->finished - times->started).count();
    record.issue_lead_ns = static_cast<std::uint32_t>(std::clamp<std::int64_t>(lead, 0, UINT32_MAX));
  }
  return record;
}

Times moved_times_of(const StreamRecord& record, const TimeShift& shift) {
  const Times times = times_of(record);
  const std::chrono::nanoseconds moved = shift.of(times.started);
  return {times.issued + moved, times.started + moved, times.finished + moved};
}

/// The lost header of a file with these records, as far as it is known.
StreamHeader header_instead(std::span<const std::byte> records, const StreamEntry& entry) {
  StreamHeader header;
  header.first_rank = entry.ranks.first.value;
  header.last_rank = entry.ranks.last.value;
  header.records = entry.events ? static_cast<std::uint64_t>(*entry.events)
                                : records_before_zeros(records, sizeof(StreamRecord));
  return header;
}

/// The lost header of a ring: where its records begin and end is not known either.
RingHead ring_head_instead(const StreamEntry& entry) {
  StreamHeader header;
  header.first_rank = entry.ranks.first.value;
  header.last_rank = entry.ranks.last.value;
  return ring_head(header, static_cast<std::uint64_t>(entry.ring));
}

constexpr std::size_t k_block = 1024;                   // calls given at a time: stays in the nearest caches
constexpr std::size_t k_window = std::size_t{8} << 20;  // bytes of a file kept mapped at a time

void count_dropped(const StreamHeader& header, Provenance& provenance) {
  if (header.dropped_full > 0) {
    provenance.skip(std::string(k_skipped_disk_full), static_cast<std::int64_t>(header.dropped_full));
  }
  if (header.dropped_late > 0) {
    provenance.skip(std::string(k_skipped_recorder_late), static_cast<std::int64_t>(header.dropped_late));
  }
}

/// Collects a block of calls for a sink.
class BlockOfCalls {
 public:
  BlockOfCalls(const std::vector<OpId>& ops, bool has_times, const TimeShift& shift,
               const StreamFile::Sink& sink)
      : ops_(ops), has_times_(has_times), shift_(shift), sink_(sink) {
    events_.reserve(k_block);
    times_.reserve(has_times ? k_block : 0);
  }

  void add(const StreamRecord& record) {
    if (has_times_) {
      times_.push_back(moved_times_of(record, shift_));
    }
    events_.push_back({ops_[record.op_number - 1], record.iteration, record.micro_batch});
    if (events_.size() == k_block) {
      give();
    }
  }

  void give() {
    sink_(events_, times_);
    events_.clear();
    times_.clear();
  }

 private:
  const std::vector<OpId>& ops_;
  bool has_times_;
  TimeShift shift_;
  const StreamFile::Sink& sink_;
  std::vector<CommEvent> events_;
  std::vector<Times> times_;
};

}  // namespace

void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> out(std::fopen(file.c_str(), "wbe"), &std::fclose);
  if (!out) {
    throw_cannot_write(file, errno);
  }
  StreamHeader header;
  header.stream = index;
  header.first_rank = stream.ranks.first.value;
  header.last_rank = stream.ranks.last.value;
  header.records = stream.events.size();
  if (std::fwrite(&header, sizeof header, 1, out.get()) != 1) {
    throw_cannot_write(file, errno);
  }
  constexpr std::size_t block = 32768;
  std::vector<StreamRecord> records;
  for (std::size_t begin = 0; begin < stream.events.size(); begin += block) {
    const std::size_t end = std::min(begin + block, stream.events.size());
    records.clear();
    for (std::size_t row = begin; row < end; ++row) {
      records.push_back(record_of(stream.events[row], stream.times.empty() ? nullptr : &stream.times[row]));
    }
    if (std::fwrite(records.data(), sizeof(StreamRecord), records.size(), out.get()) != records.size()) {
      throw_cannot_write(file, errno);
    }
  }
  if (std::fflush(out.get()) != 0) {
    throw_cannot_write(file, errno);
  }
}

/// Records that give no call of the trace: calls by the negative of their mark (k_unfinished, k_failed,
/// k_cancelled, k_no_row), what is left of calls in a damaged file, and what was overwritten meanwhile.
struct StreamFile::LeftOut {
  std::array<std::int64_t, 5> marked = {};
  std::int64_t zeros = 0;
  std::int64_t impossible = 0;
  std::int64_t undescribed = 0;
  std::int64_t overwritten = 0;

  void count_into(Provenance& provenance) const;
  /// Whether a record is a call that the tables describe; counts it when not. `number` - 1 wraps for 0.
  bool is_call(const StreamRecord& record, const std::vector<OpId>& ops) {
    const std::size_t row = record.op_number - std::uint32_t{1};
    if (row < ops.size() && ops[row] != k_lost_op && !is_impossible(record)) {
      return true;
    }
    ++(record.op_number == 0 ? zeros : is_impossible(record) ? impossible : undescribed);
    return false;
  }
};

void StreamFile::LeftOut::count_into(Provenance& provenance) const {
  const auto count = [&](std::string_view reason, std::int64_t left_out) {
    if (left_out > 0) {
      provenance.skip(std::string(reason), left_out);
    }
  };
  const auto of_mark = [&](std::int64_t mark) { return marked[static_cast<std::size_t>(-mark)]; };
  count(k_skipped_unfinished, of_mark(k_unfinished));
  count(k_skipped_failed, of_mark(k_failed));
  count(k_skipped_cancelled, of_mark(k_cancelled));
  count(k_skipped_tables_full, of_mark(k_no_row));
  count(k_skipped_zeros, zeros);
  count(k_skipped_impossible_record, impossible);
  count(k_skipped_undescribed, undescribed);
  count(k_skipped_overwritten, overwritten);
}

/// Gives all records of a part of a ring, in order of issue.
template <typename Take>
void StreamFile::each_in_ring(Part part, const Take& take, LeftOut& left_out) const {
  const ReadAt read = reader();
  RecordBlock block;
  std::uint64_t index = window_of(*ring_).first + part.first;
  for (std::size_t left = part.count; left > 0;) {
    const RingPart got = read_ring(read, *ring_, index, left, block);
    left_out.overwritten += static_cast<std::int64_t>(got.overwritten);
    std::for_each(got.records.begin(), got.records.end(), take);
    index += got.asked;
    left -= got.asked;
  }
}

/// Goes through the records of a part, a window at a time, and gives those of calls that the tables describe
/// to `take(record)`; `left_out` counts the others.
template <typename Take>
void StreamFile::each_described(Part part, const std::vector<OpId>& ops, LeftOut& left_out,
                                const Take& take) const {
  const auto give = [&](StreamRecord record) {
    if (left_out.is_call(record, ops)) {
      record.iteration = record.iteration < entry_.first_iteration ? k_unknown_iteration : record.iteration;
      take(record);
    }
  };
  if (ring_) {
    each_in_ring(part, give, left_out);
    return;
  }
  const std::span<const std::byte> bytes =
      records().subspan(part.first * sizeof(StreamRecord), part.count * sizeof(StreamRecord));
  constexpr std::size_t window = k_window / sizeof(StreamRecord);
  for (std::size_t begin = 0; begin < part.count; begin += window) {
    const std::size_t end = std::min(begin + window, part.count);
    for (std::size_t row = begin; row < end; ++row) {
      StreamRecord record;
      std::memcpy(&record, bytes.data() + row * sizeof record, sizeof record);
      give(header_.version == 1 ? as_version_2(record) : record);
    }
    mapped_.forget(bytes.subspan(begin * sizeof(StreamRecord), (end - begin) * sizeof(StreamRecord)));
  }
}

/// Those of finished calls.
template <typename Take>
void StreamFile::each_finished(Part part, const std::vector<OpId>& ops, LeftOut& left_out,
                               const Take& take) const {
  each_described(part, ops, left_out, [&](const StreamRecord& record) {
    if (record.started_ns != k_no_time && record.duration_ns < 0) {
      ++left_out.marked[static_cast<std::size_t>(-record.duration_ns)];
    } else {
      take(record);
    }
  });
}

StreamFile::StreamFile(StreamEntry entry, MappedFile mapped, const StreamHeader& header, bool has_header)
    : entry_(std::move(entry)), mapped_(std::move(mapped)), header_(header), has_header_(has_header) {}

Result<StreamFile> StreamFile::open(const std::filesystem::path& path, const StreamEntry& entry) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return tl::unexpected(mapped.error());
  }
  const std::span<const std::byte> bytes = mapped->bytes();
  if (bytes.size() < sizeof(StreamHeader)) {
    return failure(fmt::format("{}: {} bytes, shorter than the header of {}", path.string(), bytes.size(),
                               sizeof(StreamHeader)));
  }
  RingHead head;
  std::memcpy(&head, bytes.data(), std::min(bytes.size(), sizeof head));
  const bool has_header = !is_lost(head.stream) || entry.version != k_files_version;
  if (!has_header && entry.ring > 0) {
    head = ring_head_instead(entry);
  } else if (!has_header) {
    head.stream = header_instead(bytes.subspan(sizeof head.stream), entry);
  }
  std::string fault = fault_of(head.stream, entry);
  const bool is_ring = head.stream.version == k_ring_version;
  fault = fault.empty() && is_ring ? ring_fault(head) : fault;
  if (!fault.empty()) {
    return failure(fmt::format("{}: {}", path.string(), fault));
  }
  StreamFile file(entry, std::move(*mapped), head.stream, has_header);
  if (is_ring) {
    file.ring_ = head;
  }
  return file;
}

StreamUse StreamFile::use() const {
  StreamUse use{.written = static_cast<std::int64_t>(header_.records),
                .dropped = static_cast<std::int64_t>(header_.dropped_full + header_.dropped_late)};
  if (ring_) {
    const RingWindow window = window_of(*ring_);
    use.records = static_cast<std::int64_t>(window.end - window.first);
    return use;
  }
  const std::uint64_t whole = (mapped_.bytes().size() - sizeof(StreamHeader)) / sizeof(StreamRecord);
  use.records = static_cast<std::int64_t>(std::min(header_.records, whole));
  return use;
}

std::uint64_t StreamFile::bytes_in_use() const {
  const std::uint64_t records =
      ring_ ? std::min(ring_->ring.capacity, header_.records) : static_cast<std::uint64_t>(use().records);
  return header_.header_bytes + records * sizeof(StreamRecord);
}

std::int64_t StreamFile::overwritten() const {
  return ring_ ? static_cast<std::int64_t>(window_of(*ring_).first) : 0;
}

RingRemains StreamFile::remains(std::size_t lanes) const {
  return ring_ ? read_remains(reader(), lanes) : RingRemains{};
}

std::optional<Iteration> StreamFile::cut_iteration() const {
  std::optional<Iteration> first;
  if (overwritten() == 0) {
    return first;
  }
  RecordBlock block;
  const RingWindow window = window_of(*ring_);
  const RingPart part = read_ring(reader(), *ring_, window.first, window.end - window.first, block);
  for (const StreamRecord& record : part.records) {
    if (record.op_number != 0 && !is_impossible(record)) {
      return record.iteration;
    }
  }
  return first;
}

/// Copies what a recorder may be writing.
std::size_t StreamFile::read_bytes(std::uint64_t offset, std::span<std::byte> into) const {
  const std::span<const std::byte> bytes = mapped_.bytes();
  const std::size_t got =
      offset >= bytes.size() ? 0 : std::min(into.size(), bytes.size() - static_cast<std::size_t>(offset));
  std::memcpy(into.data(), bytes.data() + (got == 0 ? 0 : offset), got);
  return got;
}

ReadAt StreamFile::reader() const {
  return [this](std::uint64_t offset, std::span<std::byte> into) { return read_bytes(offset, into); };
}

std::span<const std::byte> StreamFile::records() const {
  return mapped_.bytes().subspan(sizeof(StreamHeader),
                                 static_cast<std::size_t>(use().records) * sizeof(StreamRecord));
}

/// Records of the window whose place lies beyond the end of the file.
std::int64_t StreamFile::missing_in_ring() const {
  const RingWindow window = window_of(*ring_);
  const std::uint64_t capacity = ring_->ring.capacity;
  const std::size_t bytes = mapped_.bytes().size();
  const std::uint64_t whole = std::min<std::uint64_t>(
      capacity, (bytes - std::min<std::size_t>(bytes, header_.header_bytes)) / sizeof(StreamRecord));
  const auto beyond = [&](std::uint64_t end) {  // of all records before
    const std::uint64_t last = end % capacity;
    return end / capacity * (capacity - whole) + (last - std::min(last, whole));
  };
  return static_cast<std::int64_t>(beyond(window.end) - beyond(window.first));
}

void StreamFile::count_missing(Provenance& provenance) const {
  constexpr const char* reason = "record missing at the end of a stream";
  if (ring_) {
    const std::int64_t promised = entry_.events.value_or(0) - static_cast<std::int64_t>(header_.records);
    const std::int64_t missing = missing_in_ring() + (has_header_ ? std::max<std::int64_t>(promised, 0) : 0);
    if (missing > 0) {
      provenance.skip(reason, missing);
    }
    return;
  }
  const std::size_t bytes = mapped_.bytes().size() - sizeof(StreamHeader);
  const std::uint64_t whole = bytes / sizeof(StreamRecord);
  const auto used = static_cast<std::uint64_t>(use().records);
  const auto promised =
      std::max(header_.records, entry_.events ? static_cast<std::uint64_t>(*entry_.events) : 0);
  std::uint64_t missing = promised - used;
  if (missing > 0 && used == whole && bytes % sizeof(StreamRecord) != 0) {
    provenance.skip("torn record");
    --missing;
  }
  if (missing > 0) {
    provenance.skip(reason, static_cast<std::int64_t>(std::min<std::uint64_t>(missing, INT64_MAX)));
  }
}

StreamSurvey StreamFile::survey(const std::vector<OpId>& ops) const {
  StreamSurvey survey{.records = use().records};
  LeftOut left_out;
  each_finished(all(), ops, left_out, [&](const StreamRecord& record) {
    if (record.started_ns == k_no_time) {
      ++survey.untimed;
      return;
    }
    const Times times = times_of(record);
    ++survey.timed;
    survey.first_issued = std::min(survey.first_issued, times.issued);
    survey.first_started = std::min(survey.first_started, times.started);
    survey.last_started = std::max(survey.last_started, times.started);
    survey.last_finished = std::max(survey.last_finished, times.finished);
  });
  return survey;
}

void StreamFile::visit(const std::vector<OpId>& ops, const StreamSurvey& survey, const TimeShift& shift,
                       Provenance& provenance, const Sink& sink) const {
  count_dropped(header_, provenance);
  count_missing(provenance);
  if (!has_header_) {
    provenance.skip(std::string(k_skipped_header));
  }
  BlockOfCalls block(ops, survey.has_times(), shift, sink);
  LeftOut left_out;
  each_finished(all(), ops, left_out, [&](const StreamRecord& record) { block.add(record); });
  block.give();
  left_out.count_into(provenance);
  if (!survey.has_times() && survey.timed > 0) {
    provenance.skip("time where other calls of the rank have none", survey.timed);
  }
}

std::int64_t StreamFile::visit_records(const std::vector<OpId>& ops,
                                       const std::function<void(OpId, const StreamRecord&)>& sink,
                                       std::uint64_t first) const {
  Part part = all();
  if (ring_) {
    const std::uint64_t start = window_of(*ring_).first;
    part.first = std::min(static_cast<std::size_t>(std::max(first, start) - start), part.count);
    part.count -= part.first;
  }
  LeftOut left_out;
  each_described(part, ops, left_out,
                 [&](const StreamRecord& record) { sink(ops[record.op_number - 1], record); });
  Provenance missing;
  count_missing(missing);
  std::int64_t lost = use().dropped + left_out.zeros + left_out.impossible + left_out.undescribed;
  lost += ring_ ? left_out.overwritten + (has_header_ ? 0 : 1) : 0;
  for (const auto& [reason, calls] : missing.skipped) {
    lost += calls;
  }
  return lost;
}

void StreamFile::read(Part part, const std::vector<OpId>& ops, const StreamSurvey& survey,
                      const TimeShift& shift, Calls& calls) const {
  const auto size = static_cast<std::size_t>(use().records);
  const std::size_t first = std::min(part.first, size);
  const std::size_t count = std::min(part.count, size - first);
  const bool has_times = survey.has_times();
  LeftOut ignored;  // visit() counts it
  each_finished({first, count}, ops, ignored, [&](const StreamRecord& record) {
    calls.events.push_back({ops[record.op_number - 1], record.iteration, record.micro_batch});
    if (has_times) {
      calls.times.push_back(moved_times_of(record, shift));
    }
  });
}

}  // namespace commlens
