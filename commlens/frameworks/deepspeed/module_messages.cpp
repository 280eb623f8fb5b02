#include "commlens/frameworks/deepspeed/module_messages.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"

namespace commlens::deepspeed {
namespace {

using Place = PassStep::Kind;

const Rule k_row{"tensor.row_output", k_new_source<"module_inject/layers.py:225 RowParallel">};
const Rule k_column{"tensor.column_input_gradient",
                    k_new_source<"module_inject/layers.py:313 ColumnParallel">};
const Rule k_gather_output{"tensor.column_output",
                           k_new_source<"module_inject/layers.py:353 GatherFromTensorParallelRegion">};
const Rule k_inputs{"tensor.first_inputs", k_new_source<"runtime/engine.py:970 _broadcast_object">, false};
const Rule k_same_inputs{"tensor.first_inputs_compared", k_new_source<"runtime/engine.py:988">};
const Rule k_random{
    "tensor.random_state",
    k_source_text<"deepspeed", "0.18.5", "runtime/tensor_parallel/tp_manager.py:33 __init__">};
const Rule k_heads{"sequence.exchange_heads", k_new_source<"sequence/layer.py:297 single_all_to_all">};
const Rule k_positions{"sequence.positions",
                       k_new_source<"runtime/sequence_parallel/ulysses_sp.py:295 UlyssesSPAttentionHF">};
const Rule k_loader{"sequence.data_loader",
                    k_new_source<"runtime/sequence_parallel/ulysses_sp.py:678 UlyssesSPDataLoaderAdapter">};
const Rule k_capacity{"experts.capacity", k_new_source<"moe/sharded_moe.py:252 top1gating">};
const Rule k_tokens{"experts.exchange_tokens", k_new_source<"moe/sharded_moe.py:104 _AllToAll">};
const Rule k_tensor_tokens{"experts.gather_tokens", k_new_source<"moe/mappings.py:30 _gather_tokens">};
const Rule k_counts{"experts.token_counts", k_new_source<"module_inject/auto_ep_layer.py:197">};
const Rule k_routed{"experts.exchange_routed_tokens", k_new_source<"module_inject/auto_ep_layer.py:338">};

/// Tokens of a micro-batch on one rank.
std::int64_t tokens(const Job& job) { return job.train.micro_batch * (job.model.sequence / job.layout.cp); }

/// A linear of AutoTP: along its input, the outputs of all ranks are summed; along its output, the gradients
/// of the input.
void write_linear(ProgramBuilder& out, const ModelModule& module, bool is_backward) {
  const Job& job = out.job();
  const DType dtype = job.train.dtype;
  switch (module.split) {
    case TensorSplit::row:
      if (!is_backward) {
        out.all_reduce(out.groups.tp, {tokens(job) * module.outputs}, dtype, k_row, "row linear's output");
      }
      return;
    case TensorSplit::column:
      if (!is_backward && module.gathers_output) {
        out.all_gather(out.groups.tp, {tokens(job) * module.outputs / job.layout.tp}, dtype, k_gather_output,
                       "column linear's output");
      }
      if (is_backward && module.needs_input_gradient) {
        out.all_reduce(out.groups.tp, {tokens(job) * module.inputs}, dtype, k_column,
                       "gradient of a column linear's input");
      }
      return;
    case TensorSplit::replicated:
      return;
  }
}

/// Queries, keys, values and what attention makes of them go from a part of the sequence to a part of the
/// heads and back. transformers' models agree on positions first, and repeat key-value heads that are fewer
/// than ranks.
void write_attention(ProgramBuilder& out, bool is_backward) {
  const Job& job = out.job();
  const GroupId group = out.groups.over(Axis::sp, {{Axis::cp, {Span::Shape::all}}});
  const ModelConfig& model = job.model;
  const bool is_transformers = is_of_transformers(job);
  if (is_transformers && !is_backward) {
    out.all_gather(group, {tokens(job)}, DType::int64, k_positions, "position ids");
  }
  const std::int64_t queries = tokens(job) * model.heads * model.head_dim;
  const std::int64_t key_heads = std::max(model.kv_heads, is_transformers ? job.layout.cp : 0);
  const std::int64_t keys = tokens(job) * key_heads * model.head_dim;
  // Under autocast a linear returns the lower dtype, and rotating queries and keys the model's again.
  const DType cast = options(job).autocast.value_or(job.train.dtype);
  const DType rotated = is_transformers ? job.train.dtype : cast;
  std::array<std::pair<std::int64_t, DType>, 4> exchanged = {
      {{queries, rotated}, {keys, rotated}, {keys, cast}, {queries, cast}}};
  if (is_backward) {
    std::reverse(exchanged.begin(), exchanged.end());
  }
  for (const auto& [count, dtype] : exchanged) {
    out.all_to_all(group, {count}, dtype, k_heads, is_backward ? "gradients of attention" : "attention");
  }
}

/// What a rank sends of the tokens of all experts: where none is dropped, as many as there would be with a
/// capacity, which tensor ranks divide.
std::int64_t sent_capacity(const Job& job) {
  const std::int64_t count = expert_capacity(job);
  const bool is_padded = !options(job).mixture.drops_tokens;
  return is_padded ? round_up(count, job.layout.model_ranks()) : count;
}

/// Tokens go to the ranks of their experts and back; tensor ranks each send a part of them.
class ExpertMessages {
 public:
  explicit ExpertMessages(ProgramBuilder& out)
      : out_(out),
        job_(out.job()),
        groups_(engine_groups(out)),
        splits_experts_(options(job_).mixture.splits_experts),
        tensor_ranks_(!splits_experts_ || behaviour(job_).drops_tokens_of_split_experts
                          ? job_.layout.model_ranks()
                          : 1),
        part_(job_.model.experts * sent_capacity(job_) * job_.model.hidden / tensor_ranks_) {}

