#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/format.hpp"
#include "commlens/app/iteration_rows.hpp"
#include "commlens/app/recording_check.hpp"
#include "commlens/engine/train.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Description of a training for the head of its report.
struct TrainRun {
  Plan plan;
  engine::TrainOptions options;
  std::string transport;  // "threads"
  std::string data;       // "bible.txt, 4,432,803 bytes"
  /// The directory of the recording.
  const std::filesystem::path& trace() const;
};

/// How a training ended, for the end of its report.
struct TrainEnd {
  const Trace& trace;
  bool stopped = false;
  std::int64_t dropped = 0;             // calls of all ranks that are not in the trace
  std::optional<RecordingCheck> check;  // as TrainResult has it
  std::vector<Bytes> peak_memory;       // of each rank's tensors; empty where it is not known
};

/// The texts of a running training: a table or CSV line by line, JSON at its end.
class TrainReport {
 public:
  TrainReport(TrainRun run, Format format, const TextStyle& style);

  /// The text before the first iteration.
  std::string begin() const;
  /// The line of an iteration.
  std::string add(const engine::IterationReport& report);
  /// The text after the last one.
  std::string end(const TrainEnd& end) const;

  /// The iteration the run started with, and how many it did.
  std::int64_t first() const { return rows_.empty() ? 0 : rows_.front().iteration; }
  std::int64_t done() const { return static_cast<std::int64_t>(rows_.size()); }
  const TrainRun& run() const { return run_; }

 private:
  std::string end_text(const TrainEnd& end) const;
  std::string memory_text(const std::vector<Bytes>& peaks) const;
  std::string end_json(const TrainEnd& end) const;

  TrainRun run_;
  Format format_;
  TextStyle style_;
  IterationTable table_;
  std::vector<engine::IterationReport> rows_;
};

}  // namespace commlens
