#include "commlens/formats/io/write_stream.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/formats/io/line_reader.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;

TEST(WriteStream, WritesAFileWholeAndCompressesByName) {
  const ScratchDirectory directory;
  const auto twice = [](const TextSink& sink) {
    sink("one\n");
    sink("two\n");
  };
  write_stream((directory / "f").string(), twice);
  write_stream((directory / "f.gz").string(), twice);
  EXPECT_EQ(test_support::content_of(directory / "f"), "one\ntwo\n");
  EXPECT_TRUE(test_support::content_of(directory / "f.gz").starts_with("\x1f\x8b"));
  EXPECT_EQ(read_head(directory / "f.gz", 100), "one\ntwo\n");
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
  const ScratchDirectory directory;
  const std::filesystem::path file = directory.write("f", "old");
  EXPECT_TRUE(throws(file.string(), [](const TextSink& sink) {
    sink("new");
    throw SystemError("stop");
  }));
  EXPECT_EQ(test_support::content_of(file), "old");
  const std::filesystem::directory_iterator entries(directory / ".");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(WriteStream, WritesThroughLinksAndIntoDevices) {
  const ScratchDirectory directory;
  directory.write("target", "old");
  std::filesystem::create_symlink("target", directory / "link");
  write_stream((directory / "link").string(), [](const TextSink& sink) { sink("new"); });
  EXPECT_EQ(test_support::content_of(directory / "target"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  write_stream("/dev/null", [](const TextSink& sink) { sink("gone"); });
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteStream, ThrowsWhereItCannotWrite) {
  const ScratchDirectory directory;
  const auto nothing = [](const TextSink& /*sink*/) {};
  EXPECT_TRUE(throws((directory / "no/such/directory").string(), nothing));
  EXPECT_TRUE(throws((directory / ".").string(), nothing));
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
