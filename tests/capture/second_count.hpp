#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "commlens/trace/trace.hpp"
#include "record_job.hpp"

namespace commlens::test {

/// The calls of each MPI function, and the bytes that they moved.
struct Count {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // of sends and receives
};
using Counts = std::map<std::string, Count>;

/// The count of one rank of a recording, without skipped calls. MPI_Sendrecv is one call and two messages.
Counts counts_of_recording(const Trace& trace, Rank rank);

/// What `ltrace -c -o FILE` counted.
Counts counts_of_ltrace(const std::filesystem::path& file);

/// The calls recorded by eztrace on all ranks, read with otf2-print.
Counts counts_of_eztrace(const JobDirectory& directory, const std::string& archive);

/// Whether the machine has a program.
bool has_program(const std::string& program);

}  // namespace commlens::test
