#include "commlens/app/alert_command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

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

}  // namespace

AlertCommand::~AlertCommand() {
  for (const Running& running : running_) {
    kill(-running.process, SIGKILL);
    waitpid(running.process, nullptr, 0);
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

void AlertCommand::look() {
  const auto now = std::chrono::steady_clock::now();
  const auto is_over = [&](const Running& running) {
    if (now >= running.until) {
      kill(-running.process, SIGKILL);
      waitpid(running.process, nullptr, 0);
      return true;
    }
    return waitpid(running.process, nullptr, WNOHANG) != 0;
  };
  running_.erase(std::remove_if(running_.begin(), running_.end(), is_over), running_.end());
}

}  // namespace commlens
