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
const Mesh k_mesh{{Axis::pp, 2}, {Axis::dp, 3}, {Axis::tp, 4}};  // 24 ranks
constexpr Span k_all{Span::Shape::all, 1};

TEST(GroupTable, ResolvesPatternsFromAMember) {
  GroupTable groups(k_mesh);
  const GroupId dp = groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, k_all}}});
  const GroupId tp = groups.intern(GroupPattern{.axis = Axis::tp, .spans = {{Axis::tp, k_all}}});
  const GroupId model =
      groups.intern(GroupPattern{.axis = Axis::model, .spans = {{Axis::tp, k_all}, {Axis::pp, k_all}}});
  EXPECT_EQ(values(groups.members(dp, Rank{13})), (Ranks{13, 17, 21}));
  EXPECT_EQ(values(groups.members(tp, Rank{13})), (Ranks{12, 13, 14, 15}));
  EXPECT_EQ(values(groups.members(model, Rank{13})), (Ranks{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(groups.size(model), 8);
  EXPECT_EQ(groups.axis(dp), Axis::dp);
}

TEST(GroupTable, ResolvesBlocksStridesAndEnds) {
  GroupTable groups(Mesh{{Axis::pp, 4}, {Axis::dp, 8}, {Axis::tp, 1}});
  const auto along = [&](const Axis& axis, Span span) {
    return groups.intern(GroupPattern{.axis = axis, .spans = {{axis, span}}});
  };
  const GroupId block = along(Axis::dp, {Span::Shape::block, 4});
  const GroupId stride = along(Axis::dp, {Span::Shape::stride, 4});
  const GroupId ends = along(Axis::pp, {Span::Shape::ends, 1});
  EXPECT_EQ(values(groups.members(block, Rank{6})), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(values(groups.members(stride, Rank{6})), (Ranks{2, 6}));
  EXPECT_EQ(values(groups.members(ends, Rank{6})), (Ranks{6, 30}));
  EXPECT_EQ(groups.size(block), 4);
  EXPECT_EQ(groups.size(stride), 2);
}

TEST(GroupTable, OrdersPairsFromSourceToDestination) {
  GroupTable groups(Mesh{{Axis::pp, 3}, {Axis::dp, 1}, {Axis::tp, 2}});
  const auto pair = [&](GroupPattern::Shape shape) {
    return groups.intern(neighbour_pattern(*groups.mesh(), Axis::pp, shape).value());
  };
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::to_next), Rank{1})), (Ranks{1, 3}));
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::from_previous), Rank{3})), (Ranks{1, 3}));
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::to_previous), Rank{1})), (Ranks{1, 5}))
      << "a ring";
  EXPECT_EQ(values(groups.members(pair(GroupPattern::Shape::from_next), Rank{1})), (Ranks{3, 1}));
}

TEST(GroupTable, StoresEqualGroupsOnceAndCallsOneRankSelf) {
  GroupTable groups(Mesh{{Axis::dp, 1}, {Axis::tp, 2}});
  const GroupPattern dp{.axis = Axis::dp, .spans = {{Axis::dp, k_all}}};
  EXPECT_EQ(groups.intern(dp), groups.intern(dp));
  EXPECT_EQ(groups.axis(groups.intern(dp)), Axis::self);
  EXPECT_EQ(groups.intern({Rank{0}, Rank{1}}), groups.intern({Rank{0}, Rank{1}}));
  EXPECT_NE(groups.intern({Rank{0}, Rank{1}}), groups.intern({Rank{1}, Rank{0}}));
}

TEST(GroupTable, AimsAtNeighboursAlongAnyAxis) {
  GroupTable groups(k_mesh);
  const auto members = [&](const Axis& axis, GroupPattern::Shape shape, std::int64_t self) {
    const GroupId pair = groups.intern(neighbour_pattern(k_mesh, axis, shape).value());
    EXPECT_EQ(groups.axis(pair), axis);
    return values(groups.members(pair, Rank{self}));
  };
  EXPECT_EQ(members(Axis::tp, GroupPattern::Shape::to_next, 15), (Ranks{15, 12})) << "a ring of 12 to 15";
  EXPECT_EQ(members(Axis::dp, GroupPattern::Shape::from_previous, 13), (Ranks{21, 13}));
  EXPECT_EQ(members(Axis::pp, GroupPattern::Shape::to_previous, 13), (Ranks{13, 1}));
}

