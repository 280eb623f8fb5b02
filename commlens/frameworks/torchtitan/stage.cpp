#include "commlens/frameworks/torchtitan/stage.hpp"

#include "commlens/frameworks/torch/rule_names.hpp"
#include "commlens/frameworks/torchtitan/rule_names.hpp"

namespace commlens::torchtitan {

using pytorch::Module;
using Kind = Module::Kind;

Stage::Stage(ProgramBuilder& out, const Groups& groups, std::int64_t stage, std::int64_t stages)
    : out_(out),
      groups_(groups),
      job_(out.job()),
      options_(options(out.job())),
      behaviour_(behaviour(out.job())),
      modules_(stage_modules(out.job(), stage, stages)),
      shards_(out, groups, modules_, shard_units(out.job(), groups.meshes(), modules_)),
      dtype_(pytorch::activation_dtype(out.job())),
      tokens_(job_.train.micro_batch * job_.model.sequence / job_.layout.cp),
      has_tensor_(job_.layout.tp > 1),
      is_sequence_(job_.layout.sequence_parallel),
      work_(out) {}

Elements Stage::boundary() const {
  return {tokens_ / (is_sequence_ ? job_.layout.tp : 1) * job_.model.hidden};
}

void Stage::gather() {
  if (has_tensor_ && is_sequence_) {
    out_.all_gather(groups_.tensor, {tokens_ * job_.model.hidden / job_.layout.tp}, dtype_, k_tensor_gather,
                    "activations");
  }
}

void Stage::leave(const Rule& rule, bool is_saved) {
  if (!has_tensor_ || (is_saved && is_sequence_)) {
    return;
  }
  out_.set_reduction(Reduction::sum);
  const std::int64_t whole = tokens_ * job_.model.hidden;
  if (is_sequence_) {
    out_.reduce_scatter(groups_.tensor, {whole / job_.layout.tp}, dtype_, rule, "activations");
  } else {
    out_.all_reduce(groups_.tensor, {whole}, dtype_, rule, "activations");
  }
}

std::int64_t Stage::keys() const {
  const ModelConfig& model = job_.model;
  const std::int64_t width = model.latent.is_used()
                                 ? model.heads * (model.latent.nope_dim + model.latent.rope_dim)
                                 : model.kv_heads * model.head_dim;
  return tokens_ * width / job_.layout.tp;
}

std::int64_t Stage::values() const {
  const ModelConfig& model = job_.model;
  const std::int64_t width =
      model.latent.is_used() ? model.heads * model.latent.value_dim : model.kv_heads * model.head_dim;
  return tokens_ * width / job_.layout.tp;
}

void Stage::forward_attention(bool is_recomputed) {
  work_.write(ModulePart::ln1, Pass::forward);
  gather();
  work_.write(ModulePart::qkv, Pass::forward);
  exchange_keys(is_recomputed);
  work_.forward({ModulePart::attention, ModulePart::proj});
  leave(k_tensor_output, saves_scattered(is_recomputed));
}

/// Keys and values of the other context ranks.
void Stage::exchange_keys(bool is_recomputed) {
  if (job_.layout.cp == 1) {
    return;
  }
  if (!behaviour_.has_ring) {
    out_.all_gather(groups_.context, {keys()}, dtype_, k_context_gather, "keys");
    out_.all_gather(groups_.context, {values()}, dtype_, k_context_gather, "values");
  } else if (!is_recomputed || job_.train.recompute == Recompute::full) {
    out_.all_gather(groups_.context, {keys() + values()}, dtype_, pytorch::k_context_gather,
                    "keys and values");
  }
}

/// Their gradients; the ring gathers keys and values again and sends gradients on in fp32.
void Stage::reduce_keys() {
  if (job_.layout.cp == 1) {
    return;
  }
  if (!behaviour_.has_ring) {
    out_.set_reduction(Reduction::sum);
    out_.reduce_scatter(groups_.context, {values()}, dtype_, k_context_reduce, "gradients of values");
    out_.reduce_scatter(groups_.context, {keys()}, dtype_, k_context_reduce, "gradients of keys");
    return;
  }
  exchange_keys(false);
  for (std::int64_t step = 0; step < job_.layout.cp; ++step) {
    out_.all_to_all(groups_.context, {keys() + values()}, DType::fp32, pytorch::k_context_gradients,
                    "gradients of keys and values");
  }
}

bool Stage::saves_scattered(bool is_recomputed) const {
  return is_recomputed && behaviour_.saves_scattered && job_.train.recompute == Recompute::selective;
}

/// From the gradient of what attention puts out.
void Stage::backward_attention() {
  gather();
  work_.backward({ModulePart::proj, ModulePart::attention});
  reduce_keys();
  work_.backward({ModulePart::qkv});
  leave(k_tensor_input);
  work_.backward({ModulePart::ln1});
}

/// Tokens to the ranks of their experts or back: of each its `top_k` copies.
void Stage::exchange_tokens() {
  const Elements count{tokens_ / job_.layout.tp * job_.model.top_k * job_.model.hidden};
  if (options_.dispatcher != Dispatcher::all_to_all) {
    return;  // kernels of their own
  }
  if (options_.forces_balance) {
    out_.all_to_all(groups_.expert, count, dtype_, k_expert_tokens, "tokens");
  } else {
    out_.expected_all_to_all(groups_.expert, count, dtype_, k_expert_tokens, "tokens");
  }
}

void Stage::forward_mixture(bool is_recomputed) {
  work_.write(ModulePart::ln2, Pass::forward);
  const bool is_divided = job_.layout.ep > 1;
  if (!is_divided) {
    gather();
  } else if (options_.dispatcher == Dispatcher::all_to_all) {
    out_.all_to_all(groups_.expert, {job_.model.experts}, DType::int64, k_expert_counts, "tokens of experts");
    exchange_tokens();
  }
  work_.forward({ModulePart::fc1, ModulePart::activation, ModulePart::fc2});
  if (is_divided) {
    exchange_tokens();
    if (is_sequence_ && has_shared_experts()) {
      gather();
    }
  }
  // Parts of the sum of routed and shared experts are added before they are reduced; by sequence they are
  // scattered one after the other.
  if (!is_sequence_) {
    leave(k_tensor_output, saves_scattered(is_recomputed));
    return;
  }
  if (!is_divided) {
    leave(k_tensor_output, saves_scattered(is_recomputed));
  }
  if (has_shared_experts()) {
    leave(k_tensor_output, saves_scattered(is_recomputed));
  }
}

/// What needs nothing that is computed again: the gradient of what was scattered last.
void Stage::backward_mixture_outputs() {
  if (job_.layout.ep == 1 || has_shared_experts()) {
    gather();
  }
}

void Stage::backward_mixture() {
  const bool is_divided = job_.layout.ep > 1;
  if (!is_divided && has_shared_experts()) {
    gather();
  }
  if (is_divided && has_shared_experts()) {
    leave(k_tensor_input);
  }
  if (is_divided) {
    exchange_tokens();
  }
  work_.backward({ModulePart::fc2, ModulePart::activation, ModulePart::fc1});
  if (is_divided) {
    exchange_tokens();
  } else {
    leave(k_tensor_input);
  }
  // Without sequence parallelism each rank took its part of what is whole: of the tokens, and of their
  // scores.
  for (int input = 0; is_divided && has_tensor_ && !is_sequence_ && input < 2; ++input) {
    out_.all_gather(groups_.tensor, {tokens_ * job_.model.hidden / job_.layout.tp}, dtype_, k_expert_inputs,
                    "gradients of tokens");
  }
  work_.backward({ModulePart::ln2});
}

void Stage::forward_block(std::int64_t layer, bool is_recomputed) {
  forward_attention(is_recomputed);
  if (is_mixture(job_, layer)) {
    forward_mixture(is_recomputed);
    return;
  }
  work_.write(ModulePart::ln2, Pass::forward);
  gather();
  work_.forward({ModulePart::fc1, ModulePart::activation, ModulePart::fc2});
  leave(k_tensor_output, saves_scattered(is_recomputed));
}

void Stage::recompute(std::int64_t layer) {
  if (job_.train.recompute == Recompute::none) {
    return;
  }
  const std::int32_t micro_batch = out_.micro_batch();
  out_.set_phase(Phase::recompute, micro_batch);
  forward_block(layer, true);
  out_.set_phase(Phase::backward, micro_batch);
}

void Stage::backward_block(std::int64_t layer) {
  if (is_mixture(job_, layer)) {
    backward_mixture_outputs();
    recompute(layer);
    backward_mixture();
  } else {
    gather();
    recompute(layer);
    work_.backward({ModulePart::fc2, ModulePart::activation, ModulePart::fc1});
    leave(k_tensor_input);
    work_.backward({ModulePart::ln2});
  }
  backward_attention();
}

void Stage::forward_messages(const Module& module) {
  switch (module.kind) {
    case Kind::embedding:
      work_.write(ModulePart::embedding, Pass::forward);
      leave(k_tensor_output);
      return;
    case Kind::block:
      forward_block(module.layer, false);
      return;
    case Kind::norm:
      work_.write(ModulePart::final_norm, Pass::forward);
      gather();
      return;
    case Kind::output:
      work_.write(ModulePart::head, Pass::forward);
      return;
    case Kind::positions:
    case Kind::input_norm:
      return;
  }
}

void Stage::backward_messages(const Module& module) {
  switch (module.kind) {
    case Kind::embedding:
      gather();
      work_.backward({ModulePart::embedding});
      return;
    case Kind::block:
      backward_block(module.layer);
      return;
    case Kind::norm:
      leave(k_tensor_input);
      work_.backward({ModulePart::final_norm});
      return;
    case Kind::output:
      work_.backward({ModulePart::loss, ModulePart::head});
      return;
    case Kind::positions:
    case Kind::input_norm:
      return;
  }
}

void Stage::reduce_loss(std::int64_t tokens) {
  for (const Reduction reduction : {Reduction::max, Reduction::sum, Reduction::sum}) {
    if (has_tensor_) {
      out_.set_reduction(reduction);
      out_.all_reduce(groups_.tensor, {tokens}, DType::fp32, k_tensor_loss, "loss");
    }
  }
}

/// The head forward and backward for a part of the tokens at a time.
void Stage::chunked_loss(std::size_t output) {
  const std::int32_t micro_batch = out_.micro_batch();
  shards_.begin_chunks(output);
  work_.forward({ModulePart::head, ModulePart::loss});
  for (std::int64_t chunk = 0; chunk < options_.loss_chunks; ++chunk) {
    reduce_loss(tokens_ / options_.loss_chunks);
  }
  out_.set_phase(Phase::backward, micro_batch);
  work_.backward({ModulePart::loss, ModulePart::head});
  shards_.end_chunks(output);
}

void Stage::forward() {
  shards_.begin_forward();
  for (std::size_t at = 0; at < modules_.size(); ++at) {
    if (modules_[at].kind == Kind::output && is_chunked()) {
      continue;
    }
    shards_.before_forward(at);
    forward_messages(modules_[at]);
    shards_.after_forward(at);
  }
  shards_.end_forward();
  if (modules_.back().kind != Kind::output) {
    return;
  }
  if (is_chunked()) {
    chunked_loss(modules_.size() - 1);
  } else {
    reduce_loss(tokens_);
    work_.write(ModulePart::loss, Pass::forward);
  }
}

void Stage::backward() {
  shards_.begin_backward();
  for (std::size_t at = modules_.size(); at-- > 0;) {
    if (modules_[at].kind == Kind::output && is_chunked()) {
      continue;
    }
    shards_.before_backward(at);
    backward_messages(modules_[at]);
    shards_.after_backward(at);
  }
  shards_.end_backward();
}

}  // namespace commlens::torchtitan
