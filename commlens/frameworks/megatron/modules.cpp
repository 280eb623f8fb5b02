#include "commlens/frameworks/megatron/modules.hpp"

#include <algorithm>
#include <utility>

#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {
namespace {

/// Lists the parameters of a chunk.
class ParameterWriter {
 public:
  ParameterWriter(const Job& job, const ChunkLayout& chunk) : job_(job), chunk_(chunk), shares_(job) {}

  std::vector<ModuleParameter> write() {
    const ModelConfig& model = job_.model;
    const std::int64_t rows = model.vocab / shares_.tp;
    const bool is_pipeline = job_.layout.pp > 1;
    const bool has_mtp = options(job_).mtp_layers > 0;
    if (chunk_.has_embedding || chunk_.mtp_layers > 0) {
      add_matrix(Module::wte, rows, model.hidden);
      result_.back().has_tied_copy = is_pipeline && (model.tied_embeddings || has_mtp);
      if (model.positions == Positions::learned) {
        add_matrix(Module::wpe, model.max_positions, model.hidden);
      }
    }
    for (layer_ = 0; layer_ < chunk_.layers; ++layer_) {
      add_layer(is_moe_layer(job_, chunk_.first_layer + layer_));
    }
    layer_ = -1;
    if (chunk_.has_final_norm) {
      add_norm(Module::final_norm, model.hidden);
    }
    for (std::int64_t mtp = 0; mtp < chunk_.mtp_layers; ++mtp) {
      layer_ = chunk_.layers + mtp;
      add_mtp_layer();
    }
    layer_ = -1;
    // The table on the stage itself is the head's. A copy for multi-token prediction is used instead of the
    // head's own weight, which is there all the same.
    if (chunk_.has_loss && !(model.tied_embeddings && chunk_.has_embedding)) {
      add_matrix(Module::head, rows, model.hidden);
      result_.back().has_tied_copy = is_pipeline && model.tied_embeddings && chunk_.mtp_layers == 0;
    }
    return std::move(result_);
  }

 private:
  void add(Module module, std::int64_t count, bool is_summed = false) {
    result_.push_back({.place = {module, layer_}, .count = count, .is_summed = is_summed});
  }
  void add_matrix(Module module, std::int64_t rows, std::int64_t columns, bool is_summed = false) {
    add(module, rows * columns, is_summed);
    result_.back().columns = columns;
  }

  /// Weight, and the bias of a LayerNorm. Under sequence parallelism norms see parts of the sequence.
  void add_norm(Module module, std::int64_t width, bool is_always_summed = false) {
    const bool is_summed = shares_.sequence_parallel || is_always_summed;
    add(module, width, is_summed);
    if (job_.model.norm_bias) {
      add(module, width, is_summed);
    }
  }
  void add_column(Module module, std::int64_t inputs, std::int64_t outputs, bool has_bias) {
    add_matrix(module, outputs / shares_.tp, inputs);
    if (has_bias) {
      add(module, outputs / shares_.tp);
    }
  }
  /// The bias is that of the whole output.
  void add_row(Module module, std::int64_t inputs, std::int64_t outputs) {
    add_matrix(module, outputs, inputs / shares_.tp);
    if (job_.model.linear_bias) {
      add(module, outputs, shares_.sequence_parallel);
    }
  }

  void add_layer(bool is_moe) {
    const ModelConfig& model = job_.model;
    add_norm(Module::ln1, model.hidden);
    if (model.latent.is_used()) {
      add_latent_attention();
    } else {
      add_attention();
    }
    add_norm(Module::ln2, model.hidden);
    if (is_moe) {
      add_experts();
      return;
    }
    add_column(Module::fc1, model.hidden, gates() * model.ffn_hidden, model.linear_bias);
    add_row(Module::fc2, model.ffn_hidden, model.hidden);
  }

  void add_attention() {
    const ModelConfig& model = job_.model;
    add_row(Module::proj, shares_.query_width, model.hidden);
    add_column(Module::qkv, model.hidden, shares_.qkv_width, model.qkv_bias);
    if (model.qk_norm) {
      add_norm(Module::q_norm, model.head_dim, true);
      add_norm(Module::k_norm, model.head_dim, true);
    }
  }

  /// Transformer Engine holds the projections down whole; their gradients come from parts of the sequence.
  void add_down(Module module, std::int64_t width) {
    const bool is_whole = options(job_).is_transformer_engine;
    add_matrix(module, width / (is_whole ? 1 : shares_.tp), job_.model.hidden,
               is_whole && shares_.sequence_parallel);
  }

