// What the runtime of torch.distributed.pipelining adds to the computing of a schedule: shards, reductions,
// messages.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

using Act = PipelineAction::Kind;

PipelineAction step(Act kind, std::int64_t stage, std::int64_t micro_batch) {
  return {kind, static_cast<std::int32_t>(stage), static_cast<std::int32_t>(micro_batch), false};
}

/// The next stages that compute, each once.
std::vector<std::int32_t> next_stages(const RankActions& actions, std::size_t from, std::size_t most) {
  std::vector<std::int32_t> stages;
  bool is_second = false;  // of a pair, whose stages are taken together
  for (std::size_t at = from; at < actions.size() && (stages.size() < most || is_second); ++at) {
    if (std::find(stages.begin(), stages.end(), actions[at].stage) == stages.end()) {
      stages.push_back(actions[at].stage);
    }
    is_second = actions[at].is_paired;
  }
  return stages;
}

RankActions with_shards(const RankActions& compute) {
  constexpr std::size_t most_active = 3;
  RankActions all;
  std::set<std::int32_t> active;
  for (std::size_t at = 0; at < compute.size(); ++at) {
    if (at > 0 && compute[at - 1].is_paired) {
      all.push_back(compute[at]);
      continue;
    }
    const std::vector<std::int32_t> next = next_stages(compute, at, most_active);
    const std::set<std::int32_t> before = active;
    for (const std::int32_t stage : before) {
      if (std::find(next.begin(), next.end(), stage) == next.end()) {
        active.erase(stage);
        all.push_back(step(Act::reshard, stage, -1));
      }
    }
    for (const std::int32_t stage : next) {
      if (active.insert(stage).second) {
        all.push_back(step(Act::unshard, stage, -1));
      }
    }
    all.push_back(compute[at]);
  }
  for (const std::int32_t stage : active) {
    all.push_back(step(Act::reshard, stage, -1));
  }
  return all;
}

/// `has_waits`: a reduction is waited for in a step of its own.
RankActions with_reductions(const RankActions& actions, std::int64_t micro_batches, bool has_waits) {
  RankActions all;
  std::map<std::int32_t, std::int64_t> done;
  for (const PipelineAction& each : actions) {
    all.push_back(each);
    const bool has_gradients = each.kind == Act::backward || each.kind == Act::backward_weight;
    if (has_gradients && ++done[each.stage] == micro_batches) {
      all.push_back(step(Act::reduce, each.stage, -1));
      if (has_waits) {
        all.push_back({});
      }
    }
  }
  return all;
}

/// Puts a receive where its send is issued, going round the ranks, each of which does one step it is ready
/// for.
class Messages {
 public:
  Messages(const PipelineShape& shape, const std::vector<RankActions>& actions)
      : shape_(shape),
        actions_(actions),
        next_(actions.size(), 0),
        all_(actions.size()),
        done_(actions.size()) {}

  std::vector<RankActions> write() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < actions_.size(); ++rank) {
        const std::vector<PipelineAction> piece = next_piece(rank);
        const bool ready = std::all_of(piece.begin(), piece.end(),
                                       [&](const PipelineAction& each) { return is_ready(rank, each); });
        if (!piece.empty() && ready) {
          next_[rank] += piece.size();
          take(rank, piece);
          has_moved = true;
        }
      }
    }
    return std::move(all_);
  }

 private:
  bool has_done(std::size_t rank, Act kind, std::int32_t stage, std::int32_t micro_batch) const {
    return done_[rank].contains({kind, stage, micro_batch});
  }
  bool is_ready(std::size_t rank, const PipelineAction& each) const {
    const auto done = [&](Act kind, std::int32_t stage) {
      return has_done(rank, kind, stage, each.micro_batch);
    };
    if (each.kind == Act::forward && each.stage > 0) {
      return done(Act::receive_forward, each.stage) || done(Act::forward, each.stage - 1);
    }
    const bool is_backward = each.kind == Act::backward || each.kind == Act::backward_input;
    if (is_backward && each.stage + 1 < shape_.stages()) {
      return done(Act::receive_backward, each.stage) || done(Act::backward_input, each.stage + 1) ||
             done(Act::backward, each.stage + 1);
    }
    return true;
  }
  /// The next action of a rank, with the one it is paired with; none at the end. Reductions come between.
  std::vector<PipelineAction> next_piece(std::size_t rank) const {
    const RankActions& actions = actions_[rank];
    std::vector<PipelineAction> piece;
    for (std::size_t at = next_[rank]; at < actions.size(); ++at) {
      piece.push_back(actions[at]);
      if (!actions[at].is_paired) {
        break;
      }
    }
    return piece;
  }
  void take(std::size_t rank, const std::vector<PipelineAction>& piece) {
    for (const PipelineAction& each : piece) {
      add(rank, each);
    }
    for (const PipelineAction& each : piece) {
      add_messages(rank, each);
    }
  }
  void add_messages(std::size_t rank, const PipelineAction& each) {
    const bool is_backward = each.kind == Act::backward || each.kind == Act::backward_input;
    const std::int32_t there = each.kind == Act::forward ? each.stage + 1 : each.stage - 1;
    const bool sends = (each.kind == Act::forward || is_backward) && there >= 0 && there < shape_.stages();
    if (!sends || shape_.rank_of(there) == shape_.rank_of(each.stage)) {
      return;
    }
    add(rank, step(is_backward ? Act::send_backward : Act::send_forward, each.stage, each.micro_batch));
    add(static_cast<std::size_t>(shape_.rank_of(there)),
        step(is_backward ? Act::receive_backward : Act::receive_forward, there, each.micro_batch));
  }
  void add(std::size_t rank, const PipelineAction& each) {
    all_[rank].push_back(each);
    done_[rank].insert({each.kind, each.stage, each.micro_batch});
  }

  const PipelineShape& shape_;
  const std::vector<RankActions>& actions_;
  std::vector<std::size_t> next_;
  std::vector<RankActions> all_;
  std::vector<std::set<std::tuple<Act, std::int32_t, std::int32_t>>> done_;
};

}  // namespace

