#include "commlens/frameworks/deepspeed/zero3_gathers.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3_reductions.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::int64_t k_group_elements = 8000;        // that are quantised together, as a rule
constexpr std::int64_t k_group_elements_end = 16'000;  // and that never are

const Rule k_module_gather{"zero3.parameter_gather",
                           k_source<"runtime/zero/partitioned_param_coordinator.py:261 fetch_sub_module">};
const Rule k_fetch_all_reduce{"zero3.parameter_all_reduce",
                              k_new_source<"runtime/zero/partition_parameters.py:1419 all_gather_coalesced">};
const Rule k_quantized{"zero3.quantized_parameter_gather",
                       k_new_source<"runtime/zero/partition_parameters.py:1345 all_gather_coalesced">};
const Rule k_scales{"zero3.quantization_scales",
                    k_new_source<"runtime/zero/partition_parameters.py:1345 all_gather_coalesced">};

}  // namespace

Zero3Gathers::Zero3Gathers(ProgramBuilder& out, const EngineRank& rank)
    : out_(out),
      rank_(rank),
      job_(*rank.job),
      node_(node_group(out)),
      has_copy_(rank.parameters.size(), job_.train.hpz > 1),
      open_(rank.parameters.size()) {}

/// Dense parameters and those of experts, that have a copy within the node, and that have none. One rank has
/// nothing to gather (partition_parameters.py _no_gather_coalesced).
void Zero3Gathers::write(const std::vector<std::size_t>& set) {
  std::map<std::pair<bool, bool>, std::vector<std::size_t>> parts;
  for (const std::size_t parameter : set) {
    const LocalParameter& one = rank_.parameters[parameter];
    if (sharing_ranks(rank_, one) > 1) {
      parts[{one.is_expert, !has_copy_[parameter]}].push_back(parameter);
    }
  }
  for (const auto& [kind, part] : parts) {
    write(part, !kind.second);
  }
}

void Zero3Gathers::write(const std::vector<std::size_t>& set, bool is_on_node) {
  const Options& own = options(job_);
  const LocalParameter& first = rank_.parameters[set.front()];
  const GroupId group = is_on_node ? node_ : sharing_group(rank_, first);
  // Of the shard among all ranks, how many a rank of the node has.
  const std::int64_t times = is_on_node ? sharing_ranks(rank_, first) / job_.train.hpz : 1;
  if (own.sequential_gather) {
    for (const std::size_t parameter : set) {
      write_together({parameter}, group, times);
    }
  } else if (own.all_reduce_fetch && set.size() > 1 && !is_on_node && !job_.train.quantized_weights) {
    std::int64_t sum = 0;
    for (const std::size_t parameter : set) {
      sum += shard(parameter) * sharing_ranks(rank_, first);
    }
    out_.all_reduce(group, {sum}, job_.train.dtype, k_fetch_all_reduce, "parameters of a module or prefetch");
    for (const std::size_t parameter : set) {
      open_[parameter] = out_.last_call();
    }
  } else {
    write_together(set, group, times);
  }
}

void Zero3Gathers::write_together(const std::vector<std::size_t>& set, GroupId group, std::int64_t times) {
  const std::string tag =
      set.size() == 1 ? rank_.parameters[set.front()].name : "parameters of a module or prefetch";
  std::map<std::string_view, std::pair<DType, std::int64_t>> sums;  // by the name of their dtype, as sent
  for (const std::size_t parameter : set) {
    const DType dtype = dtype_of(parameter);
    auto& [its_dtype, sum] = sums[name_of(dtype)];
    its_dtype = dtype;
    sum += shard(parameter) * times;
  }
  for (const auto& [name, part] : sums) {
    const auto [dtype, sum] = part;
    if (job_.train.quantized_weights) {
      write_quantized(group, sum, tag);
    } else {
      out_.all_gather(group, {sum}, dtype, k_module_gather, tag);
    }
  }
  for (const std::size_t parameter : set) {
    open_[parameter] = out_.last_call();
  }
}

void Zero3Gathers::write_quantized(GroupId group, std::int64_t elements, std::string_view tag) {
  const std::int64_t groups = quantization_groups(elements);
  if (refusal_.empty() && (elements % (8 * groups) != 0 || elements / groups >= k_group_elements_end)) {
    refusal_ = fmt::format(
        "zero_quantized_weights: DeepSpeed cannot quantise the {} elements that a rank has of {}: they "
        "must be groups of equal size, a multiple of 8 below 16,000; change the width of the model, the "
        "ranks or stage3_prefetch_bucket_size",
        elements, tag);
  }
  out_.all_gather(group, {elements}, DType::int8, k_quantized, tag);
  out_.all_gather(group, {groups}, DType::fp32, k_scales, tag);
}

/// How many groups a quantised tensor of `elements` has: about one for 8,000. Source: runtime/zero/
/// partition_parameters.py:864 quantize of 0.19.8.
std::int64_t Zero3Gathers::quantization_groups(std::int64_t elements) {
  const auto [known, is_new] = quantized_sizes_.try_emplace(elements, 0);
  if (is_new) {
    std::int64_t groups = ceil_div(elements, k_group_elements);
    if (elements % 8 != 0) {
      groups = elements;  // no number of groups fits
    }
    while (groups < elements && elements % (8 * groups) != 0) {
      ++groups;
    }
    while (elements % (16 * groups) == 0 && elements > k_group_elements * groups) {
      groups *= 2;
    }
    known->second = groups;
  }
  return known->second;
}

void Zero3Gathers::wait_for(std::size_t parameter) {
  if (const auto gather = std::exchange(open_[parameter], std::nullopt)) {
    out_.wait_for(*gather);
  }
}

void Zero3Gathers::forget_waiting() { std::fill(open_.begin(), open_.end(), std::nullopt); }

void Zero3Gathers::keep_copy(std::size_t parameter) { has_copy_[parameter] = job_.train.hpz > 1; }

void Zero3Gathers::drop_copies() {
  for (std::size_t row = 0; row < has_copy_.size(); ++row) {
    has_copy_[row] = has_copy_[row] && !rank_.parameters[row].is_trainable;
  }
}

std::int64_t Zero3Gathers::shard(std::size_t parameter) const {
  return shard_of(rank_, rank_.parameters[parameter]);
}

/// torch_autocast gathers what it casts in its own dtype.
DType Zero3Gathers::dtype_of(std::size_t parameter) const {
  const std::optional<DType> cast = options(job_).autocast;
  return rank_.parameters[parameter].is_cast && cast ? *cast : job_.train.dtype;
}

}  // namespace commlens::deepspeed
