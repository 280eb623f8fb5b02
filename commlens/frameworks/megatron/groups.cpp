#include "commlens/frameworks/megatron/groups.hpp"

#include <utility>
#include <vector>

#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {
namespace {

constexpr Span k_whole{Span::Shape::all};

/// All ranks along some axes.
GroupId over_all(const AxisGroups& groups, const Axis& name, std::initializer_list<Axis> axes) {
  std::vector<AxisSpan> spans;
  for (const Axis& axis : axes) {
    spans.push_back({axis, k_whole});
  }
  return groups.over(name, std::move(spans));
}

const Axis k_etp{"etp"};
const Axis k_expert_model{"expert_model"};

}  // namespace

MegatronGroups::MegatronGroups(const ProgramBuilder& out)
    : world(out.groups.world),
      tp(out.groups.tp),
      pp(out.groups.pp),
      mp(out.groups.model),
      dp(out.groups.dp),
      dp_cp(over_all(out.groups, Axis::dp, {Axis::dp, Axis::cp})),
      cp(out.groups.along(Axis::cp)),
      tp_cp(over_all(out.groups, Axis::tp, {Axis::cp, Axis::tp})),
      tp_dp_cp(over_all(out.groups, Axis("tp_dp_cp"), {Axis::dp, Axis::cp, Axis::tp})),
      embeddings(out.groups.ends),
      ep(out.groups.along(Axis::ep)),
      edp(out.groups.along(Axis::edp)) {
  const Job& job = out.job();
  const Axis& split = job.layout.folds_experts && job.layout.expert_tp > 0 ? k_etp : Axis::tp;
  etp = over_all(out.groups, k_etp, {split});
  tp_ep = over_all(out.groups, Axis::ep, {Axis::ep, split});
  tp_ep_pp = over_all(out.groups, k_expert_model, {Axis::pp, Axis::ep, split});
  const std::int64_t instances = options(job).instances;
  intra_dp_cp = dp_cp;
  intra_edp = edp;
  inter_instances = edp;
  instance = world;
  if (instances > 1) {
    const std::int64_t experts = job.layout.ranks / job.layout.pp / job.layout.ep /
                                 (job.layout.expert_tp > 0 ? job.layout.expert_tp : job.layout.tp);
    const Span expert_block{Span::Shape::block, experts / instances};
    intra_dp_cp = out.groups.over(
        Axis::dp, {{Axis::dp, {Span::Shape::block, job.layout.dp / instances}}, {Axis::cp, k_whole}});
    intra_edp = out.groups.over(Axis::edp, {{Axis::edp, expert_block}});
    inter_instances =
        out.groups.over(Axis("instances"), {{Axis::edp, {Span::Shape::stride, experts / instances}}});
    instance = out.groups.over(
        Axis("instance"),
        {{Axis::pp, k_whole}, {Axis::edp, expert_block}, {Axis::ep, k_whole}, {split, k_whole}});
  }
}

}  // namespace commlens::megatron
