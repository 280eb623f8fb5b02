#include "commlens/app/record_iterations.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/ring_file.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_least_repeats = 3;
constexpr std::size_t k_most_last_calls = 64;  // after the last repeat: results are gathered, files closed

/// For each p, how many of the calls from the end backwards equal the call p before them (the Z function of
/// the sequence read backwards; Gusfield, Algorithms on Strings, Trees and Sequences, 1997, section 1.4).
std::vector<std::size_t> matches_at_end(std::span<const std::uint32_t> calls) {
  const std::size_t count = calls.size();
  const auto back = [&](std::size_t at) { return calls[count - 1 - at]; };
  std::vector<std::size_t> matches(count, 0);
  std::size_t left = 0;
  std::size_t right = 0;
  for (std::size_t at = 1; at < count; ++at) {
    std::size_t length = at < right ? std::min(right - at, matches[at - left]) : 0;
    while (at + length < count && back(length) == back(at + length)) {
      ++length;
    }
    matches[at] = length;
    if (at + length > right) {
      left = at;
      right = at + length;
    }
  }
  return matches;
}

std::optional<RepeatingPart> repeating_to_end(std::span<const std::uint32_t> calls, std::size_t least) {
  const std::vector<std::size_t> matches = matches_at_end(calls);
  for (std::size_t period = 1; period * k_least_repeats <= calls.size(); ++period) {
    const std::size_t repeats = (matches[period] + period) / period;
    if (repeats >= k_least_repeats && repeats * period >= least) {
      return RepeatingPart{calls.size() - repeats * period, period, repeats};
    }
  }
  return std::nullopt;
}

/// The records of one rank's file, mapped into memory: changes are written to the file. Nobody else writes
/// it.
class Records {
 public:
  explicit Records(const std::filesystem::path& path) {
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat about = {};
    if (file < 0 || fstat(file, &about) != 0) {
      const int cause = errno;
      if (file >= 0) {
        close(file);
      }
      throw SystemError(fmt::format("cannot read {}: {}", path.string(), std::strerror(cause)));
    }
    size_ = static_cast<std::size_t>(about.st_size);
    if (size_ >= sizeof(StreamHeader)) {
      bytes_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (bytes_ == MAP_FAILED) {
      throw SystemError(fmt::format("cannot map {}: {}", path.string(), std::strerror(errno)));
    }
    window_ = window();
  }
  ~Records() {
    if (bytes_ != nullptr) {
      munmap(bytes_, size_);
    }
  }
  Records(Records&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        window_(std::exchange(other.window_, {})) {}
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  Records& operator=(Records&&) = delete;

  /// In order of issue.
  std::size_t size() const { return window_.count; }
  StreamRecord& operator[](std::size_t row) const {
    return window_.records[(window_.first + row) % window_.places];
  }
  /// Calls before these were overwritten.
  bool has_lost_start() const { return window_.has_lost_start; }

 private:
  struct Window {
    StreamRecord* records = nullptr;
    std::size_t places = 1;
    std::size_t first = 0;
    std::size_t count = 0;
    bool has_lost_start = false;
  };

  Window window() const {
    if (bytes_ == nullptr) {
      return {};
    }
    RingHead head;
    std::memcpy(&head, bytes_, std::min(size_, sizeof head));
    if (head.stream.version == k_ring_version && !is_lost(head.stream)) {
      return window_of_ring(head);
    }
    const std::size_t room = (size_ - sizeof(StreamHeader)) / sizeof(StreamRecord);
    auto* const records =
        reinterpret_cast<StreamRecord*>(static_cast<std::byte*>(bytes_) + sizeof(StreamHeader));
    const std::uint64_t used =
        is_lost(head.stream)
            ? records_before_zeros(std::as_bytes(std::span(records, room)), sizeof(StreamRecord))
            : head.stream.records;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(used, room));
    return {records, std::max<std::size_t>(count, 1), 0, count, false};
  }

  /// Of one that was damaged nothing.
  Window window_of_ring(const RingHead& head) const {
    const RingWindow its = window_of(head);
    const std::uint64_t places = std::min(head.ring.capacity, its.end);
    if (!ring_fault(head).empty() || places == 0 ||
        head.stream.header_bytes + places * sizeof(StreamRecord) > size_) {
      return {};
    }
    auto* const records =
        reinterpret_cast<StreamRecord*>(static_cast<std::byte*>(bytes_) + head.stream.header_bytes);
    return {records, static_cast<std::size_t>(places), static_cast<std::size_t>(its.first % places),
            static_cast<std::size_t>(its.end - its.first), its.first > 0};
  }

  void* bytes_ = nullptr;
  std::size_t size_ = 0;
  Window window_;
};

struct RankRecords {
  Records records;
  bool has_ended = false;  // its recording was closed
};

std::vector<RankRecords> records_of_ranks(const std::filesystem::path& directory) {
  const Result<Manifest> manifest = read_manifest(directory / k_manifest_name);
  if (!manifest) {
    throw SystemError(manifest.error().message);
  }
  std::vector<RankRecords> ranks;
  std::error_code ignored;
  for (const StreamEntry& entry : manifest->streams) {
    if (std::filesystem::exists(directory / entry.file, ignored)) {
      ranks.push_back({Records(directory / entry.file), true});
      if (ranks.back().records.has_lost_start()) {
        Trace rows;
        const Result<RankTables> tables = read_rank_tables(directory / entry.tables, rows);
        ranks.back().has_ended = tables && tables->closing;
      }
    }
  }
  return ranks;
}

/// Where the start is lost, repetitions are counted from the end, which must be the same call on all ranks.
bool have_common_place(const std::vector<RankRecords>& ranks) {
  const bool have_lost = std::any_of(ranks.begin(), ranks.end(),
                                     [](const RankRecords& rank) { return rank.records.has_lost_start(); });
  return !have_lost ||
         std::all_of(ranks.begin(), ranks.end(), [](const RankRecords& rank) { return rank.has_ended; });
}

bool are_marked(const std::vector<RankRecords>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const RankRecords& rank) {
    for (std::size_t row = 0; row < rank.records.size(); ++row) {
      const StreamRecord& record = rank.records[row];
      if (record.op_number != 0 && record.iteration != k_init_iteration) {
        return true;
      }
    }
    return false;
  });
}