TEST(GroupTable, ADegreeOfOneMakesAGroupOfTheRankAlone) {
  GroupTable groups(Mesh{{Axis::cp, 1}, {Axis::tp, 2}});
  const GroupId ring =
      groups.intern(neighbour_pattern(*groups.mesh(), Axis::cp, GroupPattern::Shape::to_next).value());
  const GroupId all = groups.intern(pattern_over(*groups.mesh(), Axis::cp, {{Axis::cp, k_all}}).value());
  EXPECT_EQ(values(groups.members(all, Rank{1})), (Ranks{1}));
  EXPECT_EQ(groups.size(all), 1);
  EXPECT_EQ(groups.axis(all), Axis::self);
  EXPECT_EQ(values(groups.members(ring, Rank{1})), (Ranks{1, 1})) << "its own neighbour";
  EXPECT_EQ(groups.axis(ring), Axis::self);
}

TEST(GroupPattern, RefusesWhatTheMeshDoesNotHave) {
  const auto error = [](const Result<GroupPattern>& pattern) {
    return pattern ? std::string("none") : pattern.error().message;
  };
  EXPECT_EQ(error(pattern_over(k_mesh, Axis::cp, {{Axis::cp, k_all}})),
            "no view of the mesh has the axes cp");
  EXPECT_EQ(error(neighbour_pattern(k_mesh, Axis("x"), GroupPattern::Shape::to_next)),
            "there is no axis x in the mesh");
  EXPECT_EQ(error(checked(k_mesh, {.axis = Axis::dp, .spans = {{Axis::ep, k_all}}})),
            "there is no axis ep in the view dense of the mesh");
  EXPECT_EQ(error(checked(k_mesh, {.spans = {{Axis::dp, k_all}, {Axis::dp, k_all}}})),
            "the axis dp is in the pattern twice");
  EXPECT_EQ(error(checked(k_mesh, {.spans = {{Axis::tp, {Span::Shape::block, 3}}}})),
            "a step of 3 does not divide the 4 positions along tp");
  EXPECT_EQ(error(checked(k_mesh, {.view = 1})), "the mesh has 1 views, none with number 1");
}

TEST(GroupTable, CountsMembersOnANode) {
  GroupTable groups(Mesh{{Axis::dp, 16}});
  const GroupId dp = groups.intern(GroupPattern{.axis = Axis::dp, .spans = {{Axis::dp, k_all}}});
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
  EXPECT_EQ(groups.pattern(first), nullptr);
  EXPECT_EQ(groups.axis(groups.intern_hidden(1, "")), Axis::self);
  EXPECT_TRUE(groups.knows_members(groups.intern({Rank{0}, Rank{1}})));
}

TEST(GroupTable, DistinguishesCommunicatorsOfTheSameRanks) {
  GroupTable groups;
  const std::vector<Rank> ranks{Rank{0}, Rank{1}};
  const GroupId incomplete = groups.intern(ranks, Axis::world);
  const GroupId first = groups.intern(ranks, Axis::world, CommunicatorId{7});
  const GroupId second = groups.intern(ranks, Axis::world, CommunicatorId{3});
  EXPECT_EQ(groups.intern(ranks, Axis::world, CommunicatorId{7}), first);
  EXPECT_EQ(groups.count(), 3U);
  EXPECT_NE(first, second);
  EXPECT_EQ(groups.communicator(incomplete), k_no_communicator);
  EXPECT_EQ(groups.communicator(second), CommunicatorId{3});
  EXPECT_EQ(groups.ordinal(incomplete), 1);
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
