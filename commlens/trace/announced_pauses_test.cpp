// Pauses that a program announces, in the tables of its rank.
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/rank_tables_file.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens {
namespace {

class AnnouncedPauses : public testing::Test {
 protected:
  void say(double seconds, std::int64_t at_ns = 1000) { file_.announce_pause(at_ns, seconds); }
  std::optional<RankPause> read() const {
    Trace tables;
    const Result<RankTables> read = read_rank_tables(path_, tables);
    EXPECT_TRUE(read) << read.error().message;
    return read ? read->pause : std::nullopt;
  }
  static RankPause pause(std::int64_t at_ns, std::chrono::nanoseconds length) {
    return {.at = std::chrono::nanoseconds(at_ns), .length = length};
  }

  test_support::ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_ / "rank-0.jsonl";
  RankTablesFile file_{
      path_, Rank{0}, RankClock{.source = "monotonic", .boot = "b", .frequency_hz = 1000}, {}};
};

TEST_F(AnnouncedPauses, TheLatestCounts) {
  EXPECT_EQ(read(), std::nullopt);
  say(1.5, 7);
  EXPECT_EQ(read(), pause(7, std::chrono::milliseconds(1500)));
  say(60, 8);
  EXPECT_EQ(read(), pause(8, std::chrono::seconds(60)));
  say(0, 9);
  EXPECT_EQ(read(), pause(9, {}));
}

TEST_F(AnnouncedPauses, AreADayAtMostAndNothingBelowNothing) {
  say(INFINITY);
  EXPECT_EQ(read(), pause(1000, std::chrono::hours(24)));
  say(-5);
  EXPECT_EQ(read(), pause(1000, {}));
  say(60, 2000);
  say(NAN, 3000);
  EXPECT_EQ(read(), pause(3000, {}));
}

TEST_F(AnnouncedPauses, OfALoopThatNeverEndsAreBoundedAndEnd) {
  for (std::int64_t time = 0; time < RankTablesFile::k_most_pauses + 10; ++time) {
    say(1, time);
  }
  EXPECT_EQ(read(), pause(RankTablesFile::k_most_pauses - 1, std::chrono::seconds(1)));
  const std::uintmax_t bytes = std::filesystem::file_size(path_);
  say(0, 99'999);
  say(0, 100'000);
  EXPECT_EQ(read(), pause(99'999, {}));
  EXPECT_LT(std::filesystem::file_size(path_), bytes + 100);  // one line
}

}  // namespace
}  // namespace commlens
