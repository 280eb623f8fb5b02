#include "commlens/frameworks/torch/pipeline.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"
#include "commlens/frameworks/torch/stage.hpp"
#include "commlens/frameworks/torch/update.hpp"

namespace commlens::pytorch {
namespace {

using Act = PipelineAction::Kind;

/// One rank of a pipeline.
class PipelineRank {
 public:
  PipelineRank(Plan& plan, std::int64_t rank)
      : out_(plan),
        job_(plan.job),
        options_(options(plan.job)),
        shape_(pipeline_shape(plan.job)),
        rank_(rank),
        behaviour_(behaviour(plan.job)),
        groups_(out_, plan.job),
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
    programs.init = initialisation(true);
    if (scatters_weights()) {
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
      if (shape_.is_single() && !behaviour_.reduces_in_backward) {
        reduce(stages_.front());
      }
      update();
      programs.iterations.push_back(out_.take());
    }
    return programs;
  }

 private:
  bool scatters_weights() const { return options_.tensor.init_from_rank0 && job_.layout.tp > 1; }
  Program initialisation(bool is_tensor_root) {
    out_.set_phase(Phase::init);
    for (const Local& local : stages_) {
      if (scatters_weights()) {
        scatter_weights(out_, groups_, local.stage->modules(), is_tensor_root);
      }
      if (local.ddp) {
        local.ddp->initialise();
      }
    }
    return out_.take();
  }

  struct Local {
    std::int64_t index;
    std::unique_ptr<Stage> stage;
    std::unique_ptr<DataParallel> ddp;
    std::int64_t gradient_passes = 0;  // in this iteration, that complete the gradients of a micro-batch
    bool is_prepared = false;          // DDP's reducer, without a backward pass that autograd accumulates
  };

  Local& local(std::int64_t stage) {
    const auto found =
        std::find_if(stages_.begin(), stages_.end(), [&](const Local& each) { return each.index == stage; });
    COMMLENS_CHECK(found != stages_.end(), "a schedule has actions of the rank's own stages");
    return *found;
  }

  /// The pair of this rank with another one, as the sender or the receiver.
  GroupId pair(std::int64_t other, bool sends) const {
    using Shape = GroupPattern::Shape;
    if (other == rank_) {  // an axis of one rank: with itself
      return out_.groups.pair(Axis::cp, sends ? Shape::to_next : Shape::from_next);
    }
    const bool is_next = other == (rank_ + 1) % shape_.ranks;
    return out_.groups.pair(Axis::pp, is_next ? (sends ? Shape::to_next : Shape::from_next)
                                              : (sends ? Shape::to_previous : Shape::from_previous));
  }
  void message(Act kind, std::int64_t stage, std::int32_t micro_batch) {
    const bool is_forward = kind == Act::send_forward || kind == Act::receive_forward;
    const bool sends = kind == Act::send_forward || kind == Act::send_backward;
    const std::int64_t other = sends == is_forward ? stage + 1 : stage - 1;
    const bool is_local = other >= 0 && other < shape_.stages() && shape_.rank_of(other) == rank_;
    if (other < 0 || other >= shape_.stages() || (is_local && !is_lock_step())) {
      return;
    }
    const Stage& own = *local(stage).stage;
    out_.set_phase(is_forward ? Phase::forward : Phase::backward, micro_batch);
    const GroupId group = pair(shape_.rank_of(other), sends);
    if (sends) {
      out_.send(group, own.boundary(), own.activation_dtype(), k_pipeline_message, "activations");
    } else {
      out_.recv(group, own.boundary(), own.activation_dtype(), k_pipeline_message, "activations");
    }
  }

