#include "commlens/base/unfinished.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/text.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_slots = 16;
constexpr std::size_t k_longest_path = 4096;
constexpr std::array<int, 7> k_ending_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGXFSZ};

enum class SlotState : int { free, filling, used };

/// A signal handler can use globals only, and may not read memory that could be freed.
struct Slot {
  std::atomic<SlotState> state = SlotState::free;
  std::array<char, k_longest_path> path{};
};
static_assert(std::atomic<SlotState>::is_always_lock_free, "a signal handler may not wait for a lock");
std::array<Slot, k_slots> slots;
std::atomic<pid_t> owner = 0;

constexpr int k_no_slot = -1;

/// Stores a path in a free slot; k_no_slot if all are in use, in which case no signal removes the path.
int remember(const std::string& path) {
  for (std::size_t at = 0; at < k_slots && path.size() < k_longest_path; ++at) {
    SlotState expected = SlotState::free;
    if (slots[at].state.compare_exchange_strong(expected, SlotState::filling)) {
      std::memcpy(slots[at].path.data(), path.c_str(), path.size() + 1);
      slots[at].state = SlotState::used;
      return static_cast<int>(at);
    }
  }
  return k_no_slot;
}

void forget(int slot) {
  if (slot != k_no_slot) {
    slots[static_cast<std::size_t>(slot)].state = SlotState::free;
  }
}

void remove_tree(int parent, const char* name, int depth);

/// Removes what an open directory lists; names may be skipped where others are removed meanwhile.
void remove_entries(int directory, int depth) {
  alignas(dirent64) std::array<char, 4096> entries;
  lseek(directory, 0, SEEK_SET);
  for (ssize_t size = getdents64(directory, entries.data(), entries.size()); size > 0;
       size = getdents64(directory, entries.data(), entries.size())) {
    for (ssize_t at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(&entries[static_cast<std::size_t>(at)]);
      const char* const name = &entry->d_name[0];
      if (std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0) {
        remove_tree(directory, name, depth + 1);
      }
      at += entry->d_reclen;
    }
  }
}

/// As rm -r does, with nothing but system calls, since it runs in a signal handler.
void remove_tree(int parent, const char* name, int depth) {
  constexpr int deepest = 16;
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT || depth > deepest) {
    return;
  }
  const int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) {
    return;
  }
  constexpr int most_turns = 8;  // new names may appear meanwhile
  for (int turn = 0; turn < most_turns && unlinkat(parent, name, AT_REMOVEDIR) != 0; ++turn) {
    remove_entries(directory, depth);
  }
  close(directory);
}

void remove_all_unfinished(int signal) {
  if (getpid() == owner) {  // a forked child must not remove our files
    for (const Slot& slot : slots) {
      if (slot.state == SlotState::used) {
        remove_tree(AT_FDCWD, slot.path.data(), 0);
      }
    }
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // comes when this handler returns
}

/// Between the two renames of an exchange no signal may end us.
class EndingSignalsBlocked {
 public:
  EndingSignalsBlocked() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : k_ending_signals) {
      sigaddset(&ending, signal);
    }
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~EndingSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndingSignalsBlocked(const EndingSignalsBlocked&) = delete;
  EndingSignalsBlocked& operator=(const EndingSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Unfinished::Unfinished(fs::path path) : path_(std::move(path)), slot_(remember(path_.string())) {}

Unfinished::~Unfinished() {
  if (!is_finished_) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  forget(slot_);
}

void Unfinished::finished() {
  is_finished_ = true;
  forget(std::exchange(slot_, k_no_slot));
}

void Unfinished::write_as(const fs::path& shown, const std::function<void()>& write) const {
  try {
    write();
  } catch (const SystemError& error) {
    throw SystemError(replaced(error.what(), path_.string(), shown.string()));
  }
}

void remove_unfinished_on_signals() {
  owner = getpid();
  for (const int signal : k_ending_signals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) {
      continue;
    }
    struct sigaction action = {};
    action.sa_handler = &remove_all_unfinished;
    sigfillset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

WritePlace write_place(const fs::path& path) {
  std::error_code status;
  fs::path place = fs::absolute(path, status).lexically_normal();
  constexpr int most_links = 40;  // as the system follows
  for (int links = 0; links < most_links; ++links) {
    const std::string name = place.string();
    if ((name.starts_with("/proc/") || name.starts_with("/dev/fd/")) && fs::exists(place, status)) {
      return {path, true};
    }
    if (!fs::is_symlink(place, status)) {
      break;
    }
    place = (place.parent_path() / fs::read_symlink(place, status)).lexically_normal();
  }
  if (fs::exists(place, status) && !fs::is_regular_file(place, status) && !fs::is_directory(place, status)) {
    return {path, true};
  }
  return {fs::is_symlink(path, status) ? place : path, false};
}

namespace {

/// The first name "TARGET.PID-N.tmp" that `made` can create. Existing names belong to a killed process, or to
/// a process of the same PID on another machine.
template <typename Make>
std::optional<fs::path> new_beside(const fs::path& target, const Make& made) {
  for (int number = 0;; ++number) {
    fs::path path = target;
    path += fmt::format(".{}-{}.tmp", getpid(), number);
    if (made(path)) {
      return path;
    }
    if (errno != EEXIST) {
      return std::nullopt;
    }
  }
}

}  // namespace

std::optional<fs::path> try_new_file_beside(const fs::path& target) {
  return new_beside(target, [](const fs::path& path) {
    constexpr mode_t readable = 0666;  // less the umask, as any new file
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, readable);
    if (file >= 0) {
      close(file);
    }
    return file >= 0;
  });
}

fs::path new_file_beside(const fs::path& target) {
  std::optional<fs::path> path = try_new_file_beside(target);
  if (!path) {
    throw_cannot_write(target, errno);
  }
  return std::move(*path);
}

fs::path new_directory_beside(const fs::path& target) {
  std::error_code status;
  fs::create_directories(fs::absolute(target, status).parent_path(), status);
  std::optional<fs::path> path = new_beside(target, [](const fs::path& made) {
    constexpr mode_t usable = 0777;  // less the umask
    return mkdir(made.c_str(), usable) == 0;
  });
  if (!path) {
    throw_cannot_write(target, status ? status.value() : errno);
  }
  return std::move(*path);
}

namespace {

/// Moves the old directory aside, and back if the new one cannot be renamed to its path.
void replace_directory_by_two_renames(const fs::path& target, const fs::path& fresh, const fs::path& aside) {
  const EndingSignalsBlocked blocked;
  if (std::rename(target.c_str(), aside.c_str()) != 0) {  // in the place of the empty directory
    throw_cannot_write(target, errno);
  }
  if (std::rename(fresh.c_str(), target.c_str()) != 0) {
    const int cause = errno;
    if (std::rename(aside.c_str(), target.c_str()) != 0) {
      throw SystemError(fmt::format("cannot write {}: {}; what stood there is now {}", target.string(),
                                    std::strerror(cause), aside.string()));
    }
    throw_cannot_write(target, cause);
  }
}

}  // namespace

void replace_directory(const fs::path& target, const fs::path& fresh) {
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    throw_cannot_write(target, errno);
  }
  const fs::path aside = new_directory_beside(target);
  std::error_code ignored;
  try {
    replace_directory_by_two_renames(target, fresh, aside);
  } catch (const SystemError&) {
    fs::remove(aside, ignored);  // where it is empty
    throw;
  }
  fs::remove_all(aside, ignored);
}

}  // namespace commlens
