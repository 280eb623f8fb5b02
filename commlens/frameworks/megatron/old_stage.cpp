#include "commlens/frameworks/megatron/old_stage.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "commlens/frameworks/megatron/old_chunk.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/source.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/schemes/buckets.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens::megatron {
namespace {

const Rule k_activation{"megatron.pipeline_activation",
                        k_source<"pipeline_parallel/p2p_communication.py:216">};
const Rule k_gradient{"megatron.pipeline_gradient", k_source<"pipeline_parallel/p2p_communication.py:216">};
const Rule k_shape{"megatron.pipeline_shape", k_source<"pipeline_parallel/p2p_communication.py:22">};
const Rule k_reduce{"megatron.gradient_all_reduce", k_source<"distributed/param_and_grad_buffer.py:134">};
const Rule k_scatter{"megatron.gradient_reduce_scatter",
                     k_source<"distributed/param_and_grad_buffer.py:127">};
const Rule k_gather{"megatron.gather_updated_parameters", k_source<"optimizer/distrib_optimizer.py:1229">};
const Rule k_norms{"megatron.sequence_parallel_norm_gradients",
                   k_source<"distributed/finalize_model_grads.py:93">};
const Rule k_tied{"megatron.tied_embedding_gradient", k_source<"distributed/finalize_model_grads.py:41">};
const Rule k_norm{"megatron.gradient_norm", k_source<"optimizer/clip_grads.py:98">};
const Rule k_inf{"megatron.found_inf", k_source<"optimizer/optimizer.py:290">, false};

constexpr std::int64_t k_shape_entries = 3;         // dimensions of an activation, int64
constexpr std::int64_t k_gradient_alignment = 128;  // distributed optimizer: lcm(d, 128)

/// A contiguous gradient buffer of one chunk: the dense parameters, or the experts'.
struct GradientBuffer {
  std::int64_t count = 0;
  std::vector<std::int64_t> sizes;   // parameters in reverse order, the order in which buckets fill
  std::vector<std::int64_t> layers;  // of the chunk whose backward pass completes them; -1: the embedding
  bool is_expert = false;
};

/// One pipeline stage of Megatron.
class Stage {
 public:
  Stage(ProgramBuilder& out, const Job& job, const ParameterList& all, std::int64_t stage)
      : out_(out), job_(job), stage_(stage), stages_(job.layout.pp) {
    const std::int64_t chunks = job.layout.virtual_stages;
    const std::int64_t layers = job.model.layers / (stages_ * chunks);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const bool is_first = stage == 0 && chunk == 0;
      const bool is_last = stage + 1 == stages_ && chunk + 1 == chunks;
      chunks_.emplace_back(out, job, Chunk::Part{layers, is_first, is_last});
      const StagePart part{(chunk * stages_ + stage) * layers, layers, is_first, is_last, is_last};
      parameters_.push_back(local_parameters(job.model, all, job.layout.tp, part));
    }
    expert_data_ = out.groups.along(Axis::edp);
  }

  Program iteration() {
    if (job_.layout.virtual_stages > 1) {
      write_interleaved();
    } else {
      for (const ComputeStep& step : one_f_one_b(stage_, stages_, job_.train.micro_batches)) {
        write_alone(step);
      }
    }
    out_.set_phase(Phase::optimizer);
    write_gradients();
    write_sequence_parallel_gradients();
    write_tied_gradient();
    write_step();
    return out_.take();
  }

 private:
  using Slot = std::vector<ComputeStep>;

  bool is_first_chunk(std::int64_t chunk) const { return stage_ == 0 && chunk == 0; }
  bool is_last_chunk(std::int64_t chunk) const {
    return stage_ + 1 == stages_ && chunk + 1 == job_.layout.virtual_stages;
  }

  bool receives(const ComputeStep& step) const {
    return step.is_forward ? !is_first_chunk(step.chunk) : !is_last_chunk(step.chunk);
  }
  bool sends(const ComputeStep& step) const {
    return step.is_forward ? !is_last_chunk(step.chunk) : !is_first_chunk(step.chunk);
  }
  void set_phase_of(const ComputeStep& step) {
    out_.set_phase(step.is_forward ? Phase::forward : Phase::backward,
                   static_cast<std::int32_t>(step.micro_batch));
  }

