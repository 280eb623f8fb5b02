#include "commlens/frameworks/torch/groups.hpp"

#include <fmt/format.h>

namespace commlens::pytorch {
namespace {

AxisSpan all_of(const Axis& axis) { return {axis, {Span::Shape::all, 1}}; }
AxisSpan block_of(const Axis& axis, std::int64_t ranks) { return {axis, {Span::Shape::block, ranks}}; }

}  // namespace

Groups::Groups(ProgramBuilder& out, const Job& job) : out_(&out) {
  const std::int64_t data_shard = options(job).data_shard;
  const std::int64_t cp = job.layout.cp;
  shard_ranks = data_shard * cp;
  replicate_ranks = job.layout.dp / data_shard;
  const bool is_hybrid = replicate_ranks > 1 && data_shard > 1;
  shard = out.groups.over(cp > 1      ? Axis("dp_shard_cp")
                          : is_hybrid ? Axis("dp_shard")
                                      : Axis::dp,
                          {block_of(Axis::dp, data_shard), all_of(Axis::cp)});
  replicate = out.groups.over(is_hybrid || cp > 1 ? Axis("dp_replicate") : Axis::dp,
                              {{Axis::dp, {Span::Shape::stride, data_shard}}});
  data = out.groups.over(cp > 1 ? Axis("dp_cp") : Axis::dp, {all_of(Axis::dp), all_of(Axis::cp)});
  tensor = out.groups.along(Axis::tp);
  context = out.groups.along(Axis::cp);
  pipeline = out.groups.along(Axis::pp);
}

Result<GroupId> Groups::part_of_shard(std::int64_t ranks) const {
  const ParallelLayout& layout = out_->job().layout;
  const Axis name("dp_shard_part");
  if (layout.cp % ranks == 0) {
    return out_->groups.over(name, {block_of(Axis::cp, ranks)});
  }
  if (ranks % layout.cp == 0 && options(out_->job()).data_shard % (ranks / layout.cp) == 0) {
    return out_->groups.over(name, {block_of(Axis::dp, ranks / layout.cp), all_of(Axis::cp)});
  }
  return failure(fmt::format("reshard_after_forward {} does not divide the {} ranks of a shard group", ranks,
                             shard_ranks));
}

}  // namespace commlens::pytorch
