#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// A benchmark while it runs: the launches so far, and the file that has them.
class BenchProgress {
 public:
  /// `run`: what earlier jobs measured, and what is planned. `total_rows`: of one launch.
  BenchProgress(const BenchRequest& request, BenchRun run, std::int64_t total_rows);
  ~BenchProgress();
  BenchProgress(const BenchProgress&) = delete;
  BenchProgress& operator=(const BenchProgress&) = delete;

  void begin_launch(std::uint64_t seed, std::int64_t unix_ns);
  /// Work before the current launch's first round.
  void set_up(const bench::SetUp& set_up);
  /// What the current launch has; written to the file now and then.
  void update(BenchLaunch launch, std::int64_t timed_rows);
  /// The launch is complete, or was stopped; written.
  void end_launch(BenchLaunch launch, bool was_stopped);

  const BenchRun& run() const { return run_; }
  /// Of the current launch: its seed and its begin.
  const BenchLaunch& begun() const { return begun_; }
  /// Why the file is not written as it is now; empty: it is.
  const std::string& unwritten() const { return unwritten_; }

 private:
  void begin_task(std::string name, std::int64_t total);
  void write(bool is_due);
  void take_launches_of_others();

  const BenchRequest& request_;
  BenchRun run_;  // launches: of others first, own_ of this job at the end
  std::int64_t own_ = 0;
  BenchLaunch begun_;
  std::string unwritten_;
  std::int64_t total_rows_;
  std::int64_t reported_ = 0;
  std::string task_name_;
  std::unique_ptr<Task> task_;
  std::int64_t written_at_ns_ = 0;
};

/// What is to be measured, and what earlier jobs measured.
struct BenchJob {
  BenchPlan plan;
  BenchRun run;                    // the launches that --append adds to
  std::optional<BenchRun> before;  // what --check compares with
};

/// Runs the launches of a job on threads.
Result<BenchResult> bench_on_threads(const BenchRequest& request, const BenchJob& job);
/// The one launch of an MPI job, on this process; `job`: what it has prepared, or why it could not.
Result<BenchResult> bench_over_mpi(const BenchRequest& request, const Result<BenchJob>& job);

/// "sched_autogroup_enabled is 1 and …" where other sessions share the cores with this one; else empty.
std::string shared_cores_warning();

}  // namespace commlens
