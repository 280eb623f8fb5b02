// What a rank keeps of parameters and gradients while a step runs.
#include <algorithm>

#include <gtest/gtest.h>

#include "commlens/engine/data_parallel.hpp"
#include "commlens/transport/thread_ranks.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {
namespace {

/// Elements of whole units that are allocated.
struct Held {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
};

Held held_by(DataParallel& parallel) {
  Held held;
  for (const UnitStorage& unit : parallel.units(0)) {
    held.parameters += unit.flat.storage().nbytes() > 0 ? unit.flat.numel() : 0;
    held.gradients += unit.has_gradient() ? unit.gradient.numel() : 0;
  }
  return held;
}

/// The most that rank 0 of two holds at once in one micro-batch, and what is left after it.
struct Step {
  Held most;
  Held left;
};

Step step_of(int zero_stage) {
  Job job = tiny_job();
  job.layout.dp = 2;
  job.train.zero_stage = zero_stage;
  job.commlens.bucket = Bytes{1};  // a unit per parameter
  job.commlens.persistence_threshold = 0;
  job = validated(job).value();
  Step step;
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    const bool is_first = world->rank().value == 0;
    CommClock clock;
    RankGroups groups = make_groups(job, std::move(world), nullptr, clock);
    DataParallel parallel(job, held_chunks(job, 0), groups, {}, torch::kCPU);
    Held most;
    const auto look = [&] {
      const Held now = held_by(parallel);
      most = {std::max(most.parameters, now.parameters), std::max(most.gradients, now.gradients)};
    };
    const std::size_t modules = parallel.chunk(0).modules.size();
    parallel.begin_iteration();
    for (std::size_t module = 0; module < modules; ++module) {
      parallel.before_forward(0, module);
      look();
      parallel.after_forward(0, module, module + 1 == modules);
    }
    for (std::size_t module = modules; module-- > 0;) {
      parallel.before_backward(0, module);
      look();
      parallel.after_backward(0, module, true);
      look();
    }
    parallel.end_backward(0);
    parallel.finish_gradients();
    if (is_first) {
      step = {most, held_by(parallel)};
    }
  });
  return step;
}

// A block of width 32 has 12 * 32 * 32 + 13 * 32 = 12,704 elements; four of them, the tables of 128 tokens
// and the final norm are 4 * 12,704 + 2 * 128 * 32 + 64 = 59,072.
constexpr std::int64_t k_block = 12'704;
constexpr std::int64_t k_all = 59'072;

TEST(HeldMemory, OfStages0And1IsEverything) {
  for (const int stage : {0, 1}) {
    const Step step = step_of(stage);
    EXPECT_EQ(step.most.parameters, k_all) << "stage " << stage;
    EXPECT_EQ(step.most.gradients, k_all) << "stage " << stage;
  }
}

TEST(HeldMemory, OfStage2IsTheGradientsOfTwoModules) {
  const Step step = step_of(2);
  EXPECT_EQ(step.most.parameters, k_all);
  EXPECT_EQ(step.most.gradients, 2 * k_block);
  EXPECT_EQ(step.left.gradients, 0);
}

TEST(HeldMemory, OfStage3IsTheParametersAndGradientsOfTwoModules) {
  const Step step = step_of(3);
  EXPECT_EQ(step.most.parameters, 2 * k_block);
  EXPECT_EQ(step.most.gradients, 2 * k_block);
  EXPECT_EQ(step.left.parameters, 0);
  EXPECT_EQ(step.left.gradients, 0);
}

}  // namespace
}  // namespace commlens::engine
