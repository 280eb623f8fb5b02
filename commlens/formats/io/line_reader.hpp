#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens::formats {

/// A text file, gzip file (several members too) or, for "-", standard input, read in blocks.
class TextSource {
 public:
  static constexpr std::size_t k_largest_block = std::size_t{1} << 20;

  /// Fails, naming the file, when it is missing, a directory or unreadable.
  static Result<TextSource> open(const std::filesystem::path& path);

  /// Up to `size` bytes of decompressed text; 0 at the end. Fails on a damaged or truncated gzip file.
  Result<std::size_t> read(char* into, std::size_t size);
  /// The first `size` bytes, fewer only at the end or before damage, which read() gives again. Only before
  /// the first read(); stays valid until then.
  Result<std::string_view> peek(std::size_t size);
  const std::string& name() const { return name_; }
  /// How much to read at a time, at most: no more than a small file holds, so that looking into one costs
  /// little.
  std::size_t block() const { return block_; }

 private:
  Result<std::size_t> read_file(char* into, std::size_t size);

  struct Closer {
    void operator()(void* file) const;
  };
  std::unique_ptr<void, Closer> file_;  // a gzFile, which also reads plain text
  std::string name_;                    // as messages show it
  std::size_t block_ = k_largest_block;
  std::string ahead_;  // peeked at, not read yet
};

/// Lines of a text source, never more than one of them in memory.
class LineReader {
 public:
  static constexpr std::size_t k_longest_line = std::size_t{16} << 20;

  explicit LineReader(TextSource source) : source_(std::move(source)) {}

  /// Puts the next line, without its end ("\n" or "\r\n") and a byte order mark, into `line`; it stays valid
  /// until the next call. False at the end of the text. Fails on a line beyond 16 MiB.
  Result<bool> next(std::string_view& line);

  /// Whether the line returned last ended with "\n" (a file that was cut off does not).
  bool line_is_whole() const { return line_is_whole_; }
  /// "file:line" of the line returned last, for messages.
  std::string where() const;
  std::int64_t line_number() const { return line_number_; }

 private:
  Result<bool> fill();

  TextSource source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread bytes are [begin_, end_)
  std::size_t end_ = 0;
  bool at_end_ = false;
  bool line_is_whole_ = true;
  std::int64_t line_number_ = 0;
};

/// The first `size` bytes of the (decompressed) file, or all of a shorter one. A truncated gzip file gives
/// what there is.
Result<std::string> read_head(const std::filesystem::path& path, std::size_t size);

/// All of a (decompressed) file. Fails beyond `limit` bytes, saying that no `what` is so large.
Result<std::string> read_whole(const std::filesystem::path& path, std::size_t limit, std::string_view what);

}  // namespace commlens::formats
