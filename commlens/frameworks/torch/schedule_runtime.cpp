#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

using RuntimeAct = PipelineAction::Kind;

PipelineAction step_of(RuntimeAct kind, std::int64_t stage, std::int64_t micro_batch) {
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
        all.push_back(step_of(RuntimeAct::reshard, stage, -1));
      }
    }
    for (const std::int32_t stage : next) {
      if (active.insert(stage).second) {
        all.push_back(step_of(RuntimeAct::unshard, stage, -1));
      }
    }
    all.push_back(compute[at]);
  }
  for (const std::int32_t stage : active) {
    all.push_back(step_of(RuntimeAct::reshard, stage, -1));
  }
  return all;
}

/// `has_waits`: a reduction is waited for in a step of its own.
RankActions with_reductions(const RankActions& actions, std::int64_t micro_batches, bool has_waits) {
  RankActions all;
  std::map<std::int32_t, std::int64_t> done;
  for (const PipelineAction& each : actions) {
    all.push_back(each);
    const bool has_gradients = each.kind == RuntimeAct::backward || each.kind == RuntimeAct::backward_weight;
    if (has_gradients && ++done[each.stage] == micro_batches) {
      all.push_back(step_of(RuntimeAct::reduce, each.stage, -1));
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
    for (std::size_t rank = 0; rank < actions_.size(); ++rank) {
      COMMLENS_CHECK(next_[rank] == actions_[rank].size(), "a schedule of the library comes to its end");
    }
    return std::move(all_);
  }

 private:
  bool has_done(std::size_t rank, RuntimeAct kind, std::int32_t stage, std::int32_t micro_batch) const {
    return done_[rank].contains({kind, stage, micro_batch});
  }
  bool is_ready(std::size_t rank, const PipelineAction& each) const {
    const auto done = [&](RuntimeAct kind, std::int32_t stage) {
      return has_done(rank, kind, stage, each.micro_batch);
    };
    if (each.kind == RuntimeAct::forward && each.stage > 0) {
      return done(RuntimeAct::receive_forward, each.stage) || done(RuntimeAct::forward, each.stage - 1);
    }
    const bool is_backward = each.kind == RuntimeAct::backward || each.kind == RuntimeAct::backward_input;
    if (is_backward && each.stage + 1 < shape_.stages()) {
      return done(RuntimeAct::receive_backward, each.stage) ||
             done(RuntimeAct::backward_input, each.stage + 1) || done(RuntimeAct::backward, each.stage + 1);
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
    const bool is_backward = each.kind == RuntimeAct::backward || each.kind == RuntimeAct::backward_input;
    const std::int32_t there = each.kind == RuntimeAct::forward ? each.stage + 1 : each.stage - 1;
    const bool sends =
        (each.kind == RuntimeAct::forward || is_backward) && there >= 0 && there < shape_.stages();
    if (!sends || shape_.rank_of(there) == shape_.rank_of(each.stage)) {
      return;
    }
    add(rank, step_of(is_backward ? RuntimeAct::send_backward : RuntimeAct::send_forward, each.stage,
                      each.micro_batch));
    add(static_cast<std::size_t>(shape_.rank_of(there)),
        step_of(is_backward ? RuntimeAct::receive_backward : RuntimeAct::receive_forward, there,
                each.micro_batch));
  }
  void add(std::size_t rank, const PipelineAction& each) {
    all_[rank].push_back(each);
    done_[rank].insert({each.kind, each.stage, each.micro_batch});
  }

  const PipelineShape& shape_;
  const std::vector<RankActions>& actions_;
  std::vector<std::size_t> next_;
  std::vector<RankActions> all_;
  std::vector<std::set<std::tuple<RuntimeAct, std::int32_t, std::int32_t>>> done_;
};

}  // namespace

std::vector<RankActions> runtime_actions(const PipelineShape& shape, const RuntimeSteps& steps) {
  std::vector<RankActions> all = compute_actions(shape);
  for (RankActions& actions : all) {
    std::erase_if(actions, [](const PipelineAction& each) { return each.kind == RuntimeAct::idle; });
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

}  // namespace commlens::pytorch