std::vector<RankActions> runtime_actions(const PipelineShape& shape, const RuntimeSteps& steps) {
  std::vector<RankActions> all = compute_actions(shape);
  for (RankActions& actions : all) {
    std::erase_if(actions, [](const PipelineAction& each) { return each.kind == Act::idle; });
    for (PipelineAction& each : actions) {
      each.is_paired = each.is_paired && steps.pairs_passes;
    }
    actions = with_shards(actions);
    if (steps.has_reductions) {
      actions = with_reductions(actions, shape.micro_batches, steps.has_waits);
    }
  }
  return Messages(shape, all).write();
}

namespace {

bool is_backward(Act kind) { return kind == Act::backward || kind == Act::backward_input; }

/// Idle slots where the input of a forward pass is not there yet.
std::vector<RankActions> with_bubbles(const std::vector<RankActions>& actions) {
  std::vector<RankActions> all(actions.size());
  std::vector<std::size_t> next(actions.size(), 0);
  std::set<std::pair<std::int32_t, std::int32_t>> seen;  // forward passes: stage, micro-batch
  for (bool has_more = true; has_more;) {
    has_more = false;
    std::vector<std::pair<std::int32_t, std::int32_t>> now;
    for (std::size_t rank = 0; rank < actions.size(); ++rank) {
      if (next[rank] >= actions[rank].size()) {
        continue;
      }
      has_more = true;
      const PipelineAction& each = actions[rank][next[rank]];
      const bool waits =
          each.kind == Act::forward && each.stage > 0 && !seen.contains({each.stage - 1, each.micro_batch});
      all[rank].push_back(waits ? PipelineAction{} : each);
      if (!waits) {
        ++next[rank];
      }
      if (!waits && each.kind == Act::forward) {
        now.emplace_back(each.stage, each.micro_batch);
      }
    }
    seen.insert(now.begin(), now.end());
  }
  return all;
}

/// The ranks with a stage before (or after) one of this rank's, ascending.
std::set<std::int64_t> neighbours(const PipelineShape& shape, std::int64_t rank, std::int64_t step) {
  std::set<std::int64_t> ranks;
  for (const std::int64_t stage : shape.stages_of(rank)) {
    if (stage + step >= 0 && stage + step < shape.stages()) {
      ranks.insert(shape.rank_of(stage + step));
    }
  }
  return ranks;
}

}  // namespace

std::vector<RankActions> lock_step_actions(const PipelineShape& shape) {
  const bool has_bubbles = shape.schedule == PipelineSchedule::interleaved_zero_bubble;
  const std::vector<RankActions> grid =
      has_bubbles ? with_bubbles(compute_actions(shape)) : compute_actions(shape);
  const auto at = [&](std::int64_t rank, std::size_t slot) {
    const RankActions& actions = grid[static_cast<std::size_t>(rank)];
    return slot < actions.size() ? actions[slot] : PipelineAction{};
  };
  std::vector<RankActions> all;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    RankActions& actions = all.emplace_back();
    for (std::size_t slot = 0; slot < grid[static_cast<std::size_t>(rank)].size(); ++slot) {
      const PipelineAction own = at(rank, slot);
      if (own.kind != Act::idle) {
        actions.push_back(own);
      }
      if (own.kind == Act::forward && own.stage + 1 < shape.stages()) {
        actions.push_back(step(Act::send_forward, own.stage, own.micro_batch));
      } else if (is_backward(own.kind) && own.stage > 0) {
        actions.push_back(step(Act::send_backward, own.stage, own.micro_batch));
      }
      for (const std::int64_t other : neighbours(shape, rank, -1)) {
        const PipelineAction theirs = at(other, slot);
        if (theirs.kind == Act::forward && theirs.stage + 1 < shape.stages() &&
            shape.rank_of(theirs.stage + 1) == rank) {
          actions.push_back(step(Act::receive_forward, theirs.stage + 1, theirs.micro_batch));
        }
      }
      for (const std::int64_t other : neighbours(shape, rank, 1)) {
        const PipelineAction theirs = at(other, slot);
        if (is_backward(theirs.kind) && theirs.stage > 0 && shape.rank_of(theirs.stage - 1) == rank) {
          actions.push_back(step(Act::receive_backward, theirs.stage - 1, theirs.micro_batch));
        }
      }
    }
  }
  return all;
}

std::vector<RankPairs> connection_rounds(const PipelineShape& shape) {
  std::set<RankPairs::value_type> pairs;
  for (std::int64_t stage = 0; stage + 1 < shape.stages(); ++stage) {
    const auto [low, high] = std::minmax({shape.rank_of(stage), shape.rank_of(stage + 1)});
    if (low != high) {
      pairs.insert({low, high});
    }
  }
  std::vector<RankPairs> rounds;
  while (!pairs.empty()) {
    RankPairs& round = rounds.emplace_back();
    std::set<std::int64_t> taken;
    for (auto pair = pairs.begin(); pair != pairs.end();) {
      if (taken.contains(pair->first) || taken.contains(pair->second)) {
        ++pair;
        continue;
      }
      taken.insert({pair->first, pair->second});
      round.push_back(*pair);
      pair = pairs.erase(pair);
    }
  }
  return rounds;
}

}  // namespace commlens::pytorch
