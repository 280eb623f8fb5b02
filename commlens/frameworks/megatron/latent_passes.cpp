// Multi-head latent attention (core/transformer/multi_latent_attention.py:637-754). Transformer Engine holds
// the projections down whole; the local specification splits them over tensor ranks, whose parts are
// gathered and, under sequence parallelism, split along the sequence again.
#include "commlens/frameworks/megatron/passes.hpp"

namespace commlens::megatron {

void ChunkPasses::forward_up_projections() {
  const LatentAttention& latent = job_.model.latent;
  if (latent.query_rank > 0) {
    tensor_.enter_column(positions_ * latent.query_rank, "self_attention.linear_q_up_proj");
  }
  tensor_.enter_column(positions_ * latent.kv_rank, "self_attention.linear_kv_up_proj");
}

void ChunkPasses::forward_latent_attention(std::int64_t layer) {
  const LatentAttention& latent = job_.model.latent;
  const bool is_split = !options_.is_transformer_engine;
  if (latent.query_rank > 0) {
    use(Module::q_down, layer);
    if (is_split) {
      tensor_.enter_column(activation_, "self_attention.linear_q_down_proj");
      tensor_.gather_columns(positions_ * latent.query_rank, "self_attention.linear_q_down_proj");
    }
  }
  use(Module::kv_down, layer);
  if (is_split) {
    tensor_.enter_column(activation_, "self_attention.linear_kv_down_proj");
    tensor_.gather_columns(positions_ * (latent.kv_rank + latent.rope_dim),
                           "self_attention.linear_kv_down_proj");
  } else {
    tensor_.gather_sequence(positions_ * latent.rope_dim, "positions of keys");
  }
  work_.forward({ModulePart::qkv});
  use(Module::q_norm, layer);
  use(Module::k_norm, layer);
  if (latent.query_rank > 0) {
    use(Module::q_up, layer);
  } else {
    use(Module::q, layer);
    tensor_.enter_column(activation_, "self_attention.linear_q_proj");
  }
  use(Module::kv_up, layer);
  forward_up_projections();
  forward_scores(layer);
  use(Module::proj, layer);
  work_.forward({ModulePart::proj});
  tensor_.leave_row(activation_, "self_attention.linear_proj");
}

void ChunkPasses::backward_latent_attention(std::int64_t layer) {
  const LatentAttention& latent = job_.model.latent;
  const bool is_split = !options_.is_transformer_engine;
  tensor_.enter_row_gradient(activation_, "self_attention.linear_proj");
  work_.backward({ModulePart::proj});
  finish(Module::proj, layer);
  if (recomputes("mla_up_proj")) {
    out_.set_phase(Phase::recompute, micro_batch_);
    forward_up_projections();
    out_.set_phase(Phase::backward, micro_batch_);
  }
  backward_scores(layer);
  work_.backward({ModulePart::qkv});
  tensor_.column_gradient(positions_ * latent.kv_rank, "self_attention.linear_kv_up_proj", [](Pass) {});
  finish(Module::kv_up, layer);
  finish(Module::k_norm, layer);
  if (latent.query_rank > 0) {
    tensor_.column_gradient(positions_ * latent.query_rank, "self_attention.linear_q_up_proj", [](Pass) {});
    finish(Module::q_up, layer);
    finish(Module::q_norm, layer);
  } else {
    tensor_.column_gradient(activation_, "self_attention.linear_q_proj", [](Pass) {});
    finish(Module::q, layer);
  }
  if (is_split) {
    tensor_.gather_sequence(positions_ * latent.kv_rank, "self_attention.linear_kv_down_proj");
    tensor_.column_gradient(activation_, "self_attention.linear_kv_down_proj", [](Pass) {});
  } else {
    tensor_.scatter_sequence_gradient(positions_ * latent.rope_dim, "positions of keys");
  }
  finish(Module::kv_down, layer);
  if (latent.query_rank == 0) {
    return;
  }
  if (is_split) {
    tensor_.gather_sequence(positions_ * latent.query_rank, "self_attention.linear_q_down_proj");
    tensor_.column_gradient(activation_, "self_attention.linear_q_down_proj", [](Pass) {});
  }
  finish(Module::q_down, layer);
}

}  // namespace commlens::megatron
