#include "commlens/base/child_process.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace commlens {
namespace {

TEST(ChildProcess, KeepsItsDescriptorAndReadsAndPrintsNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = forked_process();
  if (child == 0) {
    const int kept = confined_child(ends[1]);
    char nothing = 0;
    const bool is_silent = read(STDIN_FILENO, &nothing, 1) == 0 && write(STDOUT_FILENO, "x", 1) == 1;
    _exit(is_silent && write(kept, "abc", 3) == 3 ? 7 : 1);
  }
  close(ends[1]);
  char got[4] = {};
  EXPECT_EQ(read(ends[0], got, 3), 3);
  EXPECT_STREQ(got, "abc");
  const int status = end_status_of(child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(end_status_of(child), -1);
  close(ends[0]);
}

TEST(ChildProcess, DiesOfSignalsThatItsParentIgnores) {
  void (*const before)(int) = std::signal(SIGTERM, SIG_IGN);
  const pid_t child = forked_process();
  if (child == 0) {
    confined_child(STDERR_FILENO);
    std::raise(SIGTERM);
    _exit(0);
  }
  std::signal(SIGTERM, before);
  const int status = end_status_of(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

}  // namespace
}  // namespace commlens
