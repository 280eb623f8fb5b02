#include "commlens/model/parameters.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 20> k_leaf_names = {
    "wte",  "wpe",    "ln1",    "qkv",   "proj", "ln2",      "router", "fc1",  "fc2",       "norm",
    "head", "q_norm", "k_norm", "sinks", "q_a",  "q_a_norm", "q_b",    "kv_a", "kv_a_norm", "kv_b"};

/// Adds the tensors of one model to a list, in order.
class Builder {
 public:
  Builder(const ModelConfig& model, std::vector<Parameter>& into) : model_(model), into_(into) {}

  void build() {
    const std::int64_t hidden = model_.hidden;
    start(ModuleKind::embedding, -1, "");
    weight(Leaf::wte, {model_.vocab, hidden}, TensorSplit::row);
    if (model_.positions == Positions::learned) {
      weight(Leaf::wpe, {model_.max_positions, hidden}, TensorSplit::replicated);
    }
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      start(ModuleKind::layer, layer, fmt::format("layers.{}.", layer));
      add_layer();
    }
    if (model_.final_norm) {
      start(ModuleKind::final_norm, -1, "");
      norm(Leaf::norm);
    }
    if (!model_.tied_embeddings) {
      start(ModuleKind::head, -1, "");
      weight(Leaf::head, {model_.vocab, hidden}, TensorSplit::column);
    }
  }

 private:
  void start(ModuleKind module, std::int64_t layer, std::string prefix) {
    module_ = module;
    layer_ = layer;
    prefix_ = std::move(prefix);
  }

  void add_layer() {
    norm(Leaf::ln1);
    add_attention();
    norm(Leaf::ln2);
    if (model_.experts == 0 || layer_ < model_.dense_layers) {
      add_mlp(model_.ffn_hidden);
      return;
    }
    weight(Leaf::router, {model_.experts, model_.hidden}, TensorSplit::replicated);
    if (model_.router_bias) {
      add(Leaf::router, {model_.experts}, TensorSplit::replicated, true);
    }
    const std::string layer_prefix = prefix_;
    is_expert_ = true;
    for (std::int64_t expert = 0; expert < model_.experts; ++expert) {
      prefix_ = fmt::format("{}experts.{}.", layer_prefix, expert);
      add_mlp(model_.expert_hidden());
    }
    is_expert_ = false;
    if (model_.shared_experts > 0) {
      prefix_ = layer_prefix + "shared.";
      add_mlp(model_.shared_experts * model_.expert_hidden());
    }
    prefix_ = layer_prefix;
  }

  void add_attention() {
    const std::int64_t queries = model_.heads * model_.head_dim;
    const std::int64_t keys = model_.kv_heads * model_.head_dim;
    if (model_.latent.is_used()) {
      add_latent_attention();
      return;
    }
    linear(Leaf::qkv, queries + 2 * keys, model_.hidden, model_.qkv_bias);
    linear(Leaf::proj, model_.hidden, queries, model_.linear_bias);
    if (model_.qk_norm) {
      vector(Leaf::q_norm, model_.head_dim, TensorSplit::replicated);
      vector(Leaf::k_norm, model_.head_dim, TensorSplit::replicated);
    }
    if (model_.attention_sinks) {
      vector(Leaf::sinks, model_.heads, TensorSplit::column);
    }
  }

  void add_latent_attention() {
    const LatentAttention& latent = model_.latent;
    const std::int64_t queries = model_.heads * (latent.nope_dim + latent.rope_dim);
    if (latent.query_rank > 0) {
      weight(Leaf::q_a, {latent.query_rank, model_.hidden}, TensorSplit::replicated);
      vector(Leaf::q_a_norm, latent.query_rank, TensorSplit::replicated);
    }
    const std::int64_t inputs = latent.query_rank > 0 ? latent.query_rank : model_.hidden;
    weight(Leaf::q_b, {queries, inputs}, TensorSplit::column);
    weight(Leaf::kv_a, {latent.kv_rank + latent.rope_dim, model_.hidden}, TensorSplit::replicated);
    vector(Leaf::kv_a_norm, latent.kv_rank, TensorSplit::replicated);
    weight(Leaf::kv_b, {model_.heads * (latent.nope_dim + latent.value_dim), latent.kv_rank},
           TensorSplit::column);
    weight(Leaf::proj, {model_.hidden, model_.heads * latent.value_dim}, TensorSplit::row);
  }

  void add_mlp(std::int64_t inner) {
    linear(Leaf::fc1, (model_.gated_mlp ? 2 : 1) * inner, model_.hidden, model_.linear_bias);
    linear(Leaf::fc2, model_.hidden, inner, model_.linear_bias);
  }

  void linear(Leaf leaf, std::int64_t outputs, std::int64_t inputs, bool has_bias) {
    const bool column = leaf == Leaf::qkv || leaf == Leaf::fc1;
    weight(leaf, {outputs, inputs}, column ? TensorSplit::column : TensorSplit::row);
    if (has_bias) {
      add(leaf, {outputs}, column ? TensorSplit::column : TensorSplit::replicated, true);
    }
  }

  void norm(Leaf leaf) {
    add(leaf, {model_.hidden}, TensorSplit::replicated, false);
    into_.back().decays = false;
    if (model_.norm_bias) {
      add(leaf, {model_.hidden}, TensorSplit::replicated, true);
    }
  }

  /// Without weight decay, as norms.
  void vector(Leaf leaf, std::int64_t count, TensorSplit split) {
    add(leaf, {count}, split, false);
    into_.back().decays = false;
  }

  void weight(Leaf leaf, std::vector<std::int64_t> shape, TensorSplit split) {
    add(leaf, std::move(shape), split, false);
  }

  void add(Leaf leaf, std::vector<std::int64_t> shape, TensorSplit split, bool is_bias) {
    Parameter parameter;
    parameter.name = fmt::format("{}{}.{}", prefix_, name_of(leaf), is_bias ? "bias" : "weight");
    parameter.module = module_;
    parameter.leaf = leaf;
    parameter.layer = layer_;
    parameter.is_bias = is_bias;
    parameter.count.value = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    parameter.shape = std::move(shape);
    parameter.split = split;
    parameter.decays = !is_bias;
    parameter.is_expert = is_expert_;
    into_.push_back(std::move(parameter));
  }

  const ModelConfig& model_;
  std::vector<Parameter>& into_;
  ModuleKind module_ = ModuleKind::embedding;
  std::int64_t layer_ = -1;
  std::string prefix_;
  bool is_expert_ = false;
};

}  // namespace

