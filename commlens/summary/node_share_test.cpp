#include "commlens/summary/node_share.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

double share(const GroupTable& groups, GroupId group, CommKind kind, RankRange ranks, std::int64_t per_node) {
  const Fraction part = inter_node_share(groups, group, kind, ranks, per_node);
  return static_cast<double>(part.numerator) / static_cast<double>(part.denominator);
}

TEST(InterNodeShare, RingCountsNeighboursOnOtherNodes) {
  GroupTable groups(Mesh{{Axis::pp, 1}, {Axis::dp, 8}, {Axis::tp, 1}});
  const GroupId all =
      groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, {.shape = Span::Shape::all}}}});
  EXPECT_EQ(share(groups, all, CommKind::all_reduce, {Rank{0}, Rank{7}}, 4), 0.25);
  EXPECT_EQ(share(groups, all, CommKind::all_reduce, {Rank{0}, Rank{7}}, 1), 1.0);
  EXPECT_EQ(share(groups, all, CommKind::all_reduce, {Rank{0}, Rank{7}}, 8), 0.0);
}

TEST(InterNodeShare, AllToAllCountsMembersOnOtherNodes) {
  GroupTable groups(Mesh{{Axis::pp, 1}, {Axis::dp, 8}, {Axis::tp, 1}});
  const GroupId all =
      groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, {.shape = Span::Shape::all}}}});
  EXPECT_EQ(share(groups, all, CommKind::all_to_all, {Rank{0}, Rank{7}}, 4), 4.0 / 7.0);
  // Nodes of 6 and 2: members send 2/7 (six of them) and 6/7 (two) of theirs away: 24 of 56.
  EXPECT_EQ(share(groups, all, CommKind::all_to_all, {Rank{0}, Rank{7}}, 6), 24.0 / 56.0);
}

TEST(InterNodeShare, GroupsOfAClassMayDiffer) {
  // Tensor pairs {0 1} {2 3} {4 5} with nodes of three: only {2 3} crosses.
  GroupTable groups(Mesh{{Axis::pp, 1}, {Axis::dp, 3}, {Axis::tp, 2}});
  const GroupId pairs =
      groups.intern(GroupPattern{.axis = Axis::tp, .spans = {{Axis::tp, {.shape = Span::Shape::all}}}});
  EXPECT_EQ(share(groups, pairs, CommKind::all_gather, {Rank{0}, Rank{5}}, 3), 1.0 / 3.0);
  EXPECT_EQ(share(groups, pairs, CommKind::all_gather, {Rank{2}, Rank{2}}, 3), 1.0);
}

TEST(InterNodeShare, SendsCrossOrNot) {
  // Stages of two ranks each: 0 -> 2 and 1 -> 3 with nodes of three: only 1 -> 3 crosses.
  GroupTable groups(Mesh{{Axis::pp, 2}, {Axis::dp, 2}, {Axis::tp, 1}});
  const GroupId next =
      groups.intern(GroupPattern{.shape = GroupPattern::Shape::to_next, .axis = Axis::pp, .along = Axis::pp});
  EXPECT_EQ(share(groups, next, CommKind::send, {Rank{0}, Rank{1}}, 3), 0.5);
  EXPECT_EQ(share(groups, next, CommKind::recv, {Rank{0}, Rank{1}}, 3), 0.0);
}

TEST(InterNodeShare, UnknownAndSingleGroupsCrossNothing) {
  GroupTable groups;
  const GroupId empty = groups.intern(std::vector<Rank>{});
  EXPECT_EQ(share(groups, empty, CommKind::all_reduce, {Rank{0}, Rank{0}}, 1), 0.0);
}

}  // namespace
}  // namespace commlens
