// Sizes by hand: one layer of h = 4, heads 2 of 2, one head of keys, MLP 5, V = 7, shards of 3 ranks. Every
// dimension 0 is padded to a multiple of 3, so that a rank has
//   wq [4, 4]: 2 x 4 = 8, wk and wv [2, 4]: 4 each, wo [4, 4]: 8, w1 and w3 [5, 4]: 8 each, w2 [4, 5]: 10,
//   norms [4]: 2 each; the block 54 elements. Embedding and output [7, 4]: 12 each, the final norm 2.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

using pytorch::ReshardAfterForward;
using pytorch::Unit;

Job one_block() {
  Job job;
  job.framework = "torch-fsdp";
  job.framework_version = "2.15.0";
  job.model.name = "one block";
  job.model.family = Family::llama;
  job.model.gated_mlp = true;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = false;
  job.model.positions = Positions::rotary;
  job.model.layers = 1;
  job.model.hidden = 4;
  job.model.heads = 2;
  job.model.kv_heads = 1;
  job.model.head_dim = 2;
  job.model.ffn_hidden = 5;
  job.model.vocab = job.model.raw_vocab = 7;
  job.model.sequence = job.model.max_positions = 8;
  job.model.tied_embeddings = false;
  job.train.dtype = DType::fp32;
  job.layout.dp = 3;
  pytorch::options(job).data_shard = 3;
  pytorch::options(job).fsdp.is_used = true;
  return job;
}

/// What rank 0 sends in the first iteration: "all_gather 54" and so on, in elements of its input.
std::vector<std::string> calls_of(const Job& job) {
  const Trace trace = make_plan(validated(job).value()).value().trace(1);
  std::vector<std::string> calls;
  for (const CommEvent& event : trace.streams.at(0).events) {
    if (event.iteration == 0) {
      const CommOp& op = trace.op(event.op);
      calls.push_back(std::string(name_of(op.kind)) + " " + std::to_string(op.input.value));
    }
  }
  return calls;
}

using Calls = std::vector<std::string>;

// The root keeps its 12 + 2 + 12 = 26 elements after the forward pass.
TEST(TorchFsdp, PadsEachParameterAndKeepsTheRoot) {
  EXPECT_EQ(calls_of(one_block()), (Calls{"all_gather 26", "all_gather 54", "all_gather 54",
                                          "reduce_scatter 162", "reduce_scatter 78"}));
}

// Asked to be resharded, the root (12) is gathered after the unit that made the output (2 + 12) and its
// prefetch.
TEST(TorchFsdp, GathersTheRootAfterTheUnitOfItsOutput) {
  Job job = one_block();
  pytorch::Fsdp& fsdp = pytorch::options(job).fsdp;
  fsdp.units = {Unit::blocks, Unit::head_with_norm, Unit::root};
  fsdp.reshard_after_forward.kind = ReshardAfterForward::Kind::yes;
  EXPECT_EQ(calls_of(job),
            (Calls{"all_gather 12", "all_gather 54", "all_gather 14", "all_gather 14", "all_gather 54",
                   "all_gather 12", "reduce_scatter 42", "reduce_scatter 162", "reduce_scatter 36"}));
}

// All ranks are true, one is false: the block is not gathered again.
TEST(TorchFsdp, ReshardsToOneRankNotAtAll) {
  Job job = one_block();
  pytorch::options(job).fsdp.reshard_after_forward = {ReshardAfterForward::Kind::to_size, 1};
  EXPECT_EQ(calls_of(job),
            (Calls{"all_gather 26", "all_gather 54", "reduce_scatter 162", "reduce_scatter 78"}));
}

// A group whose parameters are all frozen is gathered, never reduced: of the root (26) the norm (2) and the
// output.
TEST(TorchFsdp, ReducesOnlyWhatHasGradients) {
  Job job = one_block();
  job.model.frozen = {"tok_embeddings.*", "layers.0.*"};
  EXPECT_EQ(calls_of(job), (Calls{"all_gather 26", "all_gather 54", "all_gather 54", "reduce_scatter 42"}));
}

TEST(TorchFsdp, RefusesTwoDtypesInAUnit) {
  Job job = one_block();
  job.model.fp32_patterns = {"*norm*"};
  job.train.dtype = DType::bf16;
  const Result<Plan> plan = make_plan(validated(job).value());
  ASSERT_FALSE(plan.has_value());
  EXPECT_NE(plan.error().message.find("one dtype"), std::string::npos) << plan.error().message;
}

TEST(TorchFsdp, RefusesWhatAReleaseLacks) {
  Job job = one_block();
  job.framework_version = "2.12.1";
  pytorch::options(job).fsdp.reduce_scatter_unused_params = true;
  const Result<Plan> plan = make_plan(validated(job).value());
  ASSERT_FALSE(plan.has_value());
  EXPECT_NE(plan.error().message.find("2.13"), std::string::npos) << plan.error().message;
}

}  // namespace
}  // namespace commlens
