#include "commlens/live/rank_processes.hpp"

namespace commlens {

std::vector<ProcessState> look_at_processes(const JobProgress& job) {
  std::vector<ProcessState> processes;
  for (const RankProgress& rank : job.ranks) {
    processes.push_back(look_at_process(rank.state));
  }
  return processes;
}

bool has_live_rank(const JobProgress& job, const std::vector<ProcessState>& processes) {
  for (std::size_t row = 0; row < processes.size(); ++row) {
    const ProcessState state = processes[row];
    if (!job.ranks[row].state.has_ended && state != ProcessState::gone && state != ProcessState::unknown) {
      return true;
    }
  }
  return false;
}

bool is_suspended(const JobProgress& job, const std::vector<ProcessState>& processes) {
  bool has_stopped = false;
  for (std::size_t row = 0; row < processes.size(); ++row) {
    const bool is_there = !job.ranks[row].state.has_ended && processes[row] != ProcessState::gone;
    if (is_there && processes[row] != ProcessState::stopped) {
      return false;
    }
    has_stopped = has_stopped || is_there;
  }
  return has_stopped;
}

void mark_halted(JobProgress& job, const std::vector<ProcessState>& processes) {
  const bool is_running = has_live_rank(job, processes);
  const bool is_whole = is_suspended(job, processes);
  for (std::size_t row = 0; row < processes.size(); ++row) {
    const ProcessState state = processes[row];
    RankProgress& rank = job.ranks[row];
    rank.is_halted = !rank.state.has_ended && ((is_running && state == ProcessState::gone) ||
                                               (is_running && !is_whole && state == ProcessState::stopped));
  }
}

}  // namespace commlens
