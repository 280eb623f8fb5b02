#include "commlens/app/earlier_trace.hpp"

#include <array>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/app/recording_place.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_directory.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

class Earlier : public testing::Test {
 protected:
  fs::path directory() const { return root_ / "run1"; }
  /// A trace that is identified by its description.
  static void begin(const fs::path& directory, const std::string& description) {
    create_recording(directory, {.producer = "test", .description = description, .framework = "mpi"});
  }
  static void add_calls(const fs::path& directory, int calls) {
    Recorder recorder(directory, Rank{0});
    const GroupId self = recorder.group({Rank{0}}, Axis::self);
    for (int call = 0; call < calls; ++call) {
      recorder.finish(recorder.begin({.kind = CommKind::barrier, .group = self}));
    }
  }
  static void make(const fs::path& directory, const std::string& description) {
    begin(directory, description);
    add_calls(directory, 1);
  }
  static std::string description_in(const fs::path& directory) {
    const Result<Trace> trace = read_trace(directory);
    return trace ? trace->provenance.description : trace.error().message;
  }
  /// Names in the directory of the traces.
  std::size_t names() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  /// The path to which a dead process has moved the trace.
  fs::path left_aside() const {
    const pid_t child = fork();
    if (child == 0) {
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    std::array<char, 256> machine = {};
    gethostname(machine.data(), machine.size() - 1);
    return root_ / fmt::format(".run1.before-{}-{}", machine.data(), child);
  }

  test_support::ScratchDirectory scratch_;
  fs::path root_ = scratch_.path();
};

TEST_F(Earlier, TraceComesBackWhenNothingWasRecorded) {
  make(directory(), "earlier");
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
  ASSERT_TRUE(earlier) << earlier.error().message;
  EXPECT_FALSE(fs::exists(directory()));
  EXPECT_EQ(names(), 1U);  // moved aside, complete
  EXPECT_TRUE(earlier->settle());
  EXPECT_EQ(description_in(directory()), "earlier");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceComesBackWhenTheRecordingHasNoCallAndNoEnd) {
  make(directory(), "earlier");
  {
    const Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
    begin(directory(), "aborted before its first call");
  }
  EXPECT_EQ(description_in(directory()), "earlier");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceGoesWhenACallWasRecorded) {
  make(directory(), "earlier");
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
  make(directory(), "later");
  EXPECT_FALSE(earlier->settle());
  EXPECT_EQ(description_in(directory()), "later");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceGoesWhenAJobWithoutCallsCameToItsEnd) {
  make(directory(), "earlier");
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
  begin(directory(), "later");
  add_calls(directory(), 0);
  EXPECT_FALSE(earlier->settle());
  EXPECT_EQ(description_in(directory()), "later");
}

TEST_F(Earlier, TraceIsLeftWhereAProcessRecords) {
  begin(directory(), "under way");
  const Recorder recorder(directory(), Rank{0});
  const Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
  ASSERT_TRUE(earlier);
  EXPECT_TRUE(earlier->is_used());
  EXPECT_EQ(description_in(directory()), "under way");
}

TEST_F(Earlier, DirectoryOfSomethingElseIsRefusedAndKept) {
  fs::create_directory(directory());
  std::ofstream(directory() / "thesis.txt") << "years of work";
  EXPECT_FALSE(EarlierTrace::put_aside(directory()));
  EXPECT_TRUE(fs::exists(directory() / "thesis.txt"));
}

TEST_F(Earlier, TraceThatAKilledProcessPutAsideComesBack) {
  make(left_aside(), "left aside");
  {
    Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
    EXPECT_EQ(names(), 1U);
    EXPECT_TRUE(earlier->settle());
  }
  EXPECT_EQ(description_in(directory()), "left aside");
}

TEST_F(Earlier, TraceThatAKilledProcessPutAsideGoesWhenALaterOneIsThere) {
  make(left_aside(), "left aside");
  make(directory(), "later");
  EXPECT_TRUE(EarlierTrace::put_aside(directory())->settle());
  EXPECT_EQ(description_in(directory()), "later");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TheTargetOfALinkIsTheTraceThatMoves) {
  make(root_ / "disk", "earlier");
  fs::create_directory_symlink("disk", directory());
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
  EXPECT_EQ(earlier->directory(), root_ / "disk");
  make(earlier->directory(), "later");
  EXPECT_FALSE(earlier->settle());
  EXPECT_EQ(description_in(directory()), "later");
}

// Another job may start between moving the trace aside and claiming the directory.
TEST_F(Earlier, LeavesTheDirectoryOfAJobThatWasFaster) {
  make(directory(), "old");
  {
    Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
    ASSERT_TRUE(earlier && !earlier->is_used());
    const auto other = RecordingPlace::taken(directory(), {.producer = "test", .description = "other"});
    ASSERT_TRUE(other);
    EXPECT_FALSE(RecordingPlace::taken(directory(), {.producer = "test"}));
    {
      const EarlierTrace settled = std::move(*earlier);
    }
    EXPECT_TRUE(is_being_recorded(directory()));
    add_calls(directory(), 1);
  }
  EXPECT_EQ(description_in(directory()), "other");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, ReplacesWhatAKilledTrainingLeft) {
  const pid_t child = fork();
  if (child == 0) {
    const auto place = RecordingPlace::taken(directory(), {.producer = "test", .description = "killed"});
    add_calls(directory(), 1);
    _exit(place ? 0 : 1);  // its file stays
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(directory() / k_training_file_name));
  EXPECT_FALSE(is_being_recorded(directory()));
  EXPECT_TRUE(check_trace_target(directory()));
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory());
  ASSERT_TRUE(earlier && !earlier->is_used());
  EXPECT_TRUE(RecordingPlace::taken(directory(), {.producer = "test"}));
}

TEST_F(Earlier, ThePlaceOfAnotherJobStaysTakenWhenOursIsGone) {
  std::optional<RecordingPlace> ours = RecordingPlace::taken(directory(), {.producer = "test"});
  fs::remove_all(directory());
  const auto other = RecordingPlace::taken(directory(), {.producer = "test"});
  ASSERT_TRUE(ours && other);
  ours.reset();
  EXPECT_TRUE(is_being_recorded(directory()));
}

}  // namespace
}  // namespace commlens
