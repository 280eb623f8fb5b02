#include "commlens/model/kernels.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using Kernels = std::vector<Kernel>;

/// Two sequences of 8 tokens, 4 heads of 16, in bf16.
Job small_job() {
  Job job;
  job.model = {.layers = 2,
               .hidden = 64,
               .heads = 4,
               .kv_heads = 4,
               .head_dim = 16,
               .ffn_hidden = 256,
               .sequence = 8,
               .vocab = 96};
  job.train.micro_batch = 2;
  job.train.dtype = DType::bf16;
  job.layout.dp = 1;
  return job;
}

TEST(Kernels, OfAColumnParallelMatrixHaveItsOutputsDivided) {
  Job job = small_job();
  job.layout.tp = 2;
  EXPECT_EQ(kernels_of(job, ModulePart::qkv, Pass::forward), (Kernels{Gemm{16, 96, 64}}));
  EXPECT_EQ(kernels_of(job, ModulePart::qkv, Pass::input_gradient), (Kernels{Gemm{16, 64, 96}}));
  EXPECT_EQ(kernels_of(job, ModulePart::qkv, Pass::weight_gradient), (Kernels{Gemm{96, 64, 16}}));
}

TEST(Kernels, OfARowParallelMatrixHaveItsInputsDivided) {
  Job job = small_job();
  job.layout.tp = 2;
  EXPECT_EQ(kernels_of(job, ModulePart::fc2, Pass::forward), (Kernels{Gemm{16, 64, 128}}));
}

TEST(Kernels, OfAGatedMlpHaveBothInputMatricesInOne) {
  Job job = small_job();
  job.model.gated_mlp = true;
  EXPECT_EQ(kernels_of(job, ModulePart::fc1, Pass::forward), (Kernels{Gemm{16, 512, 64}}));
}

/// 16 tokens x top-3 over four experts of 32, twelve rows each; every token passes a fifth one, twice as
/// wide.
TEST(Kernels, OfExpertsHaveTheirOwnWidth) {
  Job job = small_job();
  job.model.gated_mlp = true;
  job.model.experts = 4;
  job.model.top_k = 3;
  job.model.moe_hidden = 32;
  job.model.shared_experts = 2;
  EXPECT_EQ(kernels_of(job, ModulePart::fc1, Pass::forward),
            (Kernels{Gemm{12, 64, 64, 4}, Gemm{16, 128, 64}}));
  EXPECT_EQ(kernels_of(job, ModulePart::fc2, Pass::forward),
            (Kernels{Gemm{12, 64, 32, 4}, Gemm{16, 64, 64}}));
  EXPECT_EQ(kernels_of(job, ModulePart::activation, Pass::forward),
            (Kernels{MemoryKernel{Bytes{3 * 16 * 160 * 2}}}));
}

TEST(Kernels, OfLatentAttentionAreItsOwnProjections) {
  Job job = small_job();
  job.model.latent = {.query_rank = 24, .kv_rank = 12, .nope_dim = 10, .rope_dim = 6, .value_dim = 8};
  EXPECT_EQ(kernels_of(job, ModulePart::qkv, Pass::forward),
            (Kernels{Gemm{16, 24, 64}, Gemm{16, 64, 24}, Gemm{16, 18, 64}, Gemm{16, 72, 12}}));
  EXPECT_EQ(kernels_of(job, ModulePart::proj, Pass::forward), (Kernels{Gemm{16, 64, 32}}));
  EXPECT_EQ(std::get<AttentionKernel>(kernels_of(job, ModulePart::attention, Pass::forward)[0]).head_dim, 12);
}

TEST(Kernels, OfGroupedQueriesHaveNarrowKeys) {
  Job job = small_job();
  job.model.kv_heads = 2;
  EXPECT_EQ(kernels_of(job, ModulePart::qkv, Pass::forward), (Kernels{Gemm{16, 128, 64}}));
}

TEST(Kernels, OfTensorRanksThatHoldCopiesAreWhole) {
  Job job = small_job();
  job.layout.tp = 2;
  job.layout.replicated_tp = true;
  EXPECT_EQ(kernels_of(job, ModulePart::qkv, Pass::forward), (Kernels{Gemm{16, 192, 64}}));
}

