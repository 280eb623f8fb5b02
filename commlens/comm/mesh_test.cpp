#include "commlens/comm/mesh.hpp"

#include <gtest/gtest.h>

#include "commlens/comm/group.hpp"

namespace commlens {
namespace {

using Ranks = std::vector<std::int64_t>;
constexpr Span k_every_position{Span::Shape::all};

Ranks members(const Mesh& mesh, const std::vector<AxisSpan>& spans, std::int64_t self) {
  GroupTable groups(mesh);
  Ranks result;
  for (const Rank rank :
       groups.members(groups.intern(pattern_over(mesh, Axis::world, spans).value()), Rank{self})) {
    result.push_back(rank.value);
  }
  return result;
}

Ranks ranks_of(const RankRange& range) {
  Ranks result;
  for (const Rank rank : range) {
    result.push_back(rank.value);
  }
  return result;
}

template <typename Value>
std::string error_of(const Result<Value>& result) {
  return result ? "none" : result.error().message;
}

TEST(Axis, HasAShortPlainName) {
  EXPECT_EQ(name_of(Axis::dp_replicate), "dp_replicate");
  EXPECT_EQ(Axis("tp"), Axis::tp);
  EXPECT_EQ(Axis(), Axis::unknown);
  EXPECT_EQ(Axis::from("dp_shard_mod_ep"), Axis("dp_shard_mod_ep"));
  for (const char* name : {"", "Tp", "2d", "_x", "t-p", "a b", "\xc3\xa4", "abcdefghijklmnopqrstuvw"}) {
    EXPECT_FALSE(Axis::from(name)) << name;
  }
  EXPECT_TRUE(Axis::from("abcdefghijklmnopqrstuv")) << "22 letters";
}

TEST(Axis, SortsTheKnownOnesAsTablesListThemAndOthersAfterThemByName) {
  const std::vector<Axis> sorted = {Axis::unknown, Axis::dp,  Axis::dp_shard, Axis::tp,    Axis::sp,
                                    Axis::pp,      Axis::cp,  Axis::ep,       Axis::world, Axis::self,
                                    Axis("aa"),    Axis("x"), Axis("xy")};
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST(Mesh, NumbersTheFirstAxisSlowest) {
  const Mesh mesh{{Axis::pp, 2}, {Axis::dp, 3}, {Axis::tp, 4}};
  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(mesh.dense().rank(std::vector<std::int64_t>{1, 2, 3}), Rank{23});
  EXPECT_EQ(mesh.rank_at({{Axis::tp, 1}, {Axis::pp, 1}}), Rank{13});
  EXPECT_EQ(mesh.dense().coordinates(Rank{13}), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(mesh.position(Rank{23}, Axis::dp), 2);
}

// rank = ((pp * dp_size + dp) * cp_size + cp) * tp_size + tp: Megatron core/parallel_state.py RankGenerator.
TEST(Mesh, NumbersRanksAsMegatronsOrdersDo) {
  const Mesh mesh{{Axis::pp, 2}, {Axis::dp, 2}, {Axis::cp, 2}, {Axis::tp, 2}};
  EXPECT_EQ(members(mesh, {{Axis::tp, k_every_position}}, 0), (Ranks{0, 1}));
  EXPECT_EQ(members(mesh, {{Axis::cp, k_every_position}}, 0), (Ranks{0, 2}));
  EXPECT_EQ(members(mesh, {{Axis::dp, k_every_position}}, 0), (Ranks{0, 4}));
  EXPECT_EQ(members(mesh, {{Axis::pp, k_every_position}}, 0), (Ranks{0, 8}));
  EXPECT_EQ(members(mesh, {{Axis::dp, k_every_position}, {Axis::cp, k_every_position}}, 9),
            (Ranks{9, 11, 13, 15}))
      << "cp fastest";
  const Mesh other{{Axis::dp, 2}, {Axis::pp, 2}, {Axis::cp, 2}, {Axis::tp, 2}};
  EXPECT_EQ(members(other, {{Axis::pp, k_every_position}}, 0), (Ranks{0, 4}));
  EXPECT_EQ(members(other, {{Axis::dp, k_every_position}}, 0), (Ranks{0, 8}));
}

TEST(Mesh, ReadsOrdersOfAxes) {
  EXPECT_EQ(axes_in_order("tp-cp-dp_shard").value(), (std::vector<Axis>{Axis::tp, Axis::cp, Axis::dp_shard}));
  EXPECT_EQ(error_of(axes_in_order("tp-cp-tp")), "the order 'tp-cp-tp' names tp twice");
  EXPECT_EQ(error_of(axes_in_order("tp--cp")),
            "'' in the order 'tp--cp' is no axis; write axes fastest first, such as tp-cp-ep-dp-pp");
}

TEST(Mesh, RefusesSizesThatAreNoRanks) {
  EXPECT_EQ(error_of(Mesh::of({{Axis::dp, 0}})),
            "the size of axis dp is 0; it must be 1 to 16777216, since a mesh has at most 16777216 ranks");
  EXPECT_EQ(error_of(Mesh::of({{Axis::pp, 8192}, {Axis::dp, 4096}})),
            "the size of axis dp is 4096; it must be 1 to 2048, since a mesh has at most 16777216 ranks");
  EXPECT_EQ(error_of(Mesh::of({{Axis::dp, 2}, {Axis::dp, 2}})), "the axis dp is in the mesh twice");
  EXPECT_EQ(error_of(Mesh::of(std::vector<MeshAxis>(17))), "a mesh has at most 16 axes, not 17");
}

// Megatron core 0.19: experts have a grid of their own over the same ranks, tp = etp, ep, dp = ranks / (etp
// ep pp), so that an expert group crosses tensor ranks: t = 2, etp = 1, ep = 4 is {0, 1, 2, 3}.
TEST(Mesh, RefoldsTheSameRanksForMegatronsExperts) {
  Mesh mesh{{Axis::pp, 1}, {Axis::dp, 4}, {Axis::tp, 2}};
  ASSERT_TRUE(mesh.add_view("expert", {{Axis::pp, 1}, {Axis::edp, 2}, {Axis::ep, 4}, {Axis("etp"), 1}}));
  EXPECT_EQ(members(mesh, {{Axis::ep, k_every_position}}, 0), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(members(mesh, {{Axis::edp, k_every_position}}, 5), (Ranks{1, 5}));
  EXPECT_EQ(members(mesh, {{Axis::tp, k_every_position}}, 5), (Ranks{4, 5}));
}

// torchtitan distributed/parallel_dims.py: pp, dp_replicate, dp_shard, cp, tp, the last one fastest; and for
// experts pp, dp_replicate, efsdp, ep with efsdp = dp_shard cp tp / ep, so that ep takes tp first.
TEST(Mesh, FoldsAsTorchDoes) {
  Mesh mesh{{Axis::pp, 1}, {Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::cp, 2}, {Axis::tp, 2}};
  ASSERT_TRUE(
      mesh.add_view("sparse", {{Axis::pp, 1}, {Axis::dp_replicate, 2}, {Axis("efsdp"), 2}, {Axis::ep, 4}}));
  EXPECT_EQ(members(mesh, {{Axis::dp_shard, k_every_position}, {Axis::cp, k_every_position}}, 1),
            (Ranks{1, 3, 5, 7}))
      << "fsdp";
  EXPECT_EQ(members(mesh, {{Axis::dp_replicate, k_every_position}}, 1), (Ranks{1, 9}));
  EXPECT_EQ(members(mesh, {{Axis::ep, k_every_position}}, 5), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(members(mesh, {{Axis("efsdp"), k_every_position}}, 5), (Ranks{1, 5}));
}

TEST(Mesh, RefusesAViewOfOtherRanks) {
  Mesh mesh{{Axis::dp, 4}, {Axis::tp, 2}};
  EXPECT_EQ(mesh.add_view("expert", {{Axis::ep, 4}}).error().message,
            "the view expert has 4 ranks, the mesh has 8");
  EXPECT_EQ(mesh.add_view("dense", {{Axis::ep, 8}}).error().message, "the view dense is in the mesh twice");
  EXPECT_EQ(mesh.add_view("no name", {{Axis::ep, 8}}).error().message,
            "\"no name\" is no name of a view; use lowercase letters, digits and _, at most 22");
  EXPECT_EQ(mesh.views().size(), 1U);
}

TEST(Mesh, KnowsTheRanksOfARangeOfPositions) {
  const Mesh mesh{{Axis::dp, 3}, {Axis::pp, 4}, {Axis::tp, 2}};  // 24 ranks, a pipeline in 8 of them
  EXPECT_EQ(ranks_of(mesh.range(Axis::pp, 1, 2)), (Ranks{2, 3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21}));
  EXPECT_EQ(mesh.range(Axis::pp, 1, 2).count(), 12);
  EXPECT_EQ(mesh.range(Axis::dp, 1, 1), (RankRange{Rank{8}, Rank{15}})) << "the slowest axis has no gaps";
  EXPECT_EQ(mesh.range(Axis::pp, 0, 3), (RankRange{Rank{0}, Rank{23}})) << "all positions are all ranks";
  EXPECT_EQ(ranks_of(mesh.range(Axis::tp, 1, 1)), (Ranks{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}));
}

TEST(RankRange, KnowsItsMembersAndTheirPlaces) {
  const RankRange range{Rank{2}, Rank{21}, 4, 8};  // 2-5, 10-13, 18-21
  EXPECT_TRUE(range.contains(Rank{13}));
  for (const std::int64_t rank : {1, 6, 9, 17, 22}) {
    EXPECT_FALSE(range.contains(Rank{rank})) << rank;
  }
  EXPECT_EQ(range.index_of(Rank{13}), 7);
  EXPECT_EQ(range.at_or_after(Rank{6}), Rank{10});
  EXPECT_EQ(range.at_or_after(Rank{22}), Rank{22}) << "past the end";
  EXPECT_EQ(ranks_of(first_ranks(range, 9)), (Ranks{2, 3, 4, 5, 10, 11, 12, 13}));
  EXPECT_TRUE(ranks_of(selected_ranks(range, Rank{6})).empty());
  EXPECT_EQ(ranks_of(selected_ranks(range, Rank{12})), (Ranks{12}));
}

TEST(RankRange, IntersectsAndMergesPositionsAlongOneAxis) {
  const Mesh mesh{{Axis::dp, 3}, {Axis::pp, 4}, {Axis::tp, 2}};
  const RankRange middle = mesh.range(Axis::pp, 1, 2);
  EXPECT_EQ(intersection(middle, mesh.range(Axis::pp, 2, 3)), std::vector{mesh.range(Axis::pp, 2, 2)});
  EXPECT_TRUE(intersection(middle, mesh.range(Axis::pp, 3, 3)).empty());
  EXPECT_EQ(intersection(middle, {Rank{0}, Rank{23}}), std::vector{middle});
  EXPECT_EQ(intersection({Rank{4}, Rank{11}}, middle),
            (std::vector<RankRange>{{Rank{4}, Rank{5}}, {Rank{10}, Rank{11}}}));
  // Whole blocks between two ranks stay one range: the first tensor ranks among ranks 6 to 17.
  const RankRange first_of_tensor = mesh.range(Axis::tp, 0, 0);
  EXPECT_EQ(intersection({Rank{6}, Rank{17}}, first_of_tensor),
            (std::vector<RankRange>{{Rank{6}, Rank{16}, 1, 2}}));
  EXPECT_EQ(intersection(first_of_tensor, {Rank{5}, Rank{6}}), (std::vector<RankRange>{{Rank{6}, Rank{6}}}));
  EXPECT_EQ(merged_range(mesh.range(Axis::pp, 0, 0), middle), mesh.range(Axis::pp, 0, 2));
  EXPECT_EQ(merged_range({Rank{0}, Rank{4}, 1, 2}, {Rank{6}, Rank{16}, 1, 2}),
            (RankRange{Rank{0}, Rank{16}, 1, 2}));
  EXPECT_EQ(merged_range({Rank{0}, Rank{4}, 1, 2}, {Rank{8}, Rank{16}, 1, 2}), std::nullopt);
  EXPECT_EQ(merged_range(mesh.range(Axis::pp, 0, 2), mesh.range(Axis::pp, 3, 3)),
            (RankRange{Rank{0}, Rank{23}}));
  EXPECT_EQ(merged_range(mesh.range(Axis::pp, 0, 0), mesh.range(Axis::pp, 2, 2)), std::nullopt);
  EXPECT_EQ(pieces_of(mesh.range(Axis::pp, 1, 1)),
            (std::vector<RankRange>{{Rank{2}, Rank{3}}, {Rank{10}, Rank{11}}, {Rank{18}, Rank{19}}}));
}

}  // namespace
}  // namespace commlens
