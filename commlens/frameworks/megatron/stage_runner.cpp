#include "commlens/frameworks/megatron/stage_runner.hpp"

#include "commlens/frameworks/megatron/batches.hpp"
#include "commlens/frameworks/megatron/source.hpp"
#include "commlens/frameworks/megatron/start.hpp"
#include "commlens/frameworks/megatron/step.hpp"

namespace commlens::megatron {
namespace {

const Rule k_boundary_activation{"megatron.pipeline_activation",
                                 k_new_source<"core/pipeline_parallel/p2p_communication.py:49">};
const Rule k_boundary_gradient{"megatron.pipeline_gradient",
                               k_new_source<"core/pipeline_parallel/p2p_communication.py:49">};
const Rule k_boundary_shape{"megatron.pipeline_shape",
                            k_new_source<"core/pipeline_parallel/p2p_communication.py:186">};
const Rule k_each_loss{"megatron.loss", k_new_source<"pretrain_gpt.py loss_func">};
const Rule k_evaluated_loss{"megatron.evaluation_loss", k_new_source<"training/training.py:4285">};
const Rule k_evaluation_timer{"megatron.timers", k_new_source<"core/timers.py:314">};
const Rule k_evaluation_barrier{"megatron.timer_barrier", k_new_source<"core/timers.py:151">};

constexpr std::int64_t k_dimensions = 3;  // of an activation, int64

bool shards_parameters(const Options& options) { return options.is_megatron_fsdp || options.is_torch_fsdp2; }

/// Those that GradientSync reduces.
std::vector<std::vector<ModuleParameter>> reduced_parameters(const StageContext& stage) {
  const std::vector<std::vector<ModuleParameter>> none(stage.chunks.size());
  return shards_parameters(stage.options) ? none : stage.parameters;
}

}  // namespace

StageRunner::StageRunner(const StageContext& stage)
    : stage_(stage),
      out_(stage.out),
      job_(stage.job),
      gradients_(stage.out, stage.groups, stage.job, stage.stage, reduced_parameters(stage)) {
  if (shards_parameters(stage.options)) {
    shards_.emplace(stage);
  }
  for (const ChunkLayout& chunk : stage.chunks) {
    chunks_.emplace_back(stage.out, stage.groups, stage.job, chunk);
  }
}

void StageRunner::write_start() { megatron::write_start(stage_, shards_ ? &*shards_ : nullptr); }

std::vector<Action> StageRunner::actions(bool forward_only) const {
  const Options& own = stage_.options;
  const bool has_chunks = job_.layout.virtual_stages > 1;
  return schedule({.stage = stage_.stage,
                   .stages = job_.layout.pp,
                   .chunks = job_.layout.virtual_stages,
                   .micro_batches = job_.train.micro_batches,
                   .group = own.micro_batch_group > 0 ? own.micro_batch_group : job_.layout.pp,
                   .overlaps = has_chunks && own.overlaps_p2p,
                   .overlaps_at_ends = has_chunks && own.overlaps_p2p_at_ends,
                   .has_one_more_warm_up = own.overlaps_expert_exchange,
                   .forward_only = forward_only,
                   .aligns_gradients = own.overlap_grad_reduce && own.aligns_grad_reduce && !forward_only,
                   .aligns_parameters = gradients_.gathers_in_forward() && own.aligns_param_gather &&
                                        has_chunks && !forward_only});
}

void StageRunner::write_iteration(const IterationKind& kind) {
  is_training_ = true;
  // The hooks that gather parameters are there from the first step on that was not skipped.
  gradients_.begin(kind.is_first, kind.follows_evaluation || kind.overflows || kind.is_first_step);
  if (shards_) {
    shards_->begin(kind.is_first, kind.follows_evaluation);
  }
  out_.set_reduction(Reduction::sum);
  out_.set_phase(Phase::other);
  stage_.level1_barrier();
  const bool is_combined =
      stage_.options.overlaps_expert_exchange && job_.layout.pp == 1 && chunks_.front().can_combine();
  is_combined ? run_combined() : run(actions(false));
  out_.set_phase(Phase::optimizer);
  write_final_gradients(stage_, gradients_);
  write_step(stage_, gradients_, shards_ ? &*shards_ : nullptr, {kind.is_first_step, kind.overflows});
  if (!stage_.has_script()) {
    return;
  }
  write_log(stage_, kind.is_logged);
  if (kind.is_evaluated) {
    write_evaluation();
  }
  write_exit_checks(stage_);
}

void StageRunner::run(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    switch (action.kind) {
      case Action::Kind::forward:
        run_forward(action);
        break;
      case Action::Kind::backward:
        run_backward(action);
        break;
      case Action::Kind::exchange:
        run_exchange(action.exchange);
        break;
      case Action::Kind::gather_parameters:
        out_.set_phase(Phase::forward);
        gradients_.gather(action.chunk);
        break;
      case Action::Kind::reduce_gradients:
        out_.set_phase(Phase::backward);
        gradients_.reduce(action.chunk);
        break;
    }
  }
}

