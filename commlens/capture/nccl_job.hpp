#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/rank.hpp"

// How the processes of an NCCL job find each other: NCCL reports to a process its rank in a communicator and
// no more, and a library that watches must not send messages of its own. So they meet in the directory of the
// recording, through small files ("nccl-*.bin") that nobody waits for.
namespace commlens::capture {

/// What the launcher of this process says of it, in its environment (torchrun, Open MPI, MPICH, Slurm).
struct LaunchedAs {
  std::int64_t rank = 0;
  std::int64_t ranks = 0;  // 0: no launcher
  std::string job;         // distinguishes one job from the next in the same directory
};
LaunchedAs launched_as();

/// The directory of this job's recording.
class JobDirectory {
 public:
  /// `asked` or, when another job is recorded there, the next by number ("asked-2"); `rank` is this
  /// process's now. `ranks` as far as they are known. Throws SystemError, also when there is something else.
  /// As long as this process lives, `record` leaves the directory alone (k_job_file_name, environment.hpp).
  JobDirectory(const std::filesystem::path& asked, const LaunchedAs& launched, Rank rank, std::int64_t ranks);

  const std::filesystem::path& path() const { return path_; }
  /// False when another process has this rank already.
  bool claim(Rank rank) const;
  /// The manifest must name ranks up to `ranks`; the process that made the directory sees to it.
  void need_ranks(std::int64_t ranks);
  /// In a child of fork: the directory is the parent's alone.
  void let_go() noexcept;

 private:
  enum class Entered : std::uint8_t { yes, other_job, try_again };
  Entered enter(const std::filesystem::path& directory, const LaunchedAs& launched, Rank rank);
  Entered make(const std::filesystem::path& directory, const LaunchedAs& launched, Rank rank);
  void write_manifest(const std::filesystem::path& directory) const;

  int lock_ = -1;  // of the job's file, shared by its processes
  std::filesystem::path path_;
  std::int64_t ranks_ = 0;
  bool is_owner_ = false;
};

/// Rank `member` of communicator `comm` is `global` of the job. Quietly nothing when it cannot be written.
void publish_member(const std::filesystem::path& directory, std::uint64_t comm, int member, Rank global);

}  // namespace commlens::capture
