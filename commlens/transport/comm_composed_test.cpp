#include "commlens/transport/comm_composed.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

class ComposedConformance : public testing::TestWithParam<conformance::Case> {};

TEST_P(ComposedConformance, HoldsOverThreads) {
  run_thread_ranks(3, [](std::unique_ptr<Communicator> world) {
    GetParam().check(*composed(std::move(world)), conformance::Target{});
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, ComposedConformance, testing::ValuesIn(conformance::k_cases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Composed, IsAnAlgorithmOfThreads) {
  run_thread_ranks(2, [](std::unique_ptr<Communicator> world) {
    EXPECT_EQ(world->algorithms(CommKind::all_reduce), std::vector<std::string>{"reduce_scatter_all_gather"});
    EXPECT_TRUE(world->algorithms(CommKind::broadcast).empty());
    EXPECT_FALSE(world->with_algorithm(CommKind::all_reduce, "magic"));
    const auto chosen = world->with_algorithm(CommKind::all_reduce, "reduce_scatter_all_gather");
    ASSERT_TRUE(chosen);
    std::vector<float> values{1, 2, 3};
    (*chosen)->run({.kind = CommKind::all_reduce,
                    .dtype = DType::fp32,
                    .input_buffer = values.data(),
                    .output_buffer = values.data(),
                    .input = {3},
                    .output = {3}});
    EXPECT_EQ(values, (std::vector<float>{2, 4, 6}));
  });
}

TEST(Composed, OfOneRankHasNothingToChoose) {
  run_thread_ranks(1, [](std::unique_ptr<Communicator> world) {
    EXPECT_TRUE(world->algorithms(CommKind::all_reduce).empty());
  });
}

}  // namespace
}  // namespace commlens
