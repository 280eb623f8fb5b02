#include "commlens/frameworks/memory.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

// The model S: a block has 16,384 + 8,192 + 8,192 + 16,384 + 3 x 44,032 + 256 = 181,504 parameters, the rest
// 2 x 128,000 + 128. 128 tokens a micro-batch.
constexpr std::int64_t k_block = 181'504;
constexpr std::int64_t k_rest = 256'128;
constexpr std::int64_t k_all = 4 * k_block + k_rest;  // 982,144
constexpr std::int64_t k_tokens = 128;

/// What autograd saves of a block, per token, in fp32: inputs of both norms, of qkv and of the MLP 4 x 512;
/// queries, keys, values and their result 4 x 512; of the MLP 4 x 1,376; a sum for each of 8 heads; one
/// number of each norm.
constexpr std::int64_t k_saved = 4 * 512 + 4 * 512 + 4 * 1'376 + 8 * 4 + 2 * 4;
/// Inputs of the last norm and the head, logits with their softmax and its gradient.
constexpr std::int64_t k_logits = 2 * 512 + 3 * 4'000;

Job job_of(const char* framework, std::int64_t ranks) {
  Job job;
  job.framework = framework;
  job.model.family = Family::llama;
  job.model.layers = 4;
  job.model.hidden = 128;
  job.model.heads = 8;
  job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn_hidden = 344;
  job.model.gated_mlp = true;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = false;
  job.model.sequence = job.model.max_positions = 64;
  job.model.vocab = job.model.raw_vocab = 1000;
  job.layout.ranks = ranks;
  job.train.micro_batch = 2;
  job.train.dtype = DType::fp32;
  return job;
}

MemoryEstimate of(const Job& job, std::int64_t stage = 0) {
  const Result<Job> valid = validated(job);
  EXPECT_TRUE(valid.has_value()) << (valid ? "" : valid.error().message);
  return valid ? memory_of_stage(*valid, stage) : MemoryEstimate{};
}

TEST(TorchMemory, OfDdpIsWholeStatesAndBuckets) {
  const MemoryEstimate memory = of(job_of("torch-ddp", 4));
  EXPECT_EQ(memory.parameters.value, 4 * k_all);
  EXPECT_EQ(memory.gradients.value, 4 * k_all);
  EXPECT_EQ(memory.optimizer.value, 8 * k_all);
  EXPECT_EQ(memory.buffers.value, 4 * k_all);
  EXPECT_EQ(memory.activations.value, k_tokens * 4 * k_saved);
  EXPECT_EQ(memory.logits.value, k_tokens * k_logits);
}

/// torch 2.15 of two gpt models of one block and of two: saved_tensors_hooks counts 8,240 bytes a token more
/// (of the llama model on CPUs, whose RMSNorm is not fused and keeps 2 x 512 bytes more, 10,664).
TEST(TorchMemory, OfActivationsIsWhatAutogradSaves) {
  Job job = job_of("torch-ddp", 1);
  EXPECT_EQ(k_saved + 2 * 512, 10'664);
  job.model.family = Family::gpt;
  job.model.kv_heads = 8;
  job.model.ffn_hidden = 512;
  job.model.gated_mlp = false;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = true;
  job.train.attention = Attention::flash;
  EXPECT_EQ(of(job).activations.value, k_tokens * 4 * 8'240);
}

/// The root is open; as backward begins its gradient fills and the last block is gathered for it.
TEST(TorchMemory, OfFsdpIsSharesAndWhatIsInUse) {
  const MemoryEstimate memory = of(job_of("torch-fsdp", 4));
  EXPECT_EQ(memory.parameters.value, k_all);
  EXPECT_EQ(memory.gradients.value, k_all);
  EXPECT_EQ(memory.optimizer.value, 2 * k_all);
  EXPECT_EQ(memory.buffers.value, 4 * (k_rest + k_block + k_rest));
  EXPECT_EQ(memory.activations.value, k_tokens * 4 * k_saved);
}

/// 3 ranks: 1000 rows become 334 of each, 128 rows 43, 344 rows 115, 64 rows 22.
TEST(TorchMemory, OfFsdpIsPadded) {
  const MemoryEstimate memory = of(job_of("torch-fsdp", 3));
  const std::int64_t block = 2 * 43 * 128 + 2 * 22 * 128 + 2 * 115 * 128 + 43 * 344 + 2 * 43;
  EXPECT_EQ(memory.parameters.value, 4 * (4 * block + 2 * 334 * 128 + 43));
}

TEST(TorchMemory, OfOffloadedShardsIsWhatIsInUse) {
  Job job = job_of("torch-fsdp", 4);
  const Bytes in_use = of(job).buffers;
  options(job).fsdp.is_used = options(job).fsdp.is_offloaded = true;
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.parameters.value + memory.gradients.value + memory.optimizer.value, 0);
  EXPECT_EQ(memory.buffers, in_use);
}

TEST(TorchMemory, OfOpenGroupsIsWhole) {
  Job job = job_of("torch-fsdp", 4);
  options(job).fsdp.is_used = true;
  options(job).fsdp.reshard_after_forward.kind = ReshardAfterForward::Kind::no;
  EXPECT_EQ(of(job).buffers.value, 4 * (k_all + k_rest));
  // A half of each stays: the root's too, before it is gathered again.
  options(job).fsdp.reshard_after_forward = {ReshardAfterForward::Kind::to_size, 2};
  EXPECT_EQ(of(job).buffers.value, 4 * (k_rest / 2 + 3 * k_block / 2 + k_block + k_rest));
}

/// Sums of micro-batches are whole, as are the gradients of each.
TEST(TorchMemory, OfAccumulationWithoutReductionIsWhole) {
  Job job = job_of("torch-fsdp", 4);
  options(job).fsdp.is_used = true;
  options(job).fsdp.sync_each_micro_batch = false;
  EXPECT_EQ(of(job).gradients.value, k_all);
  job.train.micro_batches = 2;
  EXPECT_EQ(of(job).gradients.value, k_all + 4 * k_all);
}

TEST(TorchMemory, OfReplicasIsShardedOverTheOthers) {
  Job job = job_of("torch-fsdp", 4);
  options(job).fsdp.is_used = true;
  options(job).data_shard = 2;
  EXPECT_EQ(of(job).parameters.value, 4 * k_all / 2);
  options(job).data_shard = 1;
  options(job).fsdp.is_replicate = true;
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.parameters.value, 4 * k_all);
  EXPECT_EQ(memory.buffers.value, 4 * k_rest) << "nothing is gathered";
}