std::string_view name_of(Leaf leaf) { return k_leaf_names.at(static_cast<std::size_t>(leaf)); }

ParameterList::ParameterList(const ModelConfig& model) { Builder(model, parameters_).build(); }

Elements ParameterList::total() const {
  Elements sum;
  for (const Parameter& parameter : parameters_) {
    sum += parameter.count;
  }
  return sum;
}

Elements on_tensor_rank(const Parameter& parameter, std::int64_t tp) {
  if (parameter.split == TensorSplit::replicated) {
    return parameter.count;
  }
  COMMLENS_CHECK(parameter.count.value % tp == 0,
                 "validated() refuses a tp that does not divide what it splits");
  return {parameter.count.value / tp};
}

namespace {

std::int64_t attention_count(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden;
  if (const LatentAttention& latent = model.latent; latent.is_used()) {
    const std::int64_t queries = model.heads * (latent.nope_dim + latent.rope_dim);
    const std::int64_t of_queries =
        latent.query_rank == 0 ? queries * hidden : latent.query_rank * (hidden + 1 + queries);
    return of_queries + (latent.kv_rank + latent.rope_dim) * hidden + latent.kv_rank +
           model.heads * ((latent.nope_dim + latent.value_dim) * latent.kv_rank + latent.value_dim * hidden);
  }
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  return (queries + 2 * keys) * (hidden + (model.qkv_bias ? 1 : 0)) + hidden * queries +
         (model.linear_bias ? hidden : 0) + (model.qk_norm ? 2 * model.head_dim : 0) +
         (model.attention_sinks ? model.heads : 0);
}

std::int64_t mlp_count(const ModelConfig& model, std::int64_t width) {
  const std::int64_t inner = (model.gated_mlp ? 2 : 1) * width;
  return inner * model.hidden + model.hidden * width + (model.linear_bias ? inner + model.hidden : 0);
}

std::int64_t experts_count(const ModelConfig& model) {
  const std::int64_t router = model.hidden + (model.router_bias ? 1 : 0);
  const std::int64_t shared =
      model.shared_experts > 0 ? mlp_count(model, model.shared_experts * model.expert_hidden()) : 0;
  return model.experts * (mlp_count(model, model.expert_hidden()) + router) + shared;
}

}  // namespace

Elements parameter_count(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t norm = model.norm_bias ? 2 * hidden : hidden;
  const std::int64_t dense = model.experts == 0 ? model.layers : std::min(model.dense_layers, model.layers);
  const std::int64_t tables = (model.tied_embeddings ? 1 : 2) * model.vocab * hidden +
                              (model.positions == Positions::learned ? model.max_positions * hidden : 0);
  return {tables + model.layers * (2 * norm + attention_count(model)) +
          dense * mlp_count(model, model.ffn_hidden) + (model.layers - dense) * experts_count(model) +
          (model.final_norm ? norm : 0)};
}

Elements paper_parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t vocab = with_padded_vocab(model, 1).vocab;
  return {2 * vocab * h + model.sequence * h + model.layers * (12 * h * h + 8 * h) + 2 * h};
}

}  // namespace commlens
