#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/base/unfinished.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats {

/// What came through a pipe, decompressed, in a file of its own for as long as this lives: most formats are
/// looked at first, and read more than once. The file is in a directory in TMPDIR (/tmp), which goes with
/// this object and when a signal ends the program.
class Spool {
 public:
  /// More than this is no trace but a pipe without an end.
  static constexpr std::int64_t k_most = std::int64_t{16} << 30;

  /// An empty file with the name that `shown` ends with (readers look for a rank in it). Takes `most` bytes,
  /// and half of what is free at most. Throws SystemError when it cannot be made.
  explicit Spool(const std::filesystem::path& shown, std::int64_t most = k_most);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Appends up to `size` bytes of `source`; false when it has no more. Fails where the limit is reached or
  /// the source fails, and throws SystemError where the disk does, saying what to do.
  Result<bool> take(TextSource& source, std::int64_t size);
  const std::filesystem::path& file() const { return file_; }

 private:
  [[noreturn]] void throw_cannot_keep(int cause) const;

  std::filesystem::path parent_;
  Unfinished directory_;
  std::filesystem::path file_;
  std::string shown_;
  int descriptor_ = -1;
  std::int64_t most_;
  std::int64_t taken_ = 0;
};

}  // namespace commlens::formats
