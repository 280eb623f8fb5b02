#include "commlens/base/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/result.hpp"

namespace commlens {

pid_t forked_process() {
  std::fflush(nullptr);  // or the child has a copy of what is not written yet
  const pid_t process = fork();
  if (process < 0) {
    throw SystemError(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  return process;
}

int confined_child(int descriptor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int kept =
      descriptor <= STDERR_FILENO ? fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : descriptor;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
    std::signal(signal, SIG_DFL);
  }
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (kept < 0 || nowhere < 0) {
    _exit(1);
  }
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(nowhere, standard);
  }
  return kept;
}

int end_status_of(pid_t process) {
  int status = -1;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace commlens
