#include "commlens/frameworks/torch/fsdp.hpp"

#include <algorithm>
#include <numeric>

#include "commlens/base/check.hpp"
#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {
namespace {

using Kind = Module::Kind;

constexpr Bytes k_state_bucket{std::int64_t{250} << 20};

/// Of version 1.
bool reshards_in_forward(const Fsdp& fsdp) {
  return fsdp.strategy == FsdpStrategy::full_shard || fsdp.strategy == FsdpStrategy::hybrid;
}

bool has_gradients(const ShardGroup& group) {
  return std::any_of(group.parameters.begin(), group.parameters.end(),
                     [](const Parameter* parameter) { return parameter->has_gradient(); });
}

}  // namespace

ShardedStage::ShardedStage(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules)
    : out_(out),
      groups_(groups),
      options_(options(out.job())),
      behaviour_(behaviour(out.job())),
      modules_(modules),
      receives_(modules.front().kind != Kind::embedding) {
  for (ShardGroup& group : shard_groups(out.job(), modules)) {
    Live live;
    live.sizes = sizes_of(group, out.job(), groups);
    live.reshards_after_forward = reshards(group);
    live.group = std::move(group);
    live_.push_back(std::move(live));
  }
  const ReshardAfterForward reshard = reshard_after_forward();
  if (reshard.kind == ReshardAfterForward::Kind::to_size) {
    const Result<GroupId> part = groups.part_of_shard(reshard.size);
    COMMLENS_CHECK(part.has_value(), "the rules check that the part divides the shard group");
    part_ = *part;
  }
}

/// One rank is false, all are true (_fsdp_init.py, _get_post_forward_mesh_info).
ReshardAfterForward ShardedStage::reshard_after_forward() const {
  using How = ReshardAfterForward::Kind;
  const ReshardAfterForward asked = options_.fsdp.reshard_after_forward;
  if (asked.kind != How::to_size || (asked.size > 1 && asked.size < groups_.shard_ranks)) {
    return asked;
  }
  return {asked.size == 1 ? How::no : How::yes, 0};
}

bool ShardedStage::reshards(const ShardGroup& group) const {
  const Fsdp& fsdp = options_.fsdp;
  if (fsdp.version == 1) {
    return !group.is_root && reshards_in_forward(fsdp);
  }
  using Reshard = ReshardAfterForward::Kind;
  const Reshard kind = reshard_after_forward().kind;
  if (group.is_root) {
    return behaviour_.reshards_root_if_asked && (kind == Reshard::yes || kind == Reshard::to_size);
  }
  return kind != Reshard::no;
}

