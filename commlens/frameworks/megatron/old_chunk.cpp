#include "commlens/frameworks/megatron/old_chunk.hpp"

#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

using enum ModulePart;

const Rule k_forward{"megatron.tensor_parallel_forward_all_reduce",
                     k_source<"tensor_parallel/mappings.py:25 _reduce">};
const Rule k_backward{"megatron.tensor_parallel_backward_all_reduce",
                      k_source<"tensor_parallel/layers.py:441">};
const Rule k_gather_input{"megatron.sequence_parallel_gather_input",
                          k_source<"tensor_parallel/layers.py:387">};
const Rule k_regather_input{"megatron.sequence_parallel_gather_input_again",
                            k_source<"tensor_parallel/layers.py:420">};
const Rule k_scatter_output{"megatron.sequence_parallel_reduce_scatter",
                            k_source<"tensor_parallel/mappings.py:141">};
const Rule k_gather_gradient{"megatron.sequence_parallel_gather_gradient",
                             k_source<"tensor_parallel/mappings.py:119">};
const Rule k_scatter_gradient{"megatron.sequence_parallel_reduce_scatter_gradient",
                              k_source<"tensor_parallel/layers.py:454">};
const Rule k_loss_max{"megatron.cross_entropy_max", k_source<"tensor_parallel/cross_entropy.py:20">};
const Rule k_loss_target{"megatron.cross_entropy_target", k_source<"tensor_parallel/cross_entropy.py:49">};
const Rule k_loss_sum{"megatron.cross_entropy_sum", k_source<"tensor_parallel/cross_entropy.py:59">};
const Rule k_saved{"megatron.distributed_saved_activation", k_source<"tensor_parallel/utils.py:85">};
const Rule k_moe_gather{"megatron.moe_gather", k_source<"tensor_parallel/mappings.py:162">};
const Rule k_moe_scatter{"megatron.moe_reduce_scatter", k_source<"tensor_parallel/mappings.py:183">};
const Rule k_moe_counts{"megatron.moe_tokens_per_expert", k_source<"tensor_parallel/mappings.py:199">};
const Rule k_moe_all_to_all{"megatron.moe_all_to_all", k_source<"tensor_parallel/mappings.py:417">};
const Rule k_moe_hidden{"megatron.moe_gather_hidden_shards", k_source<"tensor_parallel/mappings.py:84">};
const Rule k_router{"megatron.moe_gather_logits", k_source<"tensor_parallel/mappings.py:119">};
const Rule k_router_gradient{"megatron.moe_logits_gradient", k_source<"tensor_parallel/mappings.py:141">};

}  // namespace

Chunk::Chunk(ProgramBuilder& out, const Job& job, Part part)
    : out_(out),
      job_(job),
      work_(out),
      part_(part),
      ranks_(job.layout.tp),
      activation_(job.train.micro_batch * job.model.sequence * job.model.hidden),
      sequence_parallel_(job.layout.sequence_parallel && job.layout.tp > 1),
      tokens_(job.train.micro_batch * job.model.sequence / (sequence_parallel_ ? job.layout.tp : 1)) {
  constexpr Span all{Span::Shape::all};
  experts_ = out.groups.along(Axis::ep);
  dispatch_ = out.groups.over(Axis::ep, {{Axis::ep, all}, {Axis::tp, all}});
}

void Chunk::forward_all_reduce(std::string_view tag) const {
  if (ranks_ > 1) {
    out_.all_reduce(out_.groups.tp, {activation_}, job_.train.dtype, k_forward, tag);
  }
}

void Chunk::column_forward(std::string_view tag) const {
  if (sequence_parallel_) {
    out_.all_gather(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, k_gather_input, tag);
  }
}

void Chunk::row_forward(std::string_view tag) const {
  if (!sequence_parallel_) {
    return forward_all_reduce(tag);
  }
  out_.reduce_scatter(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, k_scatter_output, tag);
}

