#include "commlens/live/process_look.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens {

std::string_view name_of(ProcessState state) {
  switch (state) {
    case ProcessState::unknown:
      return "unknown";
    case ProcessState::running:
      return "running";
    case ProcessState::sleeping:
      return "sleeping";
    case ProcessState::disk:
      return "disk";
    case ProcessState::stopped:
      return "stopped";
    case ProcessState::gone:
      return "gone";
  }
  return "";
}

// The letter behind the name, which stands in parentheses and may hold anything (proc(5)).
ProcessState look_at_process(const RankState& rank) {
  if (!rank.process || rank.process->pid <= 0 || rank.process->host != own_host() || rank.boot.empty() ||
      rank.boot != boot_id()) {
    return ProcessState::unknown;
  }
  const std::optional<std::int64_t> started = start_ticks_of(rank.process->pid);
  const Result<std::string> stat = read_text_file(fmt::format("/proc/{}/stat", rank.process->pid), 4096);
  if (!started || *started != rank.process->start_ticks || !stat) {
    return ProcessState::gone;
  }
  const std::size_t end = stat->rfind(')');
  switch (end == std::string::npos || end + 2 >= stat->size() ? '?' : (*stat)[end + 2]) {
    case 'R':
      return ProcessState::running;
    case 'S':
    case 'I':
      return ProcessState::sleeping;
    case 'D':
      return ProcessState::disk;
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
      return ProcessState::gone;
    default:
      return ProcessState::unknown;
  }
}

}  // namespace commlens
