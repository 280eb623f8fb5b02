#include "commlens/formats/io/write_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "commlens/base/check.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/unfinished.hpp"

namespace commlens::formats {
namespace {

/// Turns a write to a closed pipe into the error EPIPE for this thread, where the signal would end the
/// program.
class PipeSignalBlock {
 public:
  PipeSignalBlock() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalBlock() {
    const timespec no_wait = {0, 0};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &no_wait) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

/// An open file descriptor, closed at the end unless `close` did it.
class Descriptor {
 public:
  Descriptor(int number, const std::string& name) : number_(number), name_(name) {
    if (number < 0) {
      throw_cannot_write(name, errno);
    }
  }
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void write_all(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(number_, text.data(), text.size());
      if (written < 0 && errno != EINTR) {
        throw_cannot_write(name_, errno);
      }
      text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
  }
  void close() {
    if (::close(std::exchange(number_, -1)) != 0) {
      throw_cannot_write(name_, errno);
    }
  }

 private:
  int number_;
  std::string name_;
};

using Write = std::function<Result<void>(const TextSink&)>;

Result<void> write_plain(Descriptor& file, const Write& write) {
  return write([&](std::string_view text) { file.write_all(text); });
}

Result<void> write_compressed(Descriptor& file, const std::string& name, const Write& write) {
  struct Closer {
    void operator()(gzFile gz) const { gzclose(gz); }
  };
  const int copy = dup(file.number());  // gzclose closes its descriptor; ours stays for its own error check
  std::unique_ptr<gzFile_s, Closer> gz(copy < 0 ? nullptr : gzdopen(copy, "wb6"));
  if (!gz) {
    throw_cannot_write(name, errno);
  }
  gzbuffer(gz.get(), 1U << 18);
  Result<void> written = write([&](std::string_view text) {
    while (!text.empty()) {
      const auto part = static_cast<unsigned>(std::min<std::size_t>(text.size(), std::size_t{1} << 30));
      if (gzwrite(gz.get(), text.data(), part) <= 0) {
        throw_cannot_write(name, errno);
      }
      text.remove_prefix(part);
    }
  });
  if (gzclose(gz.release()) != Z_OK) {
    throw_cannot_write(name, errno);
  }
  return written;
}

Result<void> write_into(Descriptor& file, const std::string& name, const Write& write) {
  return name.ends_with(".gz") ? write_compressed(file, name, write) : write_plain(file, write);
}

Result<void> write_whole_file(const std::filesystem::path& target, const std::string& name,
                              const Write& write) {
  Unfinished unfinished(new_file_beside(target));
  Descriptor file(::open(unfinished.path().c_str(), O_WRONLY | O_CLOEXEC), name);
  Result<void> written = write_into(file, name, write);
  file.close();
  if (!written) {
    return written;
  }
  if (std::rename(unfinished.path().c_str(), target.c_str()) != 0) {
    throw_cannot_write(name, errno);
  }
  unfinished.finished();
  return {};
}

}  // namespace

Result<void> try_write_stream(const std::string& destination, const Write& write) {
  const PipeSignalBlock no_signal;
  if (destination == "-") {
    std::fflush(stdout);
    Descriptor output(dup(STDOUT_FILENO), "standard output");
    return write_plain(output, write);
  }
  std::error_code status;
  const auto [target, is_appended_to] = write_place(destination);
  if (std::filesystem::is_directory(target, status)) {
    throw_cannot_write(destination, EISDIR);
  }
  if (is_appended_to) {
    Descriptor device(::open(target.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC), destination);
    Result<void> written = write_into(device, destination, write);
    device.close();
    return written;
  }
  return write_whole_file(target, destination, write);
}

void write_stream(const std::string& destination, const std::function<void(const TextSink&)>& write) {
  const Result<void> written = try_write_stream(destination, [&](const TextSink& sink) -> Result<void> {
    write(sink);
    return {};
  });
  COMMLENS_CHECK(written.has_value(), "this writer does not fail");
}

}  // namespace commlens::formats