std::optional<RepeatingPart> repeating_part_of(const Records& rank) {
  std::vector<std::uint32_t> ops;
  ops.reserve(rank.size());
  for (std::size_t row = 0; row < rank.size(); ++row) {
    ops.push_back(rank[row].op_number);
  }
  return repeating_part(ops);
}

void write_iterations(const Records& rank, const RepeatingPart& part) {
  const Iteration before = rank.has_lost_start() ? k_unknown_iteration : k_init_iteration;
  for (std::size_t at = 0; at < rank.size(); ++at) {
    const bool is_before = at < part.start;
    const bool is_after = at >= part.start + part.period * part.repeats;
    rank[at].iteration = is_before  ? before
                         : is_after ? k_unknown_iteration
                                    : static_cast<Iteration>((at - part.start) / part.period);
  }
}

std::string period_text(const std::vector<RepeatingPart>& parts) {
  const auto [least, most] = std::minmax_element(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.period < b.period; });
  const std::string calls =
      least->period == most->period
          ? with_commas(static_cast<std::int64_t>(least->period))
          : fmt::format("{} to {}", with_commas(static_cast<std::int64_t>(least->period)),
                        with_commas(static_cast<std::int64_t>(most->period)));
  return fmt::format("{} iterations found by repetition: the same {} of a rank again and again",
                     with_commas(static_cast<std::int64_t>(parts.front().repeats)),
                     most->period == 1 ? "call" : calls + " calls");
}

}  // namespace

std::optional<RepeatingPart> repeating_part(std::span<const std::uint32_t> calls) {
  const std::size_t least = (calls.size() + 1) / 2;
  for (std::size_t last = 0; last <= std::min(k_most_last_calls, calls.size() / 4); ++last) {
    if (const auto part = repeating_to_end(calls.first(calls.size() - last), least)) {
      return part;
    }
  }
  return std::nullopt;
}

std::vector<RepeatingPart> common_parts(const std::vector<std::optional<RepeatingPart>>& ranks) {
  std::vector<RepeatingPart> own;
  std::size_t fewest = SIZE_MAX;
  for (const std::optional<RepeatingPart>& rank : ranks) {
    if (!rank || rank->repeats == 0) {
      return {};
    }
    own.push_back(*rank);
    fewest = std::min(fewest, rank->repeats);
  }
  std::vector<RepeatingPart> parts;
  for (const RepeatingPart& rank : own) {
    if (rank.repeats % fewest >= rank.repeats / fewest) {
      return {};  // more repeats are left over than make one iteration
    }
    const std::size_t together = rank.repeats / fewest;
    const std::size_t period = rank.period * together;
    parts.push_back({rank.start + (rank.repeats - together * fewest) * rank.period, period, fewest});
  }
  return parts;
}

std::string settle_iterations(const std::filesystem::path& directory) {
  const std::vector<RankRecords> ranks = records_of_ranks(directory);
  if (are_marked(ranks)) {
    return "iterations marked by the program";
  }
  std::vector<std::optional<RepeatingPart>> found;
  for (const RankRecords& rank : ranks) {
    found.push_back(repeating_part_of(rank.records));
  }
  const bool have_place = have_common_place(ranks);
  const std::vector<RepeatingPart> parts = have_place ? common_parts(found) : std::vector<RepeatingPart>{};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!parts.empty()) {
      write_iterations(ranks[rank].records, parts[rank]);
      continue;
    }
    for (std::size_t row = 0; row < ranks[rank].records.size(); ++row) {
      ranks[rank].records[row].iteration = k_unknown_iteration;
    }
  }
  if (!have_place) {
    return "iterations unknown: the program marks none, and of a job that did not end a ring does not say "
           "which "
           "calls of its ranks belong together";
  }
  return parts.empty() ? "iterations unknown: the program marks none and its calls do not repeat"
                       : period_text(parts);
}

}  // namespace commlens
