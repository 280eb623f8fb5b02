#include "commlens/app/reproduce/routing.hpp"

#include <gtest/gtest.h>

namespace commlens::study {
namespace {

using Copies = std::vector<std::int64_t>;

constexpr SkewedRouter k_mixtral{.experts = 8, .top_k = 2, .tokens = 4096, .exponent = 1};

TEST(SkewedRouting, WithoutSkewAllExpertsGetAsMany) {
  SkewedRouter balanced = k_mixtral;
  balanced.exponent = 0;
  EXPECT_EQ(routed_copies(balanced), Copies(8, 1024));
}

TEST(SkewedRouting, SharesCopiesByWeight) {
  // 1 + 1/2 + … + 1/8 = 761/280, so the first expert gets 8,192 x 280/761 = 3,014.14 copies and the e-th that
  // over e: 1,507.07, 1,004.71, 753.53, 602.83, 502.36, 430.59, 376.77. The four largest remainders go up.
  EXPECT_EQ(routed_copies(k_mixtral), (Copies{3014, 1507, 1005, 753, 603, 502, 431, 377}));
}

TEST(SkewedRouting, NoExpertGetsATokenTwice) {
  // Weights 1, 1/4, 1/9: of 20 copies the first would get 14.7; it gets the 10 tokens, and the others share
  // 10 as 9 to 4: 6.92 and 3.08.
  EXPECT_EQ(routed_copies({.experts = 3, .top_k = 2, .tokens = 10, .exponent = 2}), (Copies{10, 7, 3}));
  EXPECT_EQ(routed_copies({.experts = 2, .top_k = 2, .tokens = 10, .exponent = 3}), (Copies{10, 10}));
}

TEST(SkewedRouting, ACapacityBoundsAnExpert) {
  EXPECT_EQ(expert_capacity(k_mixtral, 1.25), 1280);
  EXPECT_EQ(expert_capacity({.experts = 3, .top_k = 1, .tokens = 10}, 1), 4);  // 10/3, rounded up
  const Copies routed = routed_copies(k_mixtral);
  EXPECT_EQ(with_capacity(routed, 1280, false), (Copies{1280, 1280, 1005, 753, 603, 502, 431, 377}));
  EXPECT_EQ(with_capacity(routed, 1280, true), Copies(8, 1280));
}

TEST(SkewedRouting, ARankGetsWhatItsExpertsGet) {
  EXPECT_EQ(copies_for_ranks(routed_copies(k_mixtral), 4), (Copies{4521, 1758, 1105, 808}));
}

}  // namespace
}  // namespace commlens::study
