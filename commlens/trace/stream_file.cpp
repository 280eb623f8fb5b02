#include "commlens/trace/stream_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/trace/mapped_file.hpp"

namespace commlens {
namespace {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie in memory");

constexpr std::array<char, 8> k_magic = {'c', 'o', 'm', 'm', 'l', 'e', 'n', 's'};
constexpr std::uint32_t k_version = 1;
constexpr std::int64_t k_no_time = INT64_MIN;

struct Header {
  std::array<char, 8> magic = k_magic;
  std::uint32_t version = k_version;
  std::uint32_t header_bytes = 64;
  std::uint32_t record_bytes = 32;
  std::uint32_t stream = 0;
  std::int64_t first_rank = 0;
  std::int64_t last_rank = 0;
  std::array<std::uint64_t, 3> reserved = {};
};
static_assert(sizeof(Header) == 64);

struct Record {
  std::uint32_t op = 0;
  std::int32_t iteration = 0;
  std::int64_t started_ns = k_no_time;
  std::int64_t duration_ns = 0;
  std::uint32_t issue_lead_ns = 0;  // started - issued; 4.29 s stands for anything longer
  std::int32_t micro_batch = k_no_micro_batch;
};
static_assert(sizeof(Record) == 32);

Record record_of(const CommEvent& event, const Times* times) {
  Record record{.op = static_cast<std::uint32_t>(event.op),
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
std::string fault_of(const Record& record, std::size_t ops) {
  constexpr std::int64_t furthest = INT64_MAX / 2;
  if (record.op >= ops) {
    return fmt::format("names op {}, the manifest has {}", record.op, ops);
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
  if (record.started_ns < -furthest || record.started_ns > furthest || record.duration_ns < 0 ||
      record.duration_ns > furthest) {
    return fmt::format("starts at {} ns and lasts {} ns", record.started_ns, record.duration_ns);
  }
  return {};
}

Times times_of(const Record& record) {
  using std::chrono::nanoseconds;
  return {nanoseconds(record.started_ns - std::int64_t{record.issue_lead_ns}), nanoseconds(record.started_ns),
          nanoseconds(record.started_ns + record.duration_ns)};
}

/// What is wrong with the header, or nothing.
std::string fault_of(std::span<const std::byte> bytes, const StreamEntry& entry) {
  if (bytes.size() < sizeof(Header)) {
    return fmt::format("{} bytes, shorter than the header of {}", bytes.size(), sizeof(Header));
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != k_magic) {
    return "no stream of a commlens trace (its first bytes are not \"commlens\")";
  }
  if (header.version != k_version) {
    return fmt::format("version {}, this program reads version {}", header.version, k_version);
  }
  if (header.header_bytes != sizeof(Header) || header.record_bytes != sizeof(Record)) {
    return fmt::format("header of {} bytes and records of {}, expected {} and {}", header.header_bytes,
                       header.record_bytes, sizeof(Header), sizeof(Record));
  }
  if (header.first_rank != entry.ranks.first.value || header.last_rank != entry.ranks.last.value) {
    return fmt::format("holds ranks {} to {}, the manifest says {} to {}", header.first_rank,
                       header.last_rank, entry.ranks.first.value, entry.ranks.last.value);
  }
  return {};
}

[[noreturn]] void throw_cannot_write(const std::filesystem::path& file) {
  throw SystemError(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
}

void count_missing(const StreamEntry& entry, std::span<const std::byte> records, Provenance& provenance) {
  const auto whole = static_cast<std::int64_t>(records.size() / sizeof(Record));
  std::int64_t missing = entry.events ? *entry.events - whole : 0;
  if (records.size() % sizeof(Record) != 0) {
    ++provenance.skipped["torn record"];
    --missing;
  }
  if (missing > 0) {
    provenance.skipped["record missing at the end of a stream"] += missing;
  }
}

}  // namespace

void write_stream_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> out(std::fopen(file.c_str(), "wbe"), &std::fclose);
  if (!out) {
    throw_cannot_write(file);
  }
  Header header;
  header.stream = index;
  header.first_rank = stream.ranks.first.value;
  header.last_rank = stream.ranks.last.value;
  if (std::fwrite(&header, sizeof header, 1, out.get()) != 1) {
    throw_cannot_write(file);
  }
  constexpr std::size_t block = 32768;
  std::vector<Record> records;
  for (std::size_t begin = 0; begin < stream.events.size(); begin += block) {
    const std::size_t end = std::min(begin + block, stream.events.size());
    records.clear();
    for (std::size_t row = begin; row < end; ++row) {
      records.push_back(record_of(stream.events[row], stream.times.empty() ? nullptr : &stream.times[row]));
    }
    if (std::fwrite(records.data(), sizeof(Record), records.size(), out.get()) != records.size()) {
      throw_cannot_write(file);
    }
  }
  if (std::fflush(out.get()) != 0) {
    throw_cannot_write(file);
  }
}

Result<RankStream> read_stream_file(const std::filesystem::path& file, const StreamEntry& entry,
                                    const Manifest& manifest, Provenance& provenance) {
  const Result<MappedFile> mapped = MappedFile::open(file);
  if (!mapped) {
    return tl::unexpected(mapped.error());
  }
  if (const std::string fault = fault_of(mapped->bytes(), entry); !fault.empty()) {
    return failure(fmt::format("{}: {}", file.string(), fault));
  }
  const std::span<const std::byte> bytes = mapped->bytes().subspan(sizeof(Header));
  const std::size_t count = bytes.size() / sizeof(Record);
  if (entry.events && static_cast<std::int64_t>(count) > *entry.events) {
    return failure(
        fmt::format("{}: holds {} records, the manifest says {}", file.string(), count, *entry.events));
  }
  count_missing(entry, bytes, provenance);
  RankStream stream{entry.ranks, {}, {}};
  stream.events.reserve(count);
  std::size_t timed = 0;
  for (std::size_t row = 0; row < count; ++row) {
    Record record;
    std::memcpy(&record, bytes.data() + row * sizeof record, sizeof record);
    if (const std::string fault = fault_of(record, manifest.ops.size()); !fault.empty()) {
      return failure(fmt::format("{}: record {} {}", file.string(), row, fault));
    }
    stream.events.push_back({manifest.ops[record.op], record.iteration, record.micro_batch});
    if (record.started_ns != k_no_time) {
      stream.times.resize(row);
      stream.times.push_back(times_of(record));
      ++timed;
    }
  }
  if (timed != count) {
    stream.times.clear();
    if (timed != 0) {
      provenance.skipped["time where other calls of the rank have none"] += static_cast<std::int64_t>(timed);
    }
  }
  return stream;
}

}  // namespace commlens
