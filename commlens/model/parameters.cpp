#include "commlens/model/parameters.hpp"

#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 11> k_leaf_names = {"wte",    "wpe", "ln1", "qkv",  "proj", "ln2",
                                                           "router", "fc1", "fc2", "norm", "head"};

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
    const std::int64_t hidden = model_.hidden;
    const std::int64_t queries = model_.heads * model_.head_dim;
    const std::int64_t keys = model_.kv_heads * model_.head_dim;
    norm(Leaf::ln1);
    linear(Leaf::qkv, queries + 2 * keys, hidden, model_.qkv_bias);
    linear(Leaf::proj, hidden, queries, model_.linear_bias);
    norm(Leaf::ln2);
    if (model_.experts == 0) {
      add_mlp();
      return;
    }
    weight(Leaf::router, {model_.experts, hidden}, TensorSplit::replicated);
    const std::string layer_prefix = prefix_;
    is_expert_ = true;
    for (std::int64_t expert = 0; expert < model_.experts; ++expert) {
      prefix_ = fmt::format("{}experts.{}.", layer_prefix, expert);
      add_mlp();
    }
    is_expert_ = false;
    prefix_ = layer_prefix;
  }

  void add_mlp() {
    linear(Leaf::fc1, (model_.gated_mlp ? 2 : 1) * model_.ffn_hidden, model_.hidden, model_.linear_bias);
    linear(Leaf::fc2, model_.hidden, model_.ffn_hidden, model_.linear_bias);
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

Elements parameter_count(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  const std::int64_t inner = (model.gated_mlp ? 2 : 1) * model.ffn_hidden;
  const std::int64_t norm = model.norm_bias ? 2 * hidden : hidden;
  const std::int64_t attention = (queries + 2 * keys) * (hidden + (model.qkv_bias ? 1 : 0)) +
                                 hidden * queries + (model.linear_bias ? hidden : 0);
  const std::int64_t mlp =
      inner * hidden + hidden * model.ffn_hidden + (model.linear_bias ? inner + hidden : 0);
  const std::int64_t experts = model.experts == 0 ? mlp : model.experts * (mlp + hidden);
  const std::int64_t tables = (model.tied_embeddings ? 1 : 2) * model.vocab * hidden +
                              (model.positions == Positions::learned ? model.max_positions * hidden : 0);
  return {tables + model.layers * (2 * norm + attention + experts) + (model.final_norm ? norm : 0)};
}

Elements paper_parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t vocab = with_padded_vocab(model, 1).vocab;
  return {2 * vocab * h + model.sequence * h + model.layers * (12 * h * h + 8 * h) + 2 * h};
}

}  // namespace commlens
