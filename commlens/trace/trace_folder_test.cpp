#include "commlens/trace/trace_folder.hpp"

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
using test_support::ScratchFolder;

/// Names in a folder, the hidden ones too.
std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(TraceFolder, ProcessesThatClaimOneAtTheSameTimeGetOneEach) {
  constexpr int rounds = 20;
  constexpr int processes = 8;
  for (int round = 0; round < rounds; ++round) {
    const ScratchFolder folder;
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process) {
      children.push_back(fork());
      if (children.back() == 0) {
        const std::string name = std::to_string(process);
        const std::filesystem::path got =
            claim_recording(folder / "t", {.producer = "test", .description = name, .ranks = 1});
        folder.write("got-" + name, got.string());
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
      const std::string place = content_of(folder / ("got-" + name));
      places.insert(place);
      const Result<Trace> trace = read_trace(place);
      ASSERT_TRUE(trace) << trace.error().message;
      EXPECT_EQ(trace->provenance.description, name) << place;
      std::filesystem::remove(folder / ("got-" + name));
    }
    EXPECT_EQ(places.size(), std::size_t{processes}) << "round " << round;
    EXPECT_EQ(names_in(folder / ""),
              (std::set<std::string>{"t", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7", "t-8"}));
  }
}

TEST(TraceFolder, AClaimTakesAnEmptyFolderAndLeavesATraceAlone) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "t");
  EXPECT_EQ(claim_recording(folder / "t", {.producer = "first", .ranks = 1}), folder / "t");
  EXPECT_EQ(claim_recording(folder / "t/", {.producer = "second", .ranks = 1}), folder / "t-2");
  EXPECT_EQ(read_trace(folder / "t").value_or(Trace()).provenance.producer, "first");
}

TEST(TraceFolder, AClaimRefusesWhatIsNoTrace) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "t");
  folder.write("t/thesis.txt", "mine");
  folder.write("u", "mine");
  EXPECT_THROW(claim_recording(folder / "t", {.producer = "test", .ranks = 1}), SystemError);
  EXPECT_THROW(claim_recording(folder / "u", {.producer = "test", .ranks = 1}), SystemError);
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"t", "u"}));
  EXPECT_EQ(content_of(folder / "t/thesis.txt"), "mine");
}

// Processes on several machines may have the same number.
TEST(TraceFolder, AnUnfinishedFolderOfAnotherProcessIsLeftAlone) {
  const ScratchFolder folder;
  const std::string theirs = ".t.tmp." + std::to_string(getpid()) + "-0";
  std::filesystem::create_directory(folder / theirs);
  folder.write(theirs + "/manifest.json", "theirs");
  claim_recording(folder / "t", {.producer = "test", .ranks = 1});
  create_recording(folder / "t", {.producer = "test", .ranks = 2});
  EXPECT_EQ(names_in(folder / ""), (std::set<std::string>{"t", theirs}));
  EXPECT_EQ(content_of(folder / (theirs + "/manifest.json")), "theirs");
}

}  // namespace
}  // namespace commlens
