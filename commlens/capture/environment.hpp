#pragma once
#include <cstdint>

/// How `commlens record` and the capture libraries speak to each other: variables that launchers pass on, and
/// files in the directory of the recording.
namespace commlens::capture {

constexpr const char* k_directory_variable = "COMMLENS_TRACE";   // where the recording goes; unset: none
constexpr const char* k_command_variable = "COMMLENS_COMMAND";   // what was run, for people
constexpr const char* k_sites_variable = "COMMLENS_CALL_SITES";  // not empty: record where calls are made
constexpr const char* k_ring_variable = "COMMLENS_RING";  // records of a rank that are kept; unset: all
constexpr const char* k_profiler_variable = "COMMLENS_NCCL_PROFILER";  // of NCCL's plug-in; below
/// Whether k_profiler_variable is "light": NCCL is asked for no events of kernels, which cost most.
bool asked_light_profiler() noexcept;
/// What k_ring_variable says, 0 where it says nothing that can be.
std::int64_t asked_ring() noexcept;

/// Of a recording of NCCL: says which job it is of. Its processes hold a shared lock (flock) on it as long as
/// they live, so that nobody removes the directory when one of them comes late.
constexpr const char* k_job_file_name = "nccl-job.bin";

}  // namespace commlens::capture
