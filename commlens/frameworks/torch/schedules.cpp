#include "commlens/frameworks/torch/schedules.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens::pytorch {
namespace {

using Act = PipelineAction::Kind;
using Schedule = PipelineSchedule;

PipelineAction action(Act kind, std::int64_t stage, std::int64_t micro_batch) {
  return {kind, static_cast<std::int32_t>(stage), static_cast<std::int32_t>(micro_batch), false};
}

void add_idle(RankActions& actions, std::int64_t count) {
  for (std::int64_t slot = 0; slot < count; ++slot) {
    actions.push_back({});
  }
}

/// All micro-batches forward, stage by stage, then backward the other way round, the last micro-batch first.
RankActions looped_bfs(const PipelineShape& shape, std::int64_t rank) {
  RankActions actions;
  add_idle(actions, rank);
  const std::vector<std::int64_t> stages = shape.stages_of(rank);
  for (const std::int64_t stage : stages) {
    for (std::int64_t micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch) {
      actions.push_back(action(Act::forward, stage, micro_batch));
    }
  }
  add_idle(actions, 2 * (shape.ranks - 1 - rank));
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    for (std::int64_t micro_batch = shape.micro_batches; micro_batch-- > 0;) {
      actions.push_back(action(Act::backward, *stage, micro_batch));
    }
  }
  return actions;
}

/// Interleaved 1F1B, and its variant whose backward passes are in halves (zero bubble).
class Interleaved {
 public:
  Interleaved(const PipelineShape& shape, std::int64_t rank, bool has_halves)
      : shape_(shape),
        rank_(rank),
        has_halves_(has_halves),
        round_(shape.micro_batches / std::max<std::int64_t>(1, shape.micro_batches / shape.ranks)),
        all_(shape.stages_per_rank * shape.micro_batches) {
    const std::int64_t hops = shape.ranks - 1 - rank;
    warmup_ = std::min((shape.stages_per_rank - 1) * round_ + (has_halves ? 1 : 2) * hops, all_);
  }

  RankActions write() {
    add_idle(actions_, rank_);
    for (std::int64_t step = 0; step < warmup_; ++step) {
      add(Act::forward, forward_stage(step));
    }
    const std::int64_t hops = shape_.ranks - 1 - rank_;
    if (warmup_ > 0) {
      add_idle(actions_,
               has_halves_ ? hops : shape_.stages_per_rank * shape_.ranks + 2 * hops - warmup_ - rank_);
    }
    for (std::int64_t step = warmup_; step < warmup_ + all_; ++step) {
      if (step < all_) {
        add(Act::forward, forward_stage(step));
      } else if (!has_halves_) {
        add_idle(actions_, 1);
      }
      add_backward(step);
    }
    while (has_halves_ && weights_ < backward_.size()) {
      add(Act::backward_weight, backward_[weights_++]);
    }
    return std::move(actions_);
  }

 private:
  std::int64_t forward_stage(std::int64_t step) const {
    return step / round_ % shape_.stages_per_rank * shape_.ranks + rank_;
  }
  std::int64_t backward_stage(std::int64_t step) const {
    const std::int64_t local =
        shape_.stages_per_rank - 1 - (step - warmup_) / round_ % shape_.stages_per_rank;
    return local * shape_.ranks + rank_;
  }
  void add_backward(std::int64_t step) {
    const std::int64_t stage = backward_stage(step);
    add(has_halves_ ? Act::backward_input : Act::backward, stage);
    backward_.push_back(stage);
    if (has_halves_ && step - warmup_ >= rank_) {
      add(Act::backward_weight, backward_[weights_++]);
    }
  }
  /// The next micro-batch of that kind and stage.
  void add(Act kind, std::int64_t stage) { actions_.push_back(action(kind, stage, next_[{kind, stage}]++)); }

  const PipelineShape& shape_;
  std::int64_t rank_;
  bool has_halves_;
  std::int64_t round_;  // micro-batches of a round
  std::int64_t all_;
  std::int64_t warmup_ = 0;
  RankActions actions_;
  std::map<std::pair<Act, std::int64_t>, std::int64_t> next_;
  std::vector<std::int64_t> backward_;  // stages, in order
  std::size_t weights_ = 0;             // how many of them have had their weights' half
};

/// The V schedule of two stages a rank without bubbles (ZBV of arXiv 2401.10241).
class ZeroBubbleV {
 public:
  ZeroBubbleV(const PipelineShape& shape, std::int64_t rank)
      : shape_(shape), rank_(rank), first_(rank), second_(shape.stages() - 1 - rank) {}

