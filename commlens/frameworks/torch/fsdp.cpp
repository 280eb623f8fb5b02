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

std::vector<ShardUnit> on_mesh(std::vector<ShardUnit> units, const ShardMesh& mesh) {
  for (ShardUnit& unit : units) {
    unit.groups.front().mesh = mesh;
  }
  return units;
}

}  // namespace

ShardedStage::ShardedStage(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules)
    : ShardedStage(out, groups, modules, on_mesh(shard_units(out.job(), modules), groups.mesh())) {}

ShardedStage::ShardedStage(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules,
                           std::vector<ShardUnit> units)
    : out_(out),
      groups_(groups),
      options_(options(out.job())),
      behaviour_(behaviour(out.job())),
      modules_(modules),
      receives_(modules.front().kind != Kind::embedding) {
  for (ShardUnit& unit : units) {
    Live live;
    live.reshards_after_forward = reshards(unit);
    for (ShardGroup& group : unit.groups) {
      Held held;
      held.sizes = sizes_of(group, out.job());
      held.group = std::move(group);
      live.groups.push_back(std::move(held));
    }
    live.unit = std::move(unit);
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

bool ShardedStage::reshards(const ShardUnit& unit) const {
  const Fsdp& fsdp = options_.fsdp;
  if (unit.reshards_after_forward) {
    return *unit.reshards_after_forward;
  }
  if (fsdp.version == 1) {
    return !unit.is_root && reshards_in_forward(fsdp);
  }
  using Reshard = ReshardAfterForward::Kind;
  const Reshard kind = reshard_after_forward().kind;
  if (unit.is_root) {
    return behaviour_.reshards_root_if_asked && (kind == Reshard::yes || kind == Reshard::to_size);
  }
  return kind != Reshard::no;
}

std::optional<std::size_t> ShardedStage::unit_of(std::size_t module) const {
  for (std::size_t at = 0; at < live_.size(); ++at) {
    const std::vector<std::size_t>& modules = live_[at].unit.modules;
    if (std::find(modules.begin(), modules.end(), module) != modules.end()) {
      return at;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> ShardedStage::root() const {
  return !live_.empty() && live_.front().unit.is_root ? std::optional<std::size_t>(0) : std::nullopt;
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

void ShardedStage::begin_forward() {
  // Streams that gather wait for what was computed before the pass (_fsdp_state.py, _root_pre_forward).
  begun_.fill(out_.moment());
  if (const auto at = root()) {
    live_[*at].in_forward = true;
    begin_forward_of(live_[*at], {});
  }
}

void ShardedStage::before_forward(std::size_t module) {
  const auto at = unit_of(module);
  if (!at) {
    return;
  }
  Live& live = live_[*at];
  const bool is_first = !std::exchange(live.in_forward, true);
  begin_forward_of(live, is_first ? prefetched(live, true) : std::vector<std::size_t>());
}

void ShardedStage::shard_after_forward(Live& live) {
  live.in_forward = false;
  for (std::size_t at = 0; at < live.groups.size(); ++at) {
    Held& held = live.groups[at];
    if (live.reshards_after_forward) {
      held.state = part_ ? State::sharded_in_part : State::sharded;
    }
    held.order.push_back(post_forward_order_.size());
    post_forward_order_.push_back({static_cast<std::size_t>(&live - live_.data()), at});
  }
}

void ShardedStage::after_forward(std::size_t module) {
  const auto at = unit_of(module);
  if (!at) {
    return;
  }
  const std::vector<std::size_t>& modules = live_[*at].unit.modules;
  const bool is_last = std::none_of(modules.begin(), modules.end(), [&](std::size_t other) {
    return other > module && modules_[other].is_used;
  });
  if (is_last) {
    shard_after_forward(live_[*at]);
  }
}

/// What ran in part is completed here (_fsdp_state.py, _force_complete_incomplete_states).
void ShardedStage::end_forward() {
  if (const auto at = root()) {
    shard_after_forward(live_[*at]);
  }
  for (auto live = live_.rbegin(); live != live_.rend(); ++live) {
    if (live->in_forward) {
      shard_after_forward(*live);
    }
  }
}

void ShardedStage::begin_chunks(std::size_t module) {
  if (const auto at = unit_of(module)) {
    live_[*at].chunked = module;
    begin_forward_of(live_[*at], {});
  }
}

void ShardedStage::end_chunks(std::size_t module) {
  const auto at = unit_of(module);
  if (!at) {
    return;
  }
  Live& live = live_[*at];
  for (Held& held : live.groups) {
    ShardGroup reduced = held.group;
    if (!std::exchange(held.has_accumulated, false)) {
      const std::vector<Parameter>& own = modules_[module].parameters;
      std::erase_if(reduced.parameters, [&](const Parameter* parameter) {
        return std::none_of(own.begin(), own.end(), [&](const Parameter& one) { return &one == parameter; });
      });
    }
    reduce(held, reduced);
    held.state = State::sharded;
  }
  live.reshards_after_forward = true;  // set_reshard_after_forward(True) lasts
}

/// The parameters that a backward pass leaves gradients of: not those of the module that the loss calls.
ShardGroup ShardedStage::without_chunked(const Live& live, const Held& held) const {
  ShardGroup rest = held.group;
  if (live.chunked) {
    const std::vector<Parameter>& own = modules_[*live.chunked].parameters;
    std::erase_if(rest.parameters, [&](const Parameter* parameter) {
      return std::any_of(own.begin(), own.end(), [&](const Parameter& one) { return &one == parameter; });
    });
  }
  return rest;
}

void ShardedStage::pre_backward(Live& live) {
  const std::vector<std::size_t> named = prefetched(live, false);
  const IssueMoment now = out_.moment();
  bool is_new = false;
  for (std::size_t at = 0; at < live.groups.size(); ++at) {
    Held& held = live.groups[at];
    if (std::exchange(held.in_backward, true)) {
      continue;
    }
    is_new = true;
    held.is_reduced = false;
    out_.issue_from(now, [&] { gather_ahead(held); });
    wait_for(held);
    if (named.empty() && !held.order.empty() && options_.fsdp.prefetches_in_backward) {
      const std::size_t place = held.order.back();
      held.order.pop_back();
      out_.issue_from(now, [&] { prefetch(live, at, place); });
    }
  }
  out_.issue_from(now, [&] {
    for (const std::size_t target : is_new ? named : std::vector<std::size_t>()) {
      gather_reversed_ahead(live_[target]);
    }
  });
}

/// What came before `place` in the forward pass. Of several groups of a unit the second one does it, for all
/// groups of the unit before (_fsdp_param_group.py, _backward_prefetch).
void ShardedStage::prefetch(Live& live, std::size_t group, std::size_t place) {
  if (live.groups.size() == 1) {
    if (place > 0) {
      const Place before = post_forward_order_[place - 1];
      gather_ahead(live_[before.unit].groups[before.group]);
    }
    return;
  }
  if (group != 1) {
    return;
  }
  std::optional<std::size_t> target;
  const auto own = static_cast<std::size_t>(&live - live_.data());
  while (place-- > 0) {
    const Place before = post_forward_order_[place];
    if (before.unit == own) {
      continue;
    }
    if (target.value_or(before.unit) != before.unit) {
      return;
    }
    target = before.unit;
    gather_ahead(live_[before.unit].groups[before.group]);
  }
}

void ShardedStage::begin_backward() {
  for (Live& live : live_) {
    for (Held& held : live.groups) {
      held.is_reduced = false;
      held.in_backward = false;
    }
  }
  has_begun_backward_ = false;
}

void ShardedStage::before_backward(std::size_t module) {
  if (!output_needs_gradient(module)) {
    return;
  }
  if (const auto at = unit_of(module)) {
    pre_backward(live_[*at]);
  }
  // The hook of the root comes after that of the module which has the same output.
  if (const auto at = root(); at && !std::exchange(has_begun_backward_, true)) {
    pre_backward(live_[*at]);
  }
}

void ShardedStage::after_backward(std::size_t module) {
  const auto at = unit_of(module);
  if (!at) {
    return;
  }
  const std::vector<std::size_t>& modules = live_[*at].unit.modules;
  const bool is_first = std::none_of(modules.begin(), modules.end(), [&](std::size_t other) {
    return other < module && modules_[other].is_used;
  });
  if (is_first && input_needs_gradient(module)) {
    post_backward(live_[*at]);
  }
}

void ShardedStage::end_backward() {
  const auto finish = [&](Live& live, Held& held) {
    if (!held.is_reduced && held.state == State::unsharded) {
      post_backward(live, held);
    }
    held.in_backward = false;
    held.gathering.reset();
    if (flags_.is_last) {
      held.order.clear();
    }
  };
  for (Live& live : live_) {
    for (auto held = live.groups.rbegin(); held != live.groups.rend(); ++held) {
      finish(live, *held);
    }
  }
  wait_for_reductions();
  if (flags_.is_last) {
    post_forward_order_.clear();
  }
}

void ShardedStage::post_backward(Live& live) {
  for (auto held = live.groups.rbegin(); held != live.groups.rend(); ++held) {
    post_backward(live, *held);
  }
}

void ShardedStage::post_backward(Live& live, Held& held) {
  held.is_reduced = true;
  held.has_unreduced = held.has_unreduced || !flags_.reduces;
  // Version 1 frees what it keeps between passes only where it reduces (_runtime_utils.py:811).
  const bool is_kept = options_.fsdp.version == 1 && !flags_.reduces && !reshards_in_forward(options_.fsdp);
  if (flags_.reshards && !is_kept) {
    held.state = State::sharded;
  }
  if (flags_.reduces) {
    reduce(held, without_chunked(live, held));
  }
}

void ShardedStage::broadcast_states() {
  const auto broadcast = [&](const Live& live) {
    std::vector<BucketItem> items;
    for (const Parameter* const parameter : live.groups.front().group.parameters) {
      items.push_back({parameter->count(), parameter->dtype});
    }
    for (std::size_t at = 0; at < modules_.size(); ++at) {
      const std::optional<std::size_t> owner = unit_of(at);
      const bool is_own = owner ? &live_[*owner] == &live : live.unit.is_root;
      for (const Buffer& buffer : is_own ? modules_[at].buffers : std::vector<Buffer>()) {
        items.push_back({buffer.elements, buffer.dtype});
      }
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
    if (!live.unit.is_root) {
      broadcast(live);
    }
  }
  if (const auto at = root()) {
    broadcast(live_[*at]);
  }
}

void ShardedStage::reduce_all() {
  const auto finish = [&](Live& live) {
    for (auto held = live.groups.rbegin(); held != live.groups.rend(); ++held) {
      held->state = State::sharded;
      held->order.clear();
      if (std::exchange(held->has_accumulated, false)) {
        reduce(*held, without_chunked(live, *held));
      }
    }
  };
  if (behaviour_.finishes_in_reverse) {
    std::for_each(live_.rbegin(), live_.rend(), finish);
  } else {
    std::for_each(live_.begin(), live_.end(), finish);
  }
  wait_for_reductions();
  post_forward_order_.clear();
}

void ShardedStage::for_groups(const std::function<void(Held&)>& action) {
  for (Live& live : live_) {
    std::for_each(live.groups.begin(), live.groups.end(), action);
  }
}

void ShardedStage::accumulate() {
  for_groups([](Held& held) { held.has_accumulated = true; });
}

void ShardedStage::begin_split(std::int64_t micro_batch) {
  for_groups([&](Held& held) {
    if (held.state == State::unsharded) {
      held.has_accumulated = true;
      held.split.push_back(micro_batch);
    }
  });
}

bool ShardedStage::end_split(std::int64_t micro_batch) {
  bool is_whole = true;
  for_groups([&](Held& held) {
    const bool ends = std::erase(held.split, micro_batch) > 0;
    is_whole = is_whole && (!ends || held.state == State::unsharded || !held.group.has_gradients());
  });
  return is_whole;
}

void ShardedStage::unshard_all() {
  for_groups([&](Held& held) { gather(held); });
}

void ShardedStage::reshard_all() {
  for_groups([](Held& held) { held.state = State::sharded; });
}

Elements ShardedStage::updated() const {
  std::int64_t elements = 0;
  for (const Live& live : live_) {
    for (const Held& held : live.groups) {
      elements += held.sizes.reduced.value / held.group.mesh.shard_ranks;
    }
  }
  return {elements};
}

}  // namespace commlens::pytorch
