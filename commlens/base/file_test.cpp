#include "commlens/base/file.hpp"

#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace commlens {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::path(testing::TempDir()) / ("commlens_file_test." + std::to_string(getpid()));
};

TEST_F(FileTest, WritesAndReadsWholeFiles) {
  write_file_atomically(folder_ / "a", "one");
  write_file_atomically(folder_ / "a", "two");
  EXPECT_EQ(read_text_file(folder_ / "a", 100).value(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "a temporary file was left behind";
}

TEST_F(FileTest, RefusesWhatIsNoFileOrTooLarge) {
  write_file_atomically(folder_ / "a", "0123456789");
  EXPECT_NE(read_text_file(folder_ / "a", 9).error().message.find("larger than 9 bytes"), std::string::npos);
  EXPECT_NE(read_text_file(folder_ / "none", 9).error().message.find("no such file"), std::string::npos);
  EXPECT_NE(read_text_file(folder_, 9).error().message.find("not a regular file"), std::string::npos);
}

TEST_F(FileTest, WritesIntoDevicesWithoutReplacingThem) {
  write_file_atomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(FileTest, WritesTheFileBehindALinkAndIntoOpenDescriptors) {
  write_file_atomically(folder_ / "real", "old");
  fs::create_symlink("real", folder_ / "link");
  fs::create_symlink("link", folder_ / "link of a link");
  write_file_atomically(folder_ / "link of a link", "new");
  EXPECT_EQ(read_text_file(folder_ / "real", 9).value(), "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  fs::create_symlink("none yet", folder_ / "ahead");
  write_file_atomically(folder_ / "ahead", "x");
  EXPECT_EQ(read_text_file(folder_ / "none yet", 9).value(), "x");

  std::FILE* const open = std::fopen((folder_ / "real").c_str(), "a");
  ASSERT_NE(open, nullptr);
  const fs::path descriptor = "/proc/self/fd/" + std::to_string(fileno(open));
  fs::create_symlink(descriptor, folder_ / "stdout");  // as /dev/stdout is one
  write_file_atomically(folder_ / "stdout", "er");
  write_file_atomically(descriptor, "!");
  std::fclose(open);
  EXPECT_EQ(read_text_file(folder_ / "real", 9).value(), "newer!");
  EXPECT_TRUE(fs::is_symlink(folder_ / "stdout"));
}

TEST_F(FileTest, LeavesTheUnfinishedFileOfAnotherProcessOfItsNumber) {
  const fs::path other = folder_ / ("a." + std::to_string(getpid()) + "-0.tmp");
  write_file_atomically(other, "theirs");
  write_file_atomically(folder_ / "a", "ours");
  EXPECT_EQ(read_text_file(other, 9).value(), "theirs");
}

TEST_F(FileTest, ThrowsWhenTheFolderCannotBeWritten) {
  EXPECT_THROW(write_file_atomically(folder_ / "missing" / "a", "x"), SystemError);
}

}  // namespace
}  // namespace commlens
