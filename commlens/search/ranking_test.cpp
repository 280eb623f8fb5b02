#include "commlens/search/ranking.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/search/changes.hpp"
#include "commlens/search/test_runs.hpp"

namespace commlens {
namespace {

using test_support::mixture_run;
using test_support::small_gpt_run;
using test_support::whole_space;

constexpr double k_memory = 12.0 * 1024 * 1024 * 1024;

Ranking ranking_of(const TrainingRun& run, double memory = k_memory) {
  return ranked_layouts(run, Coefficients(), whole_space(), {memory, 0.05, 0.05, 50});
}

TEST(RankedLayouts, AreNeverFasterThanTheFirst) {
  const TrainingRun run = small_gpt_run(64, 96);
  const Ranking ranking = ranking_of(run);
  ASSERT_EQ(ranking.fastest.size(), 50);
  const double best = ranking.fastest.front().seconds;
  for_each_layout(run, Coefficients(), whole_space(), [&](const EvaluatedLayout& layout) {
    if (layout.memory_bytes <= k_memory) {
      ASSERT_GE(layout.seconds, best);
    }
  });
  for (std::size_t index = 1; index < ranking.fastest.size(); ++index) {
    EXPECT_LE(ranking.fastest[index - 1].seconds, ranking.fastest[index].seconds);
  }
}

TEST(RankedLayouts, HaveTheTimeThatTheirRunHas) {
  const TrainingRun base = mixture_run(32, 64);
  const Ranking ranking = ranking_of(base);
  for (const RankedLayout& layout : ranking.fastest) {
    const TrainingRun run = run_of(base, layout);
    EXPECT_NEAR(iteration_time(run, Coefficients()).total() / layout.seconds, 1, 1e-12);
    EXPECT_LE(memory_bytes_of(run), k_memory);
  }
}

TEST(RankedLayouts, AreCountedByWhatFits) {
  const TrainingRun run = small_gpt_run(16, 16);
  std::int64_t evaluated = 0;
  std::int64_t fitting = 0;
  for_each_layout(run, Coefficients(), whole_space(), [&](const EvaluatedLayout& layout) {
    ++evaluated;
    fitting += layout.memory_bytes <= k_memory ? 1 : 0;
  });
  const Ranking ranking = ranking_of(run);
  EXPECT_EQ(ranking.evaluated, evaluated);
  EXPECT_EQ(ranking.fitting, fitting);
  EXPECT_LT(fitting, evaluated);
}

TEST(RankedLayouts, FrontHasNoPointThatAnotherBeats) {
  const TrainingRun run = small_gpt_run(64, 96);
  const Ranking ranking = ranking_of(run);
  ASSERT_GT(ranking.front.size(), 2);
  EXPECT_EQ(ranking.front.front().seconds, ranking.fastest.front().seconds);
  for (std::size_t index = 1; index < ranking.front.size(); ++index) {
    EXPECT_LT(ranking.front[index - 1].seconds, ranking.front[index].seconds);
    EXPECT_GT(ranking.front[index - 1].memory_bytes, ranking.front[index].memory_bytes);
  }
  for_each_layout(run, Coefficients(), whole_space(), [&](const EvaluatedLayout& layout) {
    if (layout.memory_bytes > k_memory) {
      return;
    }
    bool is_covered = false;
    for (const RankedLayout& point : ranking.front) {
      is_covered =
          is_covered || (point.seconds <= layout.seconds && point.memory_bytes <= layout.memory_bytes);
    }
    ASSERT_TRUE(is_covered) << layout.seconds << " s, " << layout.memory_bytes << " bytes";
  });
}

TEST(RankedLayouts, EqualOnesAreThoseInsideTheError) {
  const TrainingRun run = small_gpt_run(8, 8);
  const Ranking all =
      ranked_layouts(run, Coefficients(), whole_space(), {k_memory, 0.05, 0.05, std::size_t{1} << 20});
  const double limit = all.fastest.front().seconds * std::exp(0.05);
  std::int64_t near = 0;
  for (const RankedLayout& layout : all.fastest) {
    near += layout.seconds <= limit ? 1 : 0;
  }
  EXPECT_EQ(all.equal, near);
  EXPECT_GE(all.equal, 1);
  EXPECT_LE(all.spans[0].least, all.fastest.front().layout.tensor);
  EXPECT_GE(all.spans[0].most, all.fastest.front().layout.tensor);
}

TEST(RankedLayouts, NothingFitsIntoNothing) {
  const Ranking ranking = ranking_of(small_gpt_run(8, 8), 1e9);
  EXPECT_TRUE(ranking.fastest.empty());
  EXPECT_EQ(ranking.fitting, 0);
  EXPECT_GT(ranking.smallest.memory_bytes, 1e9);
}

TEST(RankedLayouts, MoreMemoryNeverMakesTheFirstSlower) {
  double before = std::numeric_limits<double>::infinity();
  for (const double gib : {8.0, 16.0, 32.0, 64.0}) {
    const Ranking ranking = ranking_of(small_gpt_run(16, 64), gib * 1024 * 1024 * 1024);
    ASSERT_FALSE(ranking.fastest.empty()) << gib;
    EXPECT_LE(ranking.fastest.front().seconds, before) << gib;
    before = ranking.fastest.front().seconds;
  }
}

TEST(Changes, OfTheFirstThatFitAreNotFaster) {
  for (const TrainingRun& run : {small_gpt_run(64, 96), mixture_run(64, 64)}) {
    const Ranking ranking = ranking_of(run);
    const std::vector<LayoutChange> changes =
        changes_of(run, ranking.fastest.front(), Coefficients(), whole_space(), k_memory);
    EXPECT_GT(changes.size(), 5);
    for (const LayoutChange& change : changes) {
      EXPECT_EQ(change.fits, change.layout.memory_bytes <= k_memory);
      if (change.fits) {
        EXPECT_GE(change.layout.seconds, ranking.fastest.front().seconds * (1 - 1e-12))
            << fmt::format("{} {} instead of {}", change.setting, change.to, change.from);
      }
    }
  }
}

TEST(Changes, HalveTensorRanksForDataRanks) {
  TrainingRun run = small_gpt_run(8, 64);
  run.layout.tensor = 4;
  run.layout.has_sequence_parallel = true;
  const RankedLayout now{run.layout, run.behaviour, {}, 1, 0};
  for (const LayoutChange& change : changes_of(run, now, Coefficients(), whole_space(), k_memory)) {
    if (change.setting == "tp" && change.to == "2") {
      EXPECT_EQ(change.from, "4");
      EXPECT_EQ(change.layout.layout.tensor, 2);
      EXPECT_EQ(change.layout.layout.data(), 4);
      return;
    }
  }
  FAIL() << "tp 2 instead of 4 is not among the changes";
}

}  // namespace
}  // namespace commlens
