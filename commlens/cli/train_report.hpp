#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commlens/cli/console.hpp"
#include "commlens/cli/iteration_rows.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/cli/recording_check.hpp"
#include "commlens/engine/train.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// What a training is, for the head of its report.
struct TrainRun {
  Plan plan;
  engine::TrainOptions options;
  std::string transport;  // "threads"
  std::string data;       // "bible.txt, 4,432,803 bytes"
  /// Where it is recorded.
  const std::filesystem::path& trace() const;
};

/// How a training ended, for the end of its report.
struct TrainEnd {
  const Trace& trace;
  bool stopped = false;
  std::int64_t dropped = 0;             // calls of all ranks that are not in the trace
  std::optional<RecordingCheck> check;  // absent when calls were dropped
  std::vector<Bytes> peak_memory;       // of each rank's tensors; empty where it is not known
};

/// Prints a training to the console, as a table or CSV line by line, as JSON at its end.
class TrainReport {
 public:
  TrainReport(Console& console, Format format, const TrainRun& run);
  ~TrainReport();

  void begin();
  /// Called after each iteration, by one thread.
  void add(const engine::IterationReport& report);
  /// No more iterations come: the progress line goes.
  void finish_iterations();
  void end(const TrainEnd& end);

  /// The iteration the run started with, and how many it did.
  std::int64_t first() const { return rows_.empty() ? 0 : rows_.front().iteration; }
  std::int64_t done() const { return static_cast<std::int64_t>(rows_.size()); }

 private:
  void write(const std::string& text);
  std::string end_text(const TrainEnd& end) const;
  std::string memory_text(const std::vector<Bytes>& peaks) const;
  std::string end_json(const TrainEnd& end) const;

  Console& console_;
  Format format_;
  const TrainRun& run_;
  IterationTable table_;
  std::vector<engine::IterationReport> rows_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace commlens
