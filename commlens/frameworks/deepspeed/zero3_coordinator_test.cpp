#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

using Sets = std::vector<std::vector<std::size_t>>;

using Pass = Zero3Coordinator::Pass;

/// Three modules with one parameter each of 10, 20 and 30 elements; forward 0 1 2, backward 2 1 0.
class Coordinator : public testing::Test {
 protected:
  LocalParameters parameters_{
      {.name = "a", .count = 10}, {.name = "b", .count = 20}, {.name = "c", .count = 30}};
  bool first_is_released_ = true;  // by a hook of the backward pass
  Sets gathers_;
  std::vector<std::int64_t> checks_;

  Zero3Coordinator make(const Job& job) {
    std::vector<HookedModule> modules;
    for (std::size_t row = 0; row < parameters_.size(); ++row) {
      modules.push_back({.parameters = {row}, .own = {row}, .below = {row}});
    }
    Zero3Coordinator coordinator(parameters_, std::move(modules), job);
    coordinator.gather = [this](const std::vector<std::size_t>& set) { gathers_.push_back(set); };
    coordinator.on_release = [](std::size_t) {};
    coordinator.on_check = [this](std::int64_t numbers) { checks_.push_back(numbers); };
    return coordinator;
  }

  void forward(Zero3Coordinator& coordinator, bool trains = true) {
    coordinator.start_forward(trains);
    for (const std::size_t module : {0U, 1U, 2U}) {
      coordinator.fetch(module, Pass::forward);
      coordinator.release(module, Pass::forward);
    }
  }

  Sets micro_batch(Zero3Coordinator& coordinator) {
    gathers_.clear();
    checks_.clear();
    forward(coordinator);
    for (const std::size_t module : {2U, 1U, 0U}) {
      coordinator.fetch(module, Pass::backward);
      if (module > 0 || first_is_released_) {
        coordinator.release(module, Pass::backward);
      }
    }
    coordinator.before_last_reduction();
    coordinator.end_backward();
    return gathers_;
  }
};

Job nothing_kept() {
  Job job;
  job.train.persistence_threshold = 0;
  deepspeed::options(job).prefetch_bucket_size = 0;
  deepspeed::options(job).max_reuse_distance = 0;
  return job;
}

TEST_F(Coordinator, GathersEveryModuleTwiceWhileRecording) {
  Zero3Coordinator coordinator = make(nothing_kept());
  EXPECT_EQ(micro_batch(coordinator), (Sets{{0}, {1}, {2}, {2}, {1}, {0}}));
  EXPECT_EQ(checks_, std::vector<std::int64_t>{0});
  micro_batch(coordinator);
  EXPECT_EQ(checks_, (std::vector<std::int64_t>{6, 6, 6})) << "6 calls of modules, of one parameter each";
}

/// Before 0.15.4 the trace is checked at the end of the first backward pass.
TEST_F(Coordinator, ChecksItsTraceAfterBackwardInOlderReleases) {
  Job job = nothing_kept();
  deepspeed::options(job).release = "0.15.3";
  Zero3Coordinator coordinator = make(job);
  micro_batch(coordinator);
  EXPECT_EQ(checks_, (std::vector<std::int64_t>{6, 6, 6}));
  micro_batch(coordinator);
  EXPECT_TRUE(checks_.empty());
}

/// A pass that leaves a module out gives the trace up where it should have come; the next pass records anew.
TEST_F(Coordinator, RecordsAgainAfterAnotherPass) {
  Zero3Coordinator coordinator = make(nothing_kept());
  micro_batch(coordinator);
  micro_batch(coordinator);
  EXPECT_EQ(coordinator.state().mode, Zero3Coordinator::Mode::complete);
  coordinator.start_forward(true);
  coordinator.fetch(0, Pass::forward);
  coordinator.fetch(2, Pass::forward);
  EXPECT_EQ(coordinator.state().mode, Zero3Coordinator::Mode::invalid);
  coordinator.step();
  micro_batch(coordinator);
  EXPECT_EQ(checks_, std::vector<std::int64_t>{0});
  micro_batch(coordinator);
  EXPECT_EQ(checks_, (std::vector<std::int64_t>{6, 6, 6}));
}

/// With a reuse distance of 0 nothing is kept, even the last module of forward.
TEST_F(Coordinator, GathersTwiceWithoutReuse) {
  Zero3Coordinator coordinator = make(nothing_kept());
  micro_batch(coordinator);
  coordinator.step();
  EXPECT_EQ(micro_batch(coordinator), (Sets{{0}, {1}, {2}, {2}, {1}, {0}}));
}

/// A distance of 31 reaches c (30 elements) and one module more: b is 20 elements beyond c, c is adjacent.
TEST_F(Coordinator, KeepsWhatIsUsedAgainWithinTheReuseDistance) {
  Job job = nothing_kept();
  deepspeed::options(job).max_reuse_distance = 31;
  Zero3Coordinator coordinator = make(job);
  micro_batch(coordinator);
  coordinator.step();
  // After b in forward the walk sees c (30), c again (60 >= 31): b is freed. After c it sees c itself: kept.
  EXPECT_EQ(micro_batch(coordinator), (Sets{{0}, {1}, {2}, {1}, {0}}));
}

/// The limit is tested before each parameter, so a set may exceed it by one: 10 is gathered for the module
/// itself, then 20 < 25 lets 30 in as well.
TEST_F(Coordinator, PrefetchOvershootsByOneParameter) {
  Job job;
  job.train.persistence_threshold = 0;
  deepspeed::options(job).prefetch_bucket_size = 25;
  Zero3Coordinator coordinator = make(job);
  micro_batch(coordinator);
  coordinator.step();
  EXPECT_EQ(micro_batch(coordinator), (Sets{{0}, {1, 2}}));
  deepspeed::options(job).prefetch_bucket_size = 20;
  Zero3Coordinator exact = make(job);
  micro_batch(exact);
  exact.step();
  EXPECT_EQ(micro_batch(exact), (Sets{{0}, {1}, {2}}));
}

/// The threshold is inclusive; the model threshold stops further parameters but not smaller ones after it.
TEST_F(Coordinator, MarksSmallParametersPersistent) {
  Job job;
  job.train.persistence_threshold = 20;
  EXPECT_EQ(make(job).persistent(), (std::vector<std::size_t>{0, 1}));
  job.train.persistence_threshold = 30;
  deepspeed::options(job).model_persistence_threshold = 40;
  EXPECT_EQ(make(job).persistent(), (std::vector<std::size_t>{0, 1}));
  deepspeed::options(job).model_persistence_threshold = 60;
  EXPECT_EQ(make(job).persistent(), (std::vector<std::size_t>{0, 1, 2}));
}

/// Before 0.19.3 a module without a post-backward hook keeps its parameters until the optimizer step, so that
/// the next micro-batch does not gather them again.
TEST_F(Coordinator, KeepsParametersBetweenMicroBatches) {
  first_is_released_ = false;
  Job job;
  job.train.persistence_threshold = 0;
  deepspeed::options(job).release = "0.14.0";
  Zero3Coordinator coordinator = make(job);
  micro_batch(coordinator);
  EXPECT_EQ(micro_batch(coordinator), (Sets{{1, 2}}));
  coordinator.step();
  EXPECT_EQ(micro_batch(coordinator), (Sets{{0}, {1, 2}}));
  deepspeed::options(job).release = "0.19.3";
  Zero3Coordinator newer = make(job);
  micro_batch(newer);
  EXPECT_EQ(micro_batch(newer), (Sets{{0}, {1, 2}}));
}

}  // namespace
}  // namespace commlens::deepspeed
