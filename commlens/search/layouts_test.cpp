#include "commlens/search/layouts.hpp"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/search/test_runs.hpp"
#include "commlens/simulate/run_memory.hpp"

namespace commlens {
namespace {

using test_support::mixture_run;
using test_support::small_gpt_run;
using test_support::whole_space;

bool is_same(double value, double expected) { return std::abs(value - expected) <= 1e-12 * expected; }

/// Counts layouts whose parts together are not what the closed form of the whole is.
std::int64_t count_different(const TrainingRun& base, std::int64_t& layouts) {
  std::int64_t different = 0;
  const Coefficients with;
  layouts = for_each_layout(base, with, whole_space(), [&](const EvaluatedLayout& layout) {
    const bool has_time = is_same(layout.seconds, iteration_time(layout.run, with).total());
    const bool has_memory = is_same(layout.memory_bytes, memory_bytes_of(layout.run));
    different += has_time && has_memory ? 0 : 1;
  });
  return different;
}

TEST(Layouts, HaveTheTimeAndMemoryOfTheClosedForm) {
  std::int64_t layouts = 0;
  EXPECT_EQ(count_different(small_gpt_run(64, 96), layouts), 0);
  EXPECT_GT(layouts, 20'000);
}

TEST(Layouts, HaveTheTimeAndMemoryOfTheClosedFormWithExperts) {
  std::int64_t layouts = 0;
  EXPECT_EQ(count_different(mixture_run(64, 32), layouts), 0);
  EXPECT_GT(layouts, 20'000);
}

TEST(Layouts, HaveTheTimeAndMemoryOfTheClosedFormWhereStagesAreUnequal) {
  TrainingRun run = small_gpt_run(64, 64);
  run.model.layers = 61;
  run.behaviour.reduces_to_all = true;
  run.behaviour.has_fused_attention = false;
  std::int64_t layouts = 0;
  EXPECT_EQ(count_different(run, layouts), 0);
  EXPECT_GT(layouts, 20'000);
}

TEST(Layouts, AreAllPossible) {
  const SearchSpace space = whole_space();
  for_each_layout(mixture_run(16, 32), Coefficients(), space, [&](const EvaluatedLayout& layout) {
    ASSERT_EQ(why_not(layout.run, space), "");
    ASSERT_EQ(layout.run.layout.global_batch % (layout.run.layout.micro_batch * layout.run.layout.data()), 0);
  });
}

TEST(Layouts, HaveNoMessagesWhereEveryDegreeIsOne) {
  std::int64_t layouts =
      for_each_layout(small_gpt_run(1, 4), Coefficients(), whole_space(), [&](const EvaluatedLayout& layout) {
        EXPECT_EQ(layout.time.tensor, 0);
        EXPECT_EQ(layout.time.bubble, 0);
        EXPECT_EQ(layout.time.data, 0);
      });
  // Micro-batches of 1, 2 and 4, each with three kinds of recomputation.
  EXPECT_EQ(layouts, 9);
}

}  // namespace
}  // namespace commlens
