#include "commlens/transport/nccl_algorithms.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

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

TEST(NcclAlgorithms, AreThereForCallsThatNcclHasSeveralFor) {
  EXPECT_EQ(nccl_algorithms(CommKind::all_reduce).size(), 6U);
  EXPECT_EQ(nccl_algorithms(CommKind::broadcast).front(), "ring/ll");
  EXPECT_TRUE(nccl_algorithms(CommKind::all_to_all).empty());
}

}  // namespace
}  // namespace commlens