std::optional<std::size_t> ShardedStage::group_of(std::size_t module) const {
  for (std::size_t at = 0; at < live_.size(); ++at) {
    const std::vector<std::size_t>& modules = live_[at].group.modules;
    if (std::find(modules.begin(), modules.end(), module) != modules.end()) {
      return at;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> ShardedStage::root() const {
  return !live_.empty() && live_.front().group.is_root ? std::optional<std::size_t>(0) : std::nullopt;
}

bool ShardedStage::input_needs_gradient(std::size_t module) const {
  return receives_ || std::any_of(modules_.begin(), modules_.begin() + static_cast<std::ptrdiff_t>(module),
                                  [](const Module& earlier) {
                                    return std::any_of(
                                        earlier.parameters.begin(), earlier.parameters.end(),
                                        [](const Parameter& parameter) { return parameter.has_gradient(); });
                                  });
}

bool ShardedStage::output_needs_gradient(std::size_t module) const {
  return input_needs_gradient(module + 1);
}

void ShardedStage::gather(Live& live) {
  if (live.state == State::unsharded) {
    return;
  }
  const State before = std::exchange(live.state, State::unsharded);
  const bool is_alone = groups_.shard_ranks == 1;
  const bool is_sharded = options_.fsdp.strategy != FsdpStrategy::no_shard && !options_.fsdp.is_replicate;
  if (!is_sharded ||
      (is_alone && behaviour_.alone_shard != Behaviour::AloneShard::all_gather_and_reduce_scatter)) {
    return;
  }
  if (before == State::sharded_in_part) {
    const std::int64_t parts = options_.fsdp.reshard_after_forward.size;
    out_.all_gather(*part_, {live.sizes.gathered_shard.value * groups_.shard_ranks / parts},
                    live.sizes.gather_dtype, k_fsdp_gather_part, "parameters");
    return;
  }
  out_.all_gather(groups_.shard, live.sizes.gathered_shard, live.sizes.gather_dtype, k_fsdp_gather,
                  "parameters");
}

std::vector<std::size_t> ShardedStage::by_name(const Live& live, std::int64_t count, int direction) const {
  std::vector<std::size_t> targets;
  const std::int64_t most = std::min(count, std::ssize(live_));
  for (std::int64_t step = 1; live.group.block >= 0 && step <= most; ++step) {
    const std::int64_t block = live.group.block + direction * step;
    const auto found = std::find_if(live_.begin(), live_.end(), [&](const Live& other) {
      return block >= 0 && other.group.block == block;
    });
    if (found != live_.end()) {
      targets.push_back(static_cast<std::size_t>(found - live_.begin()));
    }
  }
  return targets;
}

void ShardedStage::begin_forward() {
  if (const auto at = root()) {
    live_[*at].in_forward = true;
    gather(live_[*at]);
  }
}

void ShardedStage::before_forward(std::size_t module) {
  const auto at = group_of(module);
  if (!at) {
    return;
  }
  Live& live = live_[*at];
  const bool is_first = !std::exchange(live.in_forward, true);
  gather(live);
  if (is_first) {
    for (const std::size_t target : by_name(live, options_.fsdp.forward_prefetch, 1)) {
      gather(live_[target]);
    }
  }
}

void ShardedStage::shard_after_forward(Live& live) {
  live.in_forward = false;
  if (live.reshards_after_forward) {
    live.state = part_ ? State::sharded_in_part : State::sharded;
  }
  live.order.push_back(post_forward_order_.size());
  post_forward_order_.push_back(static_cast<std::size_t>(&live - live_.data()));
}

void ShardedStage::after_forward(std::size_t module) {
  const auto at = group_of(module);
  if (!at) {
    return;
  }
  const std::vector<std::size_t>& modules = live_[*at].group.modules;
  const bool is_last = std::none_of(modules.begin(), modules.end(), [&](std::size_t other) {
    return other > module && modules_[other].is_used;
  });
  if (is_last) {
    shard_after_forward(live_[*at]);
  }
}

void ShardedStage::end_forward() {
  if (const auto at = root()) {
    shard_after_forward(live_[*at]);
  }
}

void ShardedStage::pre_backward(std::size_t index) {
  Live& live = live_[index];
  if (std::exchange(live.in_backward, true)) {
    return;
  }
  live.is_reduced = false;
  gather(live);
  const std::vector<std::size_t> named = by_name(live, options_.fsdp.backward_prefetch, -1);
  if (!named.empty()) {
    for (const std::size_t target : named) {
      gather(live_[target]);
    }
    return;
  }
  if (live.order.empty()) {
    return;
  }
  const std::size_t place = live.order.back();
  live.order.pop_back();
  if (place > 0) {
    gather(live_[post_forward_order_[place - 1]]);
  }
}

void ShardedStage::begin_backward() {
  for (Live& live : live_) {
    live.is_reduced = false;
    live.in_backward = false;
  }
  has_begun_backward_ = false;
}

void ShardedStage::before_backward(std::size_t module) {
  if (!output_needs_gradient(module)) {
    return;
  }
  if (const auto at = group_of(module)) {
    pre_backward(*at);
  }
  // The hook of the root comes after that of the module which has the same output.
  if (const auto at = root(); at && !std::exchange(has_begun_backward_, true)) {
    pre_backward(*at);
  }
}

void ShardedStage::after_backward(std::size_t module) {
  const auto at = group_of(module);
  if (!at) {
    return;
  }
  const std::vector<std::size_t>& modules = live_[*at].group.modules;
  const bool is_first = std::none_of(modules.begin(), modules.end(), [&](std::size_t other) {
    return other < module && modules_[other].is_used;
  });
  if (is_first && input_needs_gradient(module)) {
    post_backward(live_[*at]);
  }
}

void ShardedStage::end_backward() {
  const auto finish = [&](Live& live) {
    if (!live.is_reduced && live.state == State::unsharded) {
      post_backward(live);
    }
    live.in_backward = false;
    if (flags_.is_last) {
      live.order.clear();
    }
  };
  std::for_each(live_.begin(), live_.end(), finish);
  if (flags_.is_last) {
    post_forward_order_.clear();
  }
}

void ShardedStage::post_backward(Live& live) {
  live.is_reduced = true;
  live.has_unreduced = live.has_unreduced || !flags_.reduces;
  // Version 1 frees what it keeps between passes only where it reduces (_runtime_utils.py:811).
  const bool is_kept = options_.fsdp.version == 1 && !flags_.reduces && !reshards_in_forward(options_.fsdp);
  if (flags_.reshards && !is_kept) {
    live.state = State::sharded;
  }
  if (flags_.reduces && has_gradients(live.group)) {
    reduce(live);
  }
}

void ShardedStage::sum_partial_gradients(const Live& live) {
  for (const Parameter* const parameter : live.group.parameters) {
    if (parameter->is_partial && parameter->has_gradient()) {
      const DType gradient = options_.fsdp.param_dtype.value_or(parameter->dtype);
      // What was accumulated without a reduction was cast (_fsdp_param.py:627 of 2.9).
      const bool is_cast = behaviour_.sums_partial_in_reduce_dtype || live.has_unreduced;
      out_.all_reduce(groups_.tensor, {parameter->count()}, is_cast ? live.sizes.reduce_dtype : gradient,
                      k_fsdp_sum_partial, parameter->name);
    }
  }
}

void ShardedStage::reduce_version_1(const Live& live) {
  const GroupSizes& sizes = live.sizes;
  out_.set_reduction(Reduction::sum);
  if (options_.fsdp.strategy == FsdpStrategy::no_shard || groups_.shard_ranks == 1) {
    out_.all_reduce(groups_.data, sizes.unpadded, sizes.reduce_dtype, k_fsdp1_reduce, "gradients");
    return;
  }
  out_.reduce_scatter(groups_.shard, sizes.gathered_shard, sizes.reduce_dtype, k_fsdp1_reduce, "gradients");
  if (groups_.replicate_ranks > 1) {
    out_.all_reduce(groups_.replicate, sizes.gathered_shard, sizes.reduce_dtype, k_fsdp1_reduce, "gradients");
  }
}

/// The ops of a reduction, by the divide factor (_get_gradient_divide_factors).
struct ReduceOps {
  Reduction scatter = Reduction::avg;
  Reduction replicas = Reduction::avg;
};

namespace {

ReduceOps reduce_ops(const Fsdp& fsdp, const Behaviour& behaviour, const Groups& groups, DType dtype) {
  const auto shard = static_cast<double>(groups.shard_ranks);
  const auto all = shard * static_cast<double>(groups.replicate_ranks);
  if (dtype == DType::fp16) {
    // The op that was set with the factor stays (_fully_shard.py:404 of 2.6).
    const bool is_set =
        fsdp.divide_factor && behaviour.average_where_factor_is == Behaviour::DivideFactor::never;
    return {is_set ? Reduction::premul_sum : Reduction::sum, Reduction::sum};
  }
  if (behaviour.average_where_factor_is == Behaviour::DivideFactor::all && all == 1) {
    return {Reduction::sum, Reduction::sum};
  }
  if (!fsdp.divide_factor) {
    return {};
  }
  switch (behaviour.average_where_factor_is) {
    case Behaviour::DivideFactor::never:
      return {Reduction::premul_sum, Reduction::avg};
    case Behaviour::DivideFactor::all:
      return *fsdp.divide_factor == all ? ReduceOps{} : ReduceOps{Reduction::premul_sum, Reduction::sum};
    case Behaviour::DivideFactor::shard:
      return {*fsdp.divide_factor == shard ? Reduction::avg : Reduction::premul_sum, Reduction::sum};
  }
  return {};
}

}  // namespace

void ShardedStage::reduce(Live& live) {
  if (options_.fsdp.version == 1) {
    reduce_version_1(live);
    return;
  }
  out_.set_reduction(Reduction::sum);
  sum_partial_gradients(live);
  live.has_unreduced = false;
  const GroupSizes& sizes = live.sizes;
  const ReduceOps ops = reduce_ops(options_.fsdp, behaviour_, groups_, sizes.reduce_dtype);
  const bool is_alone = groups_.shard_ranks == 1;
  const bool scatters = !is_alone || behaviour_.alone_shard != Behaviour::AloneShard::none;
  if (scatters) {
    out_.set_reduction(ops.scatter);
    out_.reduce_scatter(groups_.shard, {sizes.reduced.value / groups_.shard_ranks}, sizes.reduce_dtype,
                        k_fsdp_reduce_scatter, "gradients");
  }
  if (groups_.replicate_ranks > 1 && flags_.all_reduces) {
    out_.set_reduction(ops.replicas);
    out_.all_reduce(groups_.replicate,
                    scatters ? Elements{sizes.reduced.value / groups_.shard_ranks} : sizes.unpadded,
                    sizes.reduce_dtype, k_fsdp_reduce_replicas, "gradients");
  }
}

void ShardedStage::broadcast_states() {
  const auto broadcast = [&](const Live& live) {
    std::vector<BucketItem> items;
    for (const Parameter* const parameter : live.group.parameters) {
      items.push_back({parameter->count(), parameter->dtype});
    }
    // Hybrid: from the first replica and from the first rank of each shard group.
    const bool is_hybrid = options_.fsdp.strategy == FsdpStrategy::hybrid ||
                           options_.fsdp.strategy == FsdpStrategy::hybrid_grad_op;
    const std::vector<GroupId> ways = !is_hybrid ? std::vector{groups_.data}
                                      : behaviour_.broadcasts_to_replicas_first
                                          ? std::vector{groups_.replicate, groups_.shard}
                                          : std::vector{groups_.shard, groups_.replicate};
    for (const GroupId way : ways) {
      for (const Bucket& bucket : assigned(items, {k_state_bucket})) {
        out_.broadcast({way, GroupRank{0}}, {bucket.elements}, bucket.dtype, k_fsdp1_states, "module states");
      }
    }
  };
  // Units are wrapped before the module that holds them.
  for (const Live& live : live_) {
    if (!live.group.is_root) {
      broadcast(live);
    }
  }
  if (const auto at = root()) {
    broadcast(live_[*at]);
  }
}

void ShardedStage::reduce_all() {
  const auto finish = [&](Live& live) {
    live.state = State::sharded;
    live.order.clear();
    if (has_gradients(live.group) && std::exchange(live.has_accumulated, false)) {
      reduce(live);
    }
  };
  if (behaviour_.finishes_in_reverse) {
    std::for_each(live_.rbegin(), live_.rend(), finish);
  } else {
    std::for_each(live_.begin(), live_.end(), finish);
  }
  post_forward_order_.clear();
}

void ShardedStage::accumulate() {
  for (Live& live : live_) {
    live.has_accumulated = true;
  }
}

void ShardedStage::begin_split(std::int64_t micro_batch) {
  for (Live& live : live_) {
    if (live.state == State::unsharded) {
      live.has_accumulated = true;
      live.split.push_back(micro_batch);
    }
  }
}

bool ShardedStage::end_split(std::int64_t micro_batch) {
  return std::all_of(live_.begin(), live_.end(), [&](Live& live) {
    return std::erase(live.split, micro_batch) == 0 || live.state == State::unsharded ||
           !has_gradients(live.group);
  });
}

void ShardedStage::unshard_all() {
  for (Live& live : live_) {
    gather(live);
  }
}

void ShardedStage::reshard_all() {
  for (Live& live : live_) {
    live.state = State::sharded;
  }
}

Elements ShardedStage::updated() const {
  std::int64_t elements = 0;
  for (const Live& live : live_) {
    elements += live.sizes.reduced.value / groups_.shard_ranks;
  }
  return {elements};
}

}  // namespace commlens::pytorch
