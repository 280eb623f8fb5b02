#include "commlens/frameworks/deepspeed/pipeline.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_count{"pipeline.parameter_count", k_source<"runtime/pipe/engine.py:155 __init__">};
const Rule k_handshake{"pipeline.handshake", k_source<"runtime/pipe/engine.py:218 __init__">};
const Rule k_shape{"pipeline.activation_shape", k_source<"runtime/pipe/engine.py:866 _send_tensor_meta">};
const Rule k_description{"pipeline.activation_description",
                         k_new_source<"runtime/pipe/engine.py:956 _send_tensor_meta">};
const Rule k_activation{"pipeline.activation", k_source<"runtime/pipe/engine.py:974 _exec_send_activations">};
const Rule k_mask{"pipeline.attention_mask", k_source<"runtime/pipe/engine.py:985 _exec_send_activations">};
const Rule k_meta{"pipeline.partition_meta", k_source<"runtime/utils.py:709 PartitionedTensor.to_meta">};
const Rule k_gradient{"pipeline.gradient", k_source<"runtime/pipe/engine.py:1003 _exec_send_grads">};
const Rule k_full{"pipeline.gather_partitioned_tensor",
                  k_source<"runtime/utils.py:699 PartitionedTensor.full">};
const Rule k_tied_start{"pipeline.tied_weight_broadcast",
                        k_source<"runtime/pipe/module.py:441 _synchronize_tied_weights">};
const Rule k_tied{"pipeline.tied_gradient_all_reduce",
                  k_source<"runtime/pipe/engine.py:274 _exec_reduce_tied_grads">};
const Rule k_loss_dp{"pipeline.loss_all_reduce",
                     k_source<"runtime/pipe/engine.py:575 _aggregate_total_loss">};
const Rule k_loss_pp{"pipeline.loss_broadcast", k_source<"runtime/pipe/engine.py:587 _aggregate_total_loss">};

constexpr std::int64_t k_activation_dims = 3;  // [b, s, h]
constexpr std::int64_t k_mask_dims = 4;        // [1, 1, s, s]

struct Partition {
  bool activations = false;
  bool gradients = false;
};

Partition partition_of(const PipelineRank& rank) {
  const Options& own = options(*rank.engine.job);
  return {rank.tensor_ranks > 1 && own.pipe_partitioned, rank.tensor_ranks > 1 && own.grad_partitioned};
}

/// int64 description of a partitioned tensor: dimensions, their count, parts, rank and t + 1 offsets.
std::int64_t meta_elements(const PipelineRank& rank) {
  return 1 + k_activation_dims + 2 + rank.tensor_ranks + 1;
}

/// An activation or its gradient.
struct Payload {
  bool is_partitioned;
  const Rule* rule;
  std::string_view tag;
};

void write_tensor(ProgramBuilder& out, const PipelineRank& rank, const StageLink& link,
                  const Payload& payload) {
  const DType dtype = rank.engine.job->train.dtype;
  if (!payload.is_partitioned) {
    (out.*link.move)(link.pair, {rank.activation}, dtype, *payload.rule, payload.tag);
    return;
  }
  (out.*link.move)(link.pair, {meta_elements(rank)}, DType::int64, k_meta, "partition meta");
  (out.*link.move)(link.pair, {rank.activation / rank.tensor_ranks}, dtype, *payload.rule, payload.tag);
}

void write_activation(ProgramBuilder& out, const PipelineRank& rank, const StageLink& link,
                      bool with_shapes) {
  if (with_shapes) {
    write_activation_description(out, rank, link);
  }
  write_tensor(out, rank, link, {partition_of(rank).activations, &k_activation, "activation"});
  if (rank.mask > 0) {
    (out.*link.move)(link.pair, {rank.mask}, DType::fp16, k_mask, "attention mask");
  }
}

void write_full(ProgramBuilder& out, const PipelineRank& rank, std::string_view tag) {
  out.all_gather(out.groups.tp, {rank.activation / rank.tensor_ranks}, rank.engine.job->train.dtype, k_full,
                 tag);
}

void write_forward(ProgramBuilder& out, const PipelineRank& rank, std::int32_t micro_batch) {
  if (rank.stage > 0 && partition_of(rank).activations) {
    write_full(out, rank, "stage input");
  }
  rank.passes.forward(micro_batch);
}

void write_backward(ProgramBuilder& out, const PipelineRank& rank, std::int32_t micro_batch) {
  if (rank.stage + 1 < rank.stages) {
    if (partition_of(rank).activations) {
      write_full(out, rank, "stage output");
    }
    if (partition_of(rank).gradients) {
      write_full(out, rank, "output gradient");
    }
  }
  rank.passes.backward(micro_batch);
}

