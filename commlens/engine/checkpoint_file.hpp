#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <xxhash.h>

namespace commlens::engine {

/// 64 bits of XXH3 as 16 hexadecimal digits.
std::string checksum_of(std::span<const std::byte> content);

/// A file of a checkpoint while it is written. Every function throws a SystemError that names the file on a
/// write error.
class CheckpointFile {
 public:
  explicit CheckpointFile(std::filesystem::path path);
  void write(std::span<const std::byte> content);
  /// Returns the checksum of what was written, once all of it is on the disk (fsync).
  std::string close();

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::unique_ptr<XXH3_state_t, FreeState> hash_;
};

/// A whole file in one piece; returns its checksum.
std::string write_checkpoint_file(const std::filesystem::path& path, std::string_view content);

/// Makes the names in a directory durable through a crash of the machine (fsync of the directory).
void sync_directory(const std::filesystem::path& directory);

/// The process that writes checkpoints to `directory` now, for a message; std::nullopt: none. Creates
/// DIRECTORY/.lock.
std::optional<std::string> writer_of(const std::filesystem::path& directory);
/// The error message that names the owner.
std::string locked_by(const std::filesystem::path& directory, const std::string& owner);

/// Prevents others from writing checkpoints to `directory` during its lifetime: a lock on DIRECTORY/.lock,
/// which the system releases at the end of the process, also on a crash. Throws a SystemError that names the
/// owner.
class CheckpointLock {
 public:
  explicit CheckpointLock(const std::filesystem::path& directory);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  int file_;
};

}  // namespace commlens::engine
