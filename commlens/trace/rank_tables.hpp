#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_process.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// In version 1 rows have no numbers: they are counted.
constexpr std::string_view k_rank_schema = "commlens.rank/2";
constexpr std::string_view k_old_rank_schema = "commlens.rank/1";

/// A recorder's tables take no more rows of calls, so that a job with ever-new sizes of messages costs
/// bounded memory (about 250 MiB a rank) and its tables stay readable; calls that would need one more are
/// counted.
constexpr std::size_t k_most_op_rows = std::size_t{1} << 20;
/// The same for ever-new groups: half of what a reader takes.
constexpr std::int64_t k_most_table_bytes = std::int64_t{1} << 29;

/// The clock of one rank, as the first line of its tables says.
struct RankClock {
  std::string source;                      // "tsc" or "monotonic"
  std::string boot;                        // the same on ranks whose times have the same zero
  std::int64_t frequency_hz = 0;           // ticks per second
  std::int64_t rate_error_ppb = 0;         // how far that may be off, in parts per billion
  std::chrono::nanoseconds wall_offset{};  // wall clock (since 1970) minus the times of the records
};

/// The last line of a rank's tables.
struct RankClosing {
  std::int64_t events = 0;
  std::int64_t dropped = 0;
  std::chrono::nanoseconds cost_per_call{};     // begin and finish together, median
  std::chrono::nanoseconds clock_drift{};       // how far the clock was off at the end
  std::map<std::string, std::int64_t> skipped;  // calls that could not be described, by reason
};

/// A rank said at `at`, on its clock, that it may make no calls for so long.
struct RankPause {
  std::chrono::nanoseconds at{};
  std::chrono::nanoseconds length{};
  friend bool operator==(const RankPause&, const RankPause&) = default;
};
constexpr std::chrono::hours k_longest_pause{24};

/// What rank-R.jsonl holds.
struct RankTables {
  std::optional<Rank> rank;  // with the clock; absent when the first line was lost
  RankClock clock;
  std::optional<RankProcess> process;  // absent in older recordings
  bool has_begun_to_end = false;       // it said that it makes no more calls
  std::optional<RankPause> pause;      // the latest one
  std::int64_t lost_lines = 0;         // at least, with a part of the file
  std::vector<OpId> ops;               // row in the file -> op of the trace; k_lost_op where it was lost
  std::vector<std::uint32_t> lanes;    // of each of them (OpLanes), where no row was lost
  std::vector<ClockPoint> aligned;     // ascending in time; empty: the wall clocks must do
  std::optional<RankClosing> closing;  // absent when the rank was killed
};

/// What two clock points (or one, or none) say of a rank's clock.
std::optional<ClockAlignment> alignment_of(const std::vector<ClockPoint>& points);

/// Reads a rank's tables and merges them into those of the trace. A last line without its end, as a killed
/// process leaves it, is not read. Lines with zeros in them were lost with a part of the file; no row gets
/// the place of another for it.
Result<RankTables> read_rank_tables(const std::filesystem::path& file, Trace& tables);

/// Fails where tables are of another rank than the manifest says.
Result<void> check_rank(const std::filesystem::path& directory, const StreamEntry& entry,
                        const RankTables& tables);

/// Wall-clock offset of the first rank of each machine, by RankClock::boot; the first of all in `base`.
struct RankClocks {
  std::map<std::string, std::chrono::nanoseconds> wall_offsets;
  std::optional<std::chrono::nanoseconds> base;
};

/// Opens one rank of a recording; its tables and provenance go into `tables`. Times of a rank that
/// compared its clock with rank 0's are moved to that, others of other machines by the difference of the wall
/// clocks. Nothing, counted in `skipped`, for a rank
/// that never opened its files.
Result<std::optional<OpenStream>> open_recorded_stream(const std::filesystem::path& directory,
                                                       const StreamEntry& entry, Trace& tables,
                                                       RankClocks& clocks);

}  // namespace commlens
