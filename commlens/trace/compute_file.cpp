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

constexpr std::int64_t k_furthest = INT64_MAX / 2;  // ns from the clock's zero
constexpr std::uint64_t k_most_stretches_dropped = std::uint64_t{1}
                                                   << 38;  // of one stream; a sum of streams fits

/// What is wrong with the header, or nothing.
std::string header_fault(const StreamHeader& header, const StreamEntry& entry) {
  if (header.magic != k_compute_magic) {
    return "no compute times of a commlens trace (its first bytes are not \"commcomp\")";
  }
  if (header.version < 1 || header.version > k_compute_version) {
    return fmt::format("version {}, this program reads versions 1 to {}", header.version, k_compute_version);
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

/// The header of a file of this content, or its former content where its page was lost.
struct FoundHeader {
  StreamHeader header;
  bool is_lost = false;
};
Result<FoundHeader> header_of(std::span<const std::byte> bytes, const StreamEntry& entry) {
  FoundHeader found;
  StreamHeader& header = found.header;
  if (bytes.size() < sizeof header) {
    return failure(fmt::format("{} bytes, shorter than the header of {}", bytes.size(), sizeof header));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  found.is_lost = is_lost(header) && entry.version == k_files_version;
  if (found.is_lost) {
    header = compute_header(entry.ranks, 0,
                            records_before_zeros(bytes.subspan(sizeof header), sizeof(ComputeRecord)));
  }
  const std::string fault = header_fault(header, entry);
  return fault.empty() ? Result<FoundHeader>(found) : failure(fault);
}

bool has_content(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && std::filesystem::file_size(path, error) > 0;
}

/// Whether the fields of a record are none that a writer gives.
bool is_impossible(const ComputeRecord& record) {
  return record.started_ns < -k_furthest || record.started_ns > k_furthest || record.duration_ns < 0 ||
         record.duration_ns > k_furthest ||
         (record.iteration < k_init_iteration && record.iteration != k_unknown_iteration);
}

/// Whether a record that moves by `shift` gets centuries away from the calls of other machines.
bool moves_far(const ComputeRecord& record, nanoseconds shift) {
  return shift != nanoseconds(0) &&
         (std::abs(record.started_ns) > k_furthest / 2 || record.duration_ns > k_furthest / 2 ||
          std::abs(shift.count()) > k_furthest / 2);
}

/// Whether a record is as it was written. Those of version 1 cannot tell but by being all zeros.
bool is_whole(const ComputeRecord& record, std::uint32_t version) {
  if (version == 1) {
    return record.check == 0 && (record.started_ns != 0 || record.duration_ns != 0 || record.iteration != 0);
  }
  return record.check == compute_check(record);
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
    ComputeRecord record{.started_ns = interval.started.count(),
                         .duration_ns = (interval.finished - interval.started).count(),
                         .iteration = interval.iteration};
    record.check = compute_check(record);
    is_written = is_written && std::fwrite(&record, sizeof record, 1, out.get()) == 1;
  }
  if (!is_written || std::fflush(out.get()) != 0) {
    throw_cannot_write(file, errno);
  }
}

ComputeFile::ComputeFile(MappedFile mapped, std::uint32_t version, std::size_t size)
    : mapped_(std::move(mapped)), version_(version), size_(size) {}

Result<std::optional<ComputeFile>> ComputeFile::open(const std::filesystem::path& directory,
                                                     const StreamEntry& entry, Provenance& provenance) {
  if (entry.compute.empty()) {
    return std::nullopt;
  }
  const std::filesystem::path path = directory / entry.compute;
  if (!entry.tables.empty() && !has_content(path)) {
    provenance.skip("rank without its compute times");
    return std::nullopt;
  }
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return tl::unexpected(mapped.error());
  }
  const Result<FoundHeader> found = header_of(mapped->bytes(), entry);
  if (!found) {
    return failure(fmt::format("{}: {}", path.string(), found.error().message));
  }
  const StreamHeader& header = found->header;
  if (found->is_lost) {
    provenance.skip("file of compute times that lost its header");
  }
  const std::size_t whole = (mapped->bytes().size() - sizeof(StreamHeader)) / sizeof(ComputeRecord);
  const std::uint64_t count = std::min<std::uint64_t>(whole, header.records);
  count_missing(header, count, provenance);
  return ComputeFile(std::move(*mapped), header.version, static_cast<std::size_t>(count));
}

std::size_t ComputeFile::read(std::size_t first, std::size_t count, const TimeShift& shift,
                              std::vector<ComputeInterval>& stretches) const {
  const std::span<const std::byte> bytes = mapped_.bytes().subspan(sizeof(StreamHeader));
  const std::size_t end = first + std::min(count, size_ - std::min(first, size_));
  std::size_t lost = 0;
  for (std::size_t row = first; row < end; ++row) {
    ComputeRecord record;
    std::memcpy(&record, bytes.data() + row * sizeof record, sizeof record);
    const bool is_possible = is_whole(record, version_) && !is_impossible(record);
    const nanoseconds moved = is_possible ? shift.of(nanoseconds(record.started_ns)) : nanoseconds(0);
    if (!is_possible || moves_far(record, moved)) {
      ++lost;
      continue;
    }
    const nanoseconds started = nanoseconds(record.started_ns) + moved;
    stretches.push_back({started, started + nanoseconds(record.duration_ns), record.iteration});
  }
  return lost;
}

Result<std::vector<ComputeInterval>> read_compute(const std::filesystem::path& directory,
                                                  const StreamEntry& entry, const TimeShift& shift,
                                                  Provenance& provenance) {
  std::vector<ComputeInterval> intervals;
  const Result<std::optional<ComputeFile>> opened = ComputeFile::open(directory, entry, provenance);
  if (!opened) {
    return tl::unexpected(opened.error());
  }
  const std::optional<ComputeFile>& file = *opened;
  if (!file) {
    return intervals;
  }
  intervals.reserve(file->size());
  if (const std::size_t lost = file->read(0, file->size(), shift, intervals); lost > 0) {
    provenance.skip(std::string(k_skipped_compute), static_cast<std::int64_t>(lost));
  }
  if (!std::is_sorted(intervals.begin(), intervals.end())) {
    std::sort(intervals.begin(), intervals.end());
  }
  return intervals;
}

}  // namespace commlens
