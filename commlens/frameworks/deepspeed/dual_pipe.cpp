#include "commlens/frameworks/deepspeed/dual_pipe.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "commlens/frameworks/deepspeed/source.hpp"

namespace commlens::deepspeed {
namespace {

using Kind = DualPipeStep::Kind;

const Rule k_dual_activation{"pipeline.dual_activation",
                             k_new_source<"runtime/pipe/dualpipev.py:179 _exec_commit_p2p">};
const Rule k_dual_gradient{"pipeline.dual_gradient",
                           k_new_source<"runtime/pipe/dualpipev.py:179 _exec_commit_p2p">};

const Rule k_dual_mask{"pipeline.dual_attention_mask",
                       k_new_source<"runtime/pipe/dualpipev.py:236 _exec_send_activations">};

constexpr auto k_out = DualPipeWay::out;
constexpr auto k_back = DualPipeWay::back;

/// Writes the schedule in DeepSpeed's eight parts.
class DualPipeSchedule {
 public:
  DualPipeSchedule(std::int64_t rank, std::int64_t ranks, std::int64_t micro_batches)
      : rank_(rank), after_(ranks - rank - 1), main_(micro_batches - 2 * ranks + rank + 1) {}

  std::vector<DualPipeStep> take() {
    fill();
    for (std::int64_t i = 0; i < main_; ++i) {
      i == 0 ? first_main_step() : forward_and_backward(k_out, k_back);
      forward_and_backward(k_back, k_out);
    }
    drain();
    return std::move(steps_);
  }

 private:
  void fill() {
    for (std::int64_t i = 0; i < 2 * after_; ++i) {
      recv(Kind::recv_activation, k_out);
      forward(k_out);
      send(Kind::send_activation, k_out);
    }
    recv(Kind::recv_activation, k_out);
    for (std::int64_t i = 0; i <= rank_; ++i) {
      forward(k_out);
      recv(Kind::recv_activation, k_out);
      recv(Kind::recv_activation, k_back);
      forward(k_back);
      if (after_ > 0 || i < rank_) {
        send(Kind::send_activation, k_back);
      }
      send(Kind::send_activation, k_out);
    }
    for (std::int64_t i = 0; i < after_; ++i) {
      whole_backward(k_back);
      recv(Kind::recv_activation, k_back);
      commit();
      forward(k_back);
      send(Kind::send_activation, k_back);
    }
  }

  /// Its activation is received already; the last rank has one more to send.
  void first_main_step() {
    if (after_ > 0) {
      recv(Kind::recv_gradient, k_back);
      forward(k_out);
      compute(Kind::backward, k_back);
      send(Kind::send_activation, k_out);
    } else {
      forward(k_out);
      send(Kind::send_activation, k_back);
      recv(Kind::recv_gradient, k_back);
      commit();
      compute(Kind::backward, k_back);
    }
    send(Kind::send_gradient, k_back);
  }

  void forward_and_backward(DualPipeWay forward_way, DualPipeWay backward_way) {
    recv(Kind::recv_activation, forward_way);
    recv(Kind::recv_gradient, backward_way);
    forward(forward_way);
    compute(Kind::backward, backward_way);
    send(Kind::send_activation, forward_way);
    send(Kind::send_gradient, backward_way);
  }

  void drain() {
    for (std::int64_t i = 0; i < after_; ++i) {
      whole_backward(k_back);
      forward_and_backward(k_back, k_out);
    }
    for (std::int64_t i = 0; i <= rank_; ++i) {
      whole_backward(k_back);
      whole_backward(k_out);
    }
    for (std::int64_t i = 0; i < after_; ++i) {
      commit();
      whole_backward(k_out);
    }
    commit();
  }

  void whole_backward(DualPipeWay way) {
    recv(Kind::recv_gradient, way);
    commit();
    compute(Kind::backward, way);
    send(Kind::send_gradient, way);
  }

  void forward(DualPipeWay way) {
    commit();
    compute(Kind::forward, way);
  }

  void commit() { steps_.push_back({Kind::commit}); }

  /// The next micro-batch of that kind on that way.
  void compute(Kind kind, DualPipeWay way) {
    std::int64_t& next = next_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(way)];
    steps_.push_back({kind, way, next++});
  }

  /// Nothing comes to the first rank's way out, and nothing leaves its way back; the last rank turns around.
  bool is_end(bool is_input, DualPipeWay way) const {
    return is_input == (way == k_out) ? rank_ == 0 : after_ == 0;
  }
  void recv(Kind kind, DualPipeWay way) {
    if (!is_end(kind == Kind::recv_activation, way)) {
      compute(kind, way);
    }
  }
  void send(Kind kind, DualPipeWay way) {
    if (!is_end(kind == Kind::send_gradient, way)) {
      compute(kind, way);
    }
  }

  std::int64_t rank_;
  std::int64_t after_;  // ranks
  std::int64_t main_;   // steps with a forward and a backward pass of both stages
  std::array<std::array<std::int64_t, 2>, 7> next_{};
  std::vector<DualPipeStep> steps_;
};

/// A queue of messages; what the first activation each way is like is sent at once.
class DualPipeMessages {
 public:
  DualPipeMessages(ProgramBuilder& out, const PipelineRank& rank, const std::array<DualPipeStage, 2>& stages,
                   bool is_first)
      : out_(out), rank_(rank), stages_(stages), is_first_(is_first) {}

