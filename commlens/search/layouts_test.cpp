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

/// How far the parts of all layouts together are from the closed form of each.
double worst_difference(const TrainingRun& base, const SearchSpace& space, std::int64_t& layouts) {
  double worst = 0;
  const Coefficients with;
  layouts = for_each_layout(base, with, space, [&](const EvaluatedLayout& layout) {
    const double naive = iteration_time(layout.run, with).total();
    worst = std::max(worst, std::abs(layout.seconds / naive - 1));
    worst = std::max(worst, std::abs(layout.memory_bytes / memory_bytes_of(layout.run) - 1));
  });
  return worst;
}

TEST(Layouts, HaveTheTimeAndMemoryOfTheClosedForm) {
  std::int64_t layouts = 0;
  EXPECT_LT(worst_difference(small_gpt_run(64, 96), whole_space(), layouts), 1e-12);
  EXPECT_GT(layouts, 10'000);
}

TEST(Layouts, HaveTheTimeAndMemoryOfTheClosedFormWithExperts) {
  std::int64_t layouts = 0;
  EXPECT_LT(worst_difference(mixture_run(64, 32), whole_space(), layouts), 1e-12);
  EXPECT_GT(layouts, 10'000);
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
