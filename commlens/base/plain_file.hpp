#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace commlens {

/// A directory or regular file that another process may fill, cut, replace or remove meanwhile. It is opened
/// for reading alone, never mapped and never locked; what is no regular file (a pipe, a device, a link) is
/// not opened, so that no name in a directory of others can block the reader.
class PlainFile {
 public:
  PlainFile() = default;
  PlainFile(PlainFile&& other) noexcept;
  PlainFile& operator=(PlainFile&& other) noexcept;
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  ~PlainFile();

  /// Not open where there is none, or it cannot be read; cause() says why. A link to a directory is followed.
  static PlainFile open_directory(const std::filesystem::path& path);
  /// A regular file of `directory`; a link is not followed.
  static PlainFile open_in(const PlainFile& directory, const std::filesystem::path& name);

  bool is_open() const { return file_ >= 0; }
  int cause() const { return cause_; }  // errno; 0: none
  /// Whether it may be opened another time: no descriptor is free, it is not allowed yet, …
  bool may_open_later() const;
  /// Reads up to the end; returns the bytes read.
  std::size_t read(std::uint64_t offset, std::span<std::byte> into) const;

  /// What tells two states of a file apart.
  struct Look {
    std::uint64_t device = 0;
    std::uint64_t number = 0;  // inode
    std::uint64_t bytes = 0;
    std::int64_t changed_ns = 0;
    bool is_same_file(const Look& other) const { return device == other.device && number == other.number; }
    friend bool operator==(const Look&, const Look&) = default;
  };
  std::optional<Look> look() const;
  /// Of whatever has that name now.
  static std::optional<Look> look_at(const std::filesystem::path& path);

 private:
  explicit PlainFile(int file, int cause) : file_(file), cause_(cause) {}
  int file_ = -1;
  int cause_ = 0;
};

}  // namespace commlens
