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

namespace commlens {
namespace {

constexpr std::int64_t k_most_dropped = std::int64_t{1} << 38;  // of one stream; a sum of streams fits

StreamRecord record_of(const CommEvent& event, const Times* times) {
  StreamRecord record{.op = static_cast<std::uint32_t>(event.op),
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

constexpr std::int64_t k_furthest_ns = INT64_MAX / 2;

bool is_faulty(const StreamRecord& record, std::size_t ops) {
  const bool is_far = record.started_ns < -k_furthest_ns || record.started_ns > k_furthest_ns ||
                      record.duration_ns < k_no_row || record.duration_ns > k_furthest_ns;
  return record.op >= ops ||
         (record.iteration < k_init_iteration && record.iteration != k_unknown_iteration) ||
         record.micro_batch < k_no_micro_batch || (is_far && record.started_ns != k_no_time);
}

/// What is wrong with a record that is faulty.
std::string fault_of(const StreamRecord& record, std::size_t ops) {
  if (record.op >= ops) {
    return fmt::format("names op {}, the tables have {}", record.op, ops);
  }
  if (record.iteration < k_init_iteration && record.iteration != k_unknown_iteration) {
    return fmt::format("has iteration {}", record.iteration);
  }
  if (record.micro_batch < k_no_micro_batch) {
    return fmt::format("has micro-batch {}", record.micro_batch);
  }
  return fmt::format("starts at {} ns and lasts {} ns", record.started_ns, record.duration_ns);
}

Times times_of(const StreamRecord& record) {
  using std::chrono::nanoseconds;
  return {nanoseconds(record.started_ns - std::int64_t{record.issue_lead_ns}), nanoseconds(record.started_ns),
          nanoseconds(record.started_ns + record.duration_ns)};
}

/// What is wrong with the header, or nothing.
std::string fault_of(const StreamHeader& header, const StreamEntry& entry) {
  if (header.magic != k_stream_magic) {
    return "no stream of a commlens trace (its first bytes are not \"commlens\")";
  }
  if (header.version != k_stream_version) {
    return fmt::format("version {}, this program reads version {}", header.version, k_stream_version);
  }
  if (header.header_bytes != sizeof(StreamHeader) || header.record_bytes != sizeof(StreamRecord)) {
    return fmt::format("header of {} bytes and records of {}, expected {} and {}", header.header_bytes,
                       header.record_bytes, sizeof(StreamHeader), sizeof(StreamRecord));
  }
  if (header.first_rank != entry.ranks.first.value || header.last_rank != entry.ranks.last.value) {
    return fmt::format("holds ranks {} to {}, the manifest says {} to {}", header.first_rank,
                       header.last_rank, entry.ranks.first.value, entry.ranks.last.value);
  }
  if (header.dropped_full > std::uint64_t{k_most_dropped} ||
      header.dropped_late > std::uint64_t{k_most_dropped}) {
    return fmt::format("says that {} and {} calls were dropped", header.dropped_full, header.dropped_late);
  }
  if (entry.events && header.records > static_cast<std::uint64_t>(*entry.events)) {
    return fmt::format("holds {} records, the manifest says {}", header.records, *entry.events);
  }
  return {};
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

/// Calls that are not in the trace, by the negative of their mark (k_unfinished, k_failed, k_cancelled,
/// k_no_row).
using LeftOut = std::array<std::int64_t, 5>;

void count_left_out(const LeftOut& calls, Provenance& provenance) {
  const auto count = [&](std::string_view reason, std::int64_t mark) {
    if (const std::int64_t left_out = calls[static_cast<std::size_t>(-mark)]; left_out > 0) {
      provenance.skip(std::string(reason), left_out);
    }
  };
  count(k_skipped_unfinished, k_unfinished);
  count(k_skipped_failed, k_failed);
  count(k_skipped_cancelled, k_cancelled);
  count(k_skipped_tables_full, k_no_row);
}

/// Goes through the records of `bytes`, a window at a time, and gives those of finished calls to
/// `take(record)`. What is wrong with one of them, or nothing; `left_out` counts the other calls.
template <typename Take>
std::string each_finished(const MappedFile& file, std::span<const std::byte> bytes, std::size_t ops,
                          LeftOut& left_out, const Take& take) {
  const std::size_t count = bytes.size() / sizeof(StreamRecord);
  constexpr std::size_t window = k_window / sizeof(StreamRecord);
  for (std::size_t begin = 0; begin < count; begin += window) {
    const std::size_t end = std::min(begin + window, count);
    for (std::size_t row = begin; row < end; ++row) {
      StreamRecord record;
      std::memcpy(&record, bytes.data() + row * sizeof record, sizeof record);
      if (is_faulty(record, ops)) {
        return fmt::format("record {} {}", row, fault_of(record, ops));
      }
      if (record.started_ns != k_no_time && record.duration_ns < 0) {
        ++left_out[static_cast<std::size_t>(-record.duration_ns)];
      } else {
        take(record);
      }
    }
    file.forget(bytes.subspan(begin * sizeof(StreamRecord), (end - begin) * sizeof(StreamRecord)));
  }
  return {};
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
      const Times times = times_of(record);
      const std::chrono::nanoseconds shift = shift_.of(times.started);
      times_.push_back({times.issued + shift, times.started + shift, times.finished + shift});
    }
    events_.push_back({ops_[record.op], record.iteration, record.micro_batch});
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

StreamFile::StreamFile(std::filesystem::path path, StreamEntry entry, MappedFile mapped,
                       const StreamHeader& header)
    : path_(std::move(path)), entry_(std::move(entry)), mapped_(std::move(mapped)), header_(header) {}

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
  StreamHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (const std::string fault = fault_of(header, entry); !fault.empty()) {
    return failure(fmt::format("{}: {}", path.string(), fault));
  }
  return StreamFile(path, entry, std::move(*mapped), header);
}

StreamUse StreamFile::use() const {
  const std::uint64_t whole = (mapped_.bytes().size() - sizeof(StreamHeader)) / sizeof(StreamRecord);
  return {.records = static_cast<std::int64_t>(std::min(header_.records, whole)),
          .dropped = static_cast<std::int64_t>(header_.dropped_full + header_.dropped_late)};
}

std::span<const std::byte> StreamFile::records() const {
  return mapped_.bytes().subspan(sizeof(StreamHeader),
                                 static_cast<std::size_t>(use().records) * sizeof(StreamRecord));
}

void StreamFile::count_missing(Provenance& provenance) const {
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
    provenance.skip("record missing at the end of a stream",
                    static_cast<std::int64_t>(std::min<std::uint64_t>(missing, INT64_MAX)));
  }
}

Result<StreamSurvey> StreamFile::survey(std::size_t ops) const {
  StreamSurvey survey{.records = use().records};
  LeftOut left_out = {};
  const std::string fault = each_finished(mapped_, records(), ops, left_out, [&](const StreamRecord& record) {
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
  if (!fault.empty()) {
    return failure(fmt::format("{}: {}", path_.string(), fault));
  }
  return survey;
}

Result<void> StreamFile::visit(const std::vector<OpId>& ops, const StreamSurvey& survey,
                               const TimeShift& shift, Provenance& provenance, const Sink& sink) const {
  count_dropped(header_, provenance);
  count_missing(provenance);
  BlockOfCalls block(ops, survey.has_times(), shift, sink);
  LeftOut left_out = {};
  const std::string fault = each_finished(mapped_, records(), ops.size(), left_out,
                                          [&](const StreamRecord& record) { block.add(record); });
  if (!fault.empty()) {
    return failure(fmt::format("{}: {}", path_.string(), fault));
  }
  block.give();
  count_left_out(left_out, provenance);
  if (!survey.has_times() && survey.timed > 0) {
    provenance.skip("time where other calls of the rank have none", survey.timed);
  }
  return {};
}

}  // namespace commlens
