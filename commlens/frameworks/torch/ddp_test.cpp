// Sizes are worked out by hand for one layer of h = 128, s = 32, V = 1000 with embeddings and head apart:
//   head Vh = 128,000; final norm 2h = 256; layer 12h^2 + 13h = 198,272; positions sh = 4,096;
//   embedding Vh = 128,000; together 458,624.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

Job one_layer() {
  Job job = with_framework(preset("19M").value(), "torch-ddp");
  job.framework_version = "1.13";
  job.model.layers = 1;
  job.model.hidden = 128;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 32;
  job.model.ffn_hidden = 512;
  job.model.sequence = job.model.max_positions = 32;
  job.model.vocab = job.model.raw_vocab = 1000;
  job.model.vocab_is_padded = true;
  job.model.positions = Positions::learned;
  job.train.dtype = DType::fp32;
  job.train.recompute = Recompute::none;
  job.train.micro_batches = 1;
  job.layout.dp = 2;
  return job;
}

/// The elements of each gradient all_reduce of the first `iterations` iterations.
std::vector<std::vector<std::int64_t>> reductions(const Job& job, std::int64_t iterations) {
  const Trace trace = make_plan(validated(job).value()).value().trace(iterations);
  std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(iterations));
  for (const CommEvent& event : trace.streams.at(0).events) {
    if (event.iteration != k_init_iteration) {
      EXPECT_EQ(trace.op(event.op).kind, CommKind::all_reduce);
      found.at(static_cast<std::size_t>(event.iteration)).push_back(trace.op(event.op).input.value);
    }
  }
  return found;
}

using Reductions = std::vector<std::vector<std::int64_t>>;

// Buckets are rebuilt after the first iteration. The first bucket closes on reaching 1 MiB, 262,144 elements
// of fp32: head, norm, MLP (131,712), ln2 (256) and the attention's projection (128 + 16,384) are 276,736.
TEST(TorchDdp, ReducesOneBucketInTheFirstIteration) {
  EXPECT_EQ(reductions(one_layer(), 3), (Reductions{{458'624}, {276'736, 181'888}, {276'736, 181'888}}));
}

// docs/rules.md: one bucket in the first iteration, in the first two with a static graph.
TEST(TorchDdp, ReducesOneBucketInTwoIterationsOfAStaticGraph) {
  Job job = one_layer();
  pytorch::options(job).ddp.static_graph = true;
  EXPECT_EQ(reductions(job, 4), (Reductions{{458'624}, {458'624}, {276'736, 181'888}, {276'736, 181'888}}));
}

}  // namespace
}  // namespace commlens
