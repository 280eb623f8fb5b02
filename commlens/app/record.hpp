#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/record_result.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// A program to run and record, unmodified.
struct RecordRequest {
  std::vector<std::string> command;          // as in a shell, at least one word
  std::string directory = "commlens-trace";  // replaces a trace that is there once something was recorded
  std::string mpi;                           // the program's MPI: openmpi or mpich; empty: detected
  std::string nccl;  // in place of MPI: profiler, profiler=light, shim (docs/recording-nccl.md); empty: MPI
  Events events;
  std::int64_t ring_records = 0;  // of a rank the last so many calls are kept; 0: all
  bool call_sites = false;        // record where calls are made (summary --call-sites)
};

struct RecordResult {
  int exit_code = 0;              // of the command; 128 + the signal that ended it
  std::vector<RecordedJob> jobs;  // that the command ran one after another; empty: nothing was recorded
};

/// Runs the command with this process's standard streams and records the calls of every process that it
/// starts. Signals to this process go on to the command. In a job whose launcher starts this function in
/// every process, the first one concludes the recording and the others return their exit codes. Fails if the
/// command does not exist, its MPI cannot be recorded here, or the directory holds anything but a trace.
/// Throws SystemError.
Result<RecordResult> record(const RecordRequest& request);

}  // namespace commlens
