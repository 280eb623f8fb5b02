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

/// All layouts of a run, with times that are within 5 %.
std::vector<TimedSpace> spaces_of(const TrainingRun& run) {
  return {{.framework = "nemo", .base = run, .space = whole_space(), .basis = {Coefficients(), 0.05, ""}}};
}

Ranking ranking_of(const TrainingRun& run, double memory = k_memory, std::size_t most = 50) {
  return ranked_layouts(spaces_of(run), {memory, most});
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
  const Ranking all = ranking_of(run, k_memory, std::size_t{1} << 20);
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
    const std::vector<LayoutChange> changes = changes_of(spaces_of(run), ranking.fastest.front(), k_memory);
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

/// The whole space in two: sharded layouts take another family's coefficients, ten times the launches.
std::vector<TimedSpace> two_spaces(const TrainingRun& run) {
  std::vector<TimedSpace> spaces = {spaces_of(run).front(), spaces_of(run).front()};
  spaces[0].space.kinds = {DataParallelKind::replicated, DataParallelKind::optimizer,
                           DataParallelKind::owners};
  spaces[1].space.kinds = {DataParallelKind::sharded, DataParallelKind::sharded_until_backward};
  spaces[1].space.needs_data_ranks = true;
  spaces[1].base.family = "H100, fsdp";
  spaces[1].base.behaviour.gradient_bytes = 2;
  spaces[1].basis.spread = 0.3;
  spaces[1].basis.coefficients[Coefficient::layer_launch] *= 10;
  return spaces;
}

TEST(RankedLayouts, OfTwoSpacesHaveTheTimesOfTheirOwn) {
  const std::vector<TimedSpace> spaces = two_spaces(small_gpt_run(16, 32));
  const Ranking ranking = ranked_layouts(spaces, {k_memory, std::size_t{1} << 20});
  EXPECT_EQ(ranking.evaluated, ranking_of(small_gpt_run(16, 32)).evaluated);
  std::int64_t sharded = 0;
  for (const RankedLayout& layout : ranking.fastest) {
    const TimedSpace& timed = space_of(spaces, layout.layout.data_kind);
    sharded += is_sharded(layout.layout.data_kind) ? 1 : 0;
    EXPECT_EQ(timed.base.family, is_sharded(layout.layout.data_kind) ? "H100, fsdp" : "H100, nemo");
    const double seconds = iteration_time(run_of(timed.base, layout), timed.basis.coefficients).total();
    EXPECT_NEAR(seconds / layout.seconds, 1, 1e-12);
  }
  EXPECT_GT(sharded, 10);
}

TEST(Changes, OfTheKindOfDataParallelismTakeTheOtherSpace) {
  TrainingRun run = small_gpt_run(8, 64);
  const std::vector<TimedSpace> spaces = two_spaces(run);
  const RankedLayout now{run.layout, run.behaviour, {}, 1, 0};
  for (const LayoutChange& change : changes_of(spaces, now, k_memory)) {
    if (change.to == "sharded") {
      const TrainingRun changed = run_of(spaces[1].base, change.layout);
      EXPECT_EQ(change.layout.behaviour.gradient_bytes, 2);
      EXPECT_NEAR(iteration_time(changed, spaces[1].basis.coefficients).total() / change.layout.seconds, 1,
                  1e-12);
      return;
    }
  }
  FAIL() << "sharded parameters are not among the changes";
}

TEST(Changes, HalveTensorRanksForDataRanks) {
  TrainingRun run = small_gpt_run(8, 64);
  run.layout.tensor = 4;
  run.layout.has_sequence_parallel = true;
  const RankedLayout now{run.layout, run.behaviour, {}, 1, 0};
  for (const LayoutChange& change : changes_of(spaces_of(run), now, k_memory)) {
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
