// The rule set of Megatron-LM core_v0.7.0: GPTModel, its schedules, DistributedDataParallel and optimizers.
// Source of every rule: rules/neox_megatron.md §3, §8.15-8.22. Start traffic, data broadcasts and loss
// reductions belong to the training driver and were not recorded; they are not predicted.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "commlens/frameworks/megatron/chunk.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/schemes/buckets.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens::megatron {
namespace {

const Rule k_activation{"megatron.pipeline_activation",
                        "megatron core_v0.7.0 pipeline_parallel/p2p_communication.py:216"};
const Rule k_gradient{"megatron.pipeline_gradient",
                      "megatron core_v0.7.0 pipeline_parallel/p2p_communication.py:216"};
const Rule k_shape{"megatron.pipeline_shape",
                   "megatron core_v0.7.0 pipeline_parallel/p2p_communication.py:22"};
const Rule k_reduce{"megatron.gradient_all_reduce",
                    "megatron core_v0.7.0 distributed/param_and_grad_buffer.py:134"};
const Rule k_scatter{"megatron.gradient_reduce_scatter",
                     "megatron core_v0.7.0 distributed/param_and_grad_buffer.py:127"};
const Rule k_gather{"megatron.gather_updated_parameters",
                    "megatron core_v0.7.0 optimizer/distrib_optimizer.py:1229"};
const Rule k_norms{"megatron.sequence_parallel_norm_gradients",
                   "megatron core_v0.7.0 distributed/finalize_model_grads.py:93"};
const Rule k_tied{"megatron.tied_embedding_gradient",
                  "megatron core_v0.7.0 distributed/finalize_model_grads.py:41"};
const Rule k_norm{"megatron.gradient_norm", "megatron core_v0.7.0 optimizer/clip_grads.py:98"};
const Rule k_inf{"megatron.found_inf", "megatron core_v0.7.0 optimizer/optimizer.py:290", false};

constexpr std::int64_t k_shape_entries = 3;         // dimensions of an activation, int64
constexpr std::int64_t k_gradient_alignment = 128;  // distributed optimizer: lcm(d, 128)

/// A contiguous gradient buffer of one chunk: the dense parameters, or the experts'.
struct GradientBuffer {
  std::int64_t count = 0;
  std::vector<std::int64_t> sizes;  // parameters in reverse order, the order in which buckets fill
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
    for (const ComputeStep& step : schedule()) {
      write_compute(step);
    }
    out_.set_phase(Phase::optimizer);
    write_gradients();
    write_sequence_parallel_gradients();
    write_tied_gradient();
    write_step();
    return out_.take();
  }

 private:
  std::vector<ComputeStep> schedule() const {
    if (job_.layout.virtual_stages > 1) {
      return interleaved_1f1b(stage_, stages_, job_.layout.virtual_stages, job_.train.micro_batches);
    }
    return one_f_one_b(stage_, stages_, job_.train.micro_batches);
  }

  bool is_first_chunk(std::int64_t chunk) const { return stage_ == 0 && chunk == 0; }
  bool is_last_chunk(std::int64_t chunk) const {
    return stage_ + 1 == stages_ && chunk + 1 == job_.layout.virtual_stages;
  }

  void write_compute(const ComputeStep& step) {
    const auto micro_batch = static_cast<std::int32_t>(step.micro_batch);
    out_.set_phase(step.is_forward ? Phase::forward : Phase::backward, micro_batch);
    Chunk& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
    const bool receives = step.is_forward ? !is_first_chunk(step.chunk) : !is_last_chunk(step.chunk);
    const bool sends = step.is_forward ? !is_last_chunk(step.chunk) : !is_first_chunk(step.chunk);
    if (receives) {
      recv(step.is_forward);
    }
    if (step.is_forward) {
      chunk.forward(micro_batch);
    } else {
      chunk.backward(micro_batch, {});
    }
    out_.set_phase(step.is_forward ? Phase::forward : Phase::backward, micro_batch);
    if (sends) {
      send(step.is_forward);
    }
  }

  Elements boundary() const {
    const std::int64_t activation = job_.train.micro_batch * job_.model.sequence * job_.model.hidden;
    return {job_.layout.sequence_parallel ? activation / job_.layout.tp : activation};
  }

  /// In one batch with the receive that follows, if no computing is between (p2p_communication.py:216).
  void send(bool is_activation) {
    out_.set_waiting(Waiting::batched);
    const GroupId pair = is_activation ? out_.groups.to_next : out_.groups.to_previous;
    if (options(job_).variable_seq_lengths) {
      out_.send(pair, {k_shape_entries}, DType::int64, k_shape, "shape");
    }
    out_.send(pair, boundary(), job_.train.dtype, is_activation ? k_activation : k_gradient,
              is_activation ? "activation" : "activation gradient");
    out_.set_waiting(Waiting::at_once);
  }

  void recv(bool is_activation) {
    const GroupId pair = is_activation ? out_.groups.from_previous : out_.groups.from_next;
    if (options(job_).variable_seq_lengths) {
      out_.recv(pair, {k_shape_entries}, DType::int64, k_shape, "shape");
    }
    out_.recv(pair, boundary(), job_.train.dtype, is_activation ? k_activation : k_gradient,
              is_activation ? "activation" : "activation gradient");
  }

  DType gradient_dtype() const { return options(job_).gradients_in_fp32 ? DType::fp32 : job_.train.dtype; }

