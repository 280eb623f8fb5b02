#include "commlens/formats/io/write_stream.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/formats/io/line_reader.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchFolder;

TEST(WriteStream, WritesAFileWholeAndCompressesByName) {
  const ScratchFolder folder;
  const auto twice = [](const TextSink& sink) {
    sink("one\n");
    sink("two\n");
  };
  write_stream((folder / "f").string(), twice);
  write_stream((folder / "f.gz").string(), twice);
  EXPECT_EQ(test_support::content_of(folder / "f"), "one\ntwo\n");
  EXPECT_TRUE(test_support::content_of(folder / "f.gz").starts_with("\x1f\x8b"));
  EXPECT_EQ(read_head(folder / "f.gz", 100), "one\ntwo\n");
}

/// Whether writing ends in the error of the system's.
bool throws(const std::string& destination, const std::function<void(const TextSink&)>& write) {
  try {
    write_stream(destination, write);
  } catch (const SystemError&) {
    return true;
  }
  return false;
}

TEST(WriteStream, KeepsTheOldFileWhenWritingFails) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.write("f", "old");
  EXPECT_TRUE(throws(file.string(), [](const TextSink& sink) {
    sink("new");
    throw SystemError("stop");
  }));
  EXPECT_EQ(test_support::content_of(file), "old");
  const std::filesystem::directory_iterator entries(folder / ".");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(WriteStream, WritesThroughLinksAndIntoDevices) {
  const ScratchFolder folder;
  folder.write("target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  write_stream((folder / "link").string(), [](const TextSink& sink) { sink("new"); });
  EXPECT_EQ(test_support::content_of(folder / "target"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  write_stream("/dev/null", [](const TextSink& sink) { sink("gone"); });
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteStream, ThrowsWhereItCannotWrite) {
  const ScratchFolder folder;
  const auto nothing = [](const TextSink& /*sink*/) {};
  EXPECT_TRUE(throws((folder / "no/such/folder").string(), nothing));
  EXPECT_TRUE(throws((folder / ".").string(), nothing));
  EXPECT_TRUE(throws("/dev/full", [](const TextSink& sink) { sink("too much"); }));
  EXPECT_TRUE(throws("", nothing));
}

TEST(WriteStream, ToAPipeThatNobodyReadsThrowsInsteadOfEndingTheProgram) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::fflush(stdout);
  const int saved = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[0]);
  close(ends[1]);
  const bool has_thrown = throws("-", [](const TextSink& sink) { sink("nobody listens"); });
  dup2(saved, STDOUT_FILENO);
  close(saved);
  EXPECT_TRUE(has_thrown);
}

TEST(WriteStream, WritesToStandardOutput) {
  ::testing::internal::CaptureStdout();
  write_stream("-", [](const TextSink& sink) { sink("line\n"); });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "line\n");
}

}  // namespace
}  // namespace commlens::formats
