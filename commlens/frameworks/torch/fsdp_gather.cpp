// Gathers of groups, and what they begin after.
#include <algorithm>

#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {

bool ShardedStage::gather(Held& held) {
  if (held.state == State::unsharded) {
    return false;
  }
  const State before = std::exchange(held.state, State::unsharded);
  const ShardMesh& mesh = held.group.mesh;
  const bool is_alone = mesh.shard_ranks == 1;
  const bool is_sharded = options_.fsdp.strategy != FsdpStrategy::no_shard && !options_.fsdp.is_replicate;
  if (!is_sharded ||
      (is_alone && behaviour_.alone_shard != Behaviour::AloneShard::all_gather_and_reduce_scatter)) {
    return false;
  }
  if (before == State::sharded_in_part) {
    const std::int64_t parts = options_.fsdp.reshard_after_forward.size;
    out_.all_gather(*part_, {held.sizes.gathered_shard.value * mesh.shard_ranks / parts},
                    held.sizes.gather_dtype, k_fsdp_gather_part, "parameters");
    return true;
  }
  out_.all_gather(mesh.shard, held.sizes.gathered_shard, held.sizes.gather_dtype, k_fsdp_gather,
                  "parameters");
  return true;
}

void ShardedStage::gather_ahead(Held& held) {
  if (gather(held)) {
    held.gathering = out_.last_call();
  }
}

void ShardedStage::wait_for(Held& held) {
  if (held.gathering) {
    out_.wait_for(*std::exchange(held.gathering, std::nullopt));
  }
}

void ShardedStage::gather_all_ahead(Live& live) {
  for (Held& held : live.groups) {
    gather_ahead(held);
  }
}

void ShardedStage::gather_reversed_ahead(Live& live) {
  for (auto held = live.groups.rbegin(); held != live.groups.rend(); ++held) {
    gather_ahead(*held);
  }
}

/// Units that this one prefetches by name.
std::vector<std::size_t> ShardedStage::prefetched(const Live& live, bool is_forward) const {
  std::vector<std::size_t> targets;
  for (const std::size_t module : is_forward ? live.unit.forward_prefetch : live.unit.backward_prefetch) {
    if (const auto at = unit_of(module);
        at && std::find(targets.begin(), targets.end(), *at) == targets.end()) {
      targets.push_back(*at);
    }
  }
  const std::int64_t count = is_forward ? options_.fsdp.forward_prefetch : options_.fsdp.backward_prefetch;
  const std::int64_t most = std::min(count, std::ssize(live_));
  for (std::int64_t step = 1; live.unit.block >= 0 && step <= most; ++step) {
    const std::int64_t block = live.unit.block + (is_forward ? step : -step);
    const auto found = std::find_if(live_.begin(), live_.end(), [&](const Live& other) {
      return block >= 0 && other.unit.block == block;
    });
    if (found != live_.end()) {
      targets.push_back(static_cast<std::size_t>(found - live_.begin()));
    }
  }
  return targets;
}

/// A gather begins once the one before it has ended and the unit before that one is copied out, which
/// follows what is computed before that unit; what is prefetched by name, one unit later
/// (_fsdp_param_group.py, wait_for_unshard).
void ShardedStage::begin_forward_of(Live& live, const std::vector<std::size_t>& ahead) {
  const IssueMoment now = out_.moment();
  out_.issue_from(begun_.front(), [&] { gather_all_ahead(live); });
  out_.issue_from(begun_.back(), [&] {
    for (const std::size_t target : ahead) {
      gather_all_ahead(live_[target]);
    }
  });
  for (Held& held : live.groups) {
    wait_for(held);
  }
  begun_ = {begun_.back(), now};
}

}  // namespace commlens::pytorch