void write_step_of_schedule(ProgramBuilder& out, const PipelineRank& rank, const PipelineStep& step,
                            bool is_first) {
  using Kind = PipelineStep::Kind;
  const auto micro_batch = static_cast<std::int32_t>(step.micro_batch);
  const bool is_backward =
      step.kind == Kind::backward || step.kind == Kind::send_grad || step.kind == Kind::recv_grad;
  const bool with_shapes = options(*rank.engine.job).dynamic_shape || (is_first && step.micro_batch == 0);
  out.set_phase(is_backward ? Phase::backward : Phase::forward, micro_batch);
  switch (step.kind) {
    case Kind::send_activation:
      return write_activation(out, rank, {out.groups.to_next, &ProgramBuilder::send}, with_shapes);
    case Kind::recv_activation:
      return write_activation(out, rank, {out.groups.from_previous, &ProgramBuilder::recv}, with_shapes);
    case Kind::send_grad:
      return write_tensor(out, rank, {out.groups.to_previous, &ProgramBuilder::send},
                          {partition_of(rank).gradients, &k_gradient, "activation gradient"});
    case Kind::recv_grad:
      return write_tensor(out, rank, {out.groups.from_next, &ProgramBuilder::recv},
                          {partition_of(rank).gradients, &k_gradient, "activation gradient"});
    case Kind::load:
      return rank.load(micro_batch);
    case Kind::forward:
      return write_forward(out, rank, micro_batch);
    case Kind::backward:
      return write_backward(out, rank, micro_batch);
  }
}

/// Whose ranks hold the last stage of the model and compute the loss.
std::int64_t last_holder(const PipelineRank& rank) { return rank.turns_around ? 0 : rank.stages - 1; }

bool holds_tied_weight(const PipelineRank& rank) {
  return rank.tied_weight > 0 && rank.stages > 1 && (rank.stage == 0 || rank.stage == last_holder(rank));
}

/// One rank that holds both ends is a group of its own. Source: runtime/pipe/module.py:490 of 0.19.8.
GroupId tied_ranks(const ProgramBuilder& out, const PipelineRank& rank) {
  return rank.turns_around ? out.groups.over(Axis::pp, {}) : out.groups.ends;
}

/// The dtype of a gradient that micro-batches are summed in: BF16_Optimizer has a buffer for it.
/// Source: runtime/pipe/engine.py:286.
DType summed_in(const Job& job) {
  const DType of_bf16 = behaviour(job).sums_bf16_in_fp32 ? DType::fp32 : DType::bf16;
  return optimizer_path(job) == OptimizerPath::bf16 ? options(job).grad_accumulation_dtype.value_or(of_bf16)
                                                    : job.train.dtype;
}

