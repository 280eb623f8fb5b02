#include "commlens/trace/trace_directory.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;

/// Names in a directory, the hidden ones too.
std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(TraceDirectory, ProcessesThatClaimOneAtTheSameTimeGetOneEach) {
  constexpr int rounds = 20;
  constexpr int processes = 8;
  for (int round = 0; round < rounds; ++round) {
    const ScratchDirectory directory;
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process) {
      children.push_back(fork());
      if (children.back() == 0) {
        const std::string name = std::to_string(process);
        const std::filesystem::path got =
            claim_recording(directory / "t", {.producer = "test", .description = name, .ranks = 1});
        directory.write("got-" + name, got.string());
        _exit(0);
      }
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0) << "round " << round;
    }
    std::set<std::string> places;
    for (int process = 0; process < processes; ++process) {
      const std::string name = std::to_string(process);
      const std::string place = content_of(directory / ("got-" + name));
      places.insert(place);
      const Result<Trace> trace = read_trace(place);
      ASSERT_TRUE(trace) << trace.error().message;
      EXPECT_EQ(trace->provenance.description, name) << place;
      std::filesystem::remove(directory / ("got-" + name));
    }
    EXPECT_EQ(places.size(), std::size_t{processes}) << "round " << round;
    EXPECT_EQ(names_in(directory / ""),
              (std::set<std::string>{"t", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7", "t-8"}));
  }
}

TEST(TraceDirectory, AClaimTakesAnEmptyDirectoryAndLeavesATraceAlone) {
  const ScratchDirectory directory;
  std::filesystem::create_directory(directory / "t");
  EXPECT_EQ(claim_recording(directory / "t", {.producer = "first", .ranks = 1}), directory / "t");
  EXPECT_EQ(claim_recording(directory / "t/", {.producer = "second", .ranks = 1}), directory / "t-2");
  EXPECT_EQ(read_trace(directory / "t").value_or(Trace()).provenance.producer, "first");
}

TEST(TraceDirectory, AClaimRefusesWhatIsNoTrace) {
  const ScratchDirectory directory;
  std::filesystem::create_directory(directory / "t");
  directory.write("t/thesis.txt", "mine");
  directory.write("u", "mine");
  EXPECT_THROW(claim_recording(directory / "t", {.producer = "test", .ranks = 1}), SystemError);
  EXPECT_THROW(claim_recording(directory / "u", {.producer = "test", .ranks = 1}), SystemError);
  EXPECT_EQ(names_in(directory / ""), (std::set<std::string>{"t", "u"}));
  EXPECT_EQ(content_of(directory / "t/thesis.txt"), "mine");
}

// Processes on several machines may have the same number.
TEST(TraceDirectory, AnUnfinishedDirectoryOfAnotherProcessIsLeftAlone) {
  const ScratchDirectory directory;
  const std::string theirs = ".t.tmp." + std::to_string(getpid()) + "-0";
  std::filesystem::create_directory(directory / theirs);
  directory.write(theirs + "/manifest.json", "theirs");
  claim_recording(directory / "t", {.producer = "test", .ranks = 1});
  create_recording(directory / "t", {.producer = "test", .ranks = 2});
  EXPECT_EQ(names_in(directory / ""), (std::set<std::string>{"t", theirs}));
  EXPECT_EQ(content_of(directory / (theirs + "/manifest.json")), "theirs");
}

}  // namespace
}  // namespace commlens
