#include "commlens/comm/group.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::vector<std::int64_t> values(const std::vector<Rank>& ranks) {
  std::vector<std::int64_t> result;
  for (const Rank rank : ranks) {
    result.push_back(rank.value);
  }
  return result;
}

using Ranks = std::vector<std::int64_t>;
constexpr Mesh k_mesh{.pipeline = 2, .data = 3, .tensor = 4};  // 24 ranks
constexpr Span k_all{Span::Shape::all, 1};

TEST(Mesh, PutsTensorFastestAndPipelineSlowest) {
  EXPECT_EQ(k_mesh.ranks(), 24);
  EXPECT_EQ(k_mesh.rank({1, 2, 3}).value, 23);
  EXPECT_EQ(k_mesh.rank({1, 0, 1}).value, 13);
  EXPECT_EQ(k_mesh.coordinates(Rank{13}), (Coordinates{1, 0, 1}));
}

TEST(GroupTable, ResolvesPatternsFromAMember) {
  GroupTable groups(k_mesh);
  const GroupId dp = groups.intern(GroupPattern{.axis = Axis::dp, .data = k_all});
  const GroupId tp = groups.intern(GroupPattern{.axis = Axis::tp, .tensor = k_all});
  const GroupId model = groups.intern(GroupPattern{.axis = Axis::model, .pipeline = k_all, .tensor = k_all});
  EXPECT_EQ(values(groups.members(dp, Rank{13})), (Ranks{13, 17, 21}));
  EXPECT_EQ(values(groups.members(tp, Rank{13})), (Ranks{12, 13, 14, 15}));
  EXPECT_EQ(values(groups.members(model, Rank{13})), (Ranks{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(groups.size(model), 8);
  EXPECT_EQ(groups.axis(dp), Axis::dp);
}

TEST(GroupTable, ResolvesBlocksStridesAndEnds) {
  GroupTable groups(Mesh{.pipeline = 4, .data = 8, .tensor = 1});
  const GroupId block = groups.intern(GroupPattern{.data = {Span::Shape::block, 4}});
  const GroupId stride = groups.intern(GroupPattern{.data = {Span::Shape::stride, 4}});
  const GroupId ends = groups.intern(GroupPattern{.pipeline = {Span::Shape::ends, 1}});
  EXPECT_EQ(values(groups.members(block, Rank{6})), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(values(groups.members(stride, Rank{6})), (Ranks{2, 6}));
  EXPECT_EQ(values(groups.members(ends, Rank{6})), (Ranks{6, 30}));
  EXPECT_EQ(groups.size(block), 4);
  EXPECT_EQ(groups.size(stride), 2);
}

TEST(GroupTable, OrdersPairsFromSourceToDestination) {
  GroupTable groups(Mesh{.pipeline = 3, .data = 1, .tensor = 2});
  const auto pair = [&](GroupPattern::Shape shape) { return groups.intern(GroupPattern{.shape = shape}); };
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::to_next), Rank{1})), (Ranks{1, 3}));
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::from_previous), Rank{3})), (Ranks{1, 3}));
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::to_previous), Rank{1})), (Ranks{1, 5}))
      << "a ring";
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::from_next), Rank{1})), (Ranks{3, 1}));
}

TEST(GroupTable, StoresEqualGroupsOnceAndCallsOneRankSelf) {
  GroupTable groups(Mesh{.pipeline = 1, .data = 1, .tensor = 2});
  const GroupPattern dp{.axis = Axis::dp, .data = k_all};
  EXPECT_EQ(groups.intern(dp), groups.intern(dp));
  EXPECT_EQ(groups.axis(groups.intern(dp)), Axis::self);
  EXPECT_EQ(groups.intern({Rank{0}, Rank{1}}), groups.intern({Rank{0}, Rank{1}}));
  EXPECT_NE(groups.intern({Rank{0}, Rank{1}}), groups.intern({Rank{1}, Rank{0}}));
}

TEST(GroupTable, CountsMembersOnANode) {
  GroupTable groups(Mesh{.pipeline = 1, .data = 16, .tensor = 1});
  const GroupId dp = groups.intern(GroupPattern{.axis = Axis::dp, .data = k_all});
  EXPECT_EQ(groups.members_on_node(dp, Rank{9}, 8), 8);
  EXPECT_EQ(groups.members_on_node(dp, Rank{9}, 3), 3);
}

TEST(GroupTable, HiddenGroupsHaveASizeAndANameButNoMembers) {
  GroupTable groups;
  const GroupId first = groups.intern_hidden(8, "comm a");
  EXPECT_EQ(groups.intern_hidden(8, "comm a"), first);
  EXPECT_NE(groups.intern_hidden(8, "comm b"), first);
  EXPECT_NE(groups.intern_hidden(4, "comm a"), first);
  EXPECT_EQ(groups.size(first), 8);
  EXPECT_EQ(groups.name(first), "comm a");
  EXPECT_TRUE(groups.members(first, Rank{0}).empty());
  EXPECT_FALSE(groups.knows_members(first));
  EXPECT_FALSE(groups.pattern(first).has_value());
  EXPECT_EQ(groups.axis(groups.intern_hidden(1, "")), Axis::self);
  EXPECT_TRUE(groups.knows_members(groups.intern({Rank{0}, Rank{1}})));
}

TEST(GroupTable, TellsCommunicatorsOfTheSameRanksApart) {
  GroupTable groups;
  const std::vector<Rank> ranks{Rank{0}, Rank{1}};
  const GroupId untold = groups.intern(ranks, Axis::world);
  const GroupId first = groups.intern(ranks, Axis::world, CommunicatorId{7});
  const GroupId second = groups.intern(ranks, Axis::world, CommunicatorId{3});
  EXPECT_EQ(groups.intern(ranks, Axis::world, CommunicatorId{7}), first);
  EXPECT_EQ(groups.count(), 3U);
  EXPECT_NE(first, second);
  EXPECT_EQ(groups.communicator(untold), k_no_communicator);
  EXPECT_EQ(groups.communicator(second), CommunicatorId{3});
  EXPECT_EQ(groups.ordinal(untold), 1);
  EXPECT_EQ(groups.ordinal(first), 2);
  EXPECT_EQ(groups.ordinal(second), 3) << "in the order in which they were added";
  EXPECT_EQ(groups.ordinal(groups.intern({Rank{1}, Rank{0}}, Axis::world, CommunicatorId{3})), 1);
  EXPECT_EQ(groups.ordinal(groups.intern(ranks, Axis::dp, CommunicatorId{3})), 1) << "another axis";
}

TEST(CommunicatorId, IsTheSameForTheSameNameAndReadsItsOwnText) {
  EXPECT_EQ(communicator_named("pg 1"), communicator_named("pg 1"));
  EXPECT_NE(communicator_named("pg 1"), communicator_named("pg 2"));
  EXPECT_EQ(communicator_named(""), k_no_communicator);
  EXPECT_EQ(text_of(CommunicatorId{0x12ab}), "0x00000000000012ab");
  EXPECT_EQ(communicator_named("0x00000000000012ab"), CommunicatorId{0x12ab});
  EXPECT_EQ(communicator_from("0x00000000000012ab"), CommunicatorId{0x12ab});
  for (const char* text : {"", "0x12ab", "0x00000000000012aX", "00000000000012ab00", "0x0000000000000000"}) {
    EXPECT_FALSE(communicator_from(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace commlens