  RankActions write() {
    const std::int64_t ranks = shape_.ranks;
    const std::int64_t micro_batches = std::max(2 * ranks - 1, shape_.micro_batches);
    add_idle(actions_, rank_);
    repeat(2 * (ranks - rank_) - 1, [&] { forward(first_); });
    repeat(rank_, [&] {
      forward(second_);
      forward(first_);
    });
    repeat(ranks - rank_, [&] {
      forward(second_);
      whole_backward(second_);
    });
    while (count(Act::forward, second_) < count(Act::forward, first_) ||
           count(Act::forward, first_) < micro_batches) {
      if (count(Act::forward, first_) < micro_batches) {
        forward(first_);
      }
      whole_backward(first_);
      forward(second_);
      whole_backward(second_);
    }
    repeat(rank_, [&] {
      add(Act::backward_input, first_);
      add(Act::backward_input, second_);
    });
    repeat(ranks - rank_, [&] {
      add(Act::backward_input, first_);
      add(Act::backward_weight, first_);
    });
    for (const std::int64_t stage : {second_, first_}) {
      while (count(Act::backward_weight, stage) < count(Act::backward_input, stage)) {
        add(Act::backward_weight, stage);
      }
    }
    // It is made for so many micro-batches that all phases occur; those that the job lacks are idle.
    for (PipelineAction& each : actions_) {
      each = each.micro_batch < shape_.micro_batches ? each : PipelineAction{};
    }
    return std::move(actions_);
  }

 private:
  static void repeat(std::int64_t times, const std::function<void()>& step) {
    for (std::int64_t time = 0; time < times; ++time) {
      step();
    }
  }
  std::int64_t count(Act kind, std::int64_t stage) { return next_[{kind, stage}]; }
  void add(Act kind, std::int64_t stage) { actions_.push_back(action(kind, stage, next_[{kind, stage}]++)); }
  void forward(std::int64_t stage) { add(Act::forward, stage); }
  void whole_backward(std::int64_t stage) {
    add(Act::backward_input, stage);
    add(Act::backward_weight, stage);
  }

  const PipelineShape& shape_;
  std::int64_t rank_;
  std::int64_t first_;
  std::int64_t second_;
  RankActions actions_;
  std::map<std::pair<Act, std::int64_t>, std::int64_t> next_;
};

/// DualPipeV: a V schedule that overlaps a forward with a backward pass.
class DualPipeV {
 public:
  DualPipeV(const PipelineShape& shape, std::int64_t rank)
      : shape_(shape), rank_(rank), first_(rank), second_(shape.stages() - 1 - rank) {}

  RankActions write() {
    const std::int64_t left = shape_.ranks - rank_ - 1;
    repeat(2 * left, [&] { forward(first_); });
    repeat(rank_ + 1, [&] {
      forward(first_);
      forward(second_);
    });
    repeat(left, [&] {
      half_backward(second_);
      weights();
      forward(second_);
    });
    bool is_apart = rank_ == shape_.ranks - 1;  // the last rank's first two, for a smaller bubble
    repeat(shape_.micro_batches - 2 * shape_.ranks + rank_ + 1, [&] {
      overlapped(first_, second_, std::exchange(is_apart, false));
      overlapped(second_, first_, false);
    });
    repeat(left, [&] {
      backward(second_);
      overlapped(second_, first_, false);
    });
    const bool has_halves = end_of_forward();
    repeat(left, [&] {
      weights();
      has_halves ? half_backward(first_) : backward(first_);
    });
    repeat(rank_ + 1, [&] { weights(); });
    return std::move(actions_);
  }

 private:
  static void repeat(std::int64_t times, const std::function<void()>& step) {
    for (std::int64_t time = 0; time < times; ++time) {
      step();
    }
  }
  /// The backward passes that no forward pass goes with; the second half of them in halves.
  bool end_of_forward() {
    bool has_halves = false;
    for (std::int64_t step = 0; step < rank_ + 1; ++step) {
      const bool is_middle = step == (rank_ + 1) / 2;
      has_halves = has_halves || (is_middle && rank_ % 2 == 1);
      has_halves ? half_backward(second_) : backward(second_);
      has_halves = has_halves || (is_middle && rank_ % 2 == 0);
      has_halves ? half_backward(first_) : backward(first_);
    }
    return has_halves;
  }
  void forward(std::int64_t stage) { actions_.push_back(action(Act::forward, stage, forward_[stage]++)); }
  void backward(std::int64_t stage) { actions_.push_back(action(Act::backward, stage, backward_[stage]++)); }
  void overlapped(std::int64_t forward_stage, std::int64_t backward_stage, bool is_apart) {
    forward(forward_stage);
    actions_.back().is_paired = !is_apart;
    backward(backward_stage);
  }
  void half_backward(std::int64_t stage) {
    pending_.push_back(action(Act::backward_weight, stage, backward_[stage]));
    actions_.push_back(action(Act::backward_input, stage, backward_[stage]++));
  }
  void weights() {
    if (!pending_.empty()) {
      actions_.push_back(pending_.front());
      pending_.erase(pending_.begin());
    }
  }

  const PipelineShape& shape_;
  std::int64_t rank_;
  std::int64_t first_;
  std::int64_t second_;
  RankActions actions_;
  RankActions pending_;  // the other halves
  std::map<std::int64_t, std::int64_t> forward_;
  std::map<std::int64_t, std::int64_t> backward_;
};

}  // namespace

