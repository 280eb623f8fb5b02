#include "commlens/simulate/run_calibration.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/run_fit.hpp"

namespace commlens {
namespace {

TrainingRun sharded_run(std::int64_t hidden, std::int64_t micro_batch, std::int64_t sequence) {
  TrainingRun run;
  run.id = std::to_string(hidden) + "/" + std::to_string(micro_batch) + "/" + std::to_string(sequence);
  run.family = "H100, fsdp";
  run.model = {.name = run.id,
               .layers = 24,
               .hidden = hidden,
               .heads = hidden / 128,
               .kv_heads = hidden / 128,
               .head_dim = 128,
               .ffn = 4 * hidden,
               .vocab = 50000,
               .sequence = sequence,
               .top_k = 1};
  run.hardware = {.gpu = "H100",
                  .peak = 989e12,
                  .memory_bandwidth = 3.35e12,
                  .processors = 132,
                  .link = 450e9,
                  .network = 50e9,
                  .domain = 8,
                  .node = 8};
  run.layout.ranks = 8;
  run.layout.data_kind = DataParallelKind::sharded;
  run.layout.micro_batch = micro_batch;
  run.layout.global_batch = 16 * micro_batch;
  return run;
}

std::vector<TrainingRun> runs_with(const Coefficients& truth) {
  std::vector<TrainingRun> runs;
  for (const std::int64_t hidden : {1024, 2048, 4096}) {
    for (const std::int64_t micro_batch : {1, 4, 16}) {
      for (const std::int64_t sequence : {1024, 4096, 16384}) {
        runs.push_back(sharded_run(hidden, micro_batch, sequence));
        runs.back().seconds = iteration_time(runs.back(), truth).total();
      }
    }
  }
  return runs;
}

TEST(RunCalibration, FindsTheTimesOfOtherCoefficients) {
  Coefficients truth;
  truth[Coefficient::gemm_efficiency] = 0.6;
  truth[Coefficient::attention_efficiency] = 0.3;
  truth[Coefficient::memory_factor] = 2;
  const std::vector<TrainingRun> runs = runs_with(truth);
  const RunCalibration calibration = calibrated_runs(runs, "made up");
  ASSERT_EQ(calibration.families.size(), 1U);
  EXPECT_LE(calibration.families[0].fitted.size(), k_most_fitted);
  for (const TrainingRun& run : runs) {
    EXPECT_NEAR(predicted_run(run, calibration).seconds / *run.seconds, 1, 0.01) << run.id;
  }
}

/// Nothing is sent, so that no coefficient of links is fitted, and the time beside all kernels is.
TEST(RunCalibration, OfOneDeviceFitsWhatAnIterationTakesBesideItsKernels) {
  TrainingRun run = sharded_run(2048, 4, 2048);
  run.layout.ranks = 1;
  run.layout.data_kind = DataParallelKind::replicated;
  const TrainingRun* const alone = &run;
  using enum Coefficient;
  EXPECT_EQ(coefficients_of({&alone, 1}),
            (std::vector<Coefficient>{gemm_efficiency, layer_launch, attention_efficiency, memory_factor,
                                      optimizer_bytes, step}));
  run.layout.ranks = 8;
  EXPECT_EQ(coefficients_of({&alone, 1}),
            (std::vector<Coefficient>{gemm_efficiency, layer_launch, attention_efficiency, memory_factor,
                                      link_share, optimizer_bytes}));
}

TEST(RunCalibration, BorrowsWhatAFamilyHasNotSeen) {
  const RunCalibration calibration = calibrated_runs(runs_with(Coefficients()), "made up");
  const RunPrediction seen = predicted_run(sharded_run(2048, 2, 2048), calibration);
  EXPECT_EQ(seen.provenance, "calibrated on 27 runs of H100, fsdp");
  EXPECT_NEAR(seen.high / seen.seconds, std::exp(0.04), 1e-3);
  TrainingRun small = sharded_run(2048, 2, 2048);
  small.behaviour.precision = MatrixPrecision::fp8;
  const RunPrediction borrowed = predicted_run(small, calibration);
  EXPECT_EQ(borrowed.provenance, "borrowed from H100, fsdp, which has not seen fp8");
  EXPECT_NEAR(borrowed.high / borrowed.seconds, 1.35, 1e-9);
  EXPECT_EQ(predicted_run(small, {}).provenance, "uncalibrated: no measured run of this device or framework");
}

TEST(RunCalibration, IsReadAsItIsWritten) {
  const RunCalibration calibration = calibrated_runs(runs_with(Coefficients()), "made up");
  const std::string text = calibration_json(calibration);
  const Result<RunCalibration> read = read_calibration("mine.json", text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(calibration_json(*read), text);
  EXPECT_EQ(read_calibration("x.json", "{}").error().message,
            "x.json: is no calibration of training runs (schema commlens.training/1)");
}

TEST(RunCalibration, OfTheProgramIsValid) { EXPECT_FALSE(built_in_calibration().families.empty()); }

TEST(IterationTime, IsTheSumOfItsPartsAndGrowsWithTheBatch) {
  TrainingRun run = sharded_run(2048, 4, 2048);
  const double once = iteration_time(run, {}).total();
  run.layout.global_batch *= 2;
  EXPECT_GT(iteration_time(run, {}).total(), 1.8 * once);
  EXPECT_LT(iteration_time(run, {}).total(), 2 * once);
}

TEST(IterationTime, OfAPipelineIsThatOfTheClosedForm) {
  // Everything but layers off: m tau + (p - 1) tau / v.
  TrainingRun run = sharded_run(2048, 1, 2048);
  run.layout.data_kind = DataParallelKind::replicated;
  run.layout.pipeline = 8;
  run.layout.virtual_stages = 1;
  run.layout.global_batch = 32;
  const IterationTime plain = iteration_time(run, {});
  run.layout.virtual_stages = 3;
  const IterationTime interleaved = iteration_time(run, {});
  EXPECT_LT(interleaved.bubble, plain.bubble);
  EXPECT_DOUBLE_EQ(interleaved.compute, plain.compute);
}

TEST(IterationTime, OfTiedEmbeddingsReducesTheirGradientsBetweenBothEndsOfAPipeline) {
  TrainingRun run = sharded_run(2048, 1, 2048);
  run.layout.data_kind = DataParallelKind::replicated;
  run.layout.pipeline = 8;
  run.layout.global_batch = 32;
  const double separate = iteration_time(run, {}).data;
  run.model.has_tied_embeddings = true;
  // Twice (half of 4 bytes x 50,000 x 2,048 over 0.8 x 450 GB/s, and 15 us).
  EXPECT_NEAR(iteration_time(run, {}).data - separate, 2 * (204.8e6 / 360e9 + 15e-6), 1e-12);
}

TEST(IterationTime, OfAFillingPipelineIsThatOfDevicesWhoseNeighboursWait) {
  TrainingRun run = sharded_run(2048, 1, 2048);
  run.layout.data_kind = DataParallelKind::replicated;
  run.layout.pipeline = 2;
  run.layout.ranks = 2;
  run.layout.global_batch = 32;
  Coefficients without_logits;
  without_logits[Coefficient::logits] = 0;
  const IterationTime usual = iteration_time(run, without_logits);
  // Half as fast where both compute: while one of two waits, the other has 0.75 of its rate alone, not 0.5.
  run.hardware.busy_share = 0.5;
  const double stage = usual.compute / 32;
  EXPECT_NEAR(usual.bubble - iteration_time(run, without_logits).bubble, stage / 3, 1e-9);
}

TEST(IterationTime, OfRecomputationThatStopsEarlyLacksALayersLastProduct) {
  TrainingRun run = sharded_run(2048, 4, 2048);
  run.behaviour.recompute = Recompute::full;
  const double whole = iteration_time(run, {}).compute;
  run.behaviour.stops_repeating_early = true;
  // 2 micro-batches, 24 layers: 2 x 8,192 x 2,048 x 8,192 over 0.7 x 989 TFLOP/s, 80/8,192 and 0.46 x 16/512
  // longer (512 tiles on 132 multiprocessors).
  EXPECT_NEAR(whole - iteration_time(run, {}).compute, 0.0195212, 1e-7);
}

}  // namespace
}  // namespace commlens
