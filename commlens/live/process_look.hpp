#pragma once
#include <cstdint>
#include <string_view>

#include "commlens/trace/job_states.hpp"

namespace commlens {

/// What the process of a rank does, as the kernel of its machine says. Nothing is asked of the process.
enum class ProcessState : std::uint8_t {
  unknown,   // on another machine, or not recorded
  running,   // it computes, or waits for a message without rest
  sleeping,  // it waits for something, or rests
  disk,      // it waits for a disk or a file system, and cannot be interrupted
  stopped,   // by a signal or a debugger
  gone
};
std::string_view name_of(ProcessState state);

ProcessState look_at_process(const RankState& rank);

}  // namespace commlens
