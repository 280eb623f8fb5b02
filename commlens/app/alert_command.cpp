#include "commlens/app/alert_command.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX asks the program to declare it

namespace commlens {
namespace {

/// A file in memory with the text, to be read from its start; -1: there is no memory for it. A pipe would
/// block where the command does not read.
int file_with(const std::string& text) {
  const int file = memfd_create("alert", MFD_CLOEXEC);
  if (file >= 0 && ::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    ::close(file);
    return -1;
  }
  return file;
}

void end_group(pid_t leader, bool has_leader_ended) {
  kill(-leader, SIGKILL);
  if (!has_leader_ended) {
    waitpid(leader, nullptr, 0);
  }
}

/// How a process failed; empty: it did not.
std::string failure_of(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("it was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  return code == 0 ? "" : fmt::format("its exit status is {}", code);
}

}  // namespace

AlertCommand::~AlertCommand() {
  for (const Running& running : running_) {
    end_group(running.process, running.is_group_alone);
  }
}

std::string AlertCommand::start(const std::string& alert) {
  look();
  if (running_.size() >= k_most) {
    return "too many of the commands before are still running";
  }
  const int file = file_with(alert);
  if (file < 0) {
    return std::strerror(errno);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string shell = "sh";
  std::string option = "-c";
  std::array<char*, 4> arguments = {shell.data(), option.data(), command_.data(), nullptr};
  pid_t process = 0;
  const int cause = posix_spawn(&process, "/bin/sh", &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(file);
  if (cause != 0) {
    return std::strerror(cause);
  }
  running_.push_back({process, std::chrono::steady_clock::now() + k_limit});
  return "";
}

void AlertCommand::look(std::chrono::steady_clock::time_point now) {
  std::vector<Running> still;
  for (Running& running : running_) {
    if (!is_over(running, now)) {
      still.push_back(running);
    }
  }
  running_ = std::move(still);
}

bool AlertCommand::is_over(Running& running, std::chrono::steady_clock::time_point now) const {
  int status = 0;
  if (!running.is_group_alone && waitpid(running.process, &status, WNOHANG) != 0) {
    running.is_group_alone = true;
    if (const std::string why = failure_of(status); !why.empty()) {
      warnings_.warn(fmt::format("the command for alerts failed: {}", why));
    }
  }
  // The number of a group is given to no other process while one of its processes is there.
  if (running.is_group_alone && kill(-running.process, 0) != 0) {
    return true;
  }
  if (now < running.until) {
    return false;
  }
  end_group(running.process, running.is_group_alone);
  warnings_.warn(fmt::format("the command for alerts was ended: {} ran for more than {} s",
                             running.is_group_alone ? "what it left in the background" : "it",
                             k_limit.count()));
  return true;
}

}  // namespace commlens
