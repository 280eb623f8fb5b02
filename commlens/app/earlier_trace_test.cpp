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
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

class Earlier : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "commlens-earlier-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path folder() const { return root_ / "run1"; }
  /// A trace that is known again by its description.
  static void begin(const fs::path& folder, const std::string& description) {
    create_recording(folder, {.producer = "test", .description = description, .framework = "mpi"});
  }
  static void add_calls(const fs::path& folder, int calls) {
    Recorder recorder(folder, Rank{0});
    const GroupId self = recorder.group({Rank{0}}, Axis::self);
    for (int call = 0; call < calls; ++call) {
      recorder.finish(recorder.begin({.kind = CommKind::barrier, .group = self}));
    }
  }
  static void make(const fs::path& folder, const std::string& description) {
    begin(folder, description);
    add_calls(folder, 1);
  }
  static std::string description_in(const fs::path& folder) {
    const Result<Trace> trace = read_trace(folder);
    return trace ? trace->provenance.description : trace.error().message;
  }
  /// Names in the folder that holds the traces.
  std::size_t names() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  /// Where a process that is dead has put the trace aside.
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

  fs::path root_;
};

TEST_F(Earlier, TraceComesBackWhenNothingWasRecorded) {
  make(folder(), "earlier");
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
  ASSERT_TRUE(earlier) << earlier.error().message;
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_EQ(names(), 1U);  // it is beside, whole
  EXPECT_TRUE(earlier->settle());
  EXPECT_EQ(description_in(folder()), "earlier");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceComesBackWhenTheRecordingHasNoCallAndNoEnd) {
  make(folder(), "earlier");
  {
    const Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
    begin(folder(), "aborted before its first call");
  }
  EXPECT_EQ(description_in(folder()), "earlier");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceGoesWhenACallWasRecorded) {
  make(folder(), "earlier");
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
  make(folder(), "later");
  EXPECT_FALSE(earlier->settle());
  EXPECT_EQ(description_in(folder()), "later");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceGoesWhenAJobWithoutCallsCameToItsEnd) {
  make(folder(), "earlier");
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
  begin(folder(), "later");
  add_calls(folder(), 0);
  EXPECT_FALSE(earlier->settle());
  EXPECT_EQ(description_in(folder()), "later");
}

TEST_F(Earlier, TraceIsLeftWhereAProcessRecords) {
  begin(folder(), "under way");
  const Recorder recorder(folder(), Rank{0});
  const Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
  ASSERT_TRUE(earlier);
  EXPECT_TRUE(earlier->is_used());
  EXPECT_EQ(description_in(folder()), "under way");
}

TEST_F(Earlier, FolderOfSomethingElseIsRefusedAndKept) {
  fs::create_directory(folder());
  std::ofstream(folder() / "thesis.txt") << "years of work";
  EXPECT_FALSE(EarlierTrace::put_aside(folder()));
  EXPECT_TRUE(fs::exists(folder() / "thesis.txt"));
}

TEST_F(Earlier, TraceThatAKilledProcessPutAsideComesBack) {
  make(left_aside(), "left aside");
  {
    Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
    EXPECT_EQ(names(), 1U);
    EXPECT_TRUE(earlier->settle());
  }
  EXPECT_EQ(description_in(folder()), "left aside");
}

TEST_F(Earlier, TraceThatAKilledProcessPutAsideGoesWhenALaterOneIsThere) {
  make(left_aside(), "left aside");
  make(folder(), "later");
  EXPECT_TRUE(EarlierTrace::put_aside(folder())->settle());
  EXPECT_EQ(description_in(folder()), "later");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, TraceBehindALinkIsTheOneThatMoves) {
  make(root_ / "disk", "earlier");
  fs::create_directory_symlink("disk", folder());
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
  EXPECT_EQ(earlier->folder(), root_ / "disk");
  make(earlier->folder(), "later");
  EXPECT_FALSE(earlier->settle());
  EXPECT_EQ(description_in(folder()), "later");
}

// Between putting aside and taking the place another job may come.
TEST_F(Earlier, LeavesTheFolderOfAJobThatWasFaster) {
  make(folder(), "old");
  {
    Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
    ASSERT_TRUE(earlier && !earlier->is_used());
    const auto other = RecordingPlace::taken(folder(), {.producer = "test", .description = "other"});
    ASSERT_TRUE(other);
    EXPECT_FALSE(RecordingPlace::taken(folder(), {.producer = "test"}));
    {
      const EarlierTrace settled = std::move(*earlier);
    }
    EXPECT_TRUE(is_being_recorded(folder()));
    add_calls(folder(), 1);
  }
  EXPECT_EQ(description_in(folder()), "other");
  EXPECT_EQ(names(), 1U);
}

TEST_F(Earlier, ReplacesWhatAKilledTrainingLeft) {
  const pid_t child = fork();
  if (child == 0) {
    const auto place = RecordingPlace::taken(folder(), {.producer = "test", .description = "killed"});
    add_calls(folder(), 1);
    _exit(place ? 0 : 1);  // its file stays
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(folder() / k_training_file_name));
  EXPECT_FALSE(is_being_recorded(folder()));
  EXPECT_TRUE(check_trace_target(folder()));
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(folder());
  ASSERT_TRUE(earlier && !earlier->is_used());
  EXPECT_TRUE(RecordingPlace::taken(folder(), {.producer = "test"}));
}

TEST_F(Earlier, ThePlaceOfAnotherJobStaysTakenWhenOursIsGone) {
  std::optional<RecordingPlace> ours = RecordingPlace::taken(folder(), {.producer = "test"});
  fs::remove_all(folder());
  const auto other = RecordingPlace::taken(folder(), {.producer = "test"});
  ASSERT_TRUE(ours && other);
  ours.reset();
  EXPECT_TRUE(is_being_recorded(folder()));
}

}  // namespace
}  // namespace commlens