  void agree_on_capacity() {
    if (options(job_).mixture.drops_tokens) {
      return;
    }
    out_.set_reduction(Reduction::max);
    if (!behaviour(job_).agrees_on_capacity_in_expert_group) {
      out_.all_reduce(out_.groups.world, {1}, DType::int64, k_capacity, "largest number of tokens");
    } else if (job_.layout.ep > 1) {
      out_.all_reduce(groups_.experts, {1}, DType::int64, k_capacity, "largest number of tokens");
    }
    out_.set_reduction(Reduction::sum);
  }

  /// Tensor ranks gather what they dropped: tokens before an exchange in a forward pass, gradients after it.
  void before_experts(bool is_backward) {
    exchange(job_.train.dtype);
    if (is_backward ? tensor_ranks_ > 1 : gathers_between()) {
      gather(is_backward ? "gradients of tokens" : "tokens");
    }
  }

  void after_experts(bool is_backward) {
    exchange(options(job_).autocast.value_or(job_.train.dtype));  // as their linears return it
    if (is_backward ? gathers_between() : tensor_ranks_ > 1) {
      gather(is_backward ? "gradients of tokens" : "tokens");
    }
  }

 private:
  /// Experts that tensor ranks split get the tokens of all of them.
  bool gathers_between() const { return tensor_ranks_ > 1 && splits_experts_; }

  void exchange(DType dtype) {
    if (job_.layout.ep == 1) {
      return;
    }
    if (options(job_).mixture.drops_tokens) {
      out_.all_to_all(groups_.experts, {part_}, dtype, k_tokens, "tokens of experts");
    } else {
      out_.expected_all_to_all(groups_.experts, {part_}, dtype, k_tokens, "tokens of experts");
    }
  }

  void gather(std::string_view tag) {
    if (options(job_).mixture.drops_tokens) {
      out_.all_gather(out_.groups.tp, {part_}, job_.train.dtype, k_tensor_tokens, tag);
    } else {
      out_.expected_all_gather(out_.groups.tp, {part_}, job_.train.dtype, k_tensor_tokens, tag);
    }
  }

