#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

using Sets = std::vector<std::vector<std::size_t>>;

/// Three modules with one parameter each of 10, 20 and 30 elements; forward 0 1 2, backward 2 1 0.
class Coordinator : public testing::Test {
 protected:
  LocalParameters parameters_{
      {.name = "a", .count = 10}, {.name = "b", .count = 20}, {.name = "c", .count = 30}};
  std::vector<HookedModule> modules_{{{0}, true}, {{1}, true}, {{2}, true}};

  Sets gathers_;

  Zero3Coordinator make(const Job& job) {
    return {parameters_, job, [this](const std::vector<std::size_t>& set) { gathers_.push_back(set); }};
  }

  Sets micro_batch(Zero3Coordinator& coordinator) {
    gathers_.clear();
    for (const std::size_t module : {0U, 1U, 2U}) {
      coordinator.fetch(modules_[module]);
      coordinator.release(modules_[module]);
    }
    for (const std::size_t module : {2U, 1U, 0U}) {
      coordinator.fetch(modules_[module]);
      if (modules_[module].has_post_backward) {
        coordinator.release(modules_[module]);
      }
    }
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
  EXPECT_EQ(coordinator.traced_modules(), 6);
  EXPECT_EQ(coordinator.traced_parameters(), 6);
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

/// A module without a post-backward hook keeps its parameters until the optimizer step, so that the next
/// micro-batch does not gather them again.
TEST_F(Coordinator, KeepsParametersBetweenMicroBatches) {
  modules_[0].has_post_backward = false;
  Job job;
  job.train.persistence_threshold = 0;
  Zero3Coordinator coordinator = make(job);
  micro_batch(coordinator);
  EXPECT_EQ(micro_batch(coordinator), (Sets{{1, 2}}));
  coordinator.step();
  EXPECT_EQ(micro_batch(coordinator), (Sets{{0}, {1, 2}}));
}

}  // namespace
}  // namespace commlens::deepspeed
