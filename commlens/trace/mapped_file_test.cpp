#include "commlens/trace/mapped_file.hpp"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

TEST(MappedFile, ShowsTheBytesOfAFileAndKeepsThemWhenMoved) {
  const test_support::ScratchDirectory directory;
  Result<MappedFile> file = MappedFile::open(directory.write("f", "four"));
  ASSERT_TRUE(file);
  const MappedFile moved = std::move(*file);
  ASSERT_EQ(moved.bytes().size(), 4U);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "four", 4), 0);
}

TEST(MappedFile, OfAnEmptyFileHasNoBytes) {
  const test_support::ScratchDirectory directory;
  const Result<MappedFile> file = MappedFile::open(directory.write("f", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const test_support::ScratchDirectory directory;
  ASSERT_EQ(mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(MappedFile::open(directory / "pipe"));
  EXPECT_FALSE(MappedFile::open(directory / "."));
  const Result<MappedFile> missing = MappedFile::open(directory / "missing");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("missing: no such file"), std::string::npos)
      << missing.error().message;
}

}  // namespace
}  // namespace commlens