TEST(Kernels, OfNormsAreDividedUnderSequenceParallelismOnly) {
  Job job = small_job();
  job.layout.tp = 2;
  // read by the residual twice and written, 16 tokens of 64 elements of 2 bytes each
  EXPECT_EQ(kernels_of(job, ModulePart::ln1, Pass::forward), (Kernels{MemoryKernel{Bytes{3 * 16 * 64 * 2}}}));
  job.layout.sequence_parallel = true;
  EXPECT_EQ(kernels_of(job, ModulePart::ln1, Pass::forward), (Kernels{MemoryKernel{Bytes{3 * 8 * 64 * 2}}}));
  EXPECT_EQ(kernels_of(job, ModulePart::ln1, Pass::input_gradient),
            (Kernels{MemoryKernel{Bytes{6 * 8 * 64 * 2}}}));
  EXPECT_TRUE(kernels_of(job, ModulePart::ln1, Pass::weight_gradient).empty());
}

/// 16 tokens to 3 of 8 experts each make 48 rows; a rank of two holds 4 experts, which get as many together.
TEST(Kernels, OfExpertsShareTheRowsOfARank) {
  Job job = small_job();
  job.model.experts = 8;
  job.model.top_k = 3;
  job.layout.dp = job.layout.ep = 2;
  EXPECT_EQ(kernels_of(job, ModulePart::fc2, Pass::forward), (Kernels{Gemm{12, 64, 256, 4}}));
  job.model.top_k = 1;  // 16 rows over 3 experts: 5, 5 and 6
  job.model.experts = 6;
  EXPECT_EQ(kernels_of(job, ModulePart::fc2, Pass::forward),
            (Kernels{Gemm{5, 64, 256, 2}, Gemm{6, 64, 256, 1}}));
}

TEST(Kernels, CountFlopsAndBytes) {
  EXPECT_EQ(flops_of(Gemm{2, 3, 5, 7}).value, 2.0 * 2 * 3 * 5 * 7);
  EXPECT_EQ(bytes_of(Gemm{2, 3, 5, 7}, DType::fp16).value, 7 * (10 + 15 + 6) * 2);
  AttentionKernel attention{.batch = 2, .heads = 3, .kv_heads = 3, .queries = 4, .keys = 8, .head_dim = 16};
  EXPECT_EQ(flops_of(attention).value, 4.0 * 2 * 3 * 4 * 8 * 16);
  // Q and the output 4 x 16, K and V 8 x 16, scores 4 x 8 four times
  EXPECT_EQ(bytes_of(attention, DType::fp16).value, 6 * (2 * 64 + 2 * 128 + 4 * 32) * 2);
  attention.is_fused = true;
  attention.is_backward = true;
  EXPECT_EQ(flops_of(attention).value, 8.0 * 2 * 3 * 4 * 8 * 16);
  EXPECT_EQ(bytes_of(attention, DType::fp16).value, 2 * 6 * (2 * 64 + 2 * 128) * 2);
  attention.kv_heads = 1;  // K and V once for the three heads: 3 x 64 of Q and the output, 128 of K and V
  EXPECT_EQ(bytes_of(attention, DType::fp16).value, 2 * 2 * (2 * 3 * 64 + 2 * 128) * 2);
  EXPECT_EQ(flops_of(MemoryKernel{Bytes{5}}).value, 0);
}

TEST(Kernels, OfCausalAttentionComputeHalfOfThePairs) {
  AttentionKernel attention{.batch = 2, .heads = 3, .kv_heads = 3, .queries = 4, .keys = 8, .head_dim = 16};
  EXPECT_EQ(unmasked_flops(attention).value, 2.0 * 2 * 3 * 4 * 8 * 16);
  attention.is_causal = false;
  EXPECT_EQ(unmasked_flops(attention).value, 4.0 * 2 * 3 * 4 * 8 * 16);
  EXPECT_EQ(unmasked_flops(Gemm{2, 3, 5, 7}).value, 2.0 * 2 * 3 * 5 * 7);
}

TEST(Kernels, OfTheUpdateTouchWhatAdamKeeps) {
  EXPECT_EQ(optimizer_kernels({10}, DType::fp32), (Kernels{MemoryKernel{Bytes{280}}}));
  EXPECT_EQ(optimizer_kernels({10}, DType::bf16), (Kernels{MemoryKernel{Bytes{300}}}));
  EXPECT_EQ(optimizer_kernels({10}, DType::bf16, DType::bf16), (Kernels{MemoryKernel{Bytes{140}}}));
}

}  // namespace
}  // namespace commlens
