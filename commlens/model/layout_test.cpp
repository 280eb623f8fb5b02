#include "commlens/model/layout.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::string error_of(const ParallelLayout& layout) {
  const Result<ParallelLayout> result = resolved(layout);
  return result ? "no error" : result.error().message;
}

TEST(Layout, DataRanksAreWhatRemains) {
  EXPECT_EQ(resolved({.ranks = 16, .tp = 2, .pp = 4}).value().dp, 2);
  EXPECT_EQ(resolved({.ranks = 8, .replicate = 2}).value().dp, 4);
}

TEST(Layout, WithoutRanksTheDegreesDecide) {
  const ParallelLayout layout = resolved({.tp = 8, .pp = 2}).value();
  EXPECT_EQ(layout.dp, 1);
  EXPECT_EQ(layout.ranks, 16);
  EXPECT_EQ(resolved({.dp = 3, .tp = 2}).value().ranks, 6);
}

TEST(Layout, ResolvingTwiceChangesNothing) {
  const ParallelLayout once = resolved({.ranks = 12, .tp = 2}).value();
  const ParallelLayout twice = resolved(once).value();
  EXPECT_EQ(once.dp, twice.dp);
  EXPECT_EQ(once.ranks, twice.ranks);
}

TEST(Layout, NumbersContextRanksBetweenTensorAndData) {
  const Mesh mesh = resolved({.dp = 4, .tp = 2, .pp = 2, .cp = 2, .ep = 2}).value().mesh();
  EXPECT_EQ(mesh.dense().axes(),
            (std::vector<MeshAxis>{{Axis::pp, 2}, {Axis::dp, 4}, {Axis::cp, 2}, {Axis::tp, 2}}));
  EXPECT_EQ(
      mesh.views()[1].axes(),
      (std::vector<MeshAxis>{{Axis::pp, 2}, {Axis::edp, 2}, {Axis::ep, 2}, {Axis::cp, 2}, {Axis::tp, 2}}));
}

TEST(Layout, TakesAnOrderAndAxesOfAFrameworksOwn) {
  const ParallelLayout layout =
      resolved({.dp = 2, .tp = 2, .order = "tp-x-dp-pp", .more_axes = {{Axis("x"), 3}}}).value();
  EXPECT_EQ(layout.ranks, 12);
  EXPECT_EQ(
      layout.mesh().dense().axes(),
      (std::vector<MeshAxis>{{Axis::cp, 1}, {Axis::pp, 1}, {Axis::dp, 2}, {Axis("x"), 3}, {Axis::tp, 2}}));
}

TEST(Layout, RefusesOrdersThatLoseAnAxis) {
  EXPECT_EQ(error_of({.dp = 2, .cp = 2, .order = "tp-dp-pp"}),
            "the order tp-dp-pp does not name the axis cp of size 2");
  EXPECT_EQ(error_of({.dp = 2, .more_axes = {{Axis("x"), 3}}}),
            "the order tp-cp-ep-dp-pp does not name the axis x of size 3");
  EXPECT_EQ(error_of({.order = "tp-cp-ep-dp-pp-x"}),
            "the order tp-cp-ep-dp-pp-x names x, of which the layout has no degree");
  EXPECT_EQ(error_of({.dp = 4, .pp = 2, .ep = 2, .order = "tp-cp-ep-pp-dp"}),
            "the order tp-cp-ep-pp-dp numbers other ranks between ep and dp; put ep right before dp");
  EXPECT_EQ(error_of({.more_axes = {{Axis::tp, 2}}}), "the degree of tp is given twice");
}

TEST(Layout, RefusesWhatDoesNotMultiply) {
  EXPECT_EQ(error_of({.ranks = 10, .tp = 4}),
            "10 ranks are not divisible by tp 4; change --ranks, --tp or --pp");
  EXPECT_EQ(error_of({.ranks = 12, .tp = 4, .pp = 2}),
            "12 ranks are not divisible by tp 4 x pp 2 = 8; change --ranks, --tp or --pp");
  EXPECT_EQ(error_of({.ranks = 16, .dp = 3, .tp = 4}),
            "tp 4 x dp 3 needs 12 ranks, the job has 16; change --ranks, --dp, --tp or --pp");
  EXPECT_EQ(error_of({.ranks = 6, .ep = 4}), "dp 6 is not divisible by ep 4; change --dp, --ep or --ranks");
}

TEST(Layout, RefusesDegreesThatAreNotPositive) {
  EXPECT_EQ(error_of({.tp = 0}), "tp is 0; it must be at least 1");
  EXPECT_EQ(error_of({.ranks = -4}), "ranks is -4; it must be at least 1");
  EXPECT_EQ(error_of({.dp = -1}), "dp is -1; it must be at least 1");
}

TEST(Layout, RefusesOverflow) {
  EXPECT_EQ(
      error_of({.dp = INT64_MAX, .tp = INT64_MAX}),
      "tp 9223372036854775807 x dp 9223372036854775807 is more than 16777216 ranks; use smaller degrees");
  EXPECT_EQ(error_of({.ranks = INT64_MAX}), "ranks is 9223372036854775807; at most 16777216 are supported");
}

TEST(Layout, HasAtMostAsManyRanksAsATraceCanHold) {
  EXPECT_EQ(resolved({.ranks = 16'777'216}).value().dp, 16'777'216);
  EXPECT_EQ(error_of({.ranks = 16'777'217}), "ranks is 16777217; at most 16777216 are supported");
  EXPECT_EQ(error_of({.dp = 4'194'304, .tp = 5}),
            "tp 5 x dp 4194304 is more than 16777216 ranks; use smaller degrees");
}

TEST(Layout, AnOrderOfAxesOfSizeOneIsTheDefault) {
  const auto is_default = [](ParallelLayout layout, std::string_view order) {
    layout.order = order;
    return resolved(layout).value().has_default_order();
  };
  const ParallelLayout data_and_tensor{.ranks = 8, .tp = 2};
  EXPECT_TRUE(is_default(data_and_tensor, "tp-cp-ep-dp-pp"));
  EXPECT_TRUE(is_default(data_and_tensor, "tp-dp"));
  EXPECT_TRUE(is_default(data_and_tensor, "pp-tp-dp"));
  EXPECT_FALSE(is_default(data_and_tensor, "dp-tp"));
}

}  // namespace
}  // namespace commlens
