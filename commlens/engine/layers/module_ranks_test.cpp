#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/engine/layers/module_forward.hpp"
#include "commlens/engine/layers/test_model.hpp"

/// The modules split over tensor ranks: the same results, and the calls of docs/training.md#tensor-parallel.
namespace commlens::engine {
namespace {

using test::CountingCommunicator;
using test::Parameters;
using test::Variant;
using Calls = std::vector<std::string>;

LayerContext context_of(const Variant& variant, Communicator& tp) {
  LayerContext context =
      make_layer_context(test::model_of(variant), test::k_rotary_fraction, torch::Device(torch::kCPU));
  context.tp = &tp;
  context.sequence_parallel = variant.sequence_parallel;
  context.selective_recompute = variant.selective;
  return context;
}

LayerContext whole_context(const Variant& variant) {
  return make_layer_context(test::model_of(variant), test::k_rotary_fraction, torch::Device(torch::kCPU));
}

void expect_same_as_one_rank(const Variant& variant, std::int64_t ranks) {
  const Parameters whole = test::drawn_parameters(variant);
  const torch::Tensor expected = test::loss_of(whole_context(variant), whole);
  expected.backward();
  test::as_ranks(ranks, [&](Communicator& tp) {
    const Parameters part = test::part_of(whole, ranks, tp.rank().value);
    const torch::Tensor loss = test::loss_of(context_of(variant, tp), part);
    loss.backward();
    EXPECT_EQ(test::difference("loss", loss, expected, 1e-6), "");
    EXPECT_EQ(test::differences(test::gradients_of(part),
                                test::part_of(test::gradients_of(whole), ranks, tp.rank().value), 1e-5),
              "");
  });
}

TEST(ModuleRanks, LossAndGradientsAreThoseOfOneRank) {
  for (const std::int64_t ranks : {2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      for (Variant variant :
           {Variant{.positions = Positions::rotary}, Variant{.positions = Positions::learned},
            Variant{.positions = Positions::rotary, .parallel_residual = true},
            Variant{.positions = Positions::learned, .tied = true},
            Variant{.positions = Positions::none, .selective = true}, Variant{.positions = Positions::alibi},
            Variant{.positions = Positions::sinusoidal, .activation = Activation::silu}}) {
        variant.sequence_parallel = sequence_parallel;
        SCOPED_TRACE(test::text_of(variant) + ", ranks " + std::to_string(ranks));
        expect_same_as_one_rank(variant, ranks);
      }
    }
  }
}

TEST(ModuleRanks, LossIsTheSameBitForBitOnEveryRank) {
  std::array<float, 4> losses{};
  test::as_ranks(4, [&](Communicator& tp) {
    const Parameters part = test::part_of(test::drawn_parameters({}), 4, tp.rank().value);
    losses.at(static_cast<std::size_t>(tp.rank().value)) =
        test::loss_of(context_of({}, tp), part).item<float>();
  });
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
  EXPECT_EQ(losses[3], losses[0]);
}

/// Calls of each module's passes on one of two ranks.
struct ModuleCalls {
  Calls embedding;
  Calls block;
  Calls head;
  Calls head_backward;
  Calls block_backward;
  Calls embedding_backward;
};

ModuleCalls calls_of(const Variant& variant) {
  ModuleCalls calls;
  test::as_ranks(2, [&](Communicator& world) {
    CountingCommunicator tp(world);
    const LayerContext context = context_of(variant, tp);
    const Parameters part = test::part_of(test::drawn_parameters(variant), 2, tp.rank().value);
    ModuleCalls here;
    const torch::Tensor embedded = embedding_forward(context, part.embedding, test::drawn_tokens());
    here.embedding = tp.taken();
    const torch::Tensor read = embedded.detach().requires_grad_();
    const torch::Tensor output = block_forward(context, part.block, read);
    here.block = tp.taken();
    const torch::Tensor last = output.detach().requires_grad_();
    const torch::Tensor loss = head_forward(context, part.head, last, test::drawn_targets());
    here.head = tp.taken();
    loss.backward();
    here.head_backward = tp.taken();
    output.backward(last.grad());
    here.block_backward = tp.taken();
    embedded.backward(read.grad());
    here.embedding_backward = tp.taken();
    if (world.rank().value == 0) {
      calls = here;
    }
  });
  return calls;
}

// A = 2 sequences of 12 tokens of 32: 768 elements.
const Calls k_loss{"all_reduce 24 fp32 loss.max", "all_reduce 24 fp32 loss.target",
                   "all_reduce 24 fp32 loss.sum"};

Calls with_loss(Calls first) {
  first.insert(first.end(), k_loss.begin(), k_loss.end());
  return first;
}

TEST(ModuleRanks, TensorParallelModulesMakeTheCallsOfTheDocs) {
  const ModuleCalls calls = calls_of({.positions = Positions::learned});
  EXPECT_EQ(calls.embedding, (Calls{"all_reduce 768 fp32 embedding"}));
  EXPECT_EQ(calls.block, (Calls{"all_reduce 768 fp32 block.proj", "all_reduce 768 fp32 block.fc2"}));
  EXPECT_EQ(calls.head, k_loss);
  EXPECT_EQ(calls.head_backward, (Calls{"all_reduce 768 fp32 head.grad"}));
  EXPECT_EQ(calls.block_backward,
            (Calls{"all_reduce 768 fp32 block.fc1.grad", "all_reduce 768 fp32 block.qkv.grad"}));
  EXPECT_EQ(calls.embedding_backward, Calls{});
}

TEST(ModuleRanks, AParallelResidualIsReducedOnce) {
  const ModuleCalls calls = calls_of({.parallel_residual = true});
  EXPECT_EQ(calls.block, (Calls{"all_reduce 768 fp32 block.residual"}));
  EXPECT_EQ(calls.block_backward.size(), 2U);
}

TEST(ModuleRanks, SequenceParallelModulesMakeTheCallsOfTheDocs) {
  const ModuleCalls calls = calls_of({.positions = Positions::learned, .sequence_parallel = true});
  EXPECT_EQ(calls.embedding, (Calls{"reduce_scatter 768 fp32 embedding"}));
  EXPECT_EQ(calls.block, (Calls{"all_gather 768 fp32 block.qkv", "reduce_scatter 768 fp32 block.proj",
                                "all_gather 768 fp32 block.fc1", "reduce_scatter 768 fp32 block.fc2"}));
  EXPECT_EQ(calls.head, with_loss({"all_gather 768 fp32 head"}));
  EXPECT_EQ(calls.head_backward,
            (Calls{"reduce_scatter 768 fp32 head.grad", "all_reduce 64 fp32 head.norm.grad"}));
  EXPECT_EQ(calls.block_backward,
            (Calls{"all_gather 768 fp32 block.fc2.grad", "reduce_scatter 768 fp32 block.fc1.grad",
                   "all_gather 768 fp32 block.proj.grad", "reduce_scatter 768 fp32 block.qkv.grad",
                   "all_reduce 192 fp32 block.shared.grad"}));
  // The position table: 16 x 32.
  const Calls either_order = calls.embedding_backward;
  EXPECT_EQ(std::set<std::string>(either_order.begin(), either_order.end()),
            (std::set<std::string>{"all_gather 768 fp32 embedding.grad",
                                   "all_reduce 512 fp32 embedding.positions.grad"}));
}

TEST(ModuleRanks, AParallelResidualUnderSequenceParallelismIsScatteredOnce) {
  const ModuleCalls calls = calls_of({.parallel_residual = true, .sequence_parallel = true});
  EXPECT_EQ(calls.block, (Calls{"all_gather 768 fp32 block.qkv", "all_gather 768 fp32 block.fc1",
                                "reduce_scatter 768 fp32 block.residual"}));
  Calls backward = calls.block_backward;
  std::sort(backward.begin(), backward.end());
  EXPECT_EQ(backward,
            (Calls{"all_gather 768 fp32 block.residual.grad", "all_reduce 192 fp32 block.shared.grad",
                   "reduce_scatter 768 fp32 block.fc1.grad", "reduce_scatter 768 fp32 block.qkv.grad"}));
}

}  // namespace
}  // namespace commlens::engine
