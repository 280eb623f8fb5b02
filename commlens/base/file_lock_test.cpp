#include "commlens/base/file_lock.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

// Each of four threads reads the number in the file and writes the next one, which replaces the file, 50
// times. Locks are of open files: threads that open it for themselves wait for each other as processes do.
TEST(FileLock, LetsOneReadAndReplaceTheFileAtATime) {
  const test_support::ScratchDirectory directory;
  const std::string file = directory.path("count");
  {
    std::array<std::jthread, 4> threads;
    for (std::jthread& thread : threads) {
      thread = std::jthread([&] {
        for (int time = 0; time < 50; ++time) {
          const FileLock lock(file);
          const std::string content = *read_text_file(file, 100);
          write_file_atomically(file, std::to_string(content.empty() ? 1 : std::stoi(content) + 1));
        }
      });
    }
  }
  EXPECT_EQ(*read_text_file(file, 100), "200");
}

// A job that cannot write its result leaves no empty one.
TEST(FileLock, LeavesNoFileWhereNoneWasWritten) {
  const test_support::ScratchDirectory directory;
  const std::string unwritten = directory.path("unwritten");
  {
    const FileLock lock(unwritten);
  }
  EXPECT_FALSE(std::filesystem::exists(unwritten));
  const std::string written = directory.path("written");
  {
    const FileLock lock(written);
    write_file_atomically(written, "");
  }
  EXPECT_TRUE(std::filesystem::exists(written));
  {
    const FileLock lock(written);
  }
  EXPECT_TRUE(std::filesystem::exists(written)) << "it was there, empty";
}

TEST(FileLock, SaysWhereItCannotBe) {
  const test_support::ScratchDirectory directory;
  EXPECT_THROW(FileLock(directory.path("none/result.json")), SystemError);
}

}  // namespace
}  // namespace commlens
