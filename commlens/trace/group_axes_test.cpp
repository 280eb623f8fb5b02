#include "commlens/trace/group_axes.hpp"

#include <tuple>
#include <utility>

#include <gtest/gtest.h>

namespace commlens {
namespace {

// 2 stages, 2 data, 2 tensor ranks: rank = (stage * 2 + data) * 2 + tensor.
const Mesh k_mesh{{Axis::pp, 2}, {Axis::dp, 2}, {Axis::tp, 2}};

CommOp op_of(Trace& trace, CommKind kind, const std::vector<Rank>& members, Axis axis = Axis::unknown) {
  return {.kind = kind, .group = trace.groups.intern(members, axis)};
}

TEST(AxisOnMesh, IsThatOfTheMembersCoordinates) {
  Trace trace;
  for (const auto& [members, axis] : std::vector<std::pair<std::vector<Rank>, Axis>>{
           {{{4}, {6}}, Axis::dp},
           {{{3}, {2}}, Axis::tp},
           {{{1}, {5}}, Axis::pp},
           {{{2}, {3}, {6}, {7}}, Axis::model},
           {{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, Axis::world},
           {{{5}}, Axis::self},
           {{{0}, {3}}, Axis::unknown},
           {{{0}, {8}}, Axis::unknown}}) {
    // Seen from a rank that is not a member, too.
    for (const std::int64_t self : {0, 7}) {
      EXPECT_EQ(axis_on_mesh(trace, op_of(trace, CommKind::all_reduce, members), k_mesh, Rank{self}), axis)
          << members.front().value << " and " << members.size() - 1 << " more, seen from " << self;
    }
  }
}

TEST(AxisOnMesh, OfAPairIsTheOneAlongWhichItMoves) {
  Trace trace;
  EXPECT_EQ(axis_on_mesh(trace, op_of(trace, CommKind::send, {{6}, {2}}), k_mesh, Rank{6}), Axis::pp);
  EXPECT_EQ(axis_on_mesh(trace, op_of(trace, CommKind::recv, {{0}, {5}}), k_mesh, Rank{5}), Axis::unknown);
}

TEST(AxesByMembers, AskTheTraceOnlyWhereTheMembersDoNotTell) {
  Trace trace;
  AxesByMembers axes(trace, k_mesh);
  EXPECT_EQ(axes.of(op_of(trace, CommKind::all_reduce, {{0}, {2}}, Axis::world), Rank{0}), Axis::dp);
  EXPECT_EQ(axes.of(op_of(trace, CommKind::all_reduce, {{0}, {3}}, Axis::edp), Rank{0}), Axis::edp);
}

}  // namespace
}  // namespace commlens