std::int64_t PipelineShape::rank_of(std::int64_t stage) const {
  return is_v_shaped() && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
}

std::vector<std::int64_t> PipelineShape::stages_of(std::int64_t rank) const {
  if (is_v_shaped()) {
    return {rank, 2 * ranks - 1 - rank};
  }
  std::vector<std::int64_t> stages;
  for (std::int64_t stage = rank; stage < this->stages(); stage += ranks) {
    stages.push_back(stage);
  }
  return stages;
}

commlens::Schedule usual_schedule(PipelineSchedule schedule) {
  switch (schedule) {
    case Schedule::gpipe:
      return commlens::Schedule::gpipe;
    case Schedule::one_f_one_b:
      return commlens::Schedule::one_f_one_b;
    default:
      return commlens::Schedule::interleaved;
  }
}

void set_schedule(Job& job, PipelineSchedule schedule) {
  options(job).pipeline.schedule = schedule;
  job.train.schedule = usual_schedule(schedule);
}

Result<void> check(const PipelineShape& shape) {
  if (shape.schedule == Schedule::from_file) {
    const ScheduleFile& file = *shape.file;
    const bool fits = std::ssize(file.ranks) == shape.ranks &&
                      file.stages_per_rank == shape.stages_per_rank &&
                      file.micro_batches == shape.micro_batches;
    return fits
               ? Result<void>()
               : failure(fmt::format("the csv has {} ranks of {} stages and {} micro-batches, the job {}, {} "
                                     "and {}",
                                     file.ranks.size(), file.stages_per_rank, file.micro_batches, shape.ranks,
                                     shape.stages_per_rank, shape.micro_batches));
  }
  if (shape.is_single() && shape.stages_per_rank != 1) {
    return failure("GPipe and 1F1B have one stage per rank; set stages_per_rank to 1");
  }
  if (shape.schedule == Schedule::one_f_one_b && shape.micro_batches < shape.ranks) {
    return failure(fmt::format("1F1B needs at least {} micro-batches, one for each stage", shape.ranks));
  }
  if (shape.is_v_shaped() && shape.stages_per_rank != 2) {
    return failure("V schedules have two stages per rank; set stages_per_rank to 2");
  }
  const std::int64_t rounds = std::max<std::int64_t>(1, shape.micro_batches / shape.ranks);
  const bool has_rounds =
      shape.schedule == Schedule::interleaved_1f1b || shape.schedule == Schedule::interleaved_zero_bubble;
  if (has_rounds && shape.micro_batches % rounds != 0) {
    return failure(
        fmt::format("interleaved schedules need micro-batches that divide into {} rounds", rounds));
  }
  return shape.schedule == Schedule::dual_pipe_v && shape.micro_batches < 2 * shape.ranks
             ? Result<void>(
                   failure(fmt::format("DualPipeV needs at least {} micro-batches", 2 * shape.ranks)))
             : Result<void>();
}

std::vector<RankActions> compute_actions(const PipelineShape& shape) {
  if (shape.schedule == Schedule::from_file) {
    return shape.file->ranks;
  }
  std::vector<RankActions> all;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    switch (shape.schedule) {
      case Schedule::looped_bfs:
        all.push_back(looped_bfs(shape, rank));
        break;
      case Schedule::interleaved_1f1b:
        all.push_back(Interleaved(shape, rank, false).write());
        break;
      case Schedule::interleaved_zero_bubble:
        all.push_back(Interleaved(shape, rank, true).write());
        break;
      case Schedule::zbv_zero_bubble:
        all.push_back(ZeroBubbleV(shape, rank).write());
        break;
      case Schedule::dual_pipe_v:
        all.push_back(DualPipeV(shape, rank).write());
        break;
      case Schedule::gpipe:
      case Schedule::one_f_one_b:
      case Schedule::from_file:
        COMMLENS_CHECK(false, "schedules of one stage per rank have a writer of their own");
    }
  }
  return all;
}

std::int64_t passes_in_flight(const PipelineShape& shape, std::int64_t rank) {
  if (shape.ranks == 1) {
    return 1;
  }
  if (shape.schedule == Schedule::gpipe) {
    return shape.micro_batches;
  }
  if (shape.schedule == Schedule::one_f_one_b) {
    return std::min(shape.micro_batches, shape.ranks - rank);
  }
  using Step = PipelineAction::Kind;
  const std::vector<RankActions> all = compute_actions(shape);
  std::int64_t now = 0;
  std::int64_t most = 1;
  for (const PipelineAction& action : all.at(static_cast<std::size_t>(rank))) {
    // What the weights' half needs stays until it is done.
    now += action.kind == Step::forward ? 1 : 0;
    now -= action.kind == Step::backward || action.kind == Step::backward_weight ? 1 : 0;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace commlens::pytorch
