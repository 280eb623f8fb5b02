#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "commlens/base/result.hpp"

namespace commlens {

/// A regular file seen as memory, read-only, for as long as this lives.
class MappedFile {
 public:
  /// Fails, naming the file, when it is missing, no regular file or unreadable. An empty file has no bytes.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Gives back the memory that whole pages of `part` took; they are read again from the file when needed.
  void forget(std::span<const std::byte> part) const;

  /// Gives back the mapping, of which a process has a limited number, until map_again(); bytes() keep their
  /// number and cannot be looked at in between.
  void unmap();
  /// Throws SystemError when the file is gone or has become shorter since it was opened.
  void map_again();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(start_), size_}; }

 private:
  /// At most the first `most` bytes.
  static Result<MappedFile> open_start(const std::filesystem::path& path, std::size_t most);
  MappedFile(std::filesystem::path path, void* start, std::size_t size)
      : path_(std::move(path)), start_(start), size_(size) {}

  std::filesystem::path path_;
  void* start_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace commlens
