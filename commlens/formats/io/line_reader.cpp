#include "commlens/formats/io/line_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

namespace commlens::formats {
namespace {

constexpr std::size_t k_line_block = std::size_t{256} << 10;
constexpr std::string_view k_byte_order_mark = "\xef\xbb\xbf";

gzFile as_gz(void* file) { return static_cast<gzFile>(file); }

}  // namespace

void TextSource::Closer::operator()(void* file) const { gzclose(as_gz(file)); }

Result<TextSource> TextSource::open(const std::filesystem::path& path) {
  const bool is_standard_input = path == "-";
  TextSource source;
  source.name_ = is_standard_input ? "standard input" : path.string();
  std::error_code status;
  if (!is_standard_input && std::filesystem::is_directory(path, status)) {
    return failure(fmt::format("{}: a directory, expected a file", source.name_));
  }
  errno = 0;
  if (is_standard_input) {
    const int descriptor = dup(STDIN_FILENO);
    source.file_.reset(descriptor < 0 ? nullptr : gzdopen(descriptor, "rb"));
  } else {
    source.file_.reset(gzopen(path.c_str(), "rb"));
  }
  if (!source.file_) {
    return failure(
        fmt::format("{}: {}", source.name_, errno == ENOENT ? "no such file" : std::strerror(errno)));
  }
  constexpr std::size_t least = std::size_t{4} << 10;
  if (!is_standard_input && std::filesystem::is_regular_file(path, status)) {
    const std::uintmax_t size = std::filesystem::file_size(path, status);
    // One byte more, so that a plain text is read to its end at once.
    source.block_ =
        std::clamp<std::uintmax_t>(status ? k_largest_block : size, least - 1, k_largest_block - 1) + 1;
  }
  gzbuffer(as_gz(source.file_.get()), static_cast<unsigned>(std::min(source.block_, k_line_block)));
  return source;
}

Result<std::string_view> TextSource::peek(std::size_t size) {
  std::size_t filled = ahead_.size();
  ahead_.resize(std::max(filled, size));
  while (filled < ahead_.size()) {
    const Result<std::size_t> got = read_file(ahead_.data() + filled, ahead_.size() - filled);
    if (!got && filled == 0) {
      ahead_.clear();
      return tl::unexpected(got.error());
    }
    if (!got || *got == 0) {
      break;
    }
    filled += *got;
  }
  ahead_.resize(filled);
  return std::string_view(ahead_);
}

Result<std::size_t> TextSource::read(char* into, std::size_t size) {
  if (ahead_.empty()) {
    return read_file(into, size);
  }
  const std::size_t got = ahead_.copy(into, size);
  ahead_.erase(0, got);
  return got;
}

Result<std::size_t> TextSource::read_file(char* into, std::size_t size) {
  const int got =
      gzread(as_gz(file_.get()), into, static_cast<unsigned>(std::min(size, std::size_t{1} << 30)));
  if (got > 0) {
    return static_cast<std::size_t>(got);
  }
  int code = Z_OK;
  const char* const reason = gzerror(as_gz(file_.get()), &code);
  if (code == Z_BUF_ERROR) {
    return failure(fmt::format("{}: the compressed file is cut off; copy or write it again", name_));
  }
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    return failure(fmt::format("{}: {}", name_, code == Z_ERRNO ? std::strerror(errno) : reason));
  }
  return std::size_t{0};
}

Result<bool> LineReader::fill() {
  if (at_end_) {
    return false;
  }
  std::move(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  const std::size_t block = std::min(source_.block(), k_line_block);
  if (buffer_.size() < end_ + block) {
    buffer_.resize(std::max(buffer_.size() * 2, end_ + block));
  }
  const Result<std::size_t> got = source_.read(buffer_.data() + end_, buffer_.size() - end_);
  if (!got) {
    return tl::unexpected(got.error());
  }
  end_ += *got;
  at_end_ = *got == 0;
  return !at_end_;
}

Result<bool> LineReader::next(std::string_view& line) {
  std::size_t searched = 0;  // of the unread bytes, known to hold no line end
  const void* newline = nullptr;
  while (true) {
    const char* const unread = buffer_.data() + begin_;
    const std::size_t size = end_ - begin_;
    newline = size > searched ? std::memchr(unread + searched, '\n', size - searched) : nullptr;
    if (newline != nullptr) {
      break;
    }
    searched = size;
    if (searched > k_longest_line) {
      ++line_number_;
      return failure(
          fmt::format("{}: a line of more than {} MiB; is this a text file with one record per line?",
                      where(), k_longest_line >> 20));
    }
    const Result<bool> filled = fill();
    if (!filled) {
      return filled;
    }
    if (!*filled) {
      break;
    }
  }
  line_is_whole_ = newline != nullptr;
  if (!line_is_whole_ && begin_ == end_) {
    return false;
  }
  const char* const start = buffer_.data() + begin_;
  line = {start, line_is_whole_ ? static_cast<std::size_t>(static_cast<const char*>(newline) - start)
                                : end_ - begin_};
  begin_ += line.size() + (line_is_whole_ ? 1 : 0);
  if (++line_number_ == 1 && line.starts_with(k_byte_order_mark)) {
    line.remove_prefix(k_byte_order_mark.size());
  }
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return true;
}

std::string LineReader::where() const { return fmt::format("{}:{}", source_.name(), line_number_); }

Result<std::string> read_head(const std::filesystem::path& path, std::size_t size) {
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  return source->peek(size).map([](std::string_view head) { return std::string(head); });
}

Result<std::string> read_whole(const std::filesystem::path& path, std::size_t limit, std::string_view what) {
  constexpr std::size_t block = std::size_t{1} << 20;
  Result<TextSource> source = TextSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  std::string content;
  while (content.size() <= limit) {
    const std::size_t size = content.size();
    content.resize(size + block);
    const Result<std::size_t> got = source->read(content.data() + size, block);
    if (!got) {
      return tl::unexpected(got.error());
    }
    content.resize(size + *got);
    if (*got == 0) {
      return content;
    }
  }
  return failure(fmt::format("{}: more than {} MiB, which no {} has", source->name(), limit >> 20, what));
}

}  // namespace commlens::formats
