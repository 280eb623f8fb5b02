#include "commlens/network/max_min.hpp"

#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::vector<double> solved(MaxMin& links) {
  const std::span<const double> levels = links.solve();
  return {levels.begin(), levels.end()};
}

TEST(MaxMin, OneUserHasTheNarrowestLink) {
  MaxMin links({10, 4, 7});
  links.add(std::vector<LinkUse>{{0, 1}, {1, 1}, {2, 1}});
  EXPECT_EQ(solved(links), (std::vector<double>{4}));
}

TEST(MaxMin, GivesWhatALimitedUserLeavesToTheOthers) {
  // Link 0 (10) is shared by three, link 1 (2) holds the second back: 4, 2, 4.
  MaxMin links({10, 2});
  links.add(std::vector<LinkUse>{{0, 1}});
  links.add(std::vector<LinkUse>{{0, 1}, {1, 1}});
  links.add(std::vector<LinkUse>{{0, 1}});
  EXPECT_EQ(solved(links), (std::vector<double>{4, 2, 4}));
}

TEST(MaxMin, AClassOfThreeHasThreeParts) {
  MaxMin links({8});
  links.add(std::vector<LinkUse>{{0, 3}});
  links.add(std::vector<LinkUse>{{0, 1}});
  EXPECT_EQ(solved(links), (std::vector<double>{2, 2}));
}

TEST(MaxMin, ALinkThatStandsTwiceIsTakenTwice) {
  MaxMin links({9});
  links.add(std::vector<LinkUse>{{0, 1}, {0, 1}});
  links.add(std::vector<LinkUse>{{0, 1}});
  EXPECT_EQ(solved(links), (std::vector<double>{3, 3}));
}

TEST(MaxMin, SharesByWeight) {
  MaxMin links({8});
  links.add(std::vector<LinkUse>{{0, 1}}, 1);
  links.add(std::vector<LinkUse>{{0, 1}}, 3);
  EXPECT_EQ(solved(links), (std::vector<double>{2, 6}));
}

TEST(MaxMin, ACapLeavesMoreToTheOthers) {
  MaxMin links({8});
  links.add(std::vector<LinkUse>{{0, 1}}, 1, 1);
  links.add(std::vector<LinkUse>{{0, 1}});
  EXPECT_EQ(solved(links), (std::vector<double>{1, 7}));
}

TEST(MaxMin, AUserWithoutLinksHasItsCap) {
  MaxMin links({8});
  links.add({}, 1, 5);
  EXPECT_EQ(solved(links), (std::vector<double>{5}));
}

TEST(MaxMin, ForgetsUsersNotLinks) {
  MaxMin links({8});
  links.add(std::vector<LinkUse>{{0, 1}});
  links.solve();
  links.clear();
  links.add(std::vector<LinkUse>{{0, 1}});
  links.add(std::vector<LinkUse>{{0, 1}});
  EXPECT_EQ(solved(links), (std::vector<double>{4, 4}));
}

TEST(MaxMin, KeepsSmallWeightsBesideLargeOnes) {
  // After the first user is held to 3 by link 1, all the rest of link 0 is the second's.
  MaxMin links({10, 3});
  links.add(std::vector<LinkUse>{{0, 1}, {1, 1}}, 1);
  links.add(std::vector<LinkUse>{{0, 1}}, 1e-15);
  const std::vector<double> levels = solved(links);
  EXPECT_DOUBLE_EQ(levels[0], 3);
  EXPECT_DOUBLE_EQ(levels[1], 7);
}

}  // namespace
}  // namespace commlens
