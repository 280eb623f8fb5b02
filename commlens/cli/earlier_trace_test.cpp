#include "commlens/cli/earlier_trace.hpp"

#include <array>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"

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

}  // namespace
}  // namespace commlens