  void add_latent_attention() {
    const ModelConfig& model = job_.model;
    const LatentAttention& latent = model.latent;
    add_row(Module::proj, model.heads * latent.value_dim, model.hidden);
    const std::int64_t queries = model.heads * (latent.nope_dim + latent.rope_dim);
    if (latent.query_rank > 0) {
      add_down(Module::q_down, latent.query_rank);
      add_column(Module::q_up, latent.query_rank, queries, false);
    } else {
      add_column(Module::q, model.hidden, queries, false);
    }
    add_down(Module::kv_down, latent.kv_rank + latent.rope_dim);
    add_column(Module::kv_up, latent.kv_rank, model.heads * (latent.nope_dim + latent.value_dim), false);
    if (model.qk_norm && latent.query_rank > 0) {
      add_norm(Module::q_norm, latent.query_rank, true);
    }
    if (model.qk_norm) {
      add_norm(Module::k_norm, latent.kv_rank);
    }
  }

  std::int64_t gates() const { return job_.model.gated_mlp ? 2 : 1; }

  void add_experts() {
    const ModelConfig& model = job_.model;
    const Options& own = options(job_);
    add_matrix(Module::router, model.experts, model.hidden, shares_.sequence_parallel);
    const std::int64_t width = model.expert_hidden() / shares_.expert_tp;
    const std::int64_t inputs = own.moe_latent_hidden > 0 ? own.moe_latent_hidden : model.hidden;
    const auto add_expert = [&](Module module) {
      const bool is_first = module == Module::expert_fc1;
      add_matrix(module, is_first ? gates() * width : inputs, is_first ? inputs : width);
      result_.back().is_expert = shares_.splits_experts;
    };
    // Transformer Engine groups the first matrices of all experts, then the second ones.
    for (const Module module : {Module::expert_fc1, Module::expert_fc2}) {
      for (std::int64_t expert = 0; own.groups_experts && expert < shares_.local_experts; ++expert) {
        add_expert(module);
      }
    }
    for (std::int64_t expert = 0; !own.groups_experts && expert < shares_.local_experts; ++expert) {
      add_expert(Module::expert_fc1);
      add_expert(Module::expert_fc2);
    }
    if (own.shared_expert_hidden > 0) {
      if (own.has_shared_expert_gate) {
        add_matrix(Module::shared_gate, 1, model.hidden, shares_.sequence_parallel);
      }
      add_column(Module::shared_fc1, model.hidden, gates() * own.shared_expert_hidden, false);
      add_matrix(Module::shared_fc2, model.hidden, own.shared_expert_hidden / shares_.tp);
    }
  }

  void add_mtp_layer() {
    const std::int64_t hidden = job_.model.hidden;
    add_norm(Module::mtp_embedding_norm, hidden);
    add_norm(Module::mtp_hidden_norm, hidden);
    add_column(Module::mtp_proj, 2 * hidden, hidden, false);
    add_layer(is_moe_layer(job_, job_.model.layers));
    add_norm(Module::mtp_final_norm, hidden);
  }

  const Job& job_;
  const ChunkLayout& chunk_;
  ModuleShares shares_;
  std::int64_t layer_ = -1;
  std::vector<ModuleParameter> result_;
};

}  // namespace

ModuleShares::ModuleShares(const Job& job) {
  const ModelConfig& model = job.model;
  tp = job.layout.tp;
  sequence_parallel = job.layout.sequence_parallel && tp > 1;
  expert_tp = options(job).expert_tp > 0 ? options(job).expert_tp : tp;
  local_experts = model.experts / job.layout.ep;
  splits_experts = job.layout.ep > 1 || expert_tp != tp;
  query_width = model.heads * model.head_dim;
  qkv_width = query_width + 2 * model.kv_heads * model.head_dim;
}

bool is_moe_layer(const Job& job, std::int64_t layer) {
  if (job.model.experts == 0) {
    return false;
  }
  const std::vector<bool>& pattern = options(job).moe_layers;
  const std::int64_t at = std::min(layer, std::ssize(pattern) - 1);
  return pattern.empty() || pattern[static_cast<std::size_t>(at)];
}

std::int64_t moe_layers(const Job& job, const ChunkLayout& chunk) {
  std::int64_t count = chunk.mtp_layers * (is_moe_layer(job, job.model.layers) ? 1 : 0);
  for (std::int64_t layer = 0; layer < chunk.layers; ++layer) {
    count += is_moe_layer(job, chunk.first_layer + layer) ? 1 : 0;
  }
  return count;
}

std::vector<ModuleParameter> chunk_parameters(const Job& job, const ChunkLayout& chunk) {
  return ParameterWriter(job, chunk).write();
}

}  // namespace commlens::megatron
