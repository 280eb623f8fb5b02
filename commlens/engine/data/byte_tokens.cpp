#include "commlens/engine/data/byte_tokens.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/descriptor.hpp"
#include "commlens/base/units.hpp"

namespace commlens::engine {
namespace {

/// Read, not mapped: a file that is truncated meanwhile gives an error of one line instead of a SIGBUS.
class ByteTokens : public TokenSource {
 public:
  ByteTokens(Descriptor text, std::int64_t size, std::string path)
      : text_(std::move(text)), size_(size), path_(std::move(path)) {}

  std::int64_t vocab() const override { return 256; }
  std::int64_t size() const override { return size_; }
  void read(std::int64_t first, std::span<std::int64_t> into) const override {
    std::vector<unsigned char> bytes(into.size());
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t got = pread(text_.number(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(first + static_cast<std::int64_t>(done)));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        throw SystemError(fmt::format(
            "{}: {}", path_, got < 0 ? std::strerror(errno) : "the file became shorter during the training"));
      }
      done += static_cast<std::size_t>(got);
    }
    std::copy(bytes.begin(), bytes.end(), into.begin());
  }
  std::string description() const override {
    return fmt::format("{}, {} bytes", std::filesystem::path(path_).filename().string(), with_commas(size()));
  }

 private:
  Descriptor text_;
  std::int64_t size_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<TokenSource>> open_bytes(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a pipe without a writer must not wait; it is refused below.
  Descriptor text(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about = {};
  if (text.number() < 0 || fstat(text.number(), &about) != 0) {
    return failure(
        fmt::format("{}: {}", file.string(),
                    errno == ENOENT ? "no such file or directory; check the path" : std::strerror(errno)));
  }
  if (!S_ISREG(about.st_mode)) {
    return failure(fmt::format("{}: not a regular file", file.string()));
  }
  if (about.st_size == 0) {
    return failure(fmt::format("{}: the file is empty; give a text to train on", file.string()));
  }
  return std::make_unique<ByteTokens>(std::move(text), about.st_size, file.string());
}

}  // namespace commlens::engine
