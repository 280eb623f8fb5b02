#include "commlens/trace/stream_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

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

/// What is wrong with a record, or nothing.
std::string fault_of(const StreamRecord& record, std::size_t ops) {
  constexpr std::int64_t furthest = INT64_MAX / 2;
  if (record.op >= ops) {
    return fmt::format("names op {}, the tables have {}", record.op, ops);
  }
  if (record.iteration < k_init_iteration && record.iteration != k_unknown_iteration) {
    return fmt::format("has iteration {}", record.iteration);
  }
  if (record.micro_batch < k_no_micro_batch) {
    return fmt::format("has micro-batch {}", record.micro_batch);
  }
  if (record.started_ns == k_no_time) {
    return {};
  }
  if (record.started_ns < -furthest || record.started_ns > furthest || record.duration_ns < k_unfinished ||
      record.duration_ns > furthest) {
    return fmt::format("starts at {} ns and lasts {} ns", record.started_ns, record.duration_ns);
  }
  return {};
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

[[noreturn]] void throw_cannot_write(const std::filesystem::path& file) {
  throw SystemError(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
}

/// The whole records in use of a file; counts those that it lacks.
std::span<const std::byte> records_of(std::span<const std::byte> file, const StreamHeader& header,
                                      const StreamEntry& entry, Provenance& provenance) {
  const std::span<const std::byte> bytes = file.subspan(sizeof(StreamHeader));
  const std::uint64_t whole = bytes.size() / sizeof(StreamRecord);
  const std::uint64_t used = std::min<std::uint64_t>(whole, header.records);
  const auto promised =
      std::max(header.records, entry.events ? static_cast<std::uint64_t>(*entry.events) : 0);
  std::uint64_t missing = promised - used;
  if (missing > 0 && used == whole && bytes.size() % sizeof(StreamRecord) != 0) {
    provenance.skip("torn record");
    --missing;
  }
  if (missing > 0) {
    provenance.skip("record missing at the end of a stream",
                    static_cast<std::int64_t>(std::min<std::uint64_t>(missing, INT64_MAX)));
  }
  return bytes.first(used * sizeof(StreamRecord));
}

void count_dropped(const StreamHeader& header, Provenance& provenance) {
  if (header.dropped_full > 0) {
    provenance.skip("call not recorded, disk full", static_cast<std::int64_t>(header.dropped_full));
  }
  if (header.dropped_late > 0) {
    provenance.skip("call not recorded, recorder late", static_cast<std::int64_t>(header.dropped_late));
  }
}

/// Reads the records into `stream`. What is wrong with one of them, or nothing.
std::string read_records(std::span<const std::byte> bytes, const std::vector<OpId>& ops, RankStream& stream,
                         Provenance& provenance) {
  const std::size_t count = bytes.size() / sizeof(StreamRecord);
  stream.events.reserve(count);
  std::int64_t timed = 0;
  for (std::size_t row = 0; row < count; ++row) {
    StreamRecord record;
    std::memcpy(&record, bytes.data() + row * sizeof record, sizeof record);
    if (const std::string fault = fault_of(record, ops.size()); !fault.empty()) {
      return fmt::format("record {} {}", row, fault);
    }
    if (record.started_ns != k_no_time && record.duration_ns == k_unfinished) {
      provenance.skip("unfinished call");
      continue;
    }
    if (record.started_ns != k_no_time) {
      stream.times.resize(stream.events.size());
      stream.times.push_back(times_of(record));
      ++timed;
    }
    stream.events.push_back({ops[record.op], record.iteration, record.micro_batch});
  }
  if (stream.times.size() != stream.events.size() ||
      timed != static_cast<std::int64_t>(stream.events.size())) {
    stream.times.clear();
    if (timed != 0) {
      provenance.skip("time where other calls of the rank have none", timed);
    }
  }
  return {};
}

}  // namespace

void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> out(std::fopen(file.c_str(), "wbe"), &std::fclose);
  if (!out) {
    throw_cannot_write(file);
  }
  StreamHeader header;
  header.stream = index;
  header.first_rank = stream.ranks.first.value;
  header.last_rank = stream.ranks.last.value;
  header.records = stream.events.size();
  if (std::fwrite(&header, sizeof header, 1, out.get()) != 1) {
    throw_cannot_write(file);
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
      throw_cannot_write(file);
    }
  }
  if (std::fflush(out.get()) != 0) {
    throw_cannot_write(file);
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

Result<RankStream> StreamFile::read(const std::vector<OpId>& ops, Provenance& provenance) const {
  count_dropped(header_, provenance);
  RankStream stream{entry_.ranks, {}, {}};
  const std::span<const std::byte> records = records_of(mapped_.bytes(), header_, entry_, provenance);
  if (const std::string fault = read_records(records, ops, stream, provenance); !fault.empty()) {
    return failure(fmt::format("{}: {}", path_.string(), fault));
  }
  return stream;
}

}  // namespace commlens
