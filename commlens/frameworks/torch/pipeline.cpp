#include "commlens/frameworks/torch/pipeline.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/pipeline_connections.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"
#include "commlens/frameworks/torch/stage.hpp"
#include "commlens/frameworks/torch/update.hpp"

namespace commlens::pytorch {
namespace {

using Act = PipelineAction::Kind;

/// One rank of a pipeline.
class PipelineRank {
 public:
  /// `actions` are those of the rank, of a schedule that has several stages on each; they outlive it.
  PipelineRank(Plan& plan, std::int64_t rank, std::span<const PipelineAction> actions)
      : out_(plan),
        job_(plan.job),
        options_(options(plan.job)),
        shape_(pipeline_shape(plan.job)),
        rank_(rank),
        actions_(actions),
        behaviour_(behaviour(plan.job)),
        groups_(out_, plan.job),
        connections_(out_, groups_, shape_, rank),
        work_(out_) {
    for (const std::int64_t stage : shape_.stages_of(rank)) {
      stages_.push_back({stage, std::make_unique<Stage>(out_, groups_, stage, shape_.stages()), nullptr});
      if (options_.ddp.is_used) {
        Local& local = stages_.back();
        local.ddp = std::make_unique<DataParallel>(out_, groups_, local.stage->modules());
        local.stage->attach(local.ddp.get());
      }
    }
  }

  /// What is written is not what the framework does if that fails.
  Result<void> check() const {
    if (has_failed_) {
      return failure(
          "a schedule that splits backward passes fails where a stage is resharded between the halves "
          "(KeyError in stage_backward_weight); set reshard_after_forward to false");
    }
    const bool ddp_fails = std::any_of(stages_.begin(), stages_.end(), [](const Local& local) {
      return local.ddp && local.ddp->has_failed();
    });
    return ddp_fails ? Result<void>(
                           failure("DDP fails in the second step of this schedule, which reduces gradients "
                                   "twice before a forward pass rebuilds the buckets; set shapes of the "
                                   "pipeline to static"))
                     : Result<void>();
  }

  StagePrograms write() {
    StagePrograms programs;
    out_.set_phase(Phase::init);
    programs.init = initialisation(true);
    if (scatters_weights(job_)) {
      programs.init_of_other_tensor_ranks = initialisation(false);
    }
    const std::int64_t iterations = options_.ddp.is_used ? 4 : 2;
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      if (iteration == 0) {
        first_step();
      }
      if (shape_.schedule == PipelineSchedule::gpipe) {
        gpipe();
      } else if (shape_.schedule == PipelineSchedule::one_f_one_b) {
        one_f_one_b();
      } else {
        runtime();
      }
      update();
      programs.iterations.push_back(out_.take());
    }
    return programs;
  }

 private:
  struct Local {
    std::int64_t index;
    std::unique_ptr<Stage> stage;
    std::unique_ptr<DataParallel> ddp;
    std::int64_t gradient_passes = 0;  // in this iteration, that complete the gradients of a micro-batch
    bool is_prepared = false;          // DDP's reducer, without a backward pass that autograd accumulates
  };

  Program initialisation(bool is_tensor_root) {
    for (const Local& local : stages_) {
      if (scatters_weights(job_)) {
        scatter_weights(out_, groups_, local.stage->modules(), is_tensor_root);
      }
      if (local.ddp) {
        local.ddp->initialise();
      }
    }
    return out_.take();
  }

  Local& local(std::int64_t stage) {
    const auto found =
        std::find_if(stages_.begin(), stages_.end(), [&](const Local& each) { return each.index == stage; });
    COMMLENS_CHECK(found != stages_.end(), "a schedule has actions of the rank's own stages");
    return *found;
  }