void Chunk::column_backward(ModulePart matrix, std::string_view tag) {
  std::optional<StepIndex> beside;  // the weight gradient
  out_.set_waiting(Waiting::later);
  if (sequence_parallel_) {
    out_.all_gather(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, k_regather_input, tag);
    const StepIndex input = out_.last_call();
    work_.write(matrix, Pass::input_gradient);
    out_.wait_for(input);
    out_.reduce_scatter(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, k_scatter_gradient, tag);
    beside = out_.last_call();
  } else {
    work_.write(matrix, Pass::input_gradient);
    if (ranks_ > 1) {
      out_.all_reduce(out_.groups.tp, {activation_}, job_.train.dtype, k_backward, tag);
      beside = out_.last_call();
    }
  }
  out_.set_waiting(Waiting::at_once);
  work_.write(matrix, Pass::weight_gradient);
  if (beside) {
    out_.wait_for(*beside);
  }
}

void Chunk::row_backward(std::string_view tag) const {
  if (sequence_parallel_) {
    out_.all_gather(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, k_gather_gradient, tag);
  }
}

void Chunk::forward_layer() {
  work_.forward({ln1});
  column_forward("self_attention.linear_qkv");
  work_.forward({qkv, attention, proj});
  row_forward("self_attention.linear_proj");
  work_.forward({ln2});
  if (is_moe()) {
    work_.forward({router});
    experts_forward();
    return;
  }
  column_forward("mlp.linear_fc1");
  work_.forward({fc1, activation, fc2});
  row_forward("mlp.linear_fc2");
}

void Chunk::backward_layer() {
  if (is_moe()) {
    experts_backward();
    work_.backward({router});
  } else {
    row_backward("mlp.linear_fc2");
    work_.backward({fc2, activation});
    column_backward(fc1, "mlp.linear_fc1");
  }
  work_.backward({ln2});
  row_backward("self_attention.linear_proj");
  work_.backward({proj});
  work_.recompute_scores();
  work_.backward({attention});
  column_backward(qkv, "self_attention.linear_qkv");
  work_.backward({ln1});
}

void Chunk::forward(std::int32_t micro_batch) {
  out_.set_phase(Phase::forward, micro_batch);
  if (part_.is_first) {
    work_.forward({embedding});
    forward_all_reduce("word_embeddings");
  }
  for (std::int64_t layer = 0; layer < part_.layers; ++layer) {
    forward_layer();
  }
  if (!part_.is_last) {
    return;
  }
  work_.forward({final_norm});
  column_forward("output_layer");
  work_.forward({head});
  const Elements tokens{job_.train.micro_batch * job_.model.sequence};
  out_.all_reduce(out_.groups.tp, tokens, DType::fp32, k_loss_max, "cross entropy");
  work_.forward({loss});
  out_.all_reduce(out_.groups.tp, tokens, DType::fp32, k_loss_target, "cross entropy");
  out_.all_reduce(out_.groups.tp, tokens, DType::fp32, k_loss_sum, "cross entropy");
}

bool Chunk::recomputes(std::int64_t layer) const {
  if (job_.train.recompute != Recompute::full) {
    return false;
  }
  return options(job_).recompute_method != "block" || layer < options(job_).recompute_num_layers;
}

void Chunk::write_recompute(std::int64_t layer, std::int32_t micro_batch) {
  const std::int64_t segment =
      options(job_).recompute_method == "block" ? 1 : options(job_).recompute_num_layers;
  out_.set_phase(Phase::recompute, micro_batch);
  const bool starts_segment = layer % segment == 0;
  if (starts_segment && job_.train.partition_activations && ranks_ > 1 && !sequence_parallel_) {
    out_.all_gather(out_.groups.tp, {activation_ / ranks_}, job_.train.dtype, k_saved,
                    "checkpointed layer input");
  }
  forward_layer();
}

void Chunk::backward(std::int32_t micro_batch, const std::function<void(std::int64_t)>& finished) {
  out_.set_phase(Phase::backward, micro_batch);
  if (part_.is_last) {
    work_.backward({loss});
    column_backward(head, "output_layer");
    work_.backward({final_norm});
  }
  for (std::int64_t layer = part_.layers - 1; layer >= 0; --layer) {
    if (recomputes(layer)) {
      write_recompute(layer, micro_batch);
    }
    out_.set_phase(Phase::backward, micro_batch);
    backward_layer();
    if (finished) {
      finished(layer);
    }
  }
  if (part_.is_first) {
    row_backward("word_embeddings");
    work_.backward({embedding});
  }
  if (finished) {
    finished(-1);
  }
}

