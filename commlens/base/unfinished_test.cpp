#include "commlens/base/unfinished.hpp"

#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/result.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

class UnfinishedTest : public testing::Test {
 protected:
  /// A directory of 300 files and a nested one, more than one call of the system lists.
  fs::path filled(const char* name) const {
    fs::create_directories(directory_ / name / "deep" / "er");
    for (int file = 0; file < 300; ++file) {
      std::ofstream(directory_ / name / "deep" / ("a file with a long name, number " + std::to_string(file)))
          << 'x';
    }
    std::ofstream(directory_ / name / "deep" / "er" / "last") << 'x';
    return directory_ / name;
  }
  std::ptrdiff_t names() const { return std::distance(fs::directory_iterator(directory_), {}); }
  test_support::ScratchDirectory scratch_;
  fs::path directory_ = scratch_.path();
};

/// How a child process that runs `child` ends.
template <typename Child>
int status_of(const Child& child) {
  const pid_t started = fork();
  if (started == 0) {
    child();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(started, &status, 0), started);
  return status;
}

TEST_F(UnfinishedTest, IsRemovedWithAllInItWhenItGoes) {
  {
    const Unfinished directory(filled("a"));
    const Unfinished absent(directory_ / "b");
    EXPECT_EQ(names(), 1);
  }
  EXPECT_EQ(names(), 0);
}

TEST_F(UnfinishedTest, IsRemovedWithAllInItWhenASignalEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = status_of([&] {
      remove_unfinished_on_signals();
      const Unfinished directory(filled("a"));
      const Unfinished file(filled("b") / "deep/er/last");
      std::raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_FALSE(fs::exists(directory_ / "a")) << signal;
    EXPECT_FALSE(fs::exists(directory_ / "b/deep/er/last")) << signal;
    EXPECT_TRUE(fs::exists(directory_ / "b/deep/er")) << signal;
  }
}

TEST_F(UnfinishedTest, FollowsNoLinks) {
  filled("precious");
  status_of([&] {
    remove_unfinished_on_signals();
    fs::create_directory(directory_ / "a");
    fs::create_directory_symlink(directory_ / "precious", directory_ / "a" / "link");
    const Unfinished directory(directory_ / "a");
    std::raise(SIGTERM);
  });
  EXPECT_FALSE(fs::exists(directory_ / "a"));
  EXPECT_TRUE(fs::exists(directory_ / "precious/deep/er/last"));
}

TEST_F(UnfinishedTest, WhatWasFinishedStays) {
  status_of([&] {
    remove_unfinished_on_signals();
    {
      const Unfinished file(directory_ / "a");
    }
    std::ofstream(directory_ / "a") << 'x';
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(fs::exists(directory_ / "a"));
}

TEST_F(UnfinishedTest, WhatGetsItsNameWhenItHasAnotherStays) {
  {
    Unfinished file(new_file_beside(directory_ / "a"));
    fs::rename(file.path(), directory_ / "a");
    file.finished();
    std::ofstream(file.path()) << "of another process";
  }
  EXPECT_EQ(names(), 2);
}

TEST_F(UnfinishedTest, NewNamesAreUnique) {
  const fs::path first = new_file_beside(directory_ / "a");
  const fs::path second = new_directory_beside(directory_ / "a");
  EXPECT_NE(first, second);
  EXPECT_TRUE(fs::is_regular_file(first));
  EXPECT_TRUE(fs::is_directory(second));
  EXPECT_FALSE(try_new_file_beside(directory_ / "no such directory" / "a").has_value());
}

TEST_F(UnfinishedTest, ASignalThatIsIgnoredStaysIgnored) {
  const int status = status_of([] {
    std::signal(SIGHUP, SIG_IGN);
    remove_unfinished_on_signals();
    std::raise(SIGHUP);
  });
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

TEST_F(UnfinishedTest, AForkedChildThatIsKilledRemovesNothing) {
  status_of([&] {
    remove_unfinished_on_signals();
    const Unfinished directory(filled("a"));
    status_of([] { std::raise(SIGTERM); });
    std::ofstream(directory_ / (fs::exists(directory_ / "a/deep/er/last") ? "kept" : "gone")) << 'x';
  });
  EXPECT_TRUE(fs::exists(directory_ / "kept"));
}

TEST_F(UnfinishedTest, ErrorsNameWhatTheUserKnows) {
  const Unfinished directory(directory_ / "a.tmp");
  try {
    directory.write_as("a", [&] { throw SystemError("cannot write " + (directory.path() / "b").string()); });
    FAIL() << "nothing was thrown";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "cannot write a/b");
  }
}

TEST_F(UnfinishedTest, ReplacesADirectory) {
  filled("old");
  {
    fs::create_directory(directory_ / "fresh");
    const Unfinished fresh(directory_ / "fresh");
    std::ofstream(fresh.path() / "new") << 'x';
    replace_directory(directory_ / "old", fresh.path());
  }
  EXPECT_TRUE(fs::exists(directory_ / "old/new"));
  EXPECT_FALSE(fs::exists(directory_ / "old/deep"));
  EXPECT_EQ(names(), 1);
}

TEST_F(UnfinishedTest, PutsTheOldDirectoryBackWhenTheNewOneCannotBeMoved) {
  filled("old");
  EXPECT_THROW(replace_directory(directory_ / "old", directory_ / "no such directory"), SystemError);
  EXPECT_TRUE(fs::exists(directory_ / "old/deep/er/last"));
  EXPECT_THROW(replace_directory(directory_ / "absent", directory_ / "old"), SystemError);
  EXPECT_TRUE(fs::exists(directory_ / "old/deep/er/last"));
  EXPECT_EQ(names(), 1);
}

}  // namespace
}  // namespace commlens
