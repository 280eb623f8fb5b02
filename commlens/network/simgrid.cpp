#include "commlens/network/simgrid.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/modules.hpp"

namespace commlens {
namespace {

constexpr const char* k_simgrid_file = "libcommlens-simgrid.so";
// What the child sends: a letter, then numbers or a text.
constexpr char k_times = 't';
constexpr char k_reason = 'r';

/// One line about what SimGrid cannot play; std::nullopt where it can.
std::optional<std::string> refusal(const SimgridJob& job) {
  std::int64_t hosts = 0;
  std::map<std::pair<std::int32_t, std::int32_t>, const std::vector<LinkId>*> ways;
  for (const std::vector<SimgridFlow>& wave : job.waves) {
    for (const SimgridFlow& flow : wave) {
      const std::int64_t last = std::max(flow.from, flow.to);
      hosts = std::max(hosts, last + 1);
      if (flow.links.empty() || flow.from < 0 || flow.to < 0 || flow.from == flow.to || flow.messages < 1) {
        return "SimGrid plays messages between two hosts over links";
      }
      const bool known = std::ranges::all_of(flow.links, [&](LinkId link) {
        return link >= 0 && static_cast<std::size_t>(link) < job.links.size();
      });
      const auto [entry, is_new] = ways.try_emplace({flow.from, flow.to}, &flow.links);
      if (!known || *entry->second != flow.links) {
        return fmt::format(
            "hosts {} and {} have no way, or several, over the links that are given to SimGrid", flow.from,
            flow.to);
      }
    }
  }
  if (hosts == 0) {
    return "no messages are given to SimGrid";
  }
  if (hosts > k_simgrid_hosts) {
    return fmt::format("SimGrid is asked for {} hosts; it plays up to {}: use commlens' own flows", hosts,
                       k_simgrid_hosts);
  }
  return std::nullopt;
}

void send_all(int pipe, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(pipe, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      _exit(1);  // nobody listens
    }
    bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

/// The child: loads SimGrid, plays, sends and ends.
[[noreturn]] void play_in_child(const std::filesystem::path& module, const SimgridJob& job, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) {
    std::signal(signal, SIG_DFL);
  }
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);  // SimGrid prints what we say better
  if (nowhere < 0) {
    _exit(1);
  }
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(nowhere, standard);
  }
  void* const library = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, "commlens_simgrid_finish_times");
  if (entry == nullptr) {
    send_all(pipe, fmt::format("{}cannot load {}: {}; install SimGrid (libsimgrid3.32), or rebuild commlens",
                               k_reason, module.string(), dlerror()));
    _exit(0);
  }
  try {
    std::vector<double> ends;
    reinterpret_cast<SimgridFunction>(entry)(job, ends);
    send_all(pipe, std::string_view(&k_times, 1));
    send_all(pipe, {reinterpret_cast<const char*>(ends.data()), ends.size() * sizeof(double)});
  } catch (const std::exception& error) {
    send_all(pipe, fmt::format("{}SimGrid refuses: {}", k_reason, error.what()));
  }
  _exit(0);  // without SimGrid's end, which is slow and prints
}

std::string receive_all(int pipe) {
  std::string received;
  std::array<char, 65536> block{};
  while (true) {
    const ssize_t got = ::read(pipe, block.data(), block.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return received;
    }
    received.append(block.data(), static_cast<std::size_t>(got));
  }
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? fmt::format("SimGrid crashed ({})", strsignal(WTERMSIG(status)))
                             : "SimGrid ended without times";
}

std::size_t flows_of(const SimgridJob& job) {
  std::size_t flows = 0;
  for (const std::vector<SimgridFlow>& wave : job.waves) {
    flows += wave.size();
  }
  return flows;
}

Result<std::vector<double>> times_of(std::string_view received, std::size_t flows, int status) {
  if (received.starts_with(k_reason)) {
    return failure(std::string(received.substr(1)));
  }
  if (!received.starts_with(k_times) || received.size() != 1 + flows * sizeof(double)) {
    return failure(how_it_ended(status));
  }
  std::vector<double> ends(flows);
  std::memcpy(ends.data(), received.data() + 1, flows * sizeof(double));
  return ends;
}

}  // namespace

Result<std::vector<double>> simgrid_finish_times(const SimgridJob& job) {
  if (const std::optional<std::string> reason = refusal(job)) {
    return failure(*reason);
  }
  const std::optional<std::filesystem::path> module = module_file(k_simgrid_file);
  if (!module) {
    return failure(fmt::format(
        "SimGrid cannot be asked here: {} is not in {}; build commlens where libsimgrid-dev is installed, "
        "or name its directory in COMMLENS_MODULE_PATH",
        k_simgrid_file, searched_for_modules()));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw SystemError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  std::fflush(nullptr);  // or the child has a copy of what is not written yet
  const pid_t child = fork();
  if (child < 0) {
    throw SystemError(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (child == 0) {
    close(ends[0]);
    play_in_child(*module, job, ends[1]);
  }
  close(ends[1]);
  const std::string received = receive_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return times_of(received, flows_of(job), status);
}

}  // namespace commlens