ChunkPasses::Hook StageRunner::use_hook(std::int64_t chunk) {
  if (shards_ || !gradients_.gathers_in_forward()) {
    return {};
  }
  return [this, chunk](const ModulePlace& place) { gradients_.use(chunk, place); };
}

ChunkPasses::Hook StageRunner::completion_hook(std::int64_t chunk, bool reduces) {
  if (shards_ || !reduces || !stage_.options.overlap_grad_reduce) {
    return {};
  }
  return [this, chunk](const ModulePlace& place) { gradients_.complete(chunk, place); };
}

/// Each forward pass but the first beside the backward pass of the micro-batch before it
/// (core/pipeline_parallel/combined_1f1b.py).
void StageRunner::run_combined() {
  const std::int64_t micro_batches = job_.train.micro_batches;
  run_forward({.kind = Action::Kind::forward});
  for (std::int64_t next = 1; next < micro_batches; ++next) {
    micro_batch_ = static_cast<std::int32_t>(next);
    set_phase(true);
    write_batch(stage_, 0);
    chunks_.front().combined(micro_batch_, use_hook(0), micro_batch_ - 1, completion_hook(0, false));
    write_loss();
  }
  run_backward({.kind = Action::Kind::backward, .micro_batch = micro_batches - 1, .reduces = true});
}

void StageRunner::run_forward(const Action& action) {
  const auto chunk = static_cast<std::size_t>(action.chunk);
  micro_batch_ = static_cast<std::int32_t>(action.micro_batch);
  set_phase(true);
  write_batch(stage_, chunk);
  if (shards_) {
    is_training_ ? shards_->forward() : shards_->evaluate();
  }
  if (is_training_) {
    chunks_[chunk].forward(micro_batch_, use_hook(action.chunk));
  } else {
    chunks_[chunk].evaluate(micro_batch_);
  }
  if (stage_.chunks[chunk].has_loss) {
    write_loss();
  }
}

/// With each micro-batch, in older releases.
void StageRunner::write_loss() const {
  if (!stage_.has_script() || stage_.behaviour.reports_loss_once) {
    return;
  }
  if (job_.layout.cp > 1) {
    out_.all_reduce(stage_.groups.cp, {2}, DType::fp32, k_each_loss, "loss and tokens");
  }
  out_.all_reduce(stage_.groups.dp, {2}, DType::fp32, k_each_loss, "loss and tokens");
}

void StageRunner::run_backward(const Action& action) {
  micro_batch_ = static_cast<std::int32_t>(action.micro_batch);
  const ChunkPasses::Hook complete = completion_hook(action.chunk, action.reduces);
  if (shards_) {
    set_phase(false);
    shards_->backward();
  }
  chunks_[static_cast<std::size_t>(action.chunk)].backward(micro_batch_, complete);
  if (shards_) {
    shards_->backward_ends(action.micro_batch + 1 == job_.train.micro_batches);
  }
}

void StageRunner::set_phase(bool is_forward) const {
  out_.set_phase(is_forward ? Phase::forward : Phase::backward, micro_batch_);
}