  void queue(const DualPipeStep& step) {
    const bool is_send = step.kind == Kind::send_activation || step.kind == Kind::send_gradient;
    const bool is_to_next = (step.way == k_out) != is_gradient(step);
    const StageLink link = is_send ? sending(is_to_next) : receiving(is_to_next);
    if (is_first_ && !is_gradient(step) && step.micro_batch == 0) {
      out_.set_phase(Phase::forward, 0);
      write_activation_description(out_, rank_, link);
    }
    queue_.push_back({step, link});
  }

  /// What follows waits for all of them, but they do not wait for each other.
  void commit() {
    std::vector<StepIndex> calls;
    out_.set_waiting(Waiting::later);
    for (const auto& [step, link] : queue_) {
      const DualPipeTensors& tensors = tensors_of(step);
      const auto move = [&](std::int64_t count, DType dtype, const Rule& rule, std::string_view tag) {
        (out_.*link.move)(link.pair, {count}, dtype, rule, tag);
        calls.push_back(out_.last_call());
      };
      const DType dtype = rank_.engine.job->train.dtype;
      const auto micro_batch = static_cast<std::int32_t>(step.micro_batch);
      if (is_gradient(step)) {
        out_.set_phase(Phase::backward, micro_batch);
        move(tensors.activation, dtype, k_dual_gradient, "activation gradient");
        continue;
      }
      out_.set_phase(Phase::forward, micro_batch);
      move(tensors.activation, dtype, k_dual_activation, "activation");
      if (tensors.mask > 0) {
        move(tensors.mask, DType::boolean, k_dual_mask, "attention mask");
      }
    }
    for (const StepIndex call : calls) {
      out_.wait_for(call);
    }
    out_.set_waiting(Waiting::at_once);
    queue_.clear();
  }

 private:
  static bool is_gradient(const DualPipeStep& step) {
    return step.kind == Kind::send_gradient || step.kind == Kind::recv_gradient;
  }
  const DualPipeTensors& tensors_of(const DualPipeStep& step) const {
    const DualPipeStage& stage = stages_[static_cast<std::size_t>(step.way)];
    const bool is_input = step.kind == Kind::recv_activation || step.kind == Kind::send_gradient;
    return is_input ? stage.input : stage.output;
  }

  StageLink sending(bool is_to_next) const {
    return {is_to_next ? out_.groups.to_next : out_.groups.to_previous, &ProgramBuilder::send};
  }
  StageLink receiving(bool is_to_next) const {
    return {is_to_next ? out_.groups.from_previous : out_.groups.from_next, &ProgramBuilder::recv};
  }

  ProgramBuilder& out_;
  const PipelineRank& rank_;
  const std::array<DualPipeStage, 2>& stages_;
  bool is_first_;
  std::vector<std::pair<DualPipeStep, StageLink>> queue_;
};

}  // namespace

std::vector<DualPipeStep> dual_pipe_schedule(std::int64_t rank, std::int64_t ranks,
                                             std::int64_t micro_batches) {
  return DualPipeSchedule(rank, ranks, micro_batches).take();
}

HeldStage held_by_dual_pipe(const Job& job, std::int64_t rank) {
  Job unsplit = job;
  unsplit.layout.pp = 1;
  const HeldStage model = held_by_stage(unsplit, 0);
  const std::int64_t ends = model.all.dense - model.layers * model.layer.dense;
  HeldStage held = held_by_stage(job, rank);
  held.is_last = rank == 0;
  held.all.dense = held.layers * held.layer.dense + (rank == 0 ? ends : 0);
  std::int64_t open = 0;  // passes of one stage, half of what the rank holds
  std::int64_t most = 0;
  for (const DualPipeStep& step : dual_pipe_schedule(rank, job.layout.pp, job.train.micro_batches)) {
    open += step.kind == Kind::forward ? 1 : step.kind == Kind::backward ? -1 : 0;
    most = std::max(most, open);
  }
  held.in_flight = static_cast<double>(most) / 2;
  return held;
}

void write_dual_pipe_iteration(ProgramBuilder& out, const PipelineRank& rank,
                               const std::array<DualPipeStage, 2>& stages, bool is_first) {
  DualPipeMessages messages(out, rank, stages, is_first);
  for (const DualPipeStep& step :
       dual_pipe_schedule(rank.stage, rank.stages, rank.engine.job->train.micro_batches)) {
    const auto micro_batch = static_cast<std::int32_t>(step.micro_batch);
    const StagePasses& pass = stages[static_cast<std::size_t>(step.way)].passes;
    switch (step.kind) {
      case Kind::forward:
        out.set_phase(Phase::forward, micro_batch);
        pass.forward(micro_batch);
        break;
      case Kind::backward:
        out.set_phase(Phase::backward, micro_batch);
        pass.backward(micro_batch);
        break;
      case Kind::commit:
        messages.commit();
        break;
      default:
        messages.queue(step);
    }
  }
  write_pipeline_end(out, rank);
}

}  // namespace commlens::deepspeed
