#include "commlens/app/earlier_trace.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "commlens/app/recording_place.hpp"
#include "commlens/base/unfinished.hpp"
#include "commlens/capture/environment.hpp"
#include "commlens/trace/compute_file.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/stream_file.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A file that every recorder into a directory locks (shared); this object holds the exclusive lock.
class LockFile {
 public:
  explicit LockFile(const fs::path& path)
      : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)),
        is_used_(file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {}
  ~LockFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  bool is_used() const { return is_used_; }

 private:
  int file_;
  bool is_used_;
};

bool has_open_rank(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename().string().starts_with("rank-") && entry.path().extension() == ".bin" &&
        is_being_filled(entry.path())) {
      return true;
    }
  }
  return false;
}

/// Checks whether a process records into a directory. If none does, none can begin while this object lives.
class DirectoryUse {
 public:
  explicit DirectoryUse(const fs::path& directory)
      : nccl_job_(directory / capture::k_job_file_name),
        training_(directory / k_training_file_name),
        has_open_rank_(has_open_rank(directory)) {}
  bool is_used() const { return nccl_job_.is_used() || training_.is_used() || has_open_rank_; }

 private:
  LockFile nccl_job_;
  LockFile training_;
  bool has_open_rank_;
};

/// Whether a rank has recorded a call, or failed to, or (if `ends_count`) ended without a call. An
/// unreadable file counts as recorded.
bool has_recorded(const fs::path& directory, const StreamEntry& entry, bool ends_count) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(directory / entry.file, error);
  if (error || size == 0) {
    return false;  // the rank did not reach this point
  }
  const Result<StreamFile> stream = StreamFile::open(directory / entry.file, entry);
  if (!stream || entry.tables.empty() || stream->use().records > 0 || stream->use().dropped > 0) {
    return true;
  }
  Trace rows;
  Provenance ignored;
  const Result<RankTables> tables = read_rank_tables(directory / entry.tables, rows);
  const auto computing = read_compute(directory, entry, {}, ignored);
  return (ends_count && tables && tables->closing) || !computing || !computing->empty();
}

/// Whether a trace was begun and holds nothing.
bool is_empty_recording(const fs::path& directory, bool ends_count) {
  const Result<Manifest> manifest = read_manifest(directory / k_manifest_name);
  return manifest &&
         std::none_of(manifest->streams.begin(), manifest->streams.end(),
                      [&](const StreamEntry& entry) { return has_recorded(directory, entry, ends_count); });
}

bool is_nothing(const fs::path& directory) {
  std::error_code error;
  return !fs::exists(directory, error) ||
         (fs::is_directory(directory, error) && fs::is_empty(directory, error));
}

/// The prefix of names under which this machine's processes put `directory` aside; only these can be checked
/// for being alive.
std::string start_of_aside(const fs::path& directory) {
  std::array<char, 256> machine = {};
  ::gethostname(machine.data(), machine.size() - 1);
  return fmt::format(".{}.before-{}-", directory.filename().string(), machine.data());
}

/// The process that put `directory` aside under this name.
std::optional<pid_t> process_in(std::string_view name, const fs::path& directory) {
  const std::string start = start_of_aside(directory);
  pid_t process = 0;
  if (!name.starts_with(start)) {
    return std::nullopt;
  }
  name.remove_prefix(start.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc() && end == name.data() + name.size() && process > 0 ? std::optional(process)
                                                                                 : std::nullopt;
}

/// Removes the directory, also if a signal ends this process meanwhile.
void remove_directory(const fs::path& directory) { const Unfinished unwanted(directory); }

enum class Settled : std::uint8_t { removed, is_back, stays_aside };

/// Restores `aside` if the recording into `directory` holds nothing, else removes it.
Settled settled(const fs::path& aside, const fs::path& directory, bool ends_count) {
  {
    const DirectoryUse use(directory);  // no recording begins meanwhile
    if (!use.is_used() && is_empty_recording(directory, ends_count)) {
      remove_directory(directory);
    }
  }
  if (!is_nothing(directory)) {
    remove_directory(aside);
    return Settled::removed;
  }
  std::error_code error;
  fs::rename(aside, directory, error);
  return error ? Settled::stays_aside : Settled::is_back;
}

/// Traces that killed processes have put aside.
void settle_left_over(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory.parent_path(), error)) {
    const std::optional<pid_t> process = process_in(entry.path().filename().string(), directory);
    if (process && ::kill(*process, 0) != 0 && errno == ESRCH && is_trace(entry.path())) {
      left.push_back(entry.path());
    }
  }
  for (const fs::path& aside : left) {
    settled(aside, directory, true);
  }
}

fs::path without_links(const fs::path& directory) {
  const fs::path path = write_place(fs::absolute(directory).lexically_normal()).path;
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

bool is_being_recorded(const fs::path& directory) { return DirectoryUse(directory).is_used(); }

Result<EarlierTrace> EarlierTrace::put_aside(const fs::path& directory) {
  EarlierTrace earlier(without_links(directory));
  const fs::path& path = earlier.directory_;
  const DirectoryUse use(path);
  earlier.is_used_ = use.is_used();
  if (earlier.is_used_) {
    return earlier;
  }
  if (const Result<void> usable = check_trace_target(path); !usable) {
    return tl::unexpected(usable.error());
  }
  settle_left_over(path);
  if (is_nothing(path)) {
    return earlier;
  }
  // A process that waits for the lock finds the file removed and creates its own directory.
  const fs::path aside = path.parent_path() / fmt::format("{}{}", start_of_aside(path), getpid());
  std::error_code error;
  fs::rename(path, aside, error);
  if (error == std::errc::no_such_file_or_directory) {
    return earlier;  // another process of the job was faster
  }
  if (error) {
    throw SystemError(fmt::format("cannot put {} aside: {}", path.string(), error.message()));
  }
  earlier.aside_ = aside;
  return earlier;
}

EarlierTrace::EarlierTrace(EarlierTrace&& other) noexcept
    : directory_(std::move(other.directory_)),
      aside_(std::exchange(other.aside_, {})),
      is_used_(other.is_used_) {}

EarlierTrace::~EarlierTrace() {
  if (!aside_.empty()) {
    settled(aside_, directory_, false);  // if it stays aside, the next process finds it
  }
}

bool EarlierTrace::settle() {
  const fs::path aside = std::exchange(aside_, {});
  const Settled outcome = aside.empty() ? Settled::removed : settled(aside, directory_, true);
  if (outcome == Settled::stays_aside) {
    throw SystemError(fmt::format("cannot bring the earlier trace back to {}; it is in {}",
                                  directory_.string(), aside.string()));
  }
  return outcome == Settled::is_back;
}

}  // namespace commlens
