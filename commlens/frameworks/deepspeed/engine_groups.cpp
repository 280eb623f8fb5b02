// The groups of DeepSpeed's ranks, and the groups of parameters that its optimizers flatten.
#include <algorithm>
#include <numeric>
#include <utility>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/zero12.hpp"
#include "commlens/plan/schemes/buckets.hpp"

namespace commlens::deepspeed {
namespace {

constexpr Bytes k_alignment{16};  // parameter_alignment

/// A client's group of experts in parts of up to `largest` elements, or of one parameter. Source:
/// moe/utils.py:115 of 0.19.8.
std::vector<LocalParameters> parts_of_experts(const LocalParameters& experts, std::int64_t largest) {
  std::vector<LocalParameters> parts(1);
  std::int64_t elements = 0;
  for (const LocalParameter& parameter : experts) {
    if (parameter.count > largest - elements && !parts.back().empty()) {
      parts.emplace_back();
      elements = 0;
    }
    parts.back().push_back(parameter);
    elements += parameter.count;
  }
  return parts;
}

/// Ranks that hold different experts, and those that hold the same.
void add_expert_groups(const ProgramBuilder& out, EngineGroups& groups) {
  const ParallelLayout& layout = out.job().layout;
  const Options& own = options(out.job());
  const std::int64_t peers = layout.model_ranks();
  constexpr Span all{Span::Shape::all};
  groups.expert_data_ranks = layout.dp / layout.ep;
  if (peers > 1 && !own.mixture.splits_experts) {
    groups.expert_data_ranks = layout.dp * peers / layout.ep;
    if (layout.ep <= peers) {
      groups.experts = out.groups.over(Axis::ep, {{Axis::tp, {Span::Shape::block, layout.ep}}});
      groups.expert_data =
          out.groups.over(Axis::edp, {{Axis::tp, {Span::Shape::stride, layout.ep}}, {Axis::dp, all}});
    } else {
      const std::int64_t replicas = layout.ep / peers;
      groups.experts =
          out.groups.over(Axis::ep, {{Axis::tp, all}, {Axis::dp, {Span::Shape::block, replicas}}});
      groups.expert_data = out.groups.over(Axis::edp, {{Axis::dp, {Span::Shape::stride, replicas}}});
    }
    return;
  }
  const std::int64_t run = own.has_data_before_experts ? groups.expert_data_ranks : layout.ep;
  const GroupId near = out.groups.over(own.has_data_before_experts ? Axis::edp : Axis::ep,
                                       {{Axis::dp, {Span::Shape::block, run}}});
  const GroupId far = out.groups.over(own.has_data_before_experts ? Axis::ep : Axis::edp,
                                      {{Axis::dp, {Span::Shape::stride, run}}});
  groups.experts = own.has_data_before_experts ? far : near;
  groups.expert_data = own.has_data_before_experts ? near : far;
}

}  // namespace

LocalParameters trainable_parameters(const LocalParameters& parameters, bool is_expert) {
  LocalParameters chosen;
  for (const LocalParameter& parameter : parameters) {
    if (parameter.is_trainable && parameter.is_expert == is_expert) {
      chosen.push_back(parameter);
    }
  }
  return chosen;
}

std::int64_t data_ranks(const Job& job) {
  return job.layout.dp * (options(job).sequence_groups == SequenceGroups::mesh ? 1 : job.layout.cp);
}

std::int64_t shard_ranks(const Job& job) {
  if (job.train.zero_stage < 3) {
    return data_ranks(job);
  }
  return job.layout.dp * job.layout.cp * (options(job).zero_init ? job.layout.model_ranks() : 1);
}

EngineGroups engine_groups(const ProgramBuilder& out) {
  const Job& job = out.job();
  const ParallelLayout& layout = job.layout;
  EngineGroups groups{.start = out.groups.dp,
                      .data = out.groups.dp,
                      .data_ranks = data_ranks(job),
                      .model = out.groups.model};
  if (groups.data_ranks > layout.dp) {
    constexpr Span all{Span::Shape::all};
    groups.data = groups.start = out.groups.over(Axis::dp, {{Axis::cp, all}, {Axis::dp, all}});
  }
  if (layout.cp > 1 && options(job).sequence_groups == SequenceGroups::mpu) {
    groups.model = out.groups.over(Axis::sp, {{Axis::cp, {Span::Shape::all}}});  // as this unit has it
  }
  groups.shard_ranks = shard_ranks(job);
  groups.shards = groups.shard_ranks > groups.data_ranks ? out.groups.world : groups.data;
  if (job.model.experts == 0) {
    return groups;
  }
  add_expert_groups(out, groups);
  return groups;
}

GroupId node_group(const ProgramBuilder& out) {
  const std::int64_t ranks = std::max<std::int64_t>(out.job().train.hpz, 1);
  const std::int64_t peers = out.job().layout.model_ranks();
  if (peers == 1) {
    return out.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::block, ranks}}});
  }
  if (ranks <= peers) {
    return out.groups.over(Axis::dp, {{Axis::tp, {Span::Shape::block, ranks}}});
  }
  return out.groups.over(Axis::dp,
                         {{Axis::tp, {Span::Shape::all}}, {Axis::dp, {Span::Shape::block, ranks / peers}}});
}

std::vector<OptimizerGroup> optimizer_groups(const EngineRank& rank) {
  const bool by_decay = options(*rank.job).weight_decay_groups;
  const bool is_zero3 = optimizer_path(*rank.job) == OptimizerPath::zero3;
  const GroupId ranks = is_zero3 ? rank.groups.shards : rank.groups.data;
  const std::int64_t size = is_zero3 ? rank.groups.shard_ranks : rank.groups.data_ranks;
  std::vector<OptimizerGroup> groups;
  for (LocalParameters& dense :
       commlens::optimizer_groups(trainable_parameters(rank.parameters, false), by_decay)) {
    groups.push_back({std::move(dense), ranks, size, false});
  }
  const LocalParameters experts = trainable_parameters(rank.parameters, true);
  if (experts.empty()) {
    return groups;
  }
  for (const LocalParameters& of_client : commlens::optimizer_groups(experts, by_decay)) {
    for (LocalParameters& part : parts_of_experts(of_client, options(*rank.job).mixture.largest_group)) {
      groups.push_back({std::move(part), rank.groups.expert_data, rank.groups.expert_data_ranks, true});
    }
  }
  return groups;
}

LocalParameters flat_order(const OptimizerGroup& group, const Job& job) {
  if (!options(job).round_robin_gradients || optimizer_path(job) != OptimizerPath::zero12) {
    return group.parameters;
  }
  LocalParameters flat;
  const auto ranks = static_cast<std::size_t>(group.size);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = rank; i < group.parameters.size(); i += ranks) {
      flat.push_back(group.parameters[i]);
    }
  }
  return flat;
}

std::vector<std::int64_t> aligned_sizes(const LocalParameters& flat, const Job& job) {
  const std::int64_t elements = k_alignment.value / size_of(job.train.dtype);
  std::vector<std::int64_t> sizes;
  const bool aligns = options(job).aligns_parameters && optimizer_path(job) == OptimizerPath::zero12;
  for (const LocalParameter& parameter : flat) {
    const bool is_last = &parameter == &flat.back();
    sizes.push_back(aligns && !is_last ? round_up(parameter.count, elements) : parameter.count);
  }
  return sizes;
}

std::int64_t flat_size(const OptimizerGroup& group, const Job& job) {
  const std::vector<std::int64_t> sizes = aligned_sizes(flat_order(group, job), job);
  return round_up(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), 2 * group.size);
}

}  // namespace commlens::deepspeed
