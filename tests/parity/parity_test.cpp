// Every scheme trains like one rank, and makes the calls of its prediction.
#include <atomic>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "parity/training_run.hpp"

namespace commlens::engine {
namespace {

constexpr std::int64_t k_steps = 10;
constexpr double k_fp32_tolerance = 1e-5;
constexpr double k_bf16_tolerance = 2e-2;
constexpr double k_fp16_tolerance = 2e-3;
constexpr double k_quantized_tolerance = 5e-2;

/// One layout. The global batch is 8 sequences: micro_batch = 8 / (dp * micro_batches).
struct Layout {
  const char* name;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  int zero = 0;
  std::int64_t micro_batches = 1;
  std::function<void(Job&)> change = [](Job&) {};  // what only this layout has
  std::function<void(Job&)> both = [](Job&) {};    // what its one-rank run has too
  double tolerance = k_fp32_tolerance;
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

Job job_of(const Layout& layout) {
  Job job = tiny_job_of(layout);
  layout.both(job);
  layout.change(job);
  return job;
}

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

void sequence_parallel(Job& job) { job.layout.sequence_parallel = true; }
void gpipe(Job& job) { job.train.schedule = Schedule::gpipe; }
void interleaved(Job& job) {
  job.train.schedule = Schedule::interleaved;
  job.layout.virtual_stages = 2;
}
void full(Job& job) { job.train.recompute = Recompute::full; }
void selective(Job& job) { job.train.recompute = Recompute::selective; }
void deepspeed_like(Job& job) { trainer::options(job).all_reduce_gradients = true; }
void partitioned(Job& job) {
  full(job);
  job.train.partition_activations = true;
}
void tied(Job& job) { job.model.tied_embeddings = true; }
void gptj(Job& job) { job.model.parallel_residual = true; }
void alibi(Job& job) { job.model.positions = Positions::alibi; }
void learned(Job& job) { job.model.positions = Positions::learned; }
void clipped(Job& job) { job.train.gradient_clipping = 0.5; }
void bf16(Job& job) { job.train.dtype = DType::bf16; }
void fp16(Job& job) { job.train.dtype = DType::fp16; }
void hpz2(Job& job) { job.train.hpz = 2; }
void qwz(Job& job) { job.train.quantized_weights = true; }
void hpz4(Job& job) { job.train.hpz = 4; }
void one_byte_buckets(Job& job) { trainer::options(job).bucket = Bytes{1}; }
void one_bucket(Job& job) { trainer::options(job).bucket = Bytes{1LL << 40}; }
void all_persistent(Job& job) { job.train.persistence_threshold = 1LL << 40; }
void none_persistent(Job& job) { job.train.persistence_threshold = 0; }
void six_layers(Job& job) { job.model.layers = 6; }
void eight_layers(Job& job) { job.model.layers = 8; }
void one_layer(Job& job) { job.model.layers = 1; }
void padded_vocabulary(Job& job) { job.model.raw_vocab = 100; }
/// 101 tokens: padded to 102 with tp 2, to 104 with tp 4 and 8.
void ragged_vocabulary(Job& job) {
  job.model.vocab = job.model.raw_vocab = 101;
  job.model.vocab_is_padded = false;
}
/// 100 tokens, padded as GPT-NeoX does to a multiple of 128 tp: most of the tensor ranks hold padding only.
void mostly_padding(Job& job) {
  job.model.raw_vocab = 100;
  job.model.vocab_is_padded = false;
  job.model.vocab_multiple = 128;
}
void eight_heads(Job& job) {
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 4;
}
void more_positions(Job& job) {
  learned(job);
  job.model.max_positions = 24;
}
void qgz(Job& job) { job.train.quantized_gradients = true; }

std::function<void(Job&)> all(std::vector<void (*)(Job&)> changes) {
  return [changes = std::move(changes)](Job& job) {
    for (const auto& change : changes) {
      change(job);
    }
  };
}

const std::vector<Layout> k_layouts = {
    // One scheme at a time.
    {.name = "ddp2", .dp = 2},
    {.name = "ddp4", .dp = 4},
    {.name = "ddp8_clip", .dp = 8, .both = clipped},
    {.name = "accumulation", .micro_batches = 4},
    {.name = "ddp2_accumulation", .dp = 2, .micro_batches = 4},
    {.name = "zero1", .dp = 4, .zero = 1},
    {.name = "zero1_deepspeed_like", .dp = 4, .zero = 1, .change = deepspeed_like},
    {.name = "zero2", .dp = 4, .zero = 2},
    {.name = "zero2_accumulation", .dp = 2, .zero = 2, .micro_batches = 2},
    {.name = "zero2_deepspeed_like", .dp = 2, .zero = 2, .micro_batches = 2, .change = deepspeed_like},
    {.name = "zero3", .dp = 4, .zero = 3},
    {.name = "zero3_odd", .dp = 8, .zero = 3, .both = clipped},
    {.name = "zero3_accumulation", .dp = 2, .zero = 3, .micro_batches = 2},
    {.name = "zero3_hpz", .dp = 4, .zero = 3, .change = hpz2},
    {.name = "zero3_hpz_accumulation", .dp = 4, .zero = 3, .micro_batches = 2, .change = hpz2},
    {.name = "zero3_qwz", .dp = 4, .zero = 3, .change = qwz, .tolerance = k_quantized_tolerance},
    {.name = "zero3_qgz", .dp = 4, .zero = 3, .change = qgz, .tolerance = k_quantized_tolerance},
    {.name = "zero3_qgz_hpz",
     .dp = 4,
     .zero = 3,
     .change = all({hpz2, qgz}),
     .tolerance = k_quantized_tolerance},
    {.name = "zero3_plus_plus",
     .dp = 4,
     .zero = 3,
     .change = all({hpz2, qgz, qwz}),
     .tolerance = k_quantized_tolerance},
    {.name = "tp2", .tp = 2},
    {.name = "tp4", .tp = 4, .both = clipped},
    {.name = "tp2_sp", .tp = 2, .change = sequence_parallel},
    {.name = "tp4_sp", .tp = 4, .change = sequence_parallel, .both = clipped},
    {.name = "pp2", .pp = 2, .micro_batches = 4},
    {.name = "pp4", .pp = 4, .micro_batches = 4, .both = clipped},
    {.name = "pp2_gpipe", .pp = 2, .micro_batches = 4, .change = gpipe},
    {.name = "pp2_interleaved", .pp = 2, .micro_batches = 4, .change = interleaved},
    {.name = "recompute_full", .change = full},
    {.name = "recompute_selective", .change = selective},
    // Models.
    {.name = "gptj_ddp2", .dp = 2, .both = gptj},
    {.name = "gptj_tp2", .tp = 2, .both = gptj},
    {.name = "gptj_tp2_sp", .tp = 2, .change = sequence_parallel, .both = gptj},
    {.name = "tied_ddp2", .dp = 2, .both = tied},
    {.name = "tied_tp2", .tp = 2, .both = tied},
    {.name = "tied_pp2", .pp = 2, .micro_batches = 2, .both = all({tied, clipped})},
    {.name = "tied_zero3", .dp = 4, .zero = 3, .both = tied},
    {.name = "tied_pp2_zero1", .dp = 2, .pp = 2, .zero = 1, .micro_batches = 2, .both = all({tied, clipped})},
    {.name = "tied_pp2_zero3", .dp = 2, .pp = 2, .zero = 3, .micro_batches = 2, .both = tied},
    {.name = "learned_tp2_sp", .tp = 2, .change = sequence_parallel, .both = learned},
    {.name = "learned_zero2", .dp = 2, .zero = 2, .both = learned},
    // Products.
    {.name = "zero3_tp2", .dp = 2, .tp = 2, .zero = 3},
    {.name = "zero3_tp2_sp_full", .dp = 2, .tp = 2, .zero = 3, .change = all({sequence_parallel, full})},
    {.name = "tp2_pp2", .tp = 2, .pp = 2, .micro_batches = 2},
    {.name = "tp2_sp_pp2_dp2",
     .dp = 2,
     .tp = 2,
     .pp = 2,
     .micro_batches = 2,
     .change = sequence_parallel,
     .both = clipped},
    {.name = "tp2_pp2_dp2_zero1", .dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro_batches = 2, .both = clipped},
    {.name = "zero2_pp2", .dp = 2, .pp = 2, .zero = 2, .micro_batches = 4},
    {.name = "zero3_pp2", .dp = 2, .pp = 2, .zero = 3, .micro_batches = 4},
    {.name = "zero3_tp2_pp2_interleaved",
     .dp = 2,
     .tp = 2,
     .pp = 2,
     .zero = 3,
     .micro_batches = 4,
     .change = interleaved},
    {.name = "interleaved_ddp2", .dp = 2, .pp = 2, .micro_batches = 4, .change = interleaved},
    {.name = "interleaved_zero2", .dp = 2, .pp = 2, .zero = 2, .micro_batches = 4, .change = interleaved},
    {.name = "zero3_full_hpz", .dp = 4, .zero = 3, .micro_batches = 2, .change = all({full, hpz2})},
    {.name = "tp2_partitioned", .tp = 2, .change = partitioned},
    {.name = "tp2_pp2_partitioned", .tp = 2, .pp = 2, .micro_batches = 2, .change = partitioned},
    {.name = "tp2_selective_zero1", .dp = 2, .tp = 2, .zero = 1, .change = selective},
    {.name = "gptj_tp2_sp_pp2_full",
     .tp = 2,
     .pp = 2,
     .micro_batches = 2,
     .change = all({sequence_parallel, full}),
     .both = gptj},
    // Corners.
    {.name = "zero3_alone", .zero = 3},
    {.name = "zero3_alone_tp2_accumulation", .tp = 2, .zero = 3, .micro_batches = 2, .change = full},
    {.name = "zero3_alone_pp2_tied", .pp = 2, .zero = 3, .micro_batches = 2, .both = all({tied, clipped})},
    {.name = "zero3_alone_qwz_qgz", .zero = 3, .micro_batches = 2, .change = all({qwz, qgz})},
    {.name = "zero1_alone", .zero = 1, .micro_batches = 2},
    {.name = "zero2_alone", .zero = 2, .micro_batches = 2, .both = tied},
    {.name = "zero2_one_byte_buckets", .dp = 4, .zero = 2, .micro_batches = 2, .change = one_byte_buckets},
    {.name = "zero2_one_bucket", .dp = 4, .zero = 2, .micro_batches = 2, .change = one_bucket, .both = tied},
    {.name = "zero1_one_byte_buckets_tied", .dp = 8, .zero = 1, .change = one_byte_buckets, .both = tied},
    {.name = "ddp_one_bucket", .dp = 2, .micro_batches = 2, .change = one_bucket},
    {.name = "zero3_all_persistent", .dp = 4, .zero = 3, .micro_batches = 2, .change = all_persistent},
    {.name = "zero3_all_persistent_tied", .dp = 2, .zero = 3, .change = all_persistent, .both = tied},
    {.name = "zero3_all_persistent_pp2_tied",
     .dp = 2,
     .pp = 2,
     .zero = 3,
     .micro_batches = 2,
     .change = all_persistent,
     .both = all({tied, clipped})},
    {.name = "zero3_none_persistent", .dp = 4, .zero = 3, .micro_batches = 2, .change = none_persistent},
    {.name = "zero3_hpz_is_dp", .dp = 4, .zero = 3, .micro_batches = 2, .change = hpz4},
    {.name = "zero3_plus_plus_hpz_is_dp",
     .dp = 4,
     .zero = 3,
     .change = all({hpz4, qgz, qwz}),
     .tolerance = k_quantized_tolerance},
    {.name = "zero3_plus_plus_tied_pp2",
     .dp = 4,
     .pp = 2,
     .zero = 3,
     .micro_batches = 2,
     .change = all({hpz2, qgz, qwz, full}),
     .both = tied,
     .tolerance = k_quantized_tolerance},
    {.name = "pp4_uneven", .pp = 4, .micro_batches = 4, .both = six_layers},
    {.name = "pp4_interleaved", .pp = 4, .micro_batches = 8, .change = interleaved, .both = eight_layers},
    {.name = "pp2_gpipe_zero3_tied",
     .dp = 2,
     .pp = 2,
     .zero = 3,
     .micro_batches = 4,
     .change = gpipe,
     .both = all({tied, clipped})},
    {.name = "pp4_fewer_micro_batches", .pp = 4, .micro_batches = 2},
    {.name = "one_layer_zero3_tied", .dp = 2, .zero = 3, .micro_batches = 2, .both = all({tied, one_layer})},
    {.name = "padded_vocabulary_tp4_sp", .tp = 4, .change = sequence_parallel, .both = padded_vocabulary},
    {.name = "ragged_vocabulary_tp2", .tp = 2, .both = ragged_vocabulary},
    {.name = "ragged_vocabulary_tp4_sp", .tp = 4, .change = sequence_parallel, .both = ragged_vocabulary},
    {.name = "ragged_vocabulary_tp8_tied", .tp = 8, .both = all({ragged_vocabulary, eight_heads, tied})},
    {.name = "mostly_padding_tp8", .tp = 8, .both = all({mostly_padding, eight_heads, clipped})},
    {.name = "more_positions_tp2_sp_zero3",
     .dp = 2,
     .tp = 2,
     .zero = 3,
     .change = sequence_parallel,
     .both = all({more_positions, clipped})},
    {.name = "more_positions_tp2_sp_pp2_full_zero2",
     .dp = 2,
     .tp = 2,
     .pp = 2,
     .zero = 2,
     .micro_batches = 2,
     .change = all({sequence_parallel, full}),
     .both = all({more_positions, tied, clipped})},
    {.name = "tp2_partitioned_zero3_pp2",
     .dp = 2,
     .tp = 2,
     .pp = 2,
     .zero = 3,
     .micro_batches = 2,
     .change = partitioned,
     .both = gptj},
    // bf16.
    {.name = "bf16_ddp2", .dp = 2, .both = bf16, .tolerance = k_bf16_tolerance},
    {.name = "bf16_zero3", .dp = 4, .zero = 3, .both = bf16, .tolerance = k_bf16_tolerance},
    {.name = "fp16_ddp2", .dp = 2, .both = fp16, .tolerance = k_fp16_tolerance},
    {.name = "fp16_tp2", .tp = 2, .both = all({fp16, tied, clipped}), .tolerance = k_fp16_tolerance},
    {.name = "fp16_tp2_sp",
     .tp = 2,
     .change = sequence_parallel,
     .both = all({fp16, learned}),
     .tolerance = k_fp16_tolerance},
    {.name = "fp16_zero1_pp2",
     .dp = 2,
     .pp = 2,
     .zero = 1,
     .micro_batches = 2,
     .change = full,
     .both = fp16,
     .tolerance = k_fp16_tolerance},
    {.name = "fp16_zero3_hpz",
     .dp = 4,
     .zero = 3,
     .micro_batches = 2,
     .change = hpz2,
     .both = all({fp16, clipped}),
     .tolerance = k_fp16_tolerance},
    {.name = "bf16_zero1_tp2_sp_pp2",
     .dp = 2,
     .tp = 2,
     .pp = 2,
     .zero = 1,
     .micro_batches = 2,
     .change = sequence_parallel,
     .both = bf16,
     .tolerance = k_bf16_tolerance},
};

INSTANTIATE_TEST_SUITE_P(Layouts, Parity, testing::ValuesIn(k_layouts),
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
INSTANTIATE_TEST_SUITE_P(Layouts, FusedAttentionParity, testing::ValuesIn(k_layouts),
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
