#include "commlens/base/unfinished.hpp"

#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/result.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

class UnfinishedTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  /// A folder of 300 files and a nested one, more than one call of the system lists.
  fs::path filled(const char* name) const {
    fs::create_directories(folder_ / name / "deep" / "er");
    for (int file = 0; file < 300; ++file) {
      std::ofstream(folder_ / name / "deep" / ("a file with a long name, number " + std::to_string(file)))
          << 'x';
    }
    std::ofstream(folder_ / name / "deep" / "er" / "last") << 'x';
    return folder_ / name;
  }
  std::ptrdiff_t names() const { return std::distance(fs::directory_iterator(folder_), {}); }
  fs::path folder_ = fs::path(testing::TempDir()) / ("commlens_unfinished_test." + std::to_string(getpid()));
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
    const Unfinished folder(filled("a"));
    const Unfinished absent(folder_ / "b");
    EXPECT_EQ(names(), 1);
  }
  EXPECT_EQ(names(), 0);
}

TEST_F(UnfinishedTest, IsRemovedWithAllInItWhenASignalEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = status_of([&] {
      remove_unfinished_on_signals();
      const Unfinished folder(filled("a"));
      const Unfinished file(filled("b") / "deep/er/last");
      std::raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_FALSE(fs::exists(folder_ / "a")) << signal;
    EXPECT_FALSE(fs::exists(folder_ / "b/deep/er/last")) << signal;
    EXPECT_TRUE(fs::exists(folder_ / "b/deep/er")) << signal;
  }
}

TEST_F(UnfinishedTest, FollowsNoLinks) {
  filled("precious");
  status_of([&] {
    remove_unfinished_on_signals();
    fs::create_directory(folder_ / "a");
    fs::create_directory_symlink(folder_ / "precious", folder_ / "a" / "link");
    const Unfinished folder(folder_ / "a");
    std::raise(SIGTERM);
  });
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_TRUE(fs::exists(folder_ / "precious/deep/er/last"));
}

TEST_F(UnfinishedTest, WhatWasFinishedStays) {
  status_of([&] {
    remove_unfinished_on_signals();
    {
      const Unfinished file(folder_ / "a");
    }
    std::ofstream(folder_ / "a") << 'x';
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(fs::exists(folder_ / "a"));
}

TEST_F(UnfinishedTest, WhatGetsItsNameWhenItHasAnotherStays) {
  {
    Unfinished file(new_file_beside(folder_ / "a"));
    fs::rename(file.path(), folder_ / "a");
    file.finished();
    std::ofstream(file.path()) << "of another process";
  }
  EXPECT_EQ(names(), 2);
}

TEST_F(UnfinishedTest, NewNamesAreNobodyElses) {
  const fs::path first = new_file_beside(folder_ / "a");
  const fs::path second = new_folder_beside(folder_ / "a");
  EXPECT_NE(first, second);
  EXPECT_TRUE(fs::is_regular_file(first));
  EXPECT_TRUE(fs::is_directory(second));
  EXPECT_FALSE(try_new_file_beside(folder_ / "no such folder" / "a").has_value());
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
    const Unfinished folder(filled("a"));
    status_of([] { std::raise(SIGTERM); });
    std::ofstream(folder_ / (fs::exists(folder_ / "a/deep/er/last") ? "kept" : "gone")) << 'x';
  });
  EXPECT_TRUE(fs::exists(folder_ / "kept"));
}

TEST_F(UnfinishedTest, ErrorsNameWhatTheUserKnows) {
  const Unfinished folder(folder_ / "a.tmp");
  try {
    folder.write_as("a", [&] { throw SystemError("cannot write " + (folder.path() / "b").string()); });
    FAIL() << "nothing was thrown";
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "cannot write a/b");
  }
}

TEST_F(UnfinishedTest, ReplacesAFolder) {
  filled("old");
  {
    fs::create_directory(folder_ / "fresh");
    const Unfinished fresh(folder_ / "fresh");
    std::ofstream(fresh.path() / "new") << 'x';
    replace_folder(folder_ / "old", fresh.path());
  }
  EXPECT_TRUE(fs::exists(folder_ / "old/new"));
  EXPECT_FALSE(fs::exists(folder_ / "old/deep"));
  EXPECT_EQ(names(), 1);
}

TEST_F(UnfinishedTest, PutsTheOldFolderBackWhenTheNewOneCannotBeMoved) {
  filled("old");
  EXPECT_THROW(replace_folder(folder_ / "old", folder_ / "no such folder"), SystemError);
  EXPECT_TRUE(fs::exists(folder_ / "old/deep/er/last"));
  EXPECT_THROW(replace_folder(folder_ / "absent", folder_ / "old"), SystemError);
  EXPECT_TRUE(fs::exists(folder_ / "old/deep/er/last"));
  EXPECT_EQ(names(), 1);
}

}  // namespace
}  // namespace commlens
