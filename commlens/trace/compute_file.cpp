#include "commlens/trace/compute_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/mapped_file.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t k_most_stretches_dropped = std::uint64_t{1}
                                                   << 38;  // of one stream; a sum of streams fits

/// What is wrong with the header, or nothing.
std::string header_fault(const StreamHeader& header, const StreamEntry& entry) {
  if (header.magic != k_compute_magic) {
    return "no compute times of a commlens trace (its first bytes are not \"commcomp\")";
  }
  if (header.version != k_compute_version) {
    return fmt::format("version {}, this program reads version {}", header.version, k_compute_version);
  }
  if (header.header_bytes != sizeof(StreamHeader) || header.record_bytes != sizeof(ComputeRecord)) {
    return fmt::format("header of {} bytes and records of {}, expected {} and {}", header.header_bytes,
                       header.record_bytes, sizeof(StreamHeader), sizeof(ComputeRecord));
  }
  if (header.first_rank != entry.ranks.first.value || header.last_rank != entry.ranks.last.value) {
    return fmt::format("holds ranks {} to {}, the manifest says {} to {}", header.first_rank,
                       header.last_rank, entry.ranks.first.value, entry.ranks.last.value);
  }
  if (header.dropped_full > k_most_stretches_dropped || header.dropped_late > k_most_stretches_dropped) {
    return fmt::format("says that {} and {} stretches were dropped", header.dropped_full,
                       header.dropped_late);
  }
  return {};
}

/// The header of a file of this content.
Result<StreamHeader> header_of(std::span<const std::byte> bytes, const StreamEntry& entry) {
  StreamHeader header;
  if (bytes.size() < sizeof header) {
    return failure(fmt::format("{} bytes, shorter than the header of {}", bytes.size(), sizeof header));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string fault = header_fault(header, entry);
  return fault.empty() ? Result<StreamHeader>(header) : failure(fault);
}

bool has_content(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && std::filesystem::file_size(path, error) > 0;
}

/// What is wrong with a record whose times move by `shift`, or nothing.
std::string stretch_fault(const ComputeRecord& record, nanoseconds shift) {
  constexpr std::int64_t furthest = INT64_MAX / 2;
  if (record.iteration < k_init_iteration && record.iteration != k_unknown_iteration) {
    return fmt::format("has iteration {}", record.iteration);
  }
  if (record.started_ns < -furthest || record.started_ns > furthest || record.duration_ns < 0 ||
      record.duration_ns > furthest) {
    return fmt::format("starts at {} ns and lasts {} ns", record.started_ns, record.duration_ns);
  }
  if (shift != nanoseconds(0) &&
      (std::abs(record.started_ns) > furthest / 2 || record.duration_ns > furthest / 2 ||
       std::abs(shift.count()) > furthest / 2)) {
    return "lies centuries away from the calls of other machines";
  }
  if (record.reserved != 0) {
    return fmt::format("has {} where 0 is reserved", record.reserved);
  }
  return {};
}

void count_missing(const StreamHeader& header, std::uint64_t records, Provenance& provenance) {
  const auto skip = [&](const char* reason, std::uint64_t count) {
    if (count > 0) {
      provenance.skip(reason, static_cast<std::int64_t>(std::min<std::uint64_t>(count, INT64_MAX)));
    }
  };
  skip("compute time missing at the end of a file", header.records - records);
  skip("compute time not recorded, disk full", header.dropped_full);
  skip("compute time not recorded, recorder late", header.dropped_late);
}

}  // namespace

StreamHeader compute_header(RankRange ranks, std::uint32_t index, std::uint64_t records) {
  StreamHeader header;
  header.magic = k_compute_magic;
  header.version = k_compute_version;
  header.record_bytes = sizeof(ComputeRecord);
  header.stream = index;
  header.first_rank = ranks.first.value;
  header.last_rank = ranks.last.value;
  header.records = records;
  return header;
}

void write_compute_file(const RankStream& stream, std::uint32_t index, const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> out(std::fopen(file.c_str(), "wbe"), &std::fclose);
  if (!out) {
    throw_cannot_write(file, errno);
  }
  const StreamHeader header = compute_header(stream.ranks, index, stream.compute.size());
  bool is_written = std::fwrite(&header, sizeof header, 1, out.get()) == 1;
  for (const ComputeInterval& interval : stream.compute) {
    const ComputeRecord record{.started_ns = interval.started.count(),
                               .duration_ns = (interval.finished - interval.started).count(),
                               .iteration = interval.iteration};
    is_written = is_written && std::fwrite(&record, sizeof record, 1, out.get()) == 1;
  }
  if (!is_written || std::fflush(out.get()) != 0) {
    throw_cannot_write(file, errno);
  }
}

Result<std::vector<ComputeInterval>> read_compute(const std::filesystem::path& folder,
                                                  const StreamEntry& entry, const TimeShift& shift,
                                                  Provenance& provenance) {
  std::vector<ComputeInterval> intervals;
  if (entry.compute.empty()) {
    return intervals;
  }
  const std::filesystem::path path = folder / entry.compute;
  if (!entry.tables.empty() && !has_content(path)) {
    provenance.skip("rank without its compute times");
    return intervals;
  }
  const Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return tl::unexpected(mapped.error());
  }
  const Result<StreamHeader> header = header_of(mapped->bytes(), entry);
  if (!header) {
    return failure(fmt::format("{}: {}", path.string(), header.error().message));
  }
  const std::span<const std::byte> bytes = mapped->bytes().subspan(sizeof(StreamHeader));
  const std::uint64_t count = std::min<std::uint64_t>(bytes.size() / sizeof(ComputeRecord), header->records);
  count_missing(*header, count, provenance);
  intervals.reserve(count);
  for (std::uint64_t row = 0; row < count; ++row) {
    ComputeRecord record;
    std::memcpy(&record, bytes.data() + row * sizeof record, sizeof record);
    if (const std::string fault = stretch_fault(record, shift.of(nanoseconds(record.started_ns)));
        !fault.empty()) {
      return failure(fmt::format("{}: record {} {}", path.string(), row, fault));
    }
    const nanoseconds started = nanoseconds(record.started_ns) + shift.of(nanoseconds(record.started_ns));
    intervals.push_back({started, started + nanoseconds(record.duration_ns), record.iteration});
  }
  if (!std::is_sorted(intervals.begin(), intervals.end())) {
    std::sort(intervals.begin(), intervals.end());
  }
  return intervals;
}

}  // namespace commlens
