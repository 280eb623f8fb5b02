#include "commlens/formats/io/spool.hpp"

#include <csignal>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

TextSource source_of(const ScratchDirectory& directory, std::string_view text) {
  return std::move(*TextSource::open(directory.write("source", text)));
}

TEST(Spool, KeepsWhatItTakesUntilItGoes) {
  const ScratchDirectory directory;
  std::filesystem::path file;
  {
    Spool spool("/dev/rank3.fifo");
    file = spool.file();
    EXPECT_EQ(file.filename(), "rank3.fifo");
    EXPECT_EQ(content_of(file), "");
    TextSource source = source_of(directory, "abcdef");
    EXPECT_EQ(spool.take(source, 4), true);
    EXPECT_EQ(content_of(file), "abcd");
    EXPECT_EQ(spool.take(source, 4), false);
    EXPECT_EQ(content_of(file), "abcdef");
  }
  EXPECT_FALSE(std::filesystem::exists(file.parent_path()));
}

TEST(Spool, KeepsWhatWasPeekedAtToo) {
  const ScratchDirectory directory;
  TextSource source = source_of(directory, "abcdef");
  EXPECT_EQ(source.peek(3), "abc");
  EXPECT_EQ(source.peek(2), "abc");
  Spool spool("-");
  EXPECT_EQ(spool.take(source, 100), false);
  EXPECT_EQ(content_of(spool.file()), "abcdef");
}

TEST(Spool, RefusesMoreThanItsLimit) {
  const ScratchDirectory directory;
  TextSource source = source_of(directory, "0123456789");
  Spool spool("-", 9);
  const Result<bool> taken = spool.take(source, 100);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message.substr(0, 46), "standard input: more than 9 B, the limit of wh")
      << taken.error().message;
  EXPECT_NE(taken.error().message.find("; write it into a file and name that"), std::string::npos);
}

/// What the SystemError says that `what` throws in a process of its own.
template <typename What>
std::string thrown_by(const What& what) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    try {
      what();
    } catch (const SystemError& error) {
      const std::string_view text = error.what();
      static_cast<void>(!write(ends[1], text.data(), text.size()));
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], said.data(), said.size()), 0)));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return said;
}

TEST(Spool, SaysWhatToDoWhereTheDiskIsFull) {
  const ScratchDirectory directory;
  setenv("TMPDIR", (directory / ".").c_str(), 1);
  const std::string said = thrown_by([&] {
    TextSource source = source_of(directory, std::string(100'000, 'x'));
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &little);
    Spool spool("-");
    (void)spool.take(source, 100'000);
  });
  unsetenv("TMPDIR");
  EXPECT_EQ(said, "cannot keep what standard input holds in " + (directory / ".").string() +
                      ": File too large; set TMPDIR to a directory with room");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / "."), {}), 1)
      << "more than the source";
}

TEST(Spool, SaysWhatToDoWhereThereIsNoPlace) {
  const ScratchDirectory directory;
  setenv("TMPDIR", (directory / "none").c_str(), 1);
  const std::string said = thrown_by([&] { const Spool spool("-"); });
  unsetenv("TMPDIR");
  EXPECT_EQ(said, "cannot make a directory in " + (directory / "none").string() +
                      ": No such file or directory; set TMPDIR to one that can be written");
}

}  // namespace
}  // namespace commlens::formats
