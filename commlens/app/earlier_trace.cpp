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
#include "commlens/trace/trace_file.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A file that those who record into a folder hold locked; locked for us alone as long as this lives.
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

bool has_open_rank(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("rank-") && entry.path().extension() == ".bin" &&
        is_being_filled(entry.path())) {
      return true;
    }
  }
  return false;
}

/// Whether some process records into a folder. Where none does, none can begin as long as this lives.
class FolderUse {
 public:
  explicit FolderUse(const fs::path& folder)
      : nccl_job_(folder / capture::k_job_file_name),
        training_(folder / k_training_file_name),
        has_open_rank_(has_open_rank(folder)) {}
  bool is_used() const { return nccl_job_.is_used() || training_.is_used() || has_open_rank_; }

 private:
  LockFile nccl_job_;
  LockFile training_;
  bool has_open_rank_;
};

/// Whether a rank has recorded something or could not, or has come to its end without anything where that
/// counts. A file that is not understood may hold anything.
bool has_recorded(const fs::path& folder, const StreamEntry& entry, bool ends_count) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder / entry.file, error);
  if (error || size == 0) {
    return false;  // the rank never came so far
  }
  const Result<StreamFile> stream = StreamFile::open(folder / entry.file, entry);
  if (!stream || entry.tables.empty() || stream->use().records > 0 || stream->use().dropped > 0) {
    return true;
  }
  Trace rows;
  Provenance ignored;
  const Result<RankTables> tables = read_rank_tables(folder / entry.tables, rows);
  const auto computing = read_compute(folder, entry, {}, ignored);
  return (ends_count && tables && tables->closing) || !computing || !computing->empty();
}

/// Whether a trace was begun and nothing came of it.
bool is_vain(const fs::path& folder, bool ends_count) {
  const Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  return manifest &&
         std::none_of(manifest->streams.begin(), manifest->streams.end(),
                      [&](const StreamEntry& entry) { return has_recorded(folder, entry, ends_count); });
}

bool is_nothing(const fs::path& folder) {
  std::error_code error;
  return !fs::exists(folder, error) || (fs::is_directory(folder, error) && fs::is_empty(folder, error));
}

/// Names of `folder` put aside start so: those of this machine, whose processes can be asked for.
std::string start_of_aside(const fs::path& folder) {
  std::array<char, 256> machine = {};
  ::gethostname(machine.data(), machine.size() - 1);
  return fmt::format(".{}.before-{}-", folder.filename().string(), machine.data());
}

/// The process that has put `folder` aside under this name.
std::optional<pid_t> process_in(std::string_view name, const fs::path& folder) {
  const std::string start = start_of_aside(folder);
  pid_t process = 0;
  if (!name.starts_with(start)) {
    return std::nullopt;
  }
  name.remove_prefix(start.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc() && end == name.data() + name.size() && process > 0 ? std::optional(process)
                                                                                 : std::nullopt;
}

/// Removes it, also when a signal ends us meanwhile.
void remove_folder(const fs::path& folder) { const Unfinished unwanted(folder); }

enum class Settled : std::uint8_t { removed, is_back, stays_aside };

/// Brings `aside` back where nothing came of the recording into `folder`, else removes it.
Settled settled(const fs::path& aside, const fs::path& folder, bool ends_count) {
  {
    const FolderUse use(folder);  // nobody begins meanwhile
    if (!use.is_used() && is_vain(folder, ends_count)) {
      remove_folder(folder);
    }
  }
  if (!is_nothing(folder)) {
    remove_folder(aside);
    return Settled::removed;
  }
  std::error_code error;
  fs::rename(aside, folder, error);
  return error ? Settled::stays_aside : Settled::is_back;
}

/// What killed processes have put aside.
void settle_left_over(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.parent_path(), error)) {
    const std::optional<pid_t> process = process_in(entry.path().filename().string(), folder);
    if (process && ::kill(*process, 0) != 0 && errno == ESRCH && is_trace(entry.path())) {
      left.push_back(entry.path());
    }
  }
  for (const fs::path& aside : left) {
    settled(aside, folder, true);
  }
}

fs::path without_links(const fs::path& folder) {
  const fs::path path = write_place(fs::absolute(folder).lexically_normal()).path;
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

bool is_being_recorded(const fs::path& folder) { return FolderUse(folder).is_used(); }

Result<EarlierTrace> EarlierTrace::put_aside(const fs::path& folder) {
  EarlierTrace earlier(without_links(folder));
  const fs::path& path = earlier.folder_;
  const FolderUse use(path);
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
  // Who waits for the lock meanwhile finds the file gone, and makes a folder of its own.
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
    : folder_(std::move(other.folder_)), aside_(std::exchange(other.aside_, {})), is_used_(other.is_used_) {}

EarlierTrace::~EarlierTrace() {
  if (!aside_.empty()) {
    settled(aside_, folder_, false);  // where it stays aside, the next one finds it
  }
}

bool EarlierTrace::settle() {
  const fs::path aside = std::exchange(aside_, {});
  const Settled outcome = aside.empty() ? Settled::removed : settled(aside, folder_, true);
  if (outcome == Settled::stays_aside) {
    throw SystemError(fmt::format("cannot bring the earlier trace back to {}; it is in {}", folder_.string(),
                                  aside.string()));
  }
  return outcome == Settled::is_back;
}

}  // namespace commlens