void Chunk::experts_forward() {
  if (options(job_).moe_dispatcher == "alltoall") {
    alltoall_experts_forward();
  } else {
    allgather_experts_forward();
  }
}

void Chunk::experts_backward() {
  if (options(job_).moe_dispatcher == "alltoall") {
    alltoall_experts_backward();
  } else {
    allgather_experts_backward();
  }
}

/// Index, probabilities and hidden states of all tokens to every rank of tp x ep; results back.
void Chunk::allgather_experts_forward() {
  if (ranks_ * job_.layout.ep == 1) {
    return compute_experts();
  }
  const std::int64_t choices = tokens_ * job_.model.top_k;
  out_.all_gather(dispatch_, {choices}, DType::int64, k_moe_gather, "expert index");
  out_.all_gather(dispatch_, {choices}, job_.train.dtype, k_moe_gather, "router probabilities");
  out_.all_gather(dispatch_, {tokens_ * job_.model.hidden}, job_.train.dtype, k_moe_gather, "hidden states");
  compute_experts();
  out_.reduce_scatter(dispatch_, {tokens_ * job_.model.hidden}, job_.train.dtype, k_moe_scatter,
                      "expert output");
}

void Chunk::allgather_experts_backward() {
  if (ranks_ * job_.layout.ep == 1) {
    return compute_experts_backward();
  }
  const std::int64_t hidden = tokens_ * job_.model.hidden;
  out_.all_gather(dispatch_, {hidden}, job_.train.dtype, k_moe_gather, "expert output gradient");
  compute_experts_backward();
  out_.reduce_scatter(dispatch_, {hidden}, job_.train.dtype, k_moe_scatter, "hidden state gradient");
  out_.reduce_scatter(dispatch_, {tokens_ * job_.model.top_k}, job_.train.dtype, k_moe_scatter,
                      "router probability gradient");
}

/// Megatron skips the exchange within one expert-parallel rank (mappings.py _AllToAll.forward).
void Chunk::expert_all_to_all(Elements routed, std::string_view tag) const {
  if (job_.layout.ep > 1) {
    out_.expected_all_to_all(experts_, routed, job_.train.dtype, k_moe_all_to_all, tag);
  }
}

void Chunk::exchange_hidden_shards() const {
  if (sequence_parallel_) {
    out_.expected_all_to_all(out_.groups.tp, {tokens_ * job_.model.hidden}, job_.train.dtype,
                             k_moe_all_to_all, "hidden shards");
  }
}

/// Sizes after routing are means over routings; with tensor parallelism the hidden dimension is sharded
/// meanwhile.
void Chunk::pass_through_experts(const ExpertTags& tags, void (Chunk::*compute)()) {
  const DType dtype = job_.train.dtype;
  const Elements routed{tokens_ * job_.model.top_k * job_.model.hidden};
  exchange_hidden_shards();
  expert_all_to_all(routed, tags.there);
  if (sequence_parallel_) {
    out_.expected_all_gather(out_.groups.tp, routed, dtype, k_moe_hidden, tags.gathered);
  }
  (this->*compute)();
  if (sequence_parallel_) {
    out_.expected_reduce_scatter(out_.groups.tp, routed, dtype, k_scatter_output, tags.scattered);
  }
  expert_all_to_all(routed, tags.back);
  exchange_hidden_shards();
}

void Chunk::alltoall_experts_forward() {
  if (sequence_parallel_) {
    out_.all_gather(out_.groups.tp, {tokens_ * job_.model.experts}, job_.train.dtype, k_router,
                    "router logits");
  }
  if (job_.layout.ep > 1) {
    out_.all_gather(experts_, {job_.model.experts}, DType::int64, k_moe_counts, "tokens per expert");
  }
  pass_through_experts({"dispatch", "expert input", "expert output", "combine"}, &Chunk::compute_experts);
}

void Chunk::alltoall_experts_backward() {
  pass_through_experts(
      {"combine gradient", "expert output gradient", "expert input gradient", "dispatch gradient"},
      &Chunk::compute_experts_backward);
  if (sequence_parallel_) {
    out_.reduce_scatter(out_.groups.tp, {tokens_ * job_.model.experts}, job_.train.dtype, k_router_gradient,
                        "router logit gradient");
  }
}

}  // namespace commlens::megatron
