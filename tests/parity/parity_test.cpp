// Every scheme trains like one rank, and makes the calls of its prediction.
#include <atomic>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "parity/layouts.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {
namespace {

constexpr std::int64_t k_steps = 10;

Job one_rank_job_of(const Layout& layout) {
  Job job = tiny_job();
  job.layout.dp = 1;
  layout.both(job);
  return job;
}

TrainOptions options() { return {.iterations = k_steps, .schedule = {.peak = 1e-3, .minimum = 1e-4}}; }

class Parity : public testing::TestWithParam<Layout> {};

/// One rank has eager attention, `layout` that of `attention`.
void expect_training_like_one_rank(const Layout& layout, Attention attention) {
  const TrainingRun alone = train_on_threads("alone", one_rank_job_of(layout), options());
  Job job = job_of(layout);
  job.train.attention = attention;
  const TrainingRun run = train_on_threads("run", job, options());
  ASSERT_EQ(run.losses.size(), static_cast<std::size_t>(k_steps));
  ASSERT_EQ(alone.losses.size(), static_cast<std::size_t>(k_steps));
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], alone.losses[i], layout.tolerance * alone.losses[i]) << "iteration " << i;
    EXPECT_NEAR(run.norms[i], alone.norms[i], 100 * layout.tolerance * alone.norms[i]) << "iteration " << i;
  }
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  if (layout.dp * layout.tp * layout.pp > 1) {
    for (const std::string& line : differences_from_prediction(job, run.trace, k_steps)) {
      ADD_FAILURE() << line;
    }
  }
}

TEST_P(Parity, TrainsLikeOneRankAndSendsWhatIsPredicted) {
  expect_training_like_one_rank(GetParam(), Attention::eager);
}

class FusedAttentionParity : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    if (const Result<void> fused = check_fused_attention(validated(job_of(GetParam())).value(), {}); !fused) {
      GTEST_SKIP() << fused.error().message;
    }
  }
};

TEST_P(FusedAttentionParity, TrainsLikeOneEagerRankAndSendsWhatIsPredicted) {
  expect_training_like_one_rank(GetParam(), Attention::flash);
}

