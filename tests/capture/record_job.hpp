#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "commlens/base/test_support.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::test {

/// The result of one run of `commlens record`.
struct RecordedJob {
  int exit_code = -1;
  std::string out;  // standard output and standard error of the command
  std::string err;
};

/// How a job is started.
struct JobOptions {
  std::string mpi = "openmpi";
  int ranks = 2;
  std::string before;               // shell commands before it ("prlimit --fsize=1000 ")
  std::string flags;                // of record ("--mpi mpich")
  std::string inside;               // words before the program, after the launcher
  bool is_inside_launcher = false;  // mpirun commlens record, not commlens record mpirun
};

/// A directory of its own, removed at the end.
class JobDirectory {
 public:
  const std::filesystem::path& path() const { return scratch_.path(); }
  std::filesystem::path trace() const { return path() / "trace"; }

  /// Runs `program` (a shell command) recorded into trace().
  RecordedJob record(const std::string& program, const JobOptions& options) const;
  /// Runs a whole shell command in the directory.
  RecordedJob run(const std::string& command) const;

 private:
  test_support::ScratchDirectory scratch_;
};

std::string content_of(const std::filesystem::path& file);

/// Whether the tests of that MPI can run here.
bool has_mpi(const std::string& mpi);

/// The words that start `options.ranks` ranks of a program, and those before a command that is recorded into
/// the directory "trace", for jobs that JobDirectory::run starts.
std::string launcher(const JobOptions& options);
std::string recording(const JobOptions& options);

/// A Python that has mpi4py; empty when there is none. The first one in PATH may not be the system's.
std::string python_with_mpi4py();

/// Calls of a job, each as the line that expected.h writes, and how often it occurs.
using Calls = std::map<std::string, std::int64_t>;
Calls calls_of(const Trace& trace);
/// The lines that the program has written into the directory.
Calls expected_in(const std::filesystem::path& directory);
/// Lines that occur more often on one side, for people; empty when both are the same.
std::string differences(const Calls& expected, const Calls& recorded);

}  // namespace commlens::test
