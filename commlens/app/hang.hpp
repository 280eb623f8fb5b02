#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/live/hang_verdict.hpp"
#include "commlens/live/process_look.hpp"

namespace commlens {

/// What to look at.
struct HangRequest {
  /// One recording (a native trace directory), or dumps of a flight recorder, one of each rank.
  std::vector<std::string> inputs;
  /// A job that runs is looked at twice, so far apart: what moves in between is not stuck. 0: once.
  std::chrono::milliseconds unchanged_for{1000};
  Events events;
};

/// How a job stands.
enum class JobRun : std::uint8_t {
  running,  // a process of it is there
  ended,    // all ranks closed their recordings
  stopped,  // some ranks did not: they were killed, or have failed
  unknown   // it cannot be known from here
};
std::string_view name_of(JobRun run);

struct HangResult {
  std::string name;  // of the input
  JobRun run = JobRun::unknown;
  JobProgress job;
  WaitGraph graph;
  HangFinding finding;
  std::vector<ProcessState> processes;  // of job.ranks
  std::set<std::size_t> silent;         // rows of job.ranks whose nodes say nothing
  /// Ranks wait, and not yet for so long: nothing is stuck.
  std::optional<std::chrono::nanoseconds> waits_below;
  bool has_moved = false;                     // between the two looks: nothing is stuck
  std::chrono::milliseconds unchanged_for{};  // of a job that runs; 0: looked at once
  std::chrono::nanoseconds pause_left{};      // of a pause that a rank has announced
  std::vector<std::string> notes;
  bool is_stuck() const { return finding.verdict != HangVerdict::none; }
};

/// Looks who waits for whom. Files are read only, and nothing of the job is touched. Fails on inputs that are
/// neither recordings nor dumps.
Result<HangResult> hang(const HangRequest& request);

/// Adds what is to be known besides the verdict.
void add_notes(HangResult& result);

/// A table of ranks below the verdict; JSON as schema commlens.hang/1; CSV with one line a rank.
std::string rendered(const HangResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
