#include "commlens/app/record_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/result.hpp"

namespace commlens {
namespace {

/// Blocks SIGCHLD and the signals that are passed on to the child, during its lifetime.
class Signals {
 public:
  Signals() {
    sigemptyset(&waited_);
    for (const int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
      sigaddset(&waited_, signal);
    }
    sigprocmask(SIG_BLOCK, &waited_, &before_);
    // If the parent process set it to ignored, it would never arrive.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &before_child_);
  }
  ~Signals() {
    sigaction(SIGCHLD, &before_child_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const sigset_t& before() const { return before_; }

  /// Passes the next signal other than SIGCHLD on to the child, which has already received those of the
  /// terminal.
  void pass_one(pid_t child) const {
    siginfo_t info = {};
    const int signal = sigwaitinfo(&waited_, &info);
    const bool is_of_terminal = info.si_code == SI_KERNEL;
    if (signal > 0 && signal != SIGCHLD && !is_of_terminal) {
      kill(child, signal);
    }
  }

 private:
  sigset_t waited_ = {};
  sigset_t before_ = {};
  struct sigaction before_child_ = {};
};

std::string_view name_in(std::string_view variable) { return variable.substr(0, variable.find('=')); }

/// This process's environment with `variables` in place of those of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool is_replaced = std::any_of(variables.begin(), variables.end(), [&](const std::string& given) {
      return name_in(given) == name_in(*variable);
    });
    if (!is_replaced) {
      all.emplace_back(*variable);
    }
  }
  return all;
}

/// Destroys what it is given.
pid_t started(const ChildProgram& program, posix_spawnattr_t attributes, posix_spawn_file_actions_t files) {
  std::vector<std::string> words = program.command;
  std::vector<std::string> variables = environment_with(program.variables);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words.front().c_str(), &files, &attributes,
                                  pointers_to(words).data(), pointers_to(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    throw SystemError(fmt::format("cannot start {}: {}", words.front(), std::strerror(failed)));
  }
  return child;
}

/// With this process's streams, and the signals of `mask` blocked.
pid_t started_in_front(const ChildProgram& program, const sigset_t& mask) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  return started(program, attributes, files);
}

/// As the first of a process group, with what it prints in a file.
pid_t started_beside(const ChildProgram& program, const std::string& output) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr mode_t readable = 0644;
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   readable);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  return started(program, attributes, files);
}

int exit_code_of(int status) {
  constexpr int signalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : signalled + WTERMSIG(status);
}

}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

int run_child(const ChildProgram& program) {
  const Signals signals;
  const pid_t child = started_in_front(program, signals.before());
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      break;
    }
    if (ended < 0 && errno != EINTR) {
      throw SystemError(fmt::format("cannot wait for {}: {}", program.command.front(), std::strerror(errno)));
    }
    signals.pass_one(child);
  }
  return exit_code_of(status);
}

std::optional<int> run_watched(const ChildProgram& program, const ChildWatch& watch) {
  constexpr std::chrono::milliseconds between_looks{20};
  constexpr std::chrono::seconds grace{5};  // of SIGTERM, after which it is killed
  const pid_t child = started_beside(program, watch.output);
  auto end = std::chrono::steady_clock::now() + watch.limit;
  bool is_ended_here = false;
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      return is_ended_here ? std::nullopt : std::optional(exit_code_of(status));
    }
    if (ended < 0 && errno != EINTR) {
      throw SystemError(fmt::format("cannot wait for {}: {}", program.command.front(), std::strerror(errno)));
    }
    const auto now = std::chrono::steady_clock::now();
    if (now > end || (!is_ended_here && watch.stop_requested && watch.stop_requested())) {
      kill(-child, is_ended_here ? SIGKILL : SIGTERM);
      is_ended_here = true;
      end = now + grace;
    }
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace commlens
