#include "commlens/engine/layers/tensor_parallel.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/engine/layers/test_model.hpp"

namespace commlens::engine {
namespace {

using Calls = std::vector<std::string>;
using test::CountingCommunicator;

/// [batch 2, sequence 4, hidden 1]: sequence b has 10 b + 0, 1, 2, 3.
torch::Tensor counted_activations() {
  return torch::tensor({0.0F, 1.0F, 2.0F, 3.0F, 10.0F, 11.0F, 12.0F, 13.0F}).view({2, 4, 1});
}

TEST(TensorParallel, CopySumsItsGradient) {
  test::as_ranks(2, [](Communicator& world) {
    CountingCommunicator tp(world);
    const torch::Tensor input = counted_activations().requires_grad_();
    const torch::Tensor copy = copy_to_tp(input, &tp, "copy.grad");
    EXPECT_TRUE(torch::equal(copy, input));
    EXPECT_EQ(tp.taken(), Calls{});
    (copy * static_cast<double>(tp.rank().value + 1)).sum().backward();
    EXPECT_TRUE(torch::equal(input.grad(), torch::full({2, 4, 1}, 3.0F)));
    EXPECT_EQ(tp.taken(), (Calls{"all_reduce 8 fp32 copy.grad"}));
  });
}

TEST(TensorParallel, CopyTakesAGradientThatIsNotContiguous) {
  test::as_ranks(2, [](Communicator& tp) {
    const torch::Tensor input = counted_activations().requires_grad_();
    const torch::Tensor copy = copy_to_tp(input, &tp, "copy.grad");
    const torch::Tensor weights = counted_activations().transpose(0, 1).contiguous();
    (copy.transpose(0, 1) * weights).sum().backward();
    EXPECT_TRUE(torch::equal(input.grad(), 2.0 * counted_activations()));
  });
}

TEST(TensorParallel, ReduceSumsItsInputAndHandsItsGradientOn) {
  test::as_ranks(2, [](Communicator& world) {
    CountingCommunicator tp(world);
    const torch::Tensor leaf = counted_activations().requires_grad_();
    const torch::Tensor sum = reduce_from_tp(leaf * static_cast<double>(tp.rank().value + 1), &tp, "reduce");
    EXPECT_TRUE(torch::equal(sum, 3.0 * counted_activations()));
    EXPECT_EQ(tp.taken(), (Calls{"all_reduce 8 fp32 reduce"}));
    sum.sum().backward();
    EXPECT_TRUE(torch::equal(leaf.grad(), torch::full({2, 4, 1}, static_cast<float>(tp.rank().value + 1))));
    EXPECT_EQ(tp.taken(), Calls{});
  });
}

TEST(TensorParallel, GatherPutsEverySequenceTogetherAndScattersItsGradient) {
  test::as_ranks(2, [](Communicator& world) {
    CountingCommunicator tp(world);
    const torch::Tensor shard =
        counted_activations().narrow(1, 2 * tp.rank().value, 2).contiguous().requires_grad_();
    const torch::Tensor whole = gather_sequence(shard, &tp, "gather", "gather.grad");
    EXPECT_TRUE(torch::equal(whole, counted_activations()));
    EXPECT_EQ(tp.taken(), (Calls{"all_gather 8 fp32 gather"}));
    (whole * counted_activations()).sum().backward();
    EXPECT_TRUE(torch::equal(shard.grad(), 2.0 * counted_activations().narrow(1, 2 * tp.rank().value, 2)));
    EXPECT_EQ(tp.taken(), (Calls{"reduce_scatter 8 fp32 gather.grad"}));
  });
}

TEST(TensorParallel, ScatterSumsAndGathersItsGradient) {
  test::as_ranks(2, [](Communicator& world) {
    CountingCommunicator tp(world);
    const std::int64_t first = 2 * tp.rank().value;
    const torch::Tensor leaf = counted_activations().requires_grad_();
    const torch::Tensor shard =
        scatter_sequence(leaf * static_cast<double>(tp.rank().value + 1), &tp, "scatter", "scatter.grad");
    EXPECT_TRUE(torch::equal(shard, 3.0 * counted_activations().narrow(1, first, 2)));
    EXPECT_EQ(tp.taken(), (Calls{"reduce_scatter 8 fp32 scatter"}));
    (shard * counted_activations().narrow(1, first, 2)).sum().backward();
    EXPECT_TRUE(torch::equal(leaf.grad(), static_cast<double>(tp.rank().value + 1) * counted_activations()));
    EXPECT_EQ(tp.taken(), (Calls{"all_gather 8 fp32 scatter.grad"}));
  });
}

TEST(TensorParallel, SharedParametersSumTheirGradientsInOneCall) {
  test::as_ranks(2, [](Communicator& world) {
    CountingCommunicator tp(world);
    const double factor = static_cast<double>(tp.rank().value + 1);
    const torch::Tensor weight = torch::ones({2, 3}, torch::requires_grad());
    const torch::Tensor bias = torch::ones({5}, torch::requires_grad());
    const std::vector<torch::Tensor> shared = shared_parameters({weight, bias}, &tp, "shared.grad");
    ((shared[0] * factor).sum() + (shared[1] * 10.0 * factor).sum()).backward();
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({2, 3}, 3.0F)));
    EXPECT_TRUE(torch::equal(bias.grad(), torch::full({5}, 30.0F)));
    EXPECT_EQ(tp.taken(), (Calls{"all_reduce 11 fp32 shared.grad"}));
  });
}

TEST(TensorParallel, OneRankCallsNothingAndGetsItsInputBack) {
  const torch::Tensor input = counted_activations();
  test::as_ranks(1, [&](Communicator& tp) {
    for (Communicator* group : {&tp, static_cast<Communicator*>(nullptr)}) {
      EXPECT_TRUE(copy_to_tp(input, group, "t").is_same(input));
      EXPECT_TRUE(reduce_from_tp(input, group, "t").is_same(input));
      EXPECT_TRUE(gather_sequence(input, group, "t", "t").is_same(input));
      EXPECT_TRUE(scatter_sequence(input, group, "t", "t").is_same(input));
      EXPECT_TRUE(shared_parameters({input}, group, "t")[0].is_same(input));
    }
  });
}

}  // namespace
}  // namespace commlens::engine
