#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

using LockStepAct = PipelineAction::Kind;

PipelineAction message(LockStepAct kind, std::int32_t stage, std::int32_t micro_batch) {
  return {kind, stage, micro_batch, false};
}

bool is_backward(LockStepAct kind) {
  return kind == LockStepAct::backward || kind == LockStepAct::backward_input;
}

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
      const bool waits = each.kind == LockStepAct::forward && each.stage > 0 &&
                         !seen.contains({each.stage - 1, each.micro_batch});
      all[rank].push_back(waits ? PipelineAction{} : each);
      if (!waits) {
        ++next[rank];
      }
      if (!waits && each.kind == LockStepAct::forward) {
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

using Message = std::tuple<bool, std::int32_t, std::int32_t>;  // forward?, stage that takes it, micro-batch

/// Every message is received, and before the pass that takes it.
Result<void> check_messages(const std::vector<RankActions>& all, std::int64_t last_stage) {
  std::set<Message> sent;
  std::set<Message> received;
  for (const RankActions& actions : all) {
    for (const PipelineAction& each : actions) {
      const bool is_forward =
          each.kind == LockStepAct::send_forward || each.kind == LockStepAct::receive_forward;
      if (each.kind == LockStepAct::send_forward || each.kind == LockStepAct::send_backward) {
        sent.emplace(is_forward, each.stage + (is_forward ? 1 : -1), each.micro_batch);
      } else if (each.kind == LockStepAct::receive_forward || each.kind == LockStepAct::receive_backward) {
        received.emplace(is_forward, each.stage, each.micro_batch);
      } else if (each.kind == LockStepAct::forward || is_backward(each.kind)) {
        const bool is_first = each.stage == (each.kind == LockStepAct::forward ? 0 : last_stage);
        if (!is_first &&
            !received.contains({each.kind == LockStepAct::forward, each.stage, each.micro_batch})) {
          return failure(
              "releases of PyTorch up to 2.9 wait for ever in this schedule: a rank computes in a "
              "slot before its input is sent; use more micro-batches or a newer release");
        }
      }
    }
  }
  return sent == received
             ? Result<void>()
             : failure(
                   "releases of PyTorch up to 2.9 wait for ever in this schedule: a rank has no slot left "
                   "to receive what another one sends; use more micro-batches or a newer release");
}

}  // namespace

Result<std::vector<RankActions>> lock_step_actions(const PipelineShape& shape) {
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
      if (own.kind != LockStepAct::idle) {
        actions.push_back(own);
      }
      if (own.kind == LockStepAct::forward && own.stage + 1 < shape.stages()) {
        actions.push_back(message(LockStepAct::send_forward, own.stage, own.micro_batch));
      } else if (is_backward(own.kind) && own.stage > 0) {
        actions.push_back(message(LockStepAct::send_backward, own.stage, own.micro_batch));
      }
      for (const std::int64_t other : neighbours(shape, rank, -1)) {
        const PipelineAction theirs = at(other, slot);
        if (theirs.kind == LockStepAct::forward && theirs.stage + 1 < shape.stages() &&
            shape.rank_of(theirs.stage + 1) == rank) {
          actions.push_back(message(LockStepAct::receive_forward, theirs.stage + 1, theirs.micro_batch));
        }
      }
      for (const std::int64_t other : neighbours(shape, rank, 1)) {
        const PipelineAction theirs = at(other, slot);
        if (is_backward(theirs.kind) && theirs.stage > 0 && shape.rank_of(theirs.stage - 1) == rank) {
          actions.push_back(message(LockStepAct::receive_backward, theirs.stage - 1, theirs.micro_batch));
        }
      }
    }
  }
  const Result<void> runs = check_messages(all, shape.stages() - 1);
  return runs ? Result<std::vector<RankActions>>(std::move(all)) : tl::unexpected(runs.error());
}

}  // namespace commlens::pytorch
