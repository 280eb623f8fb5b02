#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/bench/measure.hpp"
#include "commlens/bench/row_stats.hpp"

namespace commlens {

constexpr const char* k_bench_schema = "commlens.bench/1";  // of files of results

/// What a row of a benchmark is of: rows of several launches, or of two results, belong together by it.
struct BenchKey {
  std::string op;
  std::string dtype;
  std::string group;            // "world", "pairs", an axis, "tp+dp"
  std::int64_t group_size = 0;  // 0: of several
  std::int64_t bytes = 0;       // the message, as nccl-tests counts it
  bool in_place = false;
  friend auto operator<=>(const BenchKey&, const BenchKey&) = default;
};

/// A row that is to be timed.
struct BenchPlanRow {
  BenchKey key;
  std::optional<std::int64_t> calls;  // --messages: in the iteration, of the rank with the most time
  std::optional<std::int64_t> calls_all_ranks;  // and of all ranks
  std::vector<std::int64_t> calls_of_class;     // of one rank of each class of ranks
  bool assumes_parts = false;                   // of unequal sizes, which the messages do not have
};

/// The rows and how they are measured.
struct BenchPlan {
  std::vector<BenchPlanRow> rows;
  bench::MeasurePlan measured;
  std::vector<std::string> classes;  // --messages: "ranks 0-3"
  std::string messages;              // whose they are: "19M, 4 ranks"; empty: sizes were given
};

/// A row of one launch.
struct BenchLaunchRow {
  BenchKey key;
  bench::RowStats stats;
  std::optional<double> back_to_back_s;
  std::optional<std::int64_t> wrong_elements;  // where results were verified
  std::string wrong;                           // the first of them
};

/// One start of a job.
struct BenchLaunch {
  std::uint64_t seed = 0;
  std::optional<std::int64_t> began_ns;  // since 1970; absent: not known
  double clock_error_s = 0;
  bool is_partial = false;
  std::vector<BenchLaunchRow> rows;  // that have samples
};

/// All launches, and what they have in common.
struct BenchRun {
  std::string transport;  // "threads", "mpi"
  std::int64_t ranks = 0;
  std::int64_t ranks_on_machine = 0;  // of the first rank's; 0: all
  bool has_even_machines = true;      // as many ranks on each; not where that is not known
  bool is_cold = false;
  std::string table;     // of algorithms: its file's name; empty: none
  std::string messages;  // as in BenchPlan
  std::vector<std::string> classes;
  std::vector<BenchPlanRow> planned;
  std::vector<BenchLaunch> launches;
  bool was_stopped = false;
};

/// One row of all launches that have it.
struct BenchRow {
  BenchKey key;
  std::optional<std::int64_t> calls;
  std::optional<std::int64_t> calls_all_ranks;
  std::int64_t launches = 0;
  bench::RowStats stats;  // of several launches: P50 the median of their P50, its interval their range
  std::optional<double> back_to_back_s;
  std::optional<std::int64_t> wrong_elements;
  std::string wrong;

  /// Bytes per second by nccl-tests' definition; absent where nothing is moved, and of several calls at once.
  std::optional<double> algorithm_bandwidth() const;
  std::optional<double> bus_bandwidth() const;
};

/// In the order of the plan, then of the launches. Rows without samples are left out.
std::vector<BenchRow> combined_rows(const BenchRun& run);

/// The time of the messages of an iteration, one after the other: calls x P50.
struct BenchStep {
  double total_s = 0;  // of the ranks with the most
  std::string ranks;   // "ranks 0-3"
};
std::optional<BenchStep> step_of(const BenchRun& run);

/// A measurement as the rows of a launch; `begun` has its seed and its begin.
BenchLaunch launch_of(const BenchPlan& plan, const bench::Measured& measured, const BenchLaunch& begun,
                      bool is_oversubscribed);

}  // namespace commlens