void write_loss(ProgramBuilder& out, const PipelineRank& rank) {
  out.set_phase(Phase::other);
  const std::int64_t losses = 1 + options(*rank.engine.job).additional_losses;
  if (rank.stage == last_holder(rank) && rank.engine.job->layout.dp > 1) {
    out.all_reduce(out.groups.dp, {losses}, DType::fp32, k_loss_dp, "loss");
  }
  if (rank.stages > 1) {
    out.broadcast({out.groups.pp, GroupRank{last_holder(rank)}}, {1 + losses}, DType::fp32, k_loss_pp,
                  "loss");
  }
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

/// Whether `name` holds `word`, which ^ and $ tie to its beginning and end.
bool matches(std::string_view name, std::string_view word) {
  const bool at_begin = word.starts_with('^');
  word.remove_prefix(at_begin ? 1 : 0);
  const bool at_end = word.ends_with('$');
  word.remove_suffix(at_end ? 1 : 0);
  if (at_begin && at_end) {
    return name == word;
  }
  if (at_begin || at_end) {
    return at_begin ? name.starts_with(word) : name.ends_with(word);
  }
  return name.find(word) != std::string_view::npos;
}

/// The alternatives of a `type:` pattern, case-insensitive as in DeepSpeed (runtime/pipe/module.py:298).
bool matches_any(std::string_view class_name, std::string_view pattern) {
  const std::string name = in_lower_case(class_name);
  const std::string words = in_lower_case(pattern);
  std::size_t begin = 0;
  while (begin <= words.size()) {
    const std::size_t end = std::min(words.find('|', begin), words.size());
    if (matches(name, std::string_view(words).substr(begin, end - begin))) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

Result<std::vector<std::int64_t>> layer_weights(const std::vector<PipelineLayer>& layers,
                                                const std::string& method) {
  std::vector<std::int64_t> weights;
  if (method == "parameters") {
    for (const PipelineLayer& layer : layers) {
      weights.push_back(layer.parameters);
    }
    return weights;
  }
  constexpr std::size_t longest_pattern = 100;
  constexpr std::string_view special = "\\.*+?()[]{}";
  const bool is_type = method.starts_with("type:") && method.size() <= longest_pattern;
  if (!is_type || method.find_first_of(special) != std::string::npos) {
    return failure(
        fmt::format("pipeline partition method '{}' is not supported; use uniform, parameters or type:WORDS "
                    "(words separated by |, ^ and $ at their ends)",
                    method.substr(0, longest_pattern)));
  }
  for (const PipelineLayer& layer : layers) {
    weights.push_back(matches_any(layer.class_name, std::string_view(method).substr(5)) ? 1 : 0);
  }
  return weights;
}

}  // namespace

Result<StageBounds> partitioned(const std::vector<PipelineLayer>& layers, std::int64_t stages,
                                const std::string& method) {
  const auto count = static_cast<std::int64_t>(layers.size());
  constexpr double most_steps = 5e8;  // of the dynamic program, about a second
  if (static_cast<double>(count) * static_cast<double>(count) * static_cast<double>(stages) > most_steps) {
    return failure(
        fmt::format("{} pipeline layers over {} stages are too many to partition; use fewer", count, stages));
  }
  if (method == "uniform") {
    return partition_uniform(count, stages);
  }
  return layer_weights(layers, method).map([&](const std::vector<std::int64_t>& weights) {
    return partition_balanced(weights, stages);
  });
}

Result<StageBounds> stage_bounds(const std::vector<PipelineLayer>& layers, std::int64_t stages,
                                 const std::string& method) {
  return partitioned(layers, stages, method).and_then([&](StageBounds bounds) -> Result<StageBounds> {
    const auto empty = std::adjacent_find(bounds.begin(), bounds.end());
    if (empty != bounds.end()) {
      return failure(fmt::format("pipeline stage {} of {} would hold no layer; use fewer stages (--pp)",
                                 empty - bounds.begin(), stages));
    }
    return bounds;
  });
}

void write_activation_description(ProgramBuilder& out, const PipelineRank& rank, const StageLink& link) {
  const auto message = [&](std::int64_t count) {
    (out.*link.move)(link.pair, {count}, DType::int64, k_shape, "shape");
  };
  if (behaviour(*rank.engine.job).describes_in_one_message) {
    constexpr std::int64_t numbers = 256;  // TENSOR_META_SIZE
    (out.*link.move)(link.pair, {numbers}, DType::int32, k_description, "shape");
    return;
  }
  const bool is_partitioned = partition_of(rank).activations;
  const bool is_tuple = is_partitioned || rank.mask > 0;
  message(1);  // type
  if (!is_tuple) {
    message(1);
    message(k_activation_dims);
    return;
  }
  message(1);  // number of tensors
  std::vector<std::int64_t> dims =
      is_partitioned ? std::vector<std::int64_t>{1, 1} : std::vector<std::int64_t>{k_activation_dims};
  if (rank.mask > 0) {
    dims.push_back(k_mask_dims);
  }
  for (const std::int64_t dim : dims) {
    message(1);  // dtype
    message(1);  // number of dimensions
    message(dim);
  }
}

void write_pipeline_start(ProgramBuilder& out, const PipelineRank& rank) {
  out.set_phase(Phase::init);
  if (holds_tied_weight(rank)) {
    out.broadcast({tied_ranks(out, rank), GroupRank{0}}, {rank.tied_weight}, rank.built_in, k_tied_start,
                  "tied embedding");
  }
  write_parameter_broadcasts(out, rank.engine);
  out.all_reduce(out.groups.model, {2}, DType::int64, k_count, "parameter count");
  const bool sends_first = rank.stage % 2 == 0;
  const bool has_next = rank.stage + 1 < rank.stages;
  if (sends_first && has_next) {
    out.send(out.groups.to_next, {1}, DType::fp32, k_handshake, "handshake");
  }
  if (rank.stage > 0) {
    out.recv(out.groups.from_previous, {1}, DType::fp32, k_handshake, "handshake");
  }
  if (!sends_first && has_next) {
    out.send(out.groups.to_next, {1}, DType::fp32, k_handshake, "handshake");
  }
}

void write_pipeline_iteration(ProgramBuilder& out, const PipelineRank& rank, bool is_first) {
  const Job& job = *rank.engine.job;
  for (const PipelineStep& step :
       one_f_one_b_with_transfers(rank.stage, rank.stages, job.train.micro_batches)) {
    write_step_of_schedule(out, rank, step, is_first);
  }
  write_pipeline_end(out, rank);
}

void write_pipeline_end(ProgramBuilder& out, const PipelineRank& rank) {
  out.set_phase(Phase::backward);
  if (holds_tied_weight(rank)) {
    out.all_reduce(tied_ranks(out, rank), {rank.tied_weight}, summed_in(*rank.engine.job), k_tied,
                   "tied embedding gradient");
  }
  write_gradients(out, rank.engine, true);
  out.set_phase(Phase::optimizer);
  write_step(out, rank.engine);
  write_loss(out, rank);
}

}  // namespace commlens::deepspeed