  void forward(std::int64_t stage, std::int32_t micro_batch) {
    Local& own = local(stage);
    out_.set_phase(Phase::forward, micro_batch);
    if (own.ddp) {
      own.ddp->before_forward(micro_batch + 1 == job_.train.micro_batches);
    }
    set_flags(own);
    own.stage->forward();
  }
  void backward(std::int64_t stage, std::int32_t micro_batch) {
    Local& own = local(stage);
    out_.set_phase(Phase::backward, micro_batch);
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
    if (own.index == 0) {
      return;
    }
    out_.set_phase(Phase::backward, micro_batch);
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
    if (is_last && is_lock_step()) {
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
  bool is_lock_step() const {
    return behaviour_.runs_in_lock_step && !shape_.is_single() &&
           shape_.schedule != PipelineSchedule::dual_pipe_v;
  }
  bool has(std::int64_t stage) const { return stage >= 0 && stage < shape_.stages(); }
  /// One message of `count` elements to or from the rank of another stage.
  void small(std::int64_t stage, bool sends, DType dtype, const Rule& rule) {
    const GroupId group = pair(shape_.rank_of(stage), sends);
    sends ? out_.send(group, {1}, dtype, rule, "connection")
          : out_.recv(group, {1}, dtype, rule, "connection");
  }
  void handshake(DType sent) {
    out_.set_phase(Phase::other);
    for (const Local& own : stages_) {
      const auto message_with = [&](std::int64_t stage, bool sends) {
        if (has(stage)) {
          small(stage, sends, sends ? sent : DType::fp32, k_pipeline_connect);
        }
      };
      message_with(own.index - 1, false);
      message_with(own.index + 1, true);
      message_with(own.index - 1, true);
      message_with(own.index + 1, false);
    }
  }
  void vote_along() {
    out_.set_phase(Phase::other);
    const auto with = [&](std::int64_t stage, bool sends) {
      if (has(stage) && shape_.rank_of(stage) != rank_) {
        small(stage, sends, DType::int32, k_pipeline_vote);
      }
    };
    for (const Local& own : stages_) {
      with(own.index - 1, false);
      with(own.index + 1, true);
    }
    for (auto own = stages_.rbegin(); own != stages_.rend(); ++own) {
      with(own->index + 1, false);
      with(own->index - 1, true);
    }
  }
  void vote() {
    out_.set_phase(Phase::other);
    out_.set_reduction(Reduction::min);
    out_.all_reduce(groups_.pipeline, {1}, DType::int32, k_pipeline_vote, "is initialised");
    connect();
  }
  void connect() {
    for (const RankPairs& round : connection_rounds(shape_)) {
      for (const auto& [low, high] : round) {
        if (rank_ == low) {
          out_.send(pair(high, true), {1}, DType::int32, k_pipeline_connect, "connection");
        } else if (rank_ == high) {
          out_.recv(pair(low, false), {1}, DType::int32, k_pipeline_connect, "connection");
        }
      }
      out_.set_reduction(Reduction::sum);
      out_.all_reduce(groups_.pipeline, {1}, DType::int32, k_pipeline_connect, "connection");
    }
  }
  void first_step() {
    using Step = Behaviour::FirstStep;
    switch (behaviour_.first_step) {
      case Step::nothing:
        break;
      case Step::uneven_handshake:
        handshake(DType::int64);
        break;
      case Step::handshake:
        handshake(DType::fp32);
        break;
      case Step::vote_chain:
        vote_along();
        break;
      case Step::vote:
        vote();
        break;
    }
    if (!options_.pipeline.has_static_shapes) {
      infer_shapes();
    }
  }
  /// A pickled object: its size, then its bytes.
  void object(std::int64_t other, bool sends) {
    const GroupId group = pair(shape_.rank_of(other), sends);
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

  void gpipe() {
    const auto count = static_cast<std::int32_t>(job_.train.micro_batches);
    for (std::int32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
      message(Act::receive_forward, rank_, micro_batch);
      forward(rank_, micro_batch);
      message(Act::send_forward, rank_, micro_batch);
    }
    for (std::int32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
      message(Act::receive_backward, rank_, micro_batch);
      backward(rank_, micro_batch);
      message(Act::send_backward, rank_, micro_batch);
    }
  }

  void one_f_one_b() {
    const auto count = static_cast<std::int32_t>(job_.train.micro_batches);
    const auto warmup = static_cast<std::int32_t>(std::min<std::int64_t>(count, shape_.ranks - rank_));
    for (std::int32_t micro_batch = 0; micro_batch < warmup; ++micro_batch) {
      message(Act::receive_forward, rank_, micro_batch);
      forward(rank_, micro_batch);
      if (micro_batch + 1 < warmup) {
        message(Act::send_forward, rank_, micro_batch);
      }
    }
    std::int32_t ahead = warmup;
    std::int32_t done = 0;
    for (bool has_more = true; has_more; ++done) {
      message(Act::send_forward, rank_, ahead - 1);
      message(Act::receive_backward, rank_, done);
      backward(rank_, done);
      message(Act::send_backward, rank_, done);
      has_more = ahead < count;
      if (has_more) {
        message(Act::receive_forward, rank_, ahead);
        forward(rank_, ahead++);
      }
    }
    for (; done < count; ++done) {
      message(Act::receive_backward, rank_, done);
      backward(rank_, done);
      message(Act::send_backward, rank_, done);
    }
  }

  void runtime() {
    const RuntimeSteps steps{.pairs_passes = behaviour_.pairs_passes,
                             .has_reductions = !behaviour_.reduces_in_backward,
                             .has_waits = behaviour_.waits_for_reductions};
    const std::vector<RankActions> all =
        is_lock_step() ? lock_step_actions(shape_) : runtime_actions(shape_, steps);
    for (const PipelineAction& each : all[static_cast<std::size_t>(rank_)]) {
      perform(each);
    }
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
        message(each.kind, each.stage, each.micro_batch);
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
  const Behaviour& behaviour_;
  Groups groups_;
  ModelWork work_;
  std::vector<Local> stages_;
  bool has_failed_ = false;
};

}  // namespace

PipelineShape pipeline_shape(const Job& job) {
  return {options(job).pipeline.schedule, job.layout.pp, job.layout.virtual_stages, job.train.micro_batches};
}

Result<std::vector<StagePrograms>> write_pipeline(const Job& /*job*/, std::span<const std::int64_t> ranks,
                                                  Plan& plan) {
  std::vector<StagePrograms> programs;
  for (const std::int64_t rank : ranks) {
    PipelineRank writer(plan, rank);
    programs.push_back(writer.write());
    if (const Result<void> ok = writer.check(); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return programs;
}

}  // namespace commlens::pytorch
