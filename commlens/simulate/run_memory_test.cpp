#include "commlens/simulate/run_memory.hpp"

#include <gtest/gtest.h>

#include "commlens/simulate/iteration_parts.hpp"

namespace commlens {
namespace {

/// GPT-3 175B, micro-batches of four sequences on eight tensor ranks: s b h = 100,663,296.
TrainingRun gpt3_run() {
  TrainingRun run;
  run.model.layers = 96;
  run.model.hidden = 12'288;
  run.model.heads = run.model.kv_heads = 96;
  run.model.head_dim = 128;
  run.model.ffn = 49'152;
  run.model.vocab = 51'200;
  run.model.sequence = 2048;
  run.layout.ranks = 64;
  run.layout.tensor = 8;
  run.layout.micro_batch = 4;
  run.layout.global_batch = 256;
  run.behaviour.has_fused_attention = false;
  return run;
}

// Korthikanti et al., arXiv 2205.05198, table 2.
TEST(RunMemory, LayersKeepWhatThePaperSays) {
  TrainingRun run = gpt3_run();
  EXPECT_EQ(layer_activation_bytes(run, false), 2'315'255'808);  // s b h (10 + 24/8 + 5 x 96 x 2048 / 98,304)
  run.layout.has_sequence_parallel = true;
  EXPECT_EQ(layer_activation_bytes(run, false), 1'434'451'968);  // s b h (34 + 80) / 8
  run.behaviour.recompute = Recompute::selective;
  EXPECT_EQ(layer_activation_bytes(run, false), 427'819'008);  // s b h 34 / 8
  run.behaviour.recompute = Recompute::full;
  run.layout.has_sequence_parallel = false;
  EXPECT_EQ(layer_activation_bytes(run, false), 201'326'592);  // 2 s b h
}

TEST(RunMemory, FusedAttentionKeepsNoScores) {
  TrainingRun run = gpt3_run();
  run.layout.has_sequence_parallel = true;
  run.behaviour.has_fused_attention = true;
  EXPECT_EQ(layer_activation_bytes(run, false), 427'819'008);
}

TEST(RunMemory, StatesAreSharedByTheirKind) {
  TrainingRun run = gpt3_run();
  run.layout.tensor = 1;
  run.layout.ranks = 8;
  const auto of = [&](DataParallelKind kind) {
    run.layout.data_kind = kind;
    return parameter_bytes(run);
  };
  EXPECT_EQ(of(DataParallelKind::replicated), 18);
  EXPECT_EQ(of(DataParallelKind::optimizer), 7.5);
  EXPECT_EQ(of(DataParallelKind::owners), 5.5);
  EXPECT_EQ(of(DataParallelKind::sharded_until_backward), 3.75);
  EXPECT_EQ(of(DataParallelKind::sharded), 2);
}

TEST(RunMemory, StatesOfAStageHaveItsLayersAndOneEmbedding) {
  TrainingRun run = gpt3_run();
  run.layout.pipeline = 8;
  run.layout.data_kind = DataParallelKind::replicated;
  // 12 layers of 12 h^2 / 8 and 51,200 h / 8.
  EXPECT_EQ(state_bytes(run), 18.0 * (12 * 226'492'416.0 + 78'643'200.0));
}

TEST(RunMemory, MicroBatchesInFlightAreThoseOf1F1B) {
  TrainingRun run = gpt3_run();
  run.layout.tensor = 1;
  run.layout.pipeline = 8;
  run.layout.ranks = 8;
  run.layout.micro_batch = 1;
  run.layout.global_batch = 32;
  EXPECT_EQ(layers_in_flight(run).first, 12 * 8);
  EXPECT_EQ(layers_in_flight(run).last, 12);
  run.layout.virtual_stages = 2;  // 8 (1 + 7/16) times 12 layers; the last stage 9 chunks of 6
  EXPECT_EQ(layers_in_flight(run).first, 12 * 11.5);
  EXPECT_EQ(layers_in_flight(run).last, 54);
  run.layout.global_batch = 8;  // never more than there are: 16 chunks
  EXPECT_EQ(layers_in_flight(run).first, 12 * 8);
}

TEST(RunMemory, LogitsAreOnTheLastStageOnly) {
  const MicroBatchMemory memory = micro_batch_memory(gpt3_run());
  // 4 s b (h + V) / t.
  EXPECT_EQ(memory.logits, 4.0 * 8192 * (12'288 + 51'200) / 8);
  EXPECT_EQ(memory.embedding, 8192.0 * (8 + 12'288));
  EXPECT_EQ(memory.working, 0);
  // The fuller of both stages: states, then layers and logits, a share for fragments and 1 GB.
  EXPECT_DOUBLE_EQ(device_memory_bytes(true, 100, {10, 1, 7, 2}, {4, 1, 4}), 1.06 * (100 + 44 + 2) + 1e9);
  EXPECT_DOUBLE_EQ(device_memory_bytes(true, 100, {1, 0, 70, 2}, {4, 1, 4}), 1.06 * (100 + 71 + 2) + 1e9);
  EXPECT_DOUBLE_EQ(device_memory_bytes(false, 100, {10, 1, 7, 2}, {4, 4, 1}), 1.06 * (100 + 48 + 2) + 1e9);
}

TEST(IterationParts, BubbleOfInterleavedStagesIsThatOfTheLiterature) {
  // p = 8, m = 32: (p - 1) / (v m) of the time without one, 7/32 and half of it.
  TrainingRun run = gpt3_run();
  run.layout.tensor = 1;
  run.layout.pipeline = 8;
  run.layout.ranks = 8;
  run.layout.micro_batch = 1;
  run.layout.global_batch = 32;
  run.hardware.memory_bandwidth = 1;
  IterationParts parts;
  parts.stage.seconds = 2;
  parts.stage.layers = 12;
  EXPECT_EQ(combined(run, Coefficients(), parts).bubble / 64, 0.21875);
  run.layout.virtual_stages = 2;
  EXPECT_EQ(combined(run, Coefficients(), parts).bubble / 64, 0.109375);
}

}  // namespace
}  // namespace commlens