  void compute(const ComputeStep& step) {
    const auto micro_batch = static_cast<std::int32_t>(step.micro_batch);
    Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
    if (step.is_forward) {
      chunk.forward(micro_batch);
    } else {
      chunk.backward(micro_batch, bucket_starter(step));
    }
  }

  void recv_for(const ComputeStep& step) {
    if (receives(step)) {
      set_phase_of(step);
      recv(step.is_forward);
    }
  }
  void send_from(const ComputeStep& step) {
    if (sends(step)) {
      set_phase_of(step);
      send(step.is_forward);
    }
  }

  /// What a pass sends goes in one batch with what the next one receives (schedules.py:1209).
  void write_alone(const ComputeStep& step) {
    recv_for(step);
    compute(step);
    send_from(step);
  }

  /// One batch of messages after each slot. Source: schedules.py:549-1000.
  void write_interleaved() {
    const std::vector<Slot> slots =
        interleaved_slots(stage_, stages_, job_.layout.virtual_stages, job_.train.micro_batches);
    write_batch({}, slots.front());
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      for (const ComputeStep& step : slots[slot]) {
        compute(step);
      }
      write_batch(slots[slot], slot + 1 < slots.size() ? slots[slot + 1] : Slot{});
    }
  }

  /// To and from the previous stage, then the next (p2p_communication.py:155 _batched_p2p_ops).
  void write_batch(const Slot& done, const Slot& next) {
    const auto send_all = [&](bool is_forward) {
      for (const ComputeStep& step : done) {
        if (step.is_forward == is_forward) {
          send_from(step);
        }
      }
    };
    const auto recv_all = [&](bool is_forward) {
      for (const ComputeStep& step : next) {
        if (step.is_forward == is_forward) {
          recv_for(step);
        }
      }
    };
    send_all(false);
    recv_all(true);
    send_all(true);
    recv_all(false);
  }

  Elements boundary() const {
    const std::int64_t activation = job_.train.micro_batch * job_.model.sequence * job_.model.hidden;
    return {job_.layout.sequence_parallel ? activation / job_.layout.tp : activation};
  }

  using Transfer = void (ProgramBuilder::*)(GroupId pair, Elements count, DType dtype, const Rule& rule,
                                            std::string_view tag);

  void transfer(Transfer write, GroupId pair, bool is_activation) {
    out_.set_waiting(Waiting::batched);
    if (options(job_).variable_seq_lengths) {
      (out_.*write)(pair, {k_shape_entries}, DType::int64, k_shape, "shape");
    }
    (out_.*write)(pair, boundary(), job_.train.dtype, is_activation ? k_activation : k_gradient,
                  is_activation ? "activation" : "activation gradient");
    out_.set_waiting(Waiting::at_once);
  }

  void send(bool is_activation) {
    transfer(&ProgramBuilder::send, is_activation ? out_.groups.to_next : out_.groups.to_previous,
             is_activation);
  }

  void recv(bool is_activation) {
    transfer(&ProgramBuilder::recv, is_activation ? out_.groups.from_previous : out_.groups.from_next,
             is_activation);
  }

  DType gradient_dtype() const { return options(job_).gradients_in_fp32 ? DType::fp32 : job_.train.dtype; }

  /// The norm and head at the end are complete before any layer, so with the last one at the latest.
  static std::int64_t completed_in(const LocalParameter& parameter, const LocalParameters& chunk) {
    const auto first =
        std::find_if(chunk.begin(), chunk.end(), [](const LocalParameter& one) { return one.layer >= 0; });
    const std::int64_t first_layer = first == chunk.end() ? 0 : first->layer;
    if (parameter.layer >= 0) {
      return parameter.layer - first_layer;
    }
    const bool is_embedding = parameter.leaf == Leaf::wte || parameter.leaf == Leaf::wpe;
    return is_embedding ? -1 : INT64_MAX;
  }

  std::vector<GradientBuffer> buffers(const LocalParameters& parameters) const {
    std::vector<GradientBuffer> result(2);
    result[1].is_expert = true;
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      GradientBuffer& buffer = result[parameter->is_expert ? 1 : 0];
      buffer.count += parameter->count;
      buffer.sizes.push_back(parameter->count);
      buffer.layers.push_back(completed_in(*parameter, parameters));
    }
    for (GradientBuffer& buffer : result) {
      // Every rank holds experts / ep of the experts; they are all equal.
      buffer.count /= buffer.is_expert ? job_.layout.ep : 1;
    }
    std::erase_if(result, [](const GradientBuffer& buffer) { return buffer.count == 0; });
    return result;
  }

  /// Buckets exist with overlap-grad-reduce on the first stage only (distributed_data_parallel.py).
  std::vector<std::int64_t> bucket_sums(const GradientBuffer& buffer) const {
    constexpr std::int64_t smallest_bucket = 40'000'000;
    constexpr std::int64_t bucket_per_rank = 1'000'000;
    if (!options(job_).overlap_grad_reduce || stage_ > 0 || buffer.is_expert) {
      return {buffer.count};
    }
    const std::int64_t limit = std::max(smallest_bucket, bucket_per_rank * job_.layout.dp);
    return buckets_closed_on_reaching(buffer.sizes, limit, limit);
  }

  /// With overlap-grad-reduce the backward pass of a chunk's last micro-batch reduces each bucket when its
  /// gradients are complete (param_and_grad_buffer.py:150 register_grad_ready).
  std::function<void(std::int64_t)> bucket_starter(const ComputeStep& step) {
    if (!options(job_).overlap_grad_reduce || step.micro_batch + 1 < job_.train.micro_batches) {
      return {};
    }
    std::vector<ReadyBucket> open;
    for (const GradientBuffer& buffer : buffers(parameters_[static_cast<std::size_t>(step.chunk)])) {
      const std::vector<ReadyBucket> buckets = ready_buckets(buffer);
      open.insert(open.end(), buckets.begin(), buckets.end());
    }
    return [this, open](std::int64_t layer) mutable {
      const auto is_ready = [&](const ReadyBucket& bucket) { return bucket.completed_in >= layer; };
      const auto waiting = std::stable_partition(open.begin(), open.end(), is_ready);
      out_.set_waiting(Waiting::later);
      for (auto bucket = open.begin(); bucket != waiting; ++bucket) {
        write_gradient_bucket(bucket->is_expert, bucket->count);
        reductions_.push_back(out_.last_call());
      }
      out_.set_waiting(Waiting::at_once);
      open.erase(open.begin(), waiting);
    };
  }

  struct ReadyBucket {
    std::int64_t count = 0;
    bool is_expert = false;
    std::int64_t completed_in = 0;  // a layer of the chunk, as GradientBuffer has them
  };

  std::vector<ReadyBucket> ready_buckets(const GradientBuffer& buffer) const {
    std::vector<ReadyBucket> result;
    if (buffer.is_expert) {
      return {{buffer.count, true, buffer.layers.back()}};
    }
    std::size_t end = 0;
    for (const std::int64_t sum : bucket_sums(buffer)) {
      for (std::int64_t left = sum; left > 0; ++end) {
        left -= buffer.sizes[end];
      }
      result.push_back({sum, false, buffer.layers[end - 1]});
    }
    return result;
  }

  /// What the backward passes have not started.
  void write_gradients() {
    for (const StepIndex call : std::exchange(reductions_, {})) {
      out_.wait_for(call);
    }
    if (options(job_).overlap_grad_reduce) {
      return;
    }
    for (const LocalParameters& chunk : parameters_) {
      for (const GradientBuffer& buffer : buffers(chunk)) {
        for (const std::int64_t count : bucket_sums(buffer)) {
          write_gradient_bucket(buffer.is_expert, count);
        }
      }
    }
  }

  void write_gradient_bucket(bool is_expert, std::int64_t count) {
    const GroupId group = is_expert ? expert_data_ : out_.groups.dp;
    const std::string_view tag = is_expert ? "expert gradients" : "gradients";
    if (job_.train.zero_stage > 0) {
      out_.reduce_scatter(group, {shard(group, count)}, gradient_dtype(), k_scatter, tag);
    } else {
      out_.all_reduce(group, {count}, gradient_dtype(), k_reduce, tag);
    }
  }

  std::int64_t shard(GroupId group, std::int64_t count) const {
    const std::int64_t ranks = out_.tables().groups.size(group);
    return round_up(count, std::lcm(ranks, k_gradient_alignment)) / ranks;
  }

  /// Norms, biases of row-parallel layers and router weights, once per iteration.
  void write_sequence_parallel_gradients() {
    if (!job_.layout.sequence_parallel || job_.layout.tp == 1) {
      return;
    }
    std::int64_t count = 0;
    for (const LocalParameters& chunk : parameters_) {
      for (const LocalParameter& parameter : chunk) {
        const bool is_norm =
            parameter.leaf == Leaf::ln1 || parameter.leaf == Leaf::ln2 || parameter.leaf == Leaf::norm;
        const bool is_row_bias = parameter.is_bias && !parameter.is_expert &&
                                 (parameter.leaf == Leaf::proj || parameter.leaf == Leaf::fc2);
        count += is_norm || is_row_bias || parameter.leaf == Leaf::router ? parameter.count : 0;
      }
    }
    if (count > 0) {
      out_.all_reduce(out_.groups.tp, {count}, gradient_dtype(), k_norms, "norm and bias gradients");
    }
  }

  void write_tied_gradient() {
    const bool holds_copy = stage_ == 0 || stage_ + 1 == stages_;
    if (job_.model.tied_embeddings && stages_ > 1 && holds_copy) {
      out_.all_reduce(out_.groups.ends, {job_.model.vocab / job_.layout.tp * job_.model.hidden},
                      gradient_dtype(), k_tied, "tied embedding gradient");
    }
  }

  /// Parameters that this rank updates.
  Elements updated() const {
    std::int64_t count = 0;
    for (const LocalParameters& chunk : parameters_) {
      for (const GradientBuffer& buffer : buffers(chunk)) {
        const GroupId data = buffer.is_expert ? expert_data_ : out_.groups.dp;
        count += job_.train.zero_stage > 0 ? shard(data, buffer.count) : buffer.count;
      }
    }
    return {count};
  }

  void write_step() {
    const bool distributed = job_.train.zero_stage > 0;
    const GroupId group = distributed ? out_.groups.world : out_.groups.model;
    const int optimizers = job_.model.experts > 0 ? 2 : 1;
    for (int optimizer = 0; optimizer < optimizers; ++optimizer) {
      if (job_.train.dtype == DType::fp16) {
        out_.all_reduce(group, {1}, DType::fp32, k_inf, "overflow flag");
      }
      if (job_.train.gradient_clipping > 0) {
        out_.all_reduce(group, {1}, DType::fp32, k_norm, "gradient norm");
      }
    }
    ModelWork(out_).optimizer(updated());
    if (!distributed) {
      return;
    }
    for (const LocalParameters& chunk : parameters_) {
      for (const GradientBuffer& buffer : buffers(chunk)) {
        const GroupId data = buffer.is_expert ? expert_data_ : out_.groups.dp;
        for (const std::int64_t count : bucket_sums(buffer)) {
          out_.all_gather(data, {shard(data, count)}, job_.train.dtype, k_gather, "updated parameters");
        }
      }
    }
  }

  ProgramBuilder& out_;
  const Job& job_;
  std::int64_t stage_;
  std::int64_t stages_;
  std::vector<Chunk> chunks_;
  std::vector<LocalParameters> parameters_;
  GroupId expert_data_{};
  std::vector<StepIndex> reductions_;  // of this iteration that nothing has waited for yet
};

}  // namespace

Program stage_iteration(ProgramBuilder& out, const Job& job, const ParameterList& all, std::int64_t stage) {
  return Stage(out, job, all, stage).iteration();
}

}  // namespace commlens::megatron
