// Laws of every mesh: of its axes in any order, of its views, and of the groups and neighbours along any
// axis.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "commlens/base/check.hpp"
#include "commlens/comm/group.hpp"
#include "commlens/model/layout.hpp"

namespace commlens {
namespace {

using Shape = GroupPattern::Shape;

/// One to five axes of 1 to 4 positions, some of them with unknown names.
std::vector<MeshAxis> random_axes() {
  std::vector<Axis> names = {Axis::dp, Axis::tp, Axis::pp, Axis::cp, Axis("x"), Axis("y_2")};
  std::vector<MeshAxis> axes;
  const int count = *rc::gen::inRange(1, 6);
  for (int at = 0; at < count; ++at) {
    const auto chosen = *rc::gen::inRange<std::size_t>(0, names.size());
    axes.push_back({names[chosen], *rc::gen::inRange<std::int64_t>(1, 5)});
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return axes;
}

/// The same ranks on other axes: sizes split or swapped.
std::vector<MeshAxis> refolded(std::int64_t ranks) {
  std::vector<MeshAxis> axes;
  int number = 0;
  while (ranks > 1) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t size = 2; size <= ranks; ++size) {
      if (ranks % size == 0) {
        divisors.push_back(size);
      }
    }
    const std::int64_t size = *rc::gen::elementOf(divisors);
    axes.push_back({Axis(std::string("fold_") + std::to_string(number++)), size});
    ranks /= size;
  }
  return axes;
}

Mesh random_mesh() {
  Mesh mesh = Mesh::of(random_axes()).value();
  const bool is_added = mesh.add_view("refolded", refolded(mesh.ranks())).has_value();
  COMMLENS_CHECK(is_added, "the product of the sizes is the same");
  return mesh;
}

MeshAxis random_axis(const Mesh& mesh) {
  std::vector<MeshAxis> axes;
  for (const MeshView& view : mesh.views()) {
    axes.insert(axes.end(), view.axes().begin(), view.axes().end());
  }
  return *rc::gen::elementOf(axes);
}

Span random_span(std::int64_t size) {
  std::vector<Span> spans = {{Span::Shape::own}, {Span::Shape::all}};
  for (std::int64_t step = 1; step <= size; ++step) {
    if (size % step == 0) {
      spans.push_back({Span::Shape::block, step});
      spans.push_back({Span::Shape::stride, step});
    }
  }
  return *rc::gen::elementOf(spans);
}

RC_GTEST_PROP(MeshLaws, CoordinatesAndRanksAreTheSameThing, ()) {
  const Mesh mesh = random_mesh();
  for (const MeshView& view : mesh.views()) {
    std::int64_t product = 1;
    for (const MeshAxis& axis : view.axes()) {
      product *= axis.size;
    }
    RC_ASSERT(product == mesh.ranks());
    std::set<std::vector<std::int64_t>> seen;
    for (Rank rank{0}; rank.value < mesh.ranks(); ++rank.value) {
      const std::vector<std::int64_t> at = view.coordinates(rank);
      RC_ASSERT(view.rank(at) == rank);
      RC_ASSERT(seen.insert(at).second);
    }
  }
}

RC_GTEST_PROP(MeshLaws, TheLastAxisIsTheFastest, ()) {
  const Mesh mesh = random_mesh();
  for (const MeshView& view : mesh.views()) {
    std::vector<std::int64_t> before = view.coordinates(Rank{0});
    for (Rank rank{1}; rank.value < mesh.ranks(); ++rank.value) {
      const std::vector<std::int64_t> at = view.coordinates(rank);
      RC_ASSERT(before < at);  // as words in a dictionary, the slowest axis first
      before = at;
    }
  }
}

RC_GTEST_PROP(MeshLaws, GroupsPartTheRanks, ()) {
  const Mesh mesh = random_mesh();
  std::vector<AxisSpan> spans;
  const MeshView& view = *rc::gen::elementOf(mesh.views());
  std::int64_t expected = 1;
  for (const MeshAxis& axis : view.axes()) {
    if (*rc::gen::arbitrary<bool>()) {
      const Span span = random_span(axis.size);
      spans.push_back({axis.axis, span});
      expected *= span.shape == Span::Shape::all      ? axis.size
                  : span.shape == Span::Shape::block  ? span.step
                  : span.shape == Span::Shape::stride ? axis.size / span.step
                                                      : 1;
    }
  }
  GroupTable groups(mesh);
  const GroupId group = groups.intern(pattern_over(mesh, Axis::world, spans).value());
  RC_ASSERT(groups.size(group) == expected);
  std::map<std::vector<Rank>, std::int64_t> seen;
  for (Rank rank{0}; rank.value < mesh.ranks(); ++rank.value) {
    const std::vector<Rank> members = groups.members(group, rank);
    RC_ASSERT(std::ssize(members) == expected);
    RC_ASSERT(std::is_sorted(members.begin(), members.end()));
    RC_ASSERT(std::adjacent_find(members.begin(), members.end()) == members.end());
    RC_ASSERT(std::find(members.begin(), members.end(), rank) != members.end());
    ++seen[members];  // every member sees the same group, so no rank is in two
  }
  for (const auto& [members, times] : seen) {
    RC_ASSERT(times == expected);
  }
}

RC_GTEST_PROP(MeshLaws, NeighboursAgreeAboutEachOther, ()) {
  const Mesh mesh = random_mesh();
  const MeshAxis axis = random_axis(mesh);
  GroupTable groups(mesh);
  const auto pair = [&](Shape shape) {
    return groups.intern(neighbour_pattern(mesh, axis.axis, shape).value());
  };
  const GroupId sent = pair(Shape::to_next);
  const GroupId received = pair(Shape::from_previous);
  const GroupId sent_back = pair(Shape::to_previous);
  const GroupId received_back = pair(Shape::from_next);
  for (Rank rank{0}; rank.value < mesh.ranks(); ++rank.value) {
    const std::vector<Rank> next = groups.members(sent, rank);
    if (axis.size == 1) {
      RC_ASSERT(next == (std::vector{rank, rank}));
      RC_ASSERT(groups.axis(sent) == Axis::self);
      continue;
    }
    RC_ASSERT(next.front() == rank);
    RC_ASSERT(groups.members(received, next.back()) == next);
    const std::vector<Rank> back = groups.members(sent_back, next.back());
    RC_ASSERT(back == (std::vector{next.back(), rank}));
    RC_ASSERT(groups.members(received_back, rank) == back);
    RC_ASSERT(mesh.position(next.back(), axis.axis) == (mesh.position(rank, axis.axis) + 1) % axis.size);
  }
}

RC_GTEST_PROP(MeshLaws, PositionsAlongAnAxisAreRangesThatPartTheRanks, ()) {
  const Mesh mesh = random_mesh();
  const MeshAxis axis = random_axis(mesh);
  const auto first = *rc::gen::inRange<std::int64_t>(0, axis.size);
  const auto last = *rc::gen::inRange<std::int64_t>(first, axis.size);
  const RankRange range = mesh.range(axis.axis, first, last);
  std::int64_t index = 0;
  for (Rank rank{0}; rank.value < mesh.ranks(); ++rank.value) {
    const std::int64_t at = mesh.position(rank, axis.axis);
    const bool is_in = first <= at && at <= last;
    RC_ASSERT(range.contains(rank) == is_in);
    if (is_in) {
      RC_ASSERT(range.index_of(rank) == index);
      ++index;
    }
  }
  RC_ASSERT(range.count() == index);
  RC_ASSERT(std::distance(range.begin(), range.end()) == index);
}

RC_GTEST_PROP(MeshLaws, RangesIntersectAsSetsOfRanksDo, ()) {
  const Mesh mesh = random_mesh();
  const auto random_range = [&] {
    const MeshAxis axis = random_axis(mesh);
    const auto first = *rc::gen::inRange<std::int64_t>(0, axis.size);
    return mesh.range(axis.axis, first, *rc::gen::inRange<std::int64_t>(first, axis.size));
  };
  const RankRange left = random_range();
  const RankRange right = random_range();
  std::vector<Rank> found;
  for (const RankRange& part : intersection(left, right)) {
    found.insert(found.end(), part.begin(), part.end());
  }
  std::sort(found.begin(), found.end());
  std::vector<Rank> expected;
  std::copy_if(left.begin(), left.end(), std::back_inserter(expected),
               [&](Rank rank) { return right.contains(rank); });
  RC_ASSERT(found == expected);
}

/// A layout as Megatron numbers it, whatever the order: each group has the ranks that differ along its axis
/// alone.
RC_GTEST_PROP(MeshLaws, ALayoutsMeshHasItsDegreesInItsOrder, ()) {
  const auto degree = [] { return *rc::gen::inRange<std::int64_t>(1, 4); };
  const std::vector<std::string> orders = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp",
                                           "ep-dp-x-tp-cp-pp"};
  ParallelLayout layout{.tp = degree(), .pp = degree(), .cp = degree(), .order = *rc::gen::elementOf(orders)};
  layout.ep = degree();
  layout.dp = layout.ep * degree();
  if (layout.order.find('x') != std::string::npos) {
    layout.more_axes = {{Axis("x"), degree()}};
  }
  const Result<ParallelLayout> known = resolved(layout);
  if (!known) {
    RC_ASSERT(layout.order == "tp-cp-ep-pp-dp");
    RC_ASSERT(layout.ep > 1 && layout.pp > 1);
    RC_ASSERT(known.error().message.find("between ep and dp") != std::string::npos);
    return;
  }
  const Mesh mesh = known->mesh();
  RC_ASSERT(mesh.ranks() == known->ranks);
  const std::map<Axis, std::int64_t> degrees = {{Axis::tp, layout.tp}, {Axis::pp, layout.pp},
                                                {Axis::cp, layout.cp}, {Axis::dp, layout.dp},
                                                {Axis::ep, layout.ep}, {Axis::edp, layout.dp / layout.ep}};
  for (const auto& [axis, size] : degrees) {
    RC_ASSERT(mesh.size(axis) == size);
  }
  // The ranks of an expert group are data ranks: they differ in nothing else.
  for (Rank rank{0}; rank.value < mesh.ranks(); ++rank.value) {
    RC_ASSERT(mesh.position(rank, Axis::edp) * layout.ep + mesh.position(rank, Axis::ep) ==
              mesh.position(rank, Axis::dp));
  }
}

}  // namespace
}  // namespace commlens
