#include "commlens/base/file.hpp"

#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  test_support::ScratchDirectory scratch_;
  fs::path directory_ = scratch_.path();
};

TEST_F(FileTest, WritesAndReadsWholeFiles) {
  write_file_atomically(directory_ / "a", "one");
  write_file_atomically(directory_ / "a", "two");
  EXPECT_EQ(read_text_file(directory_ / "a", 100).value(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "a temporary file remains";
}

TEST_F(FileTest, RefusesWhatIsNoFileOrTooLarge) {
  write_file_atomically(directory_ / "a", "0123456789");
  EXPECT_NE(read_text_file(directory_ / "a", 9).error().message.find("larger than 9 bytes"),
            std::string::npos);
  EXPECT_NE(read_text_file(directory_ / "none", 9).error().message.find("no such file"), std::string::npos);
  EXPECT_NE(read_text_file(directory_, 9).error().message.find("not a regular file"), std::string::npos);
}

TEST_F(FileTest, WritesIntoDevicesWithoutReplacingThem) {
  write_file_atomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, WritesTheTargetOfALinkAndIntoOpenDescriptors) {
  write_file_atomically(directory_ / "real", "old");
  fs::create_symlink("real", directory_ / "link");
  fs::create_symlink("link", directory_ / "link of a link");
  write_file_atomically(directory_ / "link of a link", "new");
  EXPECT_EQ(read_text_file(directory_ / "real", 9).value(), "new");
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  fs::create_symlink("none yet", directory_ / "ahead");
  write_file_atomically(directory_ / "ahead", "x");
  EXPECT_EQ(read_text_file(directory_ / "none yet", 9).value(), "x");

  std::FILE* const open = std::fopen((directory_ / "real").c_str(), "a");
  ASSERT_NE(open, nullptr);
  const fs::path descriptor = "/proc/self/fd/" + std::to_string(fileno(open));
  fs::create_symlink(descriptor, directory_ / "stdout");  // as /dev/stdout is one
  write_file_atomically(directory_ / "stdout", "er");
  write_file_atomically(descriptor, "!");
  std::fclose(open);
  EXPECT_EQ(read_text_file(directory_ / "real", 9).value(), "newer!");
  EXPECT_TRUE(fs::is_symlink(directory_ / "stdout"));
}

TEST_F(FileTest, LeavesTheUnfinishedFileOfAnotherProcessOfItsNumber) {
  const fs::path other = directory_ / ("a." + std::to_string(getpid()) + "-0.tmp");
  write_file_atomically(other, "theirs");
  write_file_atomically(directory_ / "a", "ours");
  EXPECT_EQ(read_text_file(other, 9).value(), "theirs");
}

TEST_F(FileTest, ThrowsWhenTheDirectoryCannotBeWritten) {
  EXPECT_THROW(write_file_atomically(directory_ / "missing" / "a", "x"), SystemError);
}

}  // namespace
}  // namespace commlens
