#include "commlens/base/plain_file.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace commlens {
namespace {

PlainFile::Look look_of(const struct stat& status) {
  constexpr std::int64_t second = 1'000'000'000;
  return {.device = status.st_dev,
          .number = status.st_ino,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .changed_ns = status.st_ctim.tv_sec * second + status.st_ctim.tv_nsec};
}

}  // namespace

PlainFile::PlainFile(PlainFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), cause_(other.cause_) {}

PlainFile& PlainFile::operator=(PlainFile&& other) noexcept {
  std::swap(file_, other.file_);
  cause_ = other.cause_;
  return *this;
}

PlainFile::~PlainFile() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

PlainFile PlainFile::open_directory(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  return PlainFile(file, file < 0 ? errno : 0);
}

PlainFile PlainFile::open_in(const PlainFile& directory, const std::filesystem::path& name) {
  const int file =
      ::openat(directory.file_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  PlainFile opened(file, file < 0 ? errno : 0);
  struct stat status = {};
  if (file >= 0 && (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode))) {
    return PlainFile(-1, EINVAL);
  }
  return opened;
}

bool PlainFile::may_open_later() const {
  return cause_ == EMFILE || cause_ == ENFILE || cause_ == EINTR || cause_ == EACCES || cause_ == ESTALE;
}

std::size_t PlainFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        ::pread(file_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::optional<PlainFile::Look> PlainFile::look() const {
  struct stat status = {};
  return file_ >= 0 && ::fstat(file_, &status) == 0 ? std::optional(look_of(status)) : std::nullopt;
}

std::optional<PlainFile::Look> PlainFile::look_at(const std::filesystem::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(look_of(status)) : std::nullopt;
}

}  // namespace commlens