  std::vector<GradientBuffer> buffers(const LocalParameters& parameters) const {
    std::vector<GradientBuffer> result(2);
    result[1].is_expert = true;
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      GradientBuffer& buffer = result[parameter->is_expert ? 1 : 0];
      buffer.count += parameter->count;
      buffer.sizes.push_back(parameter->count);
    }
    for (GradientBuffer& buffer : result) {
      // Every rank holds experts / ep of the experts; they are all alike.
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

  void write_gradients() {
    for (const LocalParameters& chunk : parameters_) {
      for (const GradientBuffer& buffer : buffers(chunk)) {
        for (const std::int64_t count : bucket_sums(buffer)) {
          write_gradient_bucket(buffer, count);
        }
      }
    }
  }

  void write_gradient_bucket(const GradientBuffer& buffer, std::int64_t count) {
    const GroupId group = buffer.is_expert ? expert_data_ : out_.groups.dp;
    const std::string_view tag = buffer.is_expert ? "expert gradients" : "gradients";
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
};

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  const ParameterList all(job.model);
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    ProgramBuilder out(plan);
    programs.push_back({{}, {Stage(out, job, all, stage).iteration()}});
  }
  return programs;
}

Result<void> check_experts(const Job& job) {
  if (job.model.experts == 0) {
    return job.layout.ep > 1 ? failure("expert parallelism needs experts; add num-experts or use --ep 1")
                             : Result<void>{};
  }
  if (job.layout.dp % job.layout.ep != 0 || job.model.experts % job.layout.ep != 0) {
    return failure(fmt::format("ep {} must divide dp {} and the {} experts", job.layout.ep, job.layout.dp,
                               job.model.experts));
  }
  if (options(job).moe_dispatcher != "allgather" && options(job).moe_dispatcher != "alltoall") {
    return failure(fmt::format("moe-token-dispatcher-type '{}' is not one of allgather, alltoall",
                               options(job).moe_dispatcher));
  }
  if (job.layout.tp > 1 && !job.layout.sequence_parallel) {
    return failure(
        "Megatron core 0.7 needs sequence parallelism for experts with tensor parallelism; add --sp or use "
        "--tp 1");
  }
  return {};
}

Result<void> check(const Job& job) {
  if (job.layout.cp > 1) {
    return failure("the megatron rules do not cover context parallelism (--cp); use --cp 1");
  }
  if (job.layout.replicate > 1 || job.model.parallel_residual) {
    return failure("Megatron core 0.7 knows neither replicated model-parallel ranks nor a parallel residual");
  }
  if (job.train.zero_stage > 1) {
    return failure(
        fmt::format("Megatron core 0.7 has no ZeRO-{}; use --zero 0, or 1 for its distributed optimizer",
                    job.train.zero_stage));
  }
  const std::int64_t chunks = job.layout.pp * job.layout.virtual_stages;
  if (job.model.layers % chunks != 0) {
    return failure(fmt::format("Megatron needs the {} layers to be divisible by pp x virtual stages = {}",
                               job.model.layers, chunks));
  }
  if (job.layout.virtual_stages > 1 && (job.layout.pp <= 2 || job.train.micro_batches % job.layout.pp != 0)) {
    return failure(
        fmt::format("the interleaved schedule needs pp > 2 and micro-batches ({}) divisible by pp ({})",
                    job.train.micro_batches, job.layout.pp));
  }
  if (job.train.schedule == Schedule::gpipe) {
    return failure("Megatron core 0.7 has no GPipe schedule; use --schedule 1f1b");
  }
  if (job.train.schedule == Schedule::interleaved && job.layout.virtual_stages == 1) {
    return failure("the interleaved schedule needs --virtual-stages > 1");
  }
  if (job.layout.sequence_parallel && job.model.sequence % job.layout.tp != 0) {
    return failure(fmt::format("sequence parallelism needs the sequence length {} to be divisible by tp {}",
                               job.model.sequence, job.layout.tp));
  }
  return check_experts(job);
}

std::vector<std::string> unverified(const Job& job) {
  const bool experts = job.model.experts > 0;
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(job.model.family != Family::gpt, "models other than gpt");
  add(job.train.dtype == DType::fp16, "fp16's overflow flag");
  add(job.train.recompute == Recompute::full && options(job).recompute_method == "block", "block recompute");
  add(experts && job.train.zero_stage > 0, "experts with the distributed optimizer");
  add(experts && job.layout.pp > 1, "experts in a pipeline");
  add(experts && job.layout.tp > 1 && options(job).moe_dispatcher == "allgather",
      "the allgather dispatcher with tensor ranks");
  add(options(job).overlap_grad_reduce, "overlap-grad-reduce");
  add(job.layout.order != ParallelLayout::k_default_order, "another order of ranks");
  return reasons;
}

bool has_sequence_parallelism(const Job&) { return true; }

}  // namespace

FrameworkRules rules() {
  return {
      .name = k_name,
      .engine = k_name,
      .versions = {"core_v0.7.0", "core_r0.7.0", "0.7.0"},
      .base = "",
      .check = check,
      .unverified = unverified,
      .write = write,
      .takes_any_order = true,
      .settings = {.adopt = adopt, .settle = settle, .has_sequence_parallelism = has_sequence_parallelism},
      .memory = {.gradient_bytes = gradient_bytes},
      .advice = {.place = "of Megatron", .setting = setting_text, .changes = advised_changes},
      .variations = add_variations,
      .causes = causes()};
}

}  // namespace commlens::megatron