TEST(TorchMemory, OfMixedPrecisionIsGatheredInTwoBytes) {
  Job job = job_of("torch-fsdp", 4);
  options(job).fsdp.is_used = true;
  options(job).fsdp.param_dtype = DType::bf16;
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.parameters.value, k_all);
  EXPECT_EQ(memory.buffers.value, 2 * (k_rest + k_block + k_rest));
  EXPECT_EQ(memory.activations.value, k_tokens * 4 * ((k_saved - 40) / 2 + 40));
  EXPECT_EQ(memory.logits.value, k_tokens * (2 * 256 + (2 + 4 + 4) * 1000));
}

TEST(TorchMemory, OfCheckpointsIsTheirInputsAndOneBlock) {
  Job job = job_of("torch-fsdp", 4);
  job.model.vocab = job.model.raw_vocab = 8;  // so that the head is not the fullest moment
  set_recompute(job, Recompute::full);
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.activations.value, k_tokens * 4 * 512);
  EXPECT_EQ(memory.working.value, k_tokens * k_saved);
  // Gathered are the root, the last block and the one before; gradients are of the last and of the root.
  EXPECT_EQ(memory.buffers.value, 4 * (3 * k_block + 2 * (2 * 8 * 128 + 128)));
}

/// The gathered inputs of qkv and of the MLP are whole; the logits only without loss_parallel.
TEST(TorchMemory, OfTensorRanksIsSplit) {
  Job job = job_of("torch-tp", 2);
  job.layout.tp = 2;
  job.layout.sequence_parallel = true;
  options(job).tensor.loss_parallel = true;
  const MemoryEstimate memory = of(job);
  const std::int64_t block = (k_block - 256) / 2 + 256;
  EXPECT_EQ(memory.parameters.value, 4 * (4 * block + 128'000 + 128));
  EXPECT_EQ(memory.activations.value,
            k_tokens * 4 * (2 * 512 / 2 + 8 / 2 + 2 * 512 + (4 * 512 + 4 * 1'376 + 32) / 2));
  EXPECT_EQ(memory.logits.value, k_tokens * (512 / 2 + 512 + 12 * 500));
  EXPECT_EQ(memory.buffers.value, 0);
  options(job).tensor.loss_parallel = false;
  EXPECT_EQ(of(job).logits.value, k_tokens * (512 / 2 + 512 + 4 * 500 + 12 * 1000));
}

/// A stage keeps what it saved of each micro-batch in flight, and what it sent.
TEST(TorchMemory, OfPipelinesIsOfWhatIsInFlight) {
  Job job = job_of("torch-pipeline", 4);
  job.layout.pp = 4;
  job.train.micro_batches = 8;
  const std::int64_t one = k_tokens * (k_saved + 512);
  EXPECT_EQ(of(job, 0).activations.value, 4 * one);
  EXPECT_EQ(of(job, 3).activations.value, one);
  EXPECT_EQ(of(job, 3).logits.value, k_tokens * k_logits);
  set_schedule(job, PipelineSchedule::gpipe);
  EXPECT_EQ(of(job, 0).activations.value, 8 * one);
  EXPECT_EQ(of(job, 3).logits.value, 8 * k_tokens * k_logits);
  // Two stages on each of two ranks, rounds of two: rank 0 is 2 + 2 forward passes ahead, and one more runs.
  job.layout.ranks = job.layout.pp = 2;
  job.layout.virtual_stages = 2;
  job.train.micro_batches = 4;
  set_schedule(job, PipelineSchedule::interleaved_1f1b);
  EXPECT_EQ(of(job, 0).activations.value, 5 * one);
}

/// Frozen parameters have no gradients and no states.
TEST(TorchMemory, OfFrozenParametersIsTheirValues) {
  Job job = job_of("torch-fsdp", 4);
  job.model.frozen = {"tok_embeddings.*"};
  const MemoryEstimate memory = of(job);
  EXPECT_EQ(memory.parameters.value, k_all);
  EXPECT_EQ(memory.gradients.value, k_all - 128'000);
  EXPECT_EQ(memory.optimizer.value, 2 * (k_all - 128'000));
}

}  // namespace
}  // namespace commlens::pytorch
