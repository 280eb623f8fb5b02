#include "commlens/transport/nccl_algorithms.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>

#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "none" : value;
}

TEST(NcclAlgorithms, AreSetWhileAScopeLives) {
  setenv("NCCL_ALGO", "Ring", 1);
  unsetenv("NCCL_PROTO");
  {
    const NcclAlgorithmScope scope("tree/ll128");
    EXPECT_EQ(variable("NCCL_ALGO"), "tree");
    EXPECT_EQ(variable("NCCL_PROTO"), "ll128");
    {
      const NcclAlgorithmScope of_another_thread("tree/ll128");
    }
    EXPECT_EQ(variable("NCCL_ALGO"), "tree");
  }
  EXPECT_EQ(variable("NCCL_ALGO"), "Ring");
  EXPECT_EQ(variable("NCCL_PROTO"), "none");
  unsetenv("NCCL_ALGO");
}

/// As ranks that are threads try one algorithm after the other: the last to leave one scope may find others
/// in the next.
TEST(NcclAlgorithms, AreNotMixedByThreadsThatGoOn) {
  unsetenv("NCCL_ALGO");
  unsetenv("NCCL_PROTO");
  std::atomic<int> wrong = 0;
  run_thread_ranks(4, [&](std::unique_ptr<Communicator> world) {
    const std::unique_ptr<Communicator> pair = world->split(world->rank().value / 2, world->rank().value);
    for (int turn = 0; turn < 200; ++turn) {
      for (const char* const name : {"tree", "ring"}) {
        const NcclAlgorithmScope scope(std::string(name) + "/simple");
        pair->barrier();
        wrong += variable("NCCL_ALGO") == name ? 0 : 1;
        pair->barrier();
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(variable("NCCL_ALGO"), "none");
}

TEST(NcclAlgorithms, AreThereForCallsThatNcclHasSeveralFor) {
  EXPECT_EQ(nccl_algorithms(CommKind::all_reduce).size(), 6U);
  EXPECT_EQ(nccl_algorithms(CommKind::broadcast).front(), "ring/ll");
  EXPECT_TRUE(nccl_algorithms(CommKind::all_to_all).empty());
}

}  // namespace
}  // namespace commlens
