#include "commlens/trace/mapped_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace commlens {
namespace {

/// Closes a file descriptor at the end of a scope; the mapping does not need it.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) {
      ::close(number);
    }
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) { return open_start(path, SIZE_MAX); }

Result<MappedFile> MappedFile::open_start(const std::filesystem::path& path, std::size_t most) {
  // O_NONBLOCK: opening a pipe without a writer must not wait; it is refused below.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat about = {};
  if (file.number < 0 || fstat(file.number, &about) != 0) {
    return failure(
        fmt::format("{}: {}", path.string(), errno == ENOENT ? "no such file" : std::strerror(errno)));
  }
  if (!S_ISREG(about.st_mode)) {
    return failure(fmt::format("{}: not a regular file", path.string()));
  }
  const std::size_t size = std::min(static_cast<std::size_t>(about.st_size), most);
  if (size == 0) {
    return MappedFile(path, nullptr, 0);
  }
  void* const start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (start == MAP_FAILED) {
    return failure(fmt::format("{}: cannot be mapped into memory: {}", path.string(), std::strerror(errno)));
  }
  return MappedFile(path, start, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      start_(std::exchange(other.start_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(start_, other.start_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::forget(std::span<const std::byte> part) const {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // The mapping starts at a page.
  const auto offset = static_cast<std::size_t>(part.data() - static_cast<const std::byte*>(start_));
  const std::size_t begin = offset / page * page;
  const std::size_t end = (offset + part.size()) / page * page;
  if (end > begin) {
    madvise(static_cast<std::byte*>(start_) + begin, end - begin, MADV_DONTNEED);  // only advice: it may fail
  }
}

void MappedFile::unmap() {
  if (start_ != nullptr) {
    munmap(std::exchange(start_, nullptr), size_);
  }
}

void MappedFile::map_again() {
  if (start_ != nullptr || size_ == 0) {
    return;
  }
  Result<MappedFile> again = open_start(path_, size_);  // what was added since is not looked at
  if (!again) {
    throw SystemError(fmt::format("{}; it was there when reading began", again.error().message));
  }
  if (again->size_ < size_) {
    throw SystemError(fmt::format("{}: became shorter while it was read, {} bytes of {}", path_.string(),
                                  again->size_, size_));
  }
  *this = std::move(*again);
}

MappedFile::~MappedFile() { unmap(); }

}  // namespace commlens
