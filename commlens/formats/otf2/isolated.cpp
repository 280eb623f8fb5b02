#include "commlens/formats/otf2/isolated.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/child_process.hpp"
#include "commlens/formats/otf2/record_stream.hpp"

namespace commlens::formats::otf2 {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_pipe_block = std::size_t{1} << 18;
constexpr std::size_t k_longest_record = std::size_t{16} << 20;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool k_has_shadow_memory = true;
#elif defined(__has_feature)
constexpr bool k_has_shadow_memory = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool k_has_shadow_memory = false;
#endif

/// Bytes of address space that this process has.
std::int64_t own_address_space() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  long pages = 0;
  if (file != nullptr) {
    pages = std::fscanf(file, "%ld", &pages) == 1 ? pages : 0;
    std::fclose(file);
  }
  return static_cast<std::int64_t>(pages) * sysconf(_SC_PAGESIZE);
}

void limit(__rlimit_resource what, std::int64_t most) {
  rlimit now{};
  getrlimit(what, &now);
  now.rlim_max = std::min(now.rlim_max, static_cast<rlim_t>(most) + 1);  // where SIGXCPU becomes SIGKILL
  now.rlim_cur = std::min(now.rlim_max, static_cast<rlim_t>(most));
  setrlimit(what, &now);
}

/// The child: alone with the file and the pipe.
class Child {
 public:
  Child(int pipe, const IsolatedReader& reader) : pipe_(pipe), reader_(reader) {}

  [[noreturn]] void run(const fs::path& path) {
    confine();
    RecordEncoder encoder(text_);
    const RecordSink sink{
        .add =
            [&](const CallRecord& record) {
              encoder.add(record);
              flush(k_pipe_block);
            },
        .skip = [&](std::string_view reason, std::int64_t records) { encoder.skip(reason, records); },
        .assume = [&](std::string_view reason, std::int64_t records) { encoder.assume(reason, records); }};
    try {
      if (const Result<void> read = reader_.read(path, sink); !read) {
        encoder.fail(read.error().message);
      }
    } catch (const std::bad_alloc&) {
      text_.clear();
      text_.shrink_to_fit();
      _exit(k_out_of_memory);
    } catch (const std::exception& error) {
      encoder.fail(error.what());
    }
    encoder.finish();
    flush(0);
    _exit(0);
  }

  static constexpr int k_out_of_memory = 77;

 private:
  void confine() {
    pipe_ = confined_child(pipe_);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CPU, reader_.limits.processor_time.count());
    if (!k_has_shadow_memory) {
      limit(RLIMIT_AS, own_address_space() + reader_.limits.memory_bytes);
    }
  }

  void flush(std::size_t least) {
    if (text_.size() < least) {
      return;
    }
    std::string_view rest = text_;
    while (!rest.empty()) {
      const ssize_t written = ::write(pipe_, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) {
        _exit(1);  // nobody listens
      }
      rest.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    text_.clear();
  }

  int pipe_;
  const IsolatedReader& reader_;
  std::string text_;
};

/// The parent's end of the pipe and the process at its other end, which does not outlive this.
class Running {
 public:
  Running(pid_t child, int pipe) : child_(child), pipe_(pipe) {}
  ~Running() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      wait();
    }
    close(pipe_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// The next bytes; none at the end. std::nullopt if the child was silent for too long.
  std::optional<std::string_view> read_some(std::chrono::milliseconds limit) {
    pollfd waiting{.fd = pipe_, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(limit.count()));
    if (ready == 0) {
      return std::nullopt;
    }
    const ssize_t got = ready < 0 ? -1 : ::read(pipe_, block_.data(), block_.size());
    if (got < 0 && errno == EINTR) {
      return read_some(limit);
    }
    if (got < 0) {
      throw SystemError(fmt::format("cannot read from a child process: {}", std::strerror(errno)));
    }
    return std::string_view(block_).substr(0, static_cast<std::size_t>(got));
  }

  /// Waits for its end; the status of waitpid, or -1 when somebody else took it.
  int wait() { return end_status_of(std::exchange(child_, 0)); }

 private:
  pid_t child_;
  int pipe_;
  std::string block_ = std::string(k_pipe_block, '\0');
};

/// Why a child ended that did not say it had finished.
std::string reason_of(int status, const IsolationLimits& limits) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == Child::k_out_of_memory) {
    return fmt::format("reading it needs more than {} MiB of memory", limits.memory_bytes >> 20);
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return fmt::format("reading it takes more than {} s", limits.processor_time.count());
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    return "the process that read it was killed (by the system, for its memory?)";
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("its library crashed on it ({}); the file is damaged", strsignal(WTERMSIG(status)));
  }
  return "the process that read it ended early";
}

/// Takes all that the child sends. The error does not name the file yet.
Result<void> take_all(Running& child, RecordDecoder& records, const IsolationLimits& limits) {
  std::string rest;  // the beginning of a line
  while (true) {
    const std::optional<std::string_view> some = child.read_some(limits.silence);
    if (!some) {
      return failure(fmt::format("nothing came of it for {} s", limits.silence.count()));
    }
    if (some->empty()) {
      return {};
    }
    rest += *some;
    std::size_t begin = 0;
    for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', begin)) {
      if (const Result<void> taken = records.take(std::string_view(rest).substr(begin, end - begin));
          !taken) {
        return taken;
      }
      begin = end + 1;
    }
    rest.erase(0, begin);
    if (rest.size() > k_longest_record) {
      return failure("a record of it is longer than 16 MiB");
    }
  }
}

}  // namespace

Result<Trace> read_isolated(const IsolatedReader& reader, const fs::path& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw SystemError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const pid_t forked = forked_process();
  if (forked == 0) {
    close(ends[0]);
    Child(ends[1], reader).run(path);
  }
  close(ends[1]);
  Running child(forked, ends[0]);
  CallBuilder calls(reader.producer, path.string());
  RecordDecoder records(calls);
  Result<void> taken = take_all(child, records, reader.limits);
  if (taken && !records.is_finished()) {
    taken = failure(reason_of(child.wait(), reader.limits));
  } else if (const std::optional<std::string>& message = records.failure_text(); taken && message) {
    taken = failure(*message);
  } else if (taken && records.records() == 0) {
    taken = failure("no communication in it");
  }
  if (!taken) {
    return failure(fmt::format("{}: {}", path.string(), taken.error().message));
  }
  return calls.finish();
}

}  // namespace commlens::formats::otf2
