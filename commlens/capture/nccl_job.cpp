#include "commlens/capture/nccl_job.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/capture/environment.hpp"
#include "commlens/trace/comm_members.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens::capture {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_own_prefix = "nccl-";

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::optional<std::int64_t> number(const char* name) {
  const std::string text = variable(name);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9) {
    return std::nullopt;
  }
  return std::strtoll(text.c_str(), nullptr, 10);
}

/// A whole small file; empty when there is none.
std::string content_of(const fs::path& path) {
  const Result<std::string> text = read_text_file(path, 4096);
  return text ? *text : "";
}

/// Makes `path` with this content unless it is there already; false then. A reader never sees a part of it.
bool make_first(const fs::path& path, std::string_view content) {
  const fs::path unfinished = fmt::format("{}.{}", path.string(), getpid());
  write_file_atomically(unfinished, content);
  const bool is_first = ::link(unfinished.c_str(), path.c_str()) == 0;
  const int cause = errno;
  ::unlink(unfinished.c_str());
  if (!is_first && cause != EEXIST) {
    throw_cannot_write(path, cause);
  }
  return is_first;
}

/// A file, opened and locked together with others that do so; -1 when it cannot be opened, with ENOENT also
/// when it was taken away meanwhile. Where the file system has no locks nobody sees that it is in use.
int opened_together(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return -1;
  }
  [[maybe_unused]] const int locked = ::flock(file, LOCK_SH);
  struct stat own = {};
  struct stat there = {};
  if (::fstat(file, &own) != 0 || ::stat(path.c_str(), &there) != 0 || own.st_ino != there.st_ino ||
      own.st_dev != there.st_dev) {
    ::close(file);
    errno = ENOENT;
    return -1;
  }
  return file;
}

fs::path rank_file(const fs::path& directory, Rank rank) {
  return directory / fmt::format("{}rank-{}.bin", k_own_prefix, rank.value);
}

}  // namespace

LaunchedAs launched_as() {
  constexpr std::array<std::array<const char*, 2>, 4> launchers = {
      {{"RANK", "WORLD_SIZE"},  // torchrun and what imitates it
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       {"PMI_RANK", "PMI_SIZE"},
       {"SLURM_PROCID", "SLURM_NTASKS"}}};
  LaunchedAs launched;
  for (const auto& [rank, ranks] : launchers) {
    const std::optional<std::int64_t> own = number(rank);
    const std::optional<std::int64_t> all = number(ranks);
    if (own && all && *own < *all) {
      launched.rank = *own;
      launched.ranks = *all;
      break;
    }
  }
  for (const char* name : {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}) {
    launched.job += variable(name) + "\n";
  }
  return launched;
}

JobDirectory::JobDirectory(const fs::path& asked, const LaunchedAs& launched, Rank rank, std::int64_t ranks)
    : ranks_(ranks) {
  fs::path directory = asked;
  for (int next = 2; path_.empty();) {
    switch (enter(directory, launched, rank)) {
      case Entered::yes:
        path_ = directory;
        break;
      case Entered::other_job:
        directory = fmt::format("{}-{}", asked.string(), next++);
        break;
      case Entered::try_again:
        break;
    }
  }
}

JobDirectory::Entered JobDirectory::enter(const fs::path& directory, const LaunchedAs& launched, Rank rank) {
  const fs::path owner = directory / k_job_file_name;
  std::error_code error;
  if (!fs::exists(owner, error)) {
    return make(directory, launched, rank);
  }
  const int lock = opened_together(owner);
  if (lock < 0) {
    return errno == ENOENT ? Entered::try_again : Entered::other_job;
  }
  if (content_of(owner) == launched.job && make_first(rank_file(directory, rank), "")) {
    lock_ = lock;
    return Entered::yes;
  }
  ::close(lock);
  return Entered::other_job;
}

/// The directory comes into being with the job's file, which is locked by then, and this rank's claim.
JobDirectory::Entered JobDirectory::make(const fs::path& directory, const LaunchedAs& launched, Rank rank) {
  const bool is_made = place_trace_directory(directory, [&](const fs::path& unfinished) {
    write_file_atomically(unfinished / k_job_file_name, launched.job);
    write_file_atomically(rank_file(unfinished, rank), "");
    write_manifest(unfinished);
    lock_ = opened_together(unfinished / k_job_file_name);
  });
  if (is_made) {
    is_owner_ = true;
    return Entered::yes;
  }
  let_go();
  std::error_code error;
  if (fs::exists(directory / k_job_file_name, error)) {
    return Entered::try_again;  // another process of the job was faster
  }
  const Result<void> usable = is_trace(directory) ? Result<void>() : check_trace_target(directory);
  if (!usable) {
    throw SystemError(usable.error().message);
  }
  return is_trace(directory) ? Entered::other_job : Entered::try_again;
}

void JobDirectory::let_go() noexcept {
  if (lock_ >= 0) {
    ::close(lock_);
    lock_ = -1;
  }
}

bool JobDirectory::claim(Rank rank) const { return make_first(rank_file(path_, rank), ""); }

void JobDirectory::need_ranks(std::int64_t ranks) {
  if (ranks > ranks_) {
    ranks_ = ranks;
    if (is_owner_) {
      write_manifest(path_);
    }
  }
}

void JobDirectory::write_manifest(const fs::path& directory) const {
  std::string what = variable(k_command_variable);
  if (asked_light_profiler()) {
    what += fmt::format("{}profiler=light: no times of the device", what.empty() ? "" : "; ");
  }
  write_recording_manifest(directory, {.producer = "commlens " COMMLENS_VERSION,
                                       .description = what,
                                       .framework = "nccl",
                                       .ranks = ranks_,
                                       .ring_records = asked_ring()});
}

// An entry is the global rank plus 1, so that a hole in the file means nobody. Each member writes its own.
void publish_member(const fs::path& directory, std::uint64_t comm, int member, Rank global) {
  const int file = ::open(members_file(directory, comm).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    return;
  }
  const std::int64_t entry = global.value + 1;
  [[maybe_unused]] const ssize_t ignored = ::pwrite(file, &entry, sizeof entry, member * off_t{sizeof entry});
  ::close(file);
}

}  // namespace commlens::capture
