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

/// A file of a checkpoint while it is written. Every function throws the SystemError that names the file when
/// the disk refuses.
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

/// Makes the names in a folder last through a crash of the machine (fsync of the folder).
void sync_folder(const std::filesystem::path& folder);

/// Who writes checkpoints to `folder` now, for a message; std::nullopt: nobody. Creates FOLDER/.lock.
std::optional<std::string> writer_of(const std::filesystem::path& folder);
/// The refusal that names them.
std::string locked_by(const std::filesystem::path& folder, const std::string& owner);

/// Keeps others from writing checkpoints to `folder` as long as it lives: a lock on FOLDER/.lock, which the
/// system releases when the process ends, however it ends. Throws a SystemError that names who has it.
class CheckpointLock {
 public:
  explicit CheckpointLock(const std::filesystem::path& folder);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  int file_;
};

}  // namespace commlens::engine
