#include "commlens/app/hang.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "commlens/formats/call_states.hpp"
#include "commlens/live/follow_options.hpp"
#include "commlens/live/rank_processes.hpp"
#include "commlens/trace/job_states.hpp"

namespace commlens {
namespace {

/// One look at a job.
struct HangLook {
  JobProgress job;
  std::vector<ProcessState> processes;
  bool is_concluded = false;
  bool is_recording = false;  // as opposed to dumps
};

/// Of files that say how far each call has come, one of each rank.
Result<JobProgress> progress_in_files(const std::vector<std::string>& files) {
  std::vector<StatedTrace> dumps;
  for (const std::string& file : files) {
    Result<StatedTrace> dump = formats::read_call_states(file);
    if (!dump) {
      return tl::unexpected(dump.error());
    }
    dumps.push_back(std::move(*dump));
  }
  std::sort(dumps.begin(), dumps.end(),
            [](const StatedTrace& a, const StatedTrace& b) { return a.rank < b.rank; });
  const auto same = std::adjacent_find(dumps.begin(), dumps.end(),
                                       [](const auto& a, const auto& b) { return a.rank == b.rank; });
  if (same != dumps.end()) {
    return failure(fmt::format("two files are of rank {}: give one of each rank, whose number ends its name",
                               same->rank.value));
  }
  ProgressBuilder builder;
  for (const StatedTrace& dump : dumps) {
    builder.begin_rank({.rank = dump.rank, .process = {}, .boot = {}}, dump.trace);
    for (const StatedCall& call : dump.calls) {
      builder.add(call);
    }
    builder.end_rank();
  }
  return builder.finish();
}

Result<HangLook> look_at(const HangRequest& request) {
  HangLook look;
  std::error_code error;
  if (request.inputs.size() == 1 && std::filesystem::is_directory(request.inputs.front(), error)) {
    const Result<JobStates> states = JobStates::open(request.inputs.front());
    if (!states) {
      return tl::unexpected(states.error());
    }
    look.job = progress_of(*states);
    look.is_concluded = states->is_concluded();
    look.is_recording = true;
  } else {
    Result<JobProgress> progress = progress_in_files(request.inputs);
    if (!progress) {
      return tl::unexpected(progress.error());
    }
    look.job = std::move(*progress);
  }
  look.processes = look_at_processes(look.job);
  mark_halted(look.job, look.processes);
  return look;
}

JobRun run_of(const HangLook& look) {
  if (has_live_rank(look.job, look.processes)) {
    return JobRun::running;
  }
  const bool have_ended = std::all_of(look.job.ranks.begin(), look.job.ranks.end(),
                                      [](const RankProgress& rank) { return rank.state.has_ended; });
  if (have_ended) {
    return JobRun::ended;
  }
  const bool are_gone = std::all_of(look.processes.begin(), look.processes.end(),
                                    [](ProcessState state) { return state == ProcessState::gone; });
  return look.is_recording && (are_gone || look.is_concluded) ? JobRun::stopped : JobRun::unknown;
}

/// Whether a rank that waits, or that is waited for, has entered or left a call since.
bool has_moved_since(const HangResult& before, const HangLook& look) {
  const auto is_concerned = [&](std::size_t row) {
    const WaitGraph::Node& node = before.graph.ranks[row];
    return node.waits() || !node.inside.empty() || before.graph.is_waited_for(row);
  };
  if (look.job.ranks.size() != before.job.ranks.size()) {
    return true;
  }
  for (std::size_t row = 0; row < look.job.ranks.size(); ++row) {
    const RankProgress& then = before.job.ranks[row];
    const RankProgress& now = look.job.ranks[row];
    if (is_concerned(row) && (now.calls != then.calls || now.open.size() != then.open.size())) {
      return true;
    }
  }
  return false;
}

/// Of pauses that ranks have announced, by the clocks of their machines.
std::chrono::nanoseconds pause_left(const JobProgress& job) {
  const std::int64_t now_ns = PollTime::now().unix_ns;
  std::int64_t left = 0;
  for (const RankProgress& rank : job.ranks) {
    left = std::max(left, rank.state.pause_until_unix_ns.value_or(now_ns) - now_ns);
  }
  return std::chrono::nanoseconds(left);
}

void fill(HangLook&& look, HangResult& result) {
  result.run = run_of(look);
  result.pause_left = result.run == JobRun::running ? pause_left(look.job) : std::chrono::nanoseconds{};
  result.job = std::move(look.job);
  result.processes = std::move(look.processes);
  result.graph = wait_graph(result.job);
  result.finding = find_hang(result.job, result.graph);
}

std::string ranks_are(std::int64_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

}  // namespace

void add_notes(HangResult& result) {
  const auto count = [&](const auto& is_counted) {
    return std::count_if(result.job.ranks.begin(), result.job.ranks.end(), is_counted);
  };
  const std::int64_t silent = std::ssize(result.silent);
  const std::int64_t without =
      count([](const RankProgress& rank) { return !rank.state.is_recorded; }) - silent;
  if (silent > 0) {
    result.notes.push_back(fmt::format("nodes are silent: what {} there {} for is not known",
                                       ranks_are(silent), silent == 1 ? "waits" : "wait"));
  }
  const auto incomplete =
      count([](const RankProgress& rank) { return rank.state.is_recorded && rank.state.lost != 0; });
  if (without > 0) {
    result.notes.push_back(fmt::format("nothing is recorded of {}: what {} for is not known",
                                       ranks_are(without), without == 1 ? "it waits" : "they wait"));
  }
  if (incomplete > 0) {
    result.notes.push_back(fmt::format(
        "calls of {} are missing from the recording, so the numbers of the rest are not comparable",
        ranks_are(incomplete)));
  }
  if (result.pause_left.count() > 0) {
    result.notes.push_back(
        fmt::format("a pause was announced, {} of it left: it may be no hang", to_text(result.pause_left)));
  }
  if (is_suspended(result.job, result.processes)) {
    result.notes.push_back("all processes of the job that are there are stopped (SIGSTOP, Ctrl-Z)");
  }
  if (result.finding.may_compute) {
    result.notes.push_back(
        "a rank of the circle has requests under way alone: whether it waits for them or computes is not "
        "recorded");
  }
  if (result.finding.is_any_of) {
    result.notes.push_back("only receives from any source wait: a send of one of these ranks is enough");
  }
  const std::optional<std::size_t> point = result.finding.point;
  if (result.finding.verdict == HangVerdict::all_inside && point &&
      is_point_to_point(result.graph.points[*point].call.op.kind)) {
    result.notes.push_back("tags are not compared: a receive of another tag looks the same");
  }
  if (result.run == JobRun::running && result.finding.verdict == HangVerdict::missing) {
    result.notes.push_back(
        "a rank that computes or saves for longer than that looks the same: ask for more with "
        "--unchanged-for SECONDS");
  }
  if (result.run == JobRun::stopped && result.is_stuck()) {
    result.notes.push_back(
        "the job was killed or has failed: a healthy one that is killed while some ranks compute looks the "
        "same");
  }
}

std::string_view name_of(JobRun run) {
  switch (run) {
    case JobRun::running:
      return "running";
    case JobRun::ended:
      return "ended";
    case JobRun::stopped:
      return "stopped";
    case JobRun::unknown:
      return "unknown";
  }
  return "";
}

Result<HangResult> hang(const HangRequest& request) {
  if (request.inputs.empty()) {
    return failure(
        "no trace is given: name the directory of a recording, a flight recorder's dumps, or where the "
        "states of a job's nodes are");
  }
  HangResult result;
  result.name =
      request.inputs.size() == 1 ? request.inputs.front() : fmt::format("{} dumps", request.inputs.size());
  Result<HangLook> look = look_at(request);
  if (!look) {
    return tl::unexpected(look.error());
  }
  fill(std::move(*look), result);
  if (result.run == JobRun::running && result.is_stuck() && request.unchanged_for.count() > 0) {
    std::this_thread::sleep_for(request.unchanged_for);
    Result<HangLook> later = look_at(request);
    if (!later) {
      return tl::unexpected(later.error());
    }
    result.has_moved = has_moved_since(result, *later);
    fill(std::move(*later), result);
    if (result.has_moved) {
      result.finding = {};
    } else {
      result.unchanged_for = request.unchanged_for;
    }
  }
  add_notes(result);
  return result;
}

}  // namespace commlens
