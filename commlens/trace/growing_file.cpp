#include "commlens/trace/growing_file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/base/result.hpp"

namespace commlens {
namespace {

constexpr std::uint64_t k_page = 4096;
constexpr std::uint64_t k_least_growth = std::uint64_t{1} << 16;
// How much is reserved and touched ahead. 10 M records of 32 bytes a second are 3.2 MB in one interval, so
// the reserve outlasts two intervals even when they come out of the blue.
constexpr std::chrono::milliseconds k_interval(10);
constexpr std::uint64_t k_least_touched = std::uint64_t{256} << 10;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Blocks all signals for the threads that are started while it lives: they belong to the program's own.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace

bool is_within_file_limit(std::uint64_t bytes) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

bool is_being_filled(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  const bool is_held = ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return is_held;
}

GrowingFile::GrowingFile(const std::filesystem::path& path, std::span<const std::byte> head,
                         std::uint64_t least_reserve)
    : least_reserve_(least_reserve) {
  open(path, head);
}

GrowingFile::GrowingFile(const std::filesystem::path& path, std::span<const std::byte> head, Ring ring)
    : least_reserve_(0), ring_(ring) {
  open(path, head);
}

void GrowingFile::open(const std::filesystem::path& path, std::span<const std::byte> head) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) {
    throw_cannot_write(path, errno);
  }
  [[maybe_unused]] const int locked = ::flock(file_, LOCK_SH | LOCK_NB);  // for is_being_filled()
  int cause = EFBIG;
  if (is_within_file_limit(head.size())) {
    const ssize_t written = ::pwrite(file_, head.data(), head.size(), 0);
    cause = written < 0 ? errno : written != static_cast<ssize_t>(head.size()) ? ENOSPC : 0;
  }
  if (cause == 0) {
    set_used(std::max<std::uint64_t>(head.size(), ring_.start));
    map();
    cause = bytes_ == nullptr ? ENOMEM : 0;
  }
  if (cause == 0) {
    grow(least_reserve_);
    cause = capacity() == 0 ? ENOSPC : 0;
  }
  if (cause != 0) {
    close();
    throw_cannot_write(path, cause);
  }
  touch(0, std::min(k_least_touched, capacity()));
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { keep_ahead(); });
  } catch (const std::system_error& error) {
    close();
    throw SystemError(fmt::format("cannot start a thread for {}: {}", path.string(), error.what()));
  }
}

// Address space costs nothing: the whole file that may ever be is mapped at once, beyond its end too, and
// becomes usable block by block. Less of it where the address space of the process is limited.
void GrowingFile::map() {
  if (ring_.bytes > 0) {
    map(ring_.start + ring_.bytes);
    return;
  }
  for (std::uint64_t size = std::uint64_t{64} << 30; size >= std::uint64_t{64} << 20 && bytes_ == nullptr;
       size /= 4) {
    map(size);
  }
}

void GrowingFile::map(std::uint64_t size) {
  void* const start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (start != MAP_FAILED) {
    bytes_ = static_cast<std::byte*>(start);
    mapped_ = size;
  }
}

void GrowingFile::grow(std::uint64_t bytes) {
  if (ring_.bytes > 0) {  // all or nothing, so that it never ends in the middle
    if (reserve(0, mapped_)) {
      capacity_.store(mapped_, std::memory_order_release);
    }
    is_full_.store(true, std::memory_order_release);
    return;
  }
  std::uint64_t end = capacity_.load(std::memory_order_relaxed);
  std::uint64_t missing = rounded_up(bytes, k_least_growth);
  std::uint64_t size = missing;
  while (missing > 0 && size >= k_least_growth) {
    size = std::min(size, missing);
    if (end + size <= mapped_ && reserve(end, size)) {
      end += size;
      missing -= size;
      capacity_.store(end, std::memory_order_release);
    } else {
      size = size / 2 / k_least_growth * k_least_growth;
    }
  }
  if (missing > 0) {
    is_full_.store(true, std::memory_order_release);
  }
}

bool GrowingFile::reserve(std::uint64_t start, std::uint64_t size) const {
  if (!is_within_file_limit(start + size)) {
    return false;
  }
  int cause = EINTR;
  while (cause == EINTR) {
    cause = posix_fallocate(file_, static_cast<off_t>(start), static_cast<off_t>(size));
  }
  return cause == 0;
}

void GrowingFile::touch(std::uint64_t from, std::uint64_t to) const {
#ifdef MADV_POPULATE_WRITE
  // Kernels before 5.14 refuse; then the filling thread faults once per page.
  static_cast<void>(madvise(bytes_ + from, to - from, MADV_POPULATE_WRITE));
#else
  static_cast<void>(from);
  static_cast<void>(to);
#endif
}

/// Of what is to be used next, by set_used(): the pages of a ring, once written to the disk, fault again.
void GrowingFile::touch_ahead(std::uint64_t from, std::uint64_t to) const {
  if (ring_.bytes == 0) {
    touch(from, to);
    return;
  }
  const std::uint64_t size = std::min(to - from, ring_.bytes);
  const std::uint64_t first = (from - ring_.start) % ring_.bytes;
  const std::uint64_t to_end = std::min(size, ring_.bytes - first);
  const auto touch_part = [&](std::uint64_t begin, std::uint64_t bytes) {
    touch((ring_.start + begin) / k_page * k_page, ring_.start + begin + bytes);
  };
  touch_part(first, to_end);
  if (size > to_end) {
    touch_part(0, size - to_end);
  }
}

void GrowingFile::keep_ahead() {
  std::uint64_t used_before = used_.load(std::memory_order_relaxed);
  std::uint64_t touched = std::min(k_least_touched, capacity());
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, k_interval, [&] { return is_stopping_; })) {
    const std::uint64_t used = used_.load(std::memory_order_relaxed);
    const std::uint64_t recent = used - used_before;
    used_before = used;
    const std::uint64_t reserve = used + std::max(least_reserve_, 8 * recent);
    if (!is_full() && reserve > capacity()) {
      grow(std::max(reserve - capacity(), least_reserve_ / 4));
    }
    const std::uint64_t most = ring_.bytes > 0 ? UINT64_MAX : capacity();
    const std::uint64_t target =
        std::min(rounded_up(used + std::max(k_least_touched, 4 * recent), k_page), most);
    const std::uint64_t from = std::max({touched, used / k_page * k_page, ring_.start});
    if (from + k_least_touched / 2 <= target) {
      touch_ahead(from, target);
      touched = target;
    }
  }
}

void GrowingFile::close() noexcept {
  if (thread_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      is_stopping_ = true;
    }
    stop_.notify_one();
    thread_.join();
  }
  if (bytes_ != nullptr) {
    munmap(bytes_, mapped_);
    bytes_ = nullptr;
  }
  if (file_ >= 0) {
    // A file that cannot be cut is only longer than it must be.
    const std::uint64_t most = ring_.bytes > 0 ? ring_.start + ring_.bytes : UINT64_MAX;
    [[maybe_unused]] const int ignored =
        ftruncate(file_, static_cast<off_t>(std::min(used_.load(std::memory_order_relaxed), most)));
    ::close(file_);
    file_ = -1;
  }
  capacity_.store(0, std::memory_order_release);
  is_full_.store(true, std::memory_order_release);
}

}  // namespace commlens
