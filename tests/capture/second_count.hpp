#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "commlens/trace/trace.hpp"
#include "record_job.hpp"

namespace commlens::test {

/// How often each MPI function was called, and what it moved.
struct Count {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // of sends and receives
};
using Counts = std::map<std::string, Count>;

/// Of one rank of a recording; what was skipped is not in it. MPI_Sendrecv is one call and two messages.
Counts counts_of_recording(const Trace& trace, Rank rank);

/// What `ltrace -c -o FILE` counted.
Counts counts_of_ltrace(const std::filesystem::path& file);

/// What eztrace saw on all ranks, read with otf2-print.
Counts counts_of_eztrace(const JobFolder& folder, const std::string& archive);

/// Whether the machine has a program.
bool has_program(const std::string& program);

}  // namespace commlens::test
