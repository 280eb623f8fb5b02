#include "commlens/machine/cost/restriction.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using Names = std::vector<std::string>;

TEST(Restriction, IsAListOfNamesInAnyCase) {
  EXPECT_EQ(*algorithms_left("Ring,NVLSTree", CommKind::all_reduce), (Names{"ring", "nvls_tree"}));
  EXPECT_EQ(*protocols_left("LL128", CommKind::all_reduce), Names{"ll128"});
  EXPECT_EQ(*algorithms_left("", CommKind::all_reduce), Names{});
}

TEST(Restriction, LeavesTheOthersAfterACaret) {
  EXPECT_EQ(*algorithms_left("^nvls,nvls_tree", CommKind::all_reduce), (Names{"tree", "ring", "pat"}));
  EXPECT_EQ(*algorithms_left("^CollnetDirect", CommKind::all_reduce).map([](const Names& names) {
    return names.size();
  }),
            5U);
  EXPECT_EQ(protocols_left("^ll,ll128,simple", CommKind::all_reduce).error().message,
            "'^ll,ll128,simple' leaves no protocol");
}

TEST(Restriction, MayBeForOneOperation) {
  EXPECT_EQ(*algorithms_left("ring;allreduce:tree,ring", CommKind::all_reduce), (Names{"tree", "ring"}));
  EXPECT_EQ(*algorithms_left("ring;allreduce:tree,ring", CommKind::all_gather), Names{"ring"});
  EXPECT_EQ(*algorithms_left("allreduce:tree", CommKind::all_gather), Names{});
}

TEST(Restriction, OfCollNetOrUnknownNamesIsRefused) {
  EXPECT_EQ(algorithms_left("ring,CollnetDirect", CommKind::all_reduce).error().message,
            "algorithm 'CollnetDirect' has no time model here (CollNet adds in the switches)");
  EXPECT_EQ(algorithms_left("mesh", CommKind::all_reduce).error().message,
            "algorithm 'mesh' is not known; choose of tree, ring, nvls, nvls_tree, pat");
  EXPECT_EQ(protocols_left("ll64", CommKind::all_reduce).error().message,
            "protocol 'll64' is not known; choose of ll, ll128, simple");
}

}  // namespace
}  // namespace commlens
