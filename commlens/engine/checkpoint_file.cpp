#include "commlens/engine/checkpoint_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/base/result.hpp"

namespace commlens::engine {
namespace {

std::string hexadecimal(XXH64_hash_t hash) { return fmt::format("{:016x}", hash); }

/// "process 123 on node1", as the owner of a lock wrote it.
std::string owner_of(int file) {
  std::array<char, 256> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const std::string_view line(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return line.empty() ? "another job" : std::string(line.substr(0, line.find('\n')));
}

void write_owner(int file) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string owner = fmt::format("process {} on {}\n", getpid(), host.data());
  // Only for the message to a refused job: the lock holds without it.
  if (ftruncate(file, 0) == 0) {
    static_cast<void>(pwrite(file, owner.data(), owner.size(), 0) > 0);
  }
}

int open_lock(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / ".lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    throw_cannot_write(path, errno);
  }
  return file;
}

}  // namespace

std::string locked_by(const std::filesystem::path& directory, const std::string& owner) {
  return fmt::format("--save {}: {} writes its checkpoints there; give another directory", directory.string(),
                     owner);
}

std::string checksum_of(std::span<const std::byte> content) {
  return hexadecimal(XXH3_64bits(content.data(), content.size()));
}

CheckpointFile::CheckpointFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(std::fopen(path_.c_str(), "wb"), &std::fclose),
      hash_(XXH3_createState()) {
  if (!file_) {
    throw_cannot_write(path_, errno);
  }
  XXH3_64bits_reset(hash_.get());
}

void CheckpointFile::write(std::span<const std::byte> content) {
  if (std::fwrite(content.data(), 1, content.size(), file_.get()) != content.size()) {
    throw_cannot_write(path_, errno);
  }
  XXH3_64bits_update(hash_.get(), content.data(), content.size());
}

std::string CheckpointFile::close() {
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0 || std::fclose(file_.release()) != 0) {
    throw_cannot_write(path_, errno);
  }
  return hexadecimal(XXH3_64bits_digest(hash_.get()));
}

std::string write_checkpoint_file(const std::filesystem::path& path, std::string_view content) {
  CheckpointFile file(path);
  file.write(std::as_bytes(std::span(content)));
  return file.close();
}

void sync_directory(const std::filesystem::path& directory) {
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) {
    throw_cannot_write(directory, errno);
  }
  const int failed = fsync(file) == 0 ? 0 : errno;
  close(file);
  if (failed != 0 && failed != EINVAL) {  // EINVAL: a file system that has no fsync of directories
    throw_cannot_write(directory, failed);
  }
}

std::optional<std::string> writer_of(const std::filesystem::path& directory) {
  const int file = open_lock(directory);
  // A shared lock, so that ranks that check at the same time do not see each other as the writer.
  const bool is_locked = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::optional<std::string> owner;
  if (is_locked) {
    owner = owner_of(file);
  }
  close(file);
  return owner;
}

CheckpointLock::CheckpointLock(const std::filesystem::path& directory) : file_(open_lock(directory)) {
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int cause = errno;
    const std::string owner = owner_of(file_);
    close(file_);
    throw SystemError(cause == EWOULDBLOCK ? locked_by(directory, owner)
                                           : fmt::format("cannot lock {}: {}", (directory / ".lock").string(),
                                                         std::strerror(cause)));
  }
  write_owner(file_);
}

CheckpointLock::~CheckpointLock() { close(file_); }

}  // namespace commlens::engine