Elements StageRunner::boundary() const {
  const std::int64_t activation =
      job_.train.micro_batch * job_.model.sequence / job_.layout.cp * job_.model.hidden;
  return {stage_.shares.sequence_parallel ? activation / job_.layout.tp : activation};
}

void StageRunner::send(bool is_forward, bool is_batched) {
  set_phase(is_forward);
  out_.set_waiting(is_batched ? Waiting::batched : Waiting::later);
  out_.send(is_forward ? out_.groups.to_next : out_.groups.to_previous, boundary(), job_.train.dtype,
            is_forward ? k_boundary_activation : k_boundary_gradient);
  out_.set_waiting(Waiting::at_once);
}

void StageRunner::receive(bool is_forward, bool is_batched) {
  set_phase(is_forward);
  out_.set_waiting(is_batched ? Waiting::batched : Waiting::at_once);
  out_.recv(is_forward ? out_.groups.from_previous : out_.groups.from_next, boundary(), job_.train.dtype,
            is_forward ? k_boundary_activation : k_boundary_gradient);
  out_.set_waiting(Waiting::at_once);
}

/// Sizes go ahead of all. In a batch what belongs to the previous stage comes first; one by one, odd stages
/// receive ahead of what they send (_p2p_ops).
void StageRunner::run_exchange(const Exchange& exchange) {
  const bool is_batched = !exchange.is_overlapped;
  const auto shapes = [&](bool applies, bool sends, bool is_forward) {
    if (applies) {
      const AxisGroups& groups = out_.groups;
      set_phase(is_forward);
      const GroupId pair = is_forward ? (sends ? groups.to_next : groups.from_previous)
                                      : (sends ? groups.to_previous : groups.from_next);
      out_.set_waiting(Waiting::batched);
      sends ? out_.send(pair, {k_dimensions}, DType::int64, k_boundary_shape)
            : out_.recv(pair, {k_dimensions}, DType::int64, k_boundary_shape);
      out_.set_waiting(Waiting::at_once);
    }
  };
  if (stage_.options.variable_seq_lengths) {
    shapes(exchange.sends_backward, true, false);
    shapes(exchange.receives_forward, false, true);
    shapes(exchange.sends_forward, true, true);
    shapes(exchange.receives_backward, false, false);
  }
  struct Part {
    bool applies;
    bool sends;
    bool is_forward;
  };
  const Part back{exchange.sends_backward, true, false};
  const Part from_back{exchange.receives_forward, false, true};
  const Part ahead{exchange.sends_forward, true, true};
  const Part from_ahead{exchange.receives_backward, false, false};
  std::vector<Part> order = {back, from_back, ahead, from_ahead};
  if (exchange.is_overlapped) {
    order = stage_.stage % 2 == 0 ? std::vector{ahead, from_back, back, from_ahead}
                                  : std::vector{from_back, ahead, from_ahead, back};
  }
  for (const Part& part : order) {
    if (part.applies) {
      part.sends ? send(part.is_forward, is_batched) : receive(part.is_forward, is_batched);
    }
  }
}

/// evaluate_and_print_results (training/training.py:4200), ahead of which all parameters are gathered.
void StageRunner::write_evaluation() {
  const auto barrier = [&] { out_.barrier(stage_.groups.world, k_evaluation_barrier); };
  is_training_ = false;
  out_.set_phase(Phase::other);
  if (gradients_.gathers_in_forward()) {
    gradients_.gather_updated(1);
  }
  barrier();
  barrier();
  for (std::int64_t iteration = 0; iteration < stage_.options.eval_iterations; ++iteration) {
    run(actions(true));
    out_.set_phase(Phase::other);
    if (stage_.behaviour.reports_loss_once && stage_.is_last()) {
      out_.all_reduce(stage_.groups.dp_cp, {2}, DType::fp32, k_evaluated_loss, "loss and tokens");
    }
    write_time_limit(stage_);
  }
  out_.all_gather(stage_.groups.world, {1}, DType::fp32, k_evaluation_timer, "timers");
  barrier();
}

}  // namespace commlens::megatron