  void message(Act kind, std::int64_t stage, std::int32_t micro_batch, Waiting waiting = Waiting::at_once) {
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
  void wait_for_sends() {
    for (const StepIndex send : std::exchange(sends_, {})) {
      out_.wait_for(send);
    }
  }
  /// What a pass of a stage takes from another rank.
  void wait_for_receive(bool is_forward, std::int64_t stage, std::int32_t micro_batch) {
    const auto received = receives_.find({is_forward, stage, micro_batch});
    if (received != receives_.end()) {
      out_.wait_for(received->second);
      receives_.erase(received);
    }
  }

  void forward(std::int64_t stage, std::int32_t micro_batch) {
    Local& own = local(stage);
    out_.set_phase(Phase::forward, micro_batch);
    wait_for_receive(true, stage, micro_batch);
    if (own.ddp) {
      own.ddp->before_forward(micro_batch + 1 == job_.train.micro_batches);
    }
    set_flags(own);
    own.stage->forward();
  }
  void backward(std::int64_t stage, std::int32_t micro_batch) {
    Local& own = local(stage);
    out_.set_phase(Phase::backward, micro_batch);
    wait_for_receive(false, stage, micro_batch);
    const bool is_last = ++own.gradient_passes == job_.train.micro_batches;
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
  /// Gradients are divided by the micro-batches.
  void scale(const Local& own) {
    if (behaviour_.sums_when_scaling && job_.layout.tp > 1) {
      sum_when_scaling(out_, groups_, own.stage->modules());
    }
  }
  /// The half of a backward pass that the stage before waits for; the first stage does all in the other half.
  /// DDP does not notice halves: gradients of the weights are not accumulated by autograd
  /// (pipelining/_backward.py, stage_backward_weight).
  void backward_input(std::int64_t stage, std::int32_t micro_batch) {
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
  void backward_weight(std::int64_t stage, std::int32_t micro_batch) {
    Local& own = local(stage);
    if (own.index == 0) {
      backward(stage, micro_batch);
      return;
    }
    if (ShardedStage* const shards = own.stage->shards();
        shards != nullptr && !shards->end_split(micro_batch)) {
      has_failed_ = true;
    }
    const bool is_last = ++own.gradient_passes == job_.train.micro_batches;
    // Its reducer is told to expect gradients: those of the next whole backward pass.
    own.is_prepared = own.is_prepared || is_last;
    if (is_last && behaviour_.reduces_in_backward) {
      reduce(own);
    }
    if (is_last && runs_in_lock_step(job_)) {
      scale(own);
    }
  }
  static void set_flags(Local& own) {
    if (own.stage->shards() != nullptr) {
      own.stage->shards()->set({.reduces = false, .all_reduces = true, .reshards = false, .is_last = false});
    }
  }
  void reduce(Local& own) {
    if (own.stage->shards() != nullptr) {
      out_.set_phase(Phase::backward);
      own.stage->shards()->set({});
      own.stage->shards()->reduce_all();
    }
  }

  void first_step() {
    connections_.establish(behaviour_.first_step);
    if (!options_.pipeline.has_static_shapes) {
      infer_shapes();
    }
  }
  /// A pickled object: its size, then its bytes.
  void object(std::int64_t other, bool sends) {
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
  /// A forward and a backward pass of one micro-batch without reductions, to learn what stages send.
  void infer_shapes() {
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

  void finish_single() {
    wait_for_sends();
    if (!behaviour_.reduces_in_backward) {
      reduce(stages_.front());
    }
  }

  void gpipe() {
    const auto count = static_cast<std::int32_t>(job_.train.micro_batches);
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

  void one_f_one_b() {
    const auto count = static_cast<std::int32_t>(job_.train.micro_batches);
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

  void runtime() {
    for (const PipelineAction& each : actions_) {
      perform(each);
    }
    wait_for_sends();
  }
  void perform(const PipelineAction& each) {
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

  void update() {
    out_.set_phase(Phase::optimizer);
    for (Local& own : stages_) {
      own.gradient_passes = 0;
      if (shape_.is_single()) {
        scale(own);
      }
      sum_in_optimizer(out_, groups_, own.stage->modules());
      work_.optimizer(own.stage->updated());
    }
  }

  ProgramBuilder out_;
  const Job& job_;
  const Options& options_;
  PipelineShape shape_;
  std::int64_t rank_;
  std::span<const PipelineAction> actions_;
  const Behaviour& behaviour_;
  Groups groups_;
  PipelineConnections connections_;
  ModelWork work_;
  std::vector<Local> stages_;
  std::vector<StepIndex> sends_;  // under way
  std::map<std::tuple<bool, std::int64_t, std::int32_t>, StepIndex>
      receives_;  // forward?, stage, micro-batch
  bool has_failed_ = false;
};

}  // namespace

bool runs_in_lock_step(const Job& job) {
  const PipelineShape shape = pipeline_shape(job);
  return behaviour(job).runs_in_lock_step && !shape.is_single() &&
         shape.schedule != PipelineSchedule::dual_pipe_v;
}

PipelineShape pipeline_shape(const Job& job) {
  const Pipeline& own = options(job).pipeline;
  return {own.schedule, job.layout.pp, job.layout.virtual_stages, job.train.micro_batches, own.file};
}

namespace {

/// Of all ranks; none where each has one stage.
std::vector<RankActions> actions_of_ranks(const Job& job) {
  const PipelineShape shape = pipeline_shape(job);
  if (shape.is_single()) {
    return {};
  }
  const Behaviour& release = behaviour(job);
  const RuntimeSteps steps{.pairs_passes = release.pairs_passes,
                           .has_reductions = !release.reduces_in_backward,
                           .has_waits = release.waits_for_reductions};
  // The rules check that a lock step ends.
  return runs_in_lock_step(job) ? lock_step_actions(shape).value() : runtime_actions(shape, steps);
}

}  // namespace

Result<std::vector<StagePrograms>> write_pipeline(const Job& job, std::span<const std::int64_t> ranks,
                                                  Plan& plan) {
  std::vector<StagePrograms> programs;
  const std::vector<RankActions> actions = actions_of_ranks(job);
  for (const std::int64_t rank : ranks) {
    const std::span<const PipelineAction> own =
        actions.empty() ? std::span<const PipelineAction>() : actions[static_cast<std::size_t>(rank)];
    PipelineRank writer(plan, rank, own);
    programs.push_back(writer.write());
    if (const Result<void> ok = writer.check(); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return programs;
}

}  // namespace commlens::pytorch