TEST_P(FusedAttentionParity, RecomputesBitForBit) {
  Job job = job_of(GetParam());
  job.train.attention = Attention::flash;
  job.train.partition_activations = false;
  job.train.recompute = Recompute::none;
  const TrainingRun kept = train_on_threads("kept", job, options());
  job.train.recompute = Recompute::full;
  EXPECT_EQ(train_on_threads("recomputed", job, options()).losses, kept.losses);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parity, testing::ValuesIn(layouts()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

const std::vector<Layout> k_alibi_layouts = {
    {.name = "alibi_ddp2", .dp = 2, .both = alibi},
    {.name = "alibi_tp2_sp_full", .tp = 2, .change = all({sequence_parallel, full}), .both = alibi},
    {.name = "alibi_tp4_bf16", .tp = 4, .both = all({alibi, bf16, clipped}), .tolerance = k_bf16_tolerance},
};
INSTANTIATE_TEST_SUITE_P(Alibi, Parity, testing::ValuesIn(k_alibi_layouts),
                         [](const auto& parameter) { return std::string(parameter.param.name); });
INSTANTIATE_TEST_SUITE_P(Alibi, FusedAttentionParity, testing::ValuesIn(k_alibi_layouts),
                         [](const auto& parameter) { return std::string(parameter.param.name); });
INSTANTIATE_TEST_SUITE_P(Layouts, FusedAttentionParity, testing::ValuesIn(layouts()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Parity, Bf16IsNearFp32) {
  Job job = tiny_job();
  job.layout.dp = 1;
  const TrainingRun exact = train_on_threads("fp32", job, options());
  job.train.dtype = DType::bf16;
  const TrainingRun rounded = train_on_threads("bf16", job, options());
  for (std::size_t i = 0; i < exact.losses.size(); ++i) {
    EXPECT_NEAR(rounded.losses[i], exact.losses[i], k_bf16_tolerance * exact.losses[i]) << "iteration " << i;
  }
}

TEST(Parity, Fp16IsNearFp32) {
  Job job = tiny_job();
  job.layout.dp = 1;
  const TrainingRun exact = train_on_threads("fp32", job, options());
  job.train.dtype = DType::fp16;
  const TrainingRun rounded = train_on_threads("fp16", job, options());
  for (std::size_t i = 0; i < exact.losses.size(); ++i) {
    EXPECT_NEAR(rounded.losses[i], exact.losses[i], k_fp16_tolerance * exact.losses[i]) << "iteration " << i;
  }
}

TEST(Parity, WithoutPrefetchAndOverlapTheCallsAndTheLossesAreTheSame) {
  for (const Layout& layout :
       {Layout{.name = "zero 3", .dp = 2, .pp = 2, .zero = 3, .micro_batches = 2, .both = tied},
        Layout{.name = "zero 2", .dp = 4, .zero = 2, .micro_batches = 2},
        Layout{.name = "hpz", .dp = 4, .zero = 3, .change = all({hpz2, full})}}) {
    SCOPED_TRACE(layout.name);
    const Job job = job_of(layout);
    const TrainingRun ahead = train_on_threads("ahead", job, options());
    TrainOptions in_place = options();
    in_place.prefetch = in_place.overlap = false;
    const TrainingRun run = train_on_threads("in-place", job, in_place);
    EXPECT_EQ(run.losses, ahead.losses);
    EXPECT_EQ(differences_from_prediction(job, run.trace, k_steps), std::vector<std::string>{});
  }
}

class Resume : public testing::TestWithParam<Layout> {};

/// 6 iterations, then 4 more from the checkpoint.
TrainingRun interrupted(const Job& before, const Job& after) {
  TrainOptions first = options();
  first.stop_requested = [calls = std::make_shared<std::atomic<std::int64_t>>(0),
                          ranks = before.layout.dp * before.layout.tp * before.layout.pp] {
    return ++*calls > 5 * ranks;  // polled once per rank and iteration: in the sixth
  };
  first.save = scratch_directory("checkpoint");
  train_on_threads("first", before, first);
  TrainOptions second = options();
  second.resume = first.save;
  return train_on_threads("second", after, second);
}

TEST_P(Resume, ContinuesBitForBit) {
  const Job job = job_of(GetParam());
  const TrainingRun whole = train_on_threads("whole", job, options());
  const TrainingRun resumed = interrupted(job, job);
  ASSERT_EQ(resumed.losses.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(resumed.losses[i], whole.losses[i + 6]) << "iteration " << i + 6;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Resume,
    testing::Values(
        Layout{.name = "alone"}, Layout{.name = "ddp2_bf16", .dp = 2, .both = bf16},
        Layout{.name = "zero3", .dp = 4, .zero = 3},
        Layout{.name = "zero1_tp2_pp2", .dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro_batches = 2},
        Layout{.name = "zero1_bf16", .dp = 2, .zero = 1, .both = bf16},
        Layout{.name = "zero3_alone", .zero = 3},
        Layout{.name = "tied_pp2_zero3", .dp = 2, .pp = 2, .zero = 3, .micro_batches = 2, .both = tied},
        Layout{.name = "interleaved", .pp = 2, .micro_batches = 4, .change = interleaved}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Resume, WorksUnderAnotherDataParallelSizeAndZeroStage) {
  const Layout before{.name = "", .dp = 4, .zero = 3};
  const Layout after{.name = "", .dp = 2, .zero = 1};
  const TrainingRun whole = train_on_threads("whole", job_of(after), options());
  const TrainingRun resumed = interrupted(job_of(before), job_of(after));
  ASSERT_EQ(resumed.losses.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(resumed.losses[i], whole.losses[i + 6], k_fp32_tolerance * whole.losses[i + 6]);
  }
}

}  // namespace
}  // namespace commlens::engine
