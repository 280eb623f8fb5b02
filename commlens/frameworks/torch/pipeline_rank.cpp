#include "commlens/frameworks/torch/pipeline_rank.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"
#include "commlens/frameworks/torch/update.hpp"

namespace commlens::pytorch {

using Act = PipelineAction::Kind;

PipelineRank::PipelineRank(ProgramBuilder& out, const Groups& groups, const PipelineShape& shape,
                           std::int64_t rank, std::span<const PipelineAction> actions)
    : out_(out),
      job_(out.job()),
      options_(options(out.job())),
      shape_(shape),
      rank_(rank),
      actions_(actions),
      behaviour_(behaviour(out.job())),
      groups_(groups),
      connections_(out, groups, shape, rank) {}

void PipelineRank::add_stages(const MakeStage& make) {
  for (const std::int64_t stage : shape_.stages_of(rank_)) {
    stages_.push_back({stage, make(stage), nullptr});
    if (options_.ddp.is_used) {
      Local& local = stages_.back();
      local.ddp = std::make_unique<DataParallel>(out_, groups_, local.stage->modules());
      local.stage->attach(local.ddp.get());
    }
  }
}

Result<void> PipelineRank::check() const {
  if (has_failed_) {
    return failure(
        "a schedule that splits backward passes fails where a stage is resharded between the halves "
        "(KeyError in stage_backward_weight); set reshard_after_forward to false");
  }
  const bool ddp_fails = std::any_of(stages_.begin(), stages_.end(),
                                     [](const Local& local) { return local.ddp && local.ddp->has_failed(); });
  return ddp_fails
             ? Result<void>(failure("DDP fails in the second step of this schedule, which reduces gradients "
                                    "twice before a forward pass rebuilds the buckets; set shapes of the "
                                    "pipeline to static"))
             : Result<void>();
}

void PipelineRank::step() {
  for (Local& own : stages_) {
    own.gradient_passes = 0;
  }
  if (!std::exchange(has_started_, true)) {
    first_step();
  }
  if (shape_.schedule == PipelineSchedule::gpipe) {
    gpipe();
  } else if (shape_.schedule == PipelineSchedule::one_f_one_b) {
    one_f_one_b();
  } else {
    runtime();
  }
}

void PipelineRank::initialise(bool is_tensor_root) {
  for (const Local& local : stages_) {
    if (scatters_weights(job_)) {
      scatter_weights(out_, groups_, local.stage->modules(), is_tensor_root);
    }
    if (local.ddp) {
      local.ddp->initialise();
    }
  }
}

PipelineRank::Local& PipelineRank::local(std::int64_t stage) {
  const auto found =
      std::find_if(stages_.begin(), stages_.end(), [&](const Local& each) { return each.index == stage; });
  COMMLENS_CHECK(found != stages_.end(), "a schedule has actions of the rank's own stages");
  return *found;
}

void PipelineRank::message(Act kind, std::int64_t stage, std::int32_t micro_batch, Waiting waiting) {
  const bool is_forward = kind == Act::send_forward || kind == Act::receive_forward;
  const bool sends = kind == Act::send_forward || kind == Act::send_backward;
  const std::int64_t other = sends == is_forward ? stage + 1 : stage - 1;
  const bool is_local = other >= 0 && other < shape_.stages() && shape_.rank_of(other) == rank_;
  if (other < 0 || other >= shape_.stages() || (is_local && !runs_in_lock_step(job_))) {
    return;
  }
  const Stage& own = *local(stage).stage;
  out_.set_phase(is_forward ? Phase::forward : Phase::backward, micro_batch);
  const GroupId group = connections_.pair(shape_.rank_of(other), sends);
  out_.set_waiting(waiting);
  if (sends) {
    out_.send(group, own.boundary(), own.activation_dtype(), k_pipeline_message, "activations");
  } else {
    out_.recv(group, own.boundary(), own.activation_dtype(), k_pipeline_message, "activations");
  }
  out_.set_waiting(Waiting::at_once);
  if (waiting == Waiting::later && sends) {
    sends_.push_back(out_.last_call());
  } else if (waiting == Waiting::later) {
    receives_[{is_forward, stage, micro_batch}] = out_.last_call();
  }
}

void PipelineRank::wait_for_sends() {
  for (const StepIndex send : std::exchange(sends_, {})) {
    out_.wait_for(send);
  }
}

void PipelineRank::wait_for_receive(bool is_forward, std::int64_t stage, std::int32_t micro_batch) {
  const auto received = receives_.find({is_forward, stage, micro_batch});
  if (received != receives_.end()) {
    out_.wait_for(received->second);
    receives_.erase(received);
  }
}

void PipelineRank::forward(std::int64_t stage, std::int32_t micro_batch) {
  Local& own = local(stage);
  out_.set_phase(Phase::forward, micro_batch);
  wait_for_receive(true, stage, micro_batch);
  if (own.ddp) {
    own.ddp->before_forward(micro_batch + 1 == shape_.micro_batches);
  }
  set_flags(own);
  own.stage->forward();
}

void PipelineRank::backward(std::int64_t stage, std::int32_t micro_batch) {
  Local& own = local(stage);
  out_.set_phase(Phase::backward, micro_batch);
  wait_for_receive(false, stage, micro_batch);
  const bool is_last = ++own.gradient_passes == shape_.micro_batches;
  if (own.ddp) {
    // The reducer still expects the backward pass of the forward pass that was for shapes alone.
    own.ddp->set_sync(is_last || std::exchange(own.is_prepared, false));
  }
  set_flags(own);
  if (ShardedStage* const shards = own.stage->shards()) {
    shards->accumulate();
  }
  own.stage->backward();
  if (is_last && behaviour_.reduces_in_backward) {
    reduce(own);
  }
  if (is_last && !shape_.is_single()) {
    scale(own);
  }
}

void PipelineRank::scale(const Local& own) {
  if (behaviour_.sums_when_scaling && job_.layout.tp > 1) {
    sum_when_scaling(out_, groups_, own.stage->modules());
  }
}

void PipelineRank::backward_input(std::int64_t stage, std::int32_t micro_batch) {
  Local& own = local(stage);
  out_.set_phase(Phase::backward, micro_batch);
  wait_for_receive(false, stage, micro_batch);
  if (own.index == 0) {
    return;
  }
  if (own.ddp) {
    own.ddp->set_sync(false);
  }
  set_flags(own);
  if (ShardedStage* const shards = own.stage->shards()) {
    shards->begin_split(micro_batch);
  }
  own.stage->backward();
}

void PipelineRank::backward_weight(std::int64_t stage, std::int32_t micro_batch) {
  Local& own = local(stage);
  if (own.index == 0) {
    backward(stage, micro_batch);
    return;
  }
  if (ShardedStage* const shards = own.stage->shards();
      shards != nullptr && !shards->end_split(micro_batch)) {
    has_failed_ = true;
  }
  const bool is_last = ++own.gradient_passes == shape_.micro_batches;
  // Its reducer is told to expect gradients: those of the next whole backward pass.
  own.is_prepared = own.is_prepared || is_last;
  if (is_last && behaviour_.reduces_in_backward) {
    reduce(own);
  }
  if (is_last && runs_in_lock_step(job_)) {
    scale(own);
  }
}

void PipelineRank::set_flags(Local& own) {
  if (own.stage->shards() != nullptr) {
    own.stage->shards()->set({.reduces = false, .all_reduces = true, .reshards = false, .is_last = false});
  }
}

void PipelineRank::reduce(Local& own) {
  if (own.stage->shards() != nullptr) {
    out_.set_phase(Phase::backward);
    own.stage->shards()->set({});
    own.stage->shards()->reduce_all();
  }
}

void PipelineRank::first_step() {
  connections_.establish(behaviour_.first_step);
  if (!options_.pipeline.has_static_shapes) {
    infer_shapes();
  }
}

void PipelineRank::object(std::int64_t other, bool sends) {
  const GroupId group = connections_.pair(shape_.rank_of(other), sends);
  const auto one = [&](Elements count, DType dtype) {
    sends ? out_.send(group, count, dtype, k_pipeline_shapes, "shapes")
          : out_.recv(group, count, dtype, k_pipeline_shapes, "shapes");
  };
  one({1}, DType::int64);
  out_.set_match(Match::count);
  one({behaviour_.object_bytes}, DType::uint8);
  out_.set_match(Match::exact);
}

void PipelineRank::infer_shapes() {
  for (Local& own : stages_) {
    out_.set_phase(Phase::forward);
    if (own.index > 0 && shape_.rank_of(own.index - 1) != rank_) {
      object(own.index - 1, false);
    }
    if (own.ddp && behaviour_.infers_gradients) {
      own.ddp->before_forward(true);
      own.is_prepared = true;
    }
    set_flags(own);
    own.stage->forward();
    if (own.index + 1 < shape_.stages() && shape_.rank_of(own.index + 1) != rank_) {
      object(own.index + 1, true);
    }
  }
  if (!behaviour_.infers_gradients) {
    return;
  }
  for (auto own = stages_.rbegin(); own != stages_.rend(); ++own) {
    out_.set_phase(Phase::backward);
    if (own->index + 1 < shape_.stages() && shape_.rank_of(own->index + 1) != rank_) {
      object(own->index + 1, false);
    }
    if (own->ddp) {
      own->ddp->set_sync(false);
    }
    if (own->index > 0) {  // tokens need no gradient
      own->stage->backward();
    }
    if (own->index > 0 && shape_.rank_of(own->index - 1) != rank_) {
      object(own->index - 1, true);
    }
    if (own->stage->shards() != nullptr) {
      own->stage->shards()->reshard_all();
    }
  }
}

void PipelineRank::finish_single() {
  wait_for_sends();
  if (!behaviour_.reduces_in_backward) {
    reduce(stages_.front());
  }
  out_.set_phase(Phase::optimizer);
  scale(stages_.front());
}

void PipelineRank::gpipe() {
  const auto count = static_cast<std::int32_t>(shape_.micro_batches);
  for (std::int32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
    message(Act::receive_forward, rank_, micro_batch);
    forward(rank_, micro_batch);
    message(Act::send_forward, rank_, micro_batch, Waiting::later);
  }
  wait_for_sends();
  for (std::int32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
    message(Act::receive_backward, rank_, micro_batch);
    backward(rank_, micro_batch);
    message(Act::send_backward, rank_, micro_batch, Waiting::later);
  }
  finish_single();
}

void PipelineRank::one_f_one_b() {
  const auto count = static_cast<std::int32_t>(shape_.micro_batches);
  const auto warmup = static_cast<std::int32_t>(std::min<std::int64_t>(count, shape_.ranks - rank_));
  for (std::int32_t micro_batch = 0; micro_batch < warmup; ++micro_batch) {
    message(Act::receive_forward, rank_, micro_batch);
    forward(rank_, micro_batch);
    wait_for_sends();
    if (micro_batch + 1 < warmup) {
      message(Act::send_forward, rank_, micro_batch, Waiting::later);
    }
  }
  std::int32_t ahead = warmup;
  std::int32_t done = 0;
  for (bool has_more = true; has_more; ++done) {
    message(Act::send_forward, rank_, ahead - 1, Waiting::batched);
    message(Act::receive_backward, rank_, done, Waiting::batched);
    backward(rank_, done);
    has_more = ahead < count;
    message(Act::send_backward, rank_, done, has_more ? Waiting::batched : Waiting::later);
    if (has_more) {
      message(Act::receive_forward, rank_, ahead, Waiting::batched);
      forward(rank_, ahead++);
    }
  }
  for (; done < count; ++done) {
    message(Act::receive_backward, rank_, done);
    backward(rank_, done);
    wait_for_sends();
    message(Act::send_backward, rank_, done, Waiting::later);
  }
  finish_single();
}

void PipelineRank::runtime() {
  for (const PipelineAction& each : actions_) {
    perform(each);
  }
  wait_for_sends();
}

void PipelineRank::perform(const PipelineAction& each) {
  switch (each.kind) {
    case Act::forward:
      forward(each.stage, each.micro_batch);
      return;
    case Act::backward:
      backward(each.stage, each.micro_batch);
      return;
    case Act::backward_input:
      backward_input(each.stage, each.micro_batch);
      return;
    case Act::send_forward:
    case Act::receive_forward:
    case Act::send_backward:
    case Act::receive_backward:
      // A lock step waits for all its messages; else passes wait for what they take, and the end for the
      // rest.
      message(each.kind, each.stage, each.micro_batch,
              runs_in_lock_step(job_) ? Waiting::batched : Waiting::later);
      return;
    case Act::unshard:
      if (ShardedStage* const shards = local(each.stage).stage->shards()) {
        out_.set_phase(Phase::forward);
        shards->unshard_all();
      }
      return;
    case Act::reshard:
      if (ShardedStage* const shards = local(each.stage).stage->shards()) {
        shards->reshard_all();
      }
      return;
    case Act::reduce:
      if (!behaviour_.reduces_in_backward) {
        reduce(local(each.stage));
      }
      return;
    case Act::backward_weight:
      backward_weight(each.stage, each.micro_batch);
      return;
    case Act::idle:
      return;
  }
}

}  // namespace commlens::pytorch