  ProgramBuilder& out_;
  const Job& job_;
  EngineGroups groups_;
  bool splits_experts_;
  std::int64_t tensor_ranks_;  // that each take a part of the tokens
  std::int64_t part_;          // elements that a rank sends
};

/// AutoEP: how many tokens go to each expert, and those tokens.
void write_routed(ProgramBuilder& out, bool sends_counts) {
  const Job& job = out.job();
  const GroupId group = engine_groups(out).experts;
  if (sends_counts) {
    out.all_to_all(group, {job.model.experts}, DType::int32, k_counts, "tokens of each expert");
  }
  out.expected_all_to_all(group, {tokens(job) * job.model.top_k * job.model.hidden}, job.train.dtype,
                          k_routed, "tokens of experts");
}

void write_experts(ProgramBuilder& out, const ModelModule& module, Place place, bool is_backward) {
  const bool is_first = is_backward ? place == Place::after : place == Place::before;  // in a forward pass
  if (module.class_name == "GroupedExperts") {
    if (out.job().layout.ep > 1) {
      write_routed(out, is_first && !is_backward);
    }
    return;
  }
  ExpertMessages messages(out);
  if (is_first) {
    messages.before_experts(is_backward);
  } else {
    messages.after_experts(is_backward);
  }
}

/// A module that computes attention's output, before which attention is.
bool follows_attention(const ModelModule& module) {
  return module.leaf == Leaf::proj ||
         (!module.leaf && module.class_name == "LoraLinear" && module.name.ends_with(".proj"));
}

}  // namespace

std::int64_t expert_capacity(const Job& job) {
  const Mixture& mixture = options(job).mixture;
  const double mean = static_cast<double>(tokens(job)) / static_cast<double>(job.model.experts);
  const double factor =
      mixture.capacity_factor * static_cast<double>(std::max<std::int64_t>(job.model.top_k, 1));
  const float count = std::ceil(static_cast<float>(mean) * static_cast<float>(factor));
  return std::max(static_cast<std::int64_t>(count), mixture.min_capacity);
}

Result<void> check_capacity(const Job& job) {
  constexpr double most_elements = 1e15;
  const Mixture& mixture = options(job).mixture;
  const std::int64_t capacity = expert_capacity(job);
  const double sent = static_cast<double>(job.model.experts) * static_cast<double>(job.model.hidden) *
                      static_cast<double>(capacity);
  if (sent > most_elements) {
    return failure("options.moe: a rank would send more than 10^15 elements; lower min_capacity");
  }
  // moe/sharded_moe.py:285 top1gating of 0.19.8
  if (job.model.top_k == 1 && job.train.micro_batch * job.model.sequence < mixture.min_capacity) {
    return failure(fmt::format(
        "options.moe.min_capacity is {}, more tokens than a micro-batch has, which DeepSpeed refuses; set it "
        "to 0",
        mixture.min_capacity));
  }
  // moe/mappings.py:47 _drop_tokens of 0.19.8
  const bool is_divided = !mixture.splits_experts || behaviour(job).drops_tokens_of_split_experts;
  if (mixture.drops_tokens && is_divided && capacity % job.layout.model_ranks() != 0) {
    return failure(
        fmt::format("{} tokens of an expert are not divisible by {} model-parallel ranks, which DeepSpeed "
                    "refuses; change "
                    "options.moe.capacity_factor",
                    capacity, job.layout.model_ranks()));
  }
  return {};
}

ModuleMessages module_messages(ProgramBuilder& out) {
  const Job& job = out.job();
  if (!options(job).auto_tp && job.layout.cp == 1 && job.model.experts == 0) {
    return nullptr;
  }
  return [&out](const ModelModule& module, Place place, bool is_backward) {
    const bool is_outside = place == (is_backward ? Place::after : Place::before);
    if (place == Place::inside && module.is_linear) {
      write_linear(out, module, is_backward);
    } else if (out.job().layout.cp > 1 && is_outside && follows_attention(module)) {
      write_attention(out, is_backward);
    } else if (place == Place::after && !is_backward && module.class_name == "TopKGate") {
      ExpertMessages(out).agree_on_capacity();
    } else if (place != Place::inside &&
               (module.class_name == "Experts" || module.class_name == "GroupedExperts")) {
      write_experts(out, module, place, is_backward);
    }
  };
}

void write_first_inputs(ProgramBuilder& out) {
  constexpr std::int64_t pickled_description = 693;  // of two tensors, beside their values
  const Job& job = out.job();
  const Rooted first{out.groups.tp, GroupRank{0}};
  out.broadcast(first, {1}, DType::int64, k_inputs, "size of the first inputs");
  out.set_match(Match::count);
  const Bytes values = Elements{2 * tokens(job)} * DType::int64;
  out.broadcast(first, {values.value + pickled_description}, DType::uint8, k_inputs, "first inputs");
  out.set_match(Match::exact);
  out.all_reduce(out.groups.tp, {1}, communication_dtype(job), k_same_inputs, "whether inputs are the same");
}

void write_random_state(ProgramBuilder& out) {
  constexpr std::int64_t of_cuda = 16;  // seed and offset; 5,056 on CPU
  const Job& job = out.job();
  if (!options(job).calls_tp_model_init || !behaviour(job).broadcasts_random_state) {
    return;
  }
  out.set_phase(Phase::init);
  out.set_match(Match::count);
  out.broadcast({out.groups.tp, GroupRank{0}}, {of_cuda}, DType::uint8, k_random,
                "state of the random numbers");
  out.set_match(Match::exact);
}

void write_refill(ProgramBuilder& out) {
  constexpr int tensors = 3;  // of a sample: ids, labels, positions
  const Job& job = out.job();
  const GroupId group = out.groups.over(Axis::sp, {{Axis::cp, {Span::Shape::all}}});
  out.all_gather(group, {1}, DType::int64, k_loader, "length of sequences");
  for (int tensor = 0; tensor < tensors; ++tensor) {
    out.all_gather(group, {job.train.micro_batch * job.model.sequence}, DType::int64, k_loader, "samples");
  }
}

}  // namespace commlens::deepspeed
