// A device never computes more than its peak, whatever the model, the layout and the sequence.
#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/run_basis.hpp"

namespace commlens {
namespace {

/// GPT of one layer, so that operations can be counted by hand.
TrainingRun one_layer(std::int64_t sequence) {
  TrainingRun run;
  run.model.layers = 1;
  run.model.hidden = 8;
  run.model.heads = run.model.kv_heads = 2;
  run.model.head_dim = 4;
  run.model.ffn = 32;
  run.model.vocab = 16;
  run.model.sequence = sequence;
  run.layout.ranks = 1;
  return run;
}

// A token forward: 2 x (4 x 8 x 8 + 2 x 8 x 32) of matrices, 2 x 8 x 16 of logits, 4 x 8 for each of the 100
// tokens, or of the 50 that it sees in the mean; three passes; 100 tokens.
TEST(ModelFlops, CountAllPairsOfTokensOrThoseThatACausalMaskLeaves) {
  EXPECT_EQ(model_flops(one_layer(100)), 3.0 * (2 * (4 * 64 + 2 * 256) + 2 * 128 + 32 * 100) * 100);
  EXPECT_EQ(computed_flops(one_layer(100)), 3.0 * (2 * (4 * 64 + 2 * 256) + 2 * 128 + 32 * 50) * 100);
}

// Queries by way of 1,536, keys and values of 512 and positions of 64: what DeepSeek-V2 has published.
TEST(ModelFlops, OfLatentAttentionAreThoseOfItsOwnProjections) {
  TrainingRun run = one_layer(2);
  run.model.has_latent_attention = true;
  const double projections = 8 * (1536 + 512 + 64) + 1536 * 192 * 2 + 512 * 256 * 2 + 128 * 2 * 8;
  EXPECT_EQ(computed_flops(run), 3.0 * (2 * (projections + 2 * 256) + 2 * 128 + 4 * 2 * 160) * 2);
}

class RandomRuns {
 public:
  explicit RandomRuns(std::uint64_t seed) : random_(seed) {}

  TrainingRun next(const FamilyFit& family) {
    TrainingRun run;
    run.family = family.name;
    run.hardware = accelerator_named(family.gpu)->hardware;
    run.hardware.gpu = family.gpu;
    run.hardware.network = std::max(run.hardware.network, 25e9);
    set_model(run.model);
    run.layout.tensor = power(3);
    run.layout.context = std::min(power(5), run.model.sequence / 1024);
    run.layout.pipeline = power(2);
    run.layout.expert_tensor = run.layout.tensor;
    run.layout.ranks = run.layout.tensor * run.layout.context * run.layout.pipeline * power(6);
    run.layout.micro_batch = power(2);
    run.layout.global_batch = run.layout.micro_batch * run.layout.data() * power(6);
    run.layout.has_sequence_parallel = run.layout.tensor > 1 && power(1) == 2;
    run.behaviour.has_fused_attention = power(2) > 1;
    run.behaviour.precision = power(1) == 2 ? MatrixPrecision::fp8 : MatrixPrecision::bf16;
    run.behaviour.overlaps_gradients = run.behaviour.overlaps_parameters = power(1) == 2;
    return run;
  }

 private:
  std::int64_t power(int most) {
    return std::int64_t{1} << std::uniform_int_distribution<int>(0, most)(random_);
  }

  void set_model(RunModel& model) {
    model.layers = 4 * power(5);
    model.hidden = 1024 * power(4);
    model.heads = model.hidden / 128;
    model.kv_heads = std::max<std::int64_t>(model.heads / power(3), 8);
    model.head_dim = 128;
    model.ffn = 4 * model.hidden;
    model.is_gated = power(1) == 2;
    model.vocab = 32'000 * power(3);
    model.sequence = 1024 * power(10);
  }

  std::mt19937_64 random_;
};

TEST(PredictedRuns, NeverComputeMoreThanThePeak) {
  constexpr std::uint64_t seed = 20'240'607;
  RandomRuns runs(seed);
  for (const FamilyFit& family : built_in_calibration().families) {
    for (int number = 0; number < 400; ++number) {
      const TrainingRun run = runs.next(family);
      const RunPrediction found = predicted_run(run, built_in_calibration());
      SCOPED_TRACE(testing::Message() << family.name << ", run " << number << " of seed " << seed
                                      << ", sequence " << run.model.sequence);
      ASSERT_GT(found.mfu, 0);
      ASSERT_GE(found.low, computed_flops(run) / peak_of_precision(run));
      ASSERT_LE(found.low, found.seconds);
      ASSERT_GE(found.high, found.seconds);
    }
  }
}

/// 1.3B, but narrower by 16 and of two layers, on one H100: nearly all of its time is launches.
TEST(PredictedRuns, OfTinyModelsAreAsSureAsTheLimitsOfWhatHostsTake) {
  const RunCalibration& calibration = built_in_calibration();
  TrainingRun run = one_layer(512);
  run.model.layers = 2;
  run.model.hidden = 128;
  run.model.ffn = 512;
  run.hardware = accelerator_named("H100")->hardware;
  run.hardware.gpu = "H100";
  run.hardware.domain = 1;
  run.family = "H100, nemo";
  run.layout.global_batch = 10;
  const RunPrediction tiny = predicted_run(run, calibration);
  EXPECT_GT(tiny.high / tiny.seconds, 3);
  EXPECT_GT(tiny.seconds / tiny.low, 3);
  // 5 ms a layer, 10 ms a micro-batch and 200 ms are the most that launches, micro-batches and steps take.
  EXPECT_GT(tiny.high, 10 * (2 * 0.005 + 0.01) + 0.2);
  EXPECT_LT(tiny.high, 10 * (2 * 0.008 + 0.01) + 0.25);
  run.model = {.layers = 32,
               .hidden = 4096,
               .heads = 32,
               .kv_heads = 32,
               .head_dim = 128,
               .ffn = 16384,
               .vocab = 50'000,
               .sequence = 4096};
  const RunPrediction large = predicted_run(run, calibration);
  EXPECT_LT(large.high / large.seconds, 1.1);
}

}  // namespace
}  // namespace commlens
