#include "commlens/frameworks/deepspeed/model_tree.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/tensor_split.hpp"

namespace commlens::deepspeed {
namespace {

using Input = ModelModule::Input;

constexpr std::size_t k_root = 0;

/// A module that is to be added: what it is, not where.
struct NewModule {
  std::string name;  // within its parent
  std::string class_name;
  std::optional<Leaf> leaf = {};
  Input input = Input::previous;
  bool is_called = true;
};

/// A weight or a bias of `rows` x `columns` elements; 0 columns: of one dimension.
struct Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t count() const { return rows * std::max<std::int64_t>(columns, 1); }
};

class TreeBuilder {
 public:
  explicit TreeBuilder(std::string class_name) {
    tree_.modules.push_back({.class_name = std::move(class_name), .input = Input::no_gradient});
  }

  std::size_t add(std::size_t parent, NewModule module, std::int64_t layer = -1) {
    const std::size_t row = tree_.modules.size();
    const std::string& place = tree_.modules[parent].name;
    tree_.modules.push_back({.name = place.empty() ? module.name : fmt::format("{}.{}", place, module.name),
                             .class_name = std::move(module.class_name),
                             .layer = layer,
                             .input = module.input,
                             .leaf = module.leaf,
                             .is_called = module.is_called});
    tree_.modules[parent].children.push_back(row);
    if (module.is_called) {
      tree_.modules[parent].calls.push_back(row);
    }
    return row;
  }

  void add_parameter(std::size_t module, LocalParameter parameter) {
    tree_.modules[module].parameters.push_back(tree_.parameters.size());
    tree_.parameters.push_back(std::move(parameter));
  }

  /// A parameter called after its module.
  void add_parameter(std::size_t module, std::string_view name, const Shape& shape, bool is_expert = false) {
    const ModelModule& owner = tree_.modules[module];
    LocalParameter parameter;
    parameter.name = fmt::format("{}.{}", owner.name, name);
    parameter.tag = without_index(parameter.name, owner.layer);
    parameter.leaf = owner.leaf.value_or(Leaf::wte);
    parameter.layer = owner.layer;
    parameter.count = shape.count();
    parameter.is_bias = name == "bias";
    parameter.is_expert = is_expert;
    parameter.decays = shape.columns > 0;
    parameter.longest_side = shape.columns > 0 ? std::max(shape.rows, shape.columns) : 0;
    add_parameter(module, std::move(parameter));
  }

  std::size_t add_linear(std::size_t parent, NewModule module, const Shape& weight, bool has_bias,
                         std::int64_t layer, bool is_expert = false) {
    module.class_name = "Linear";
    const std::size_t row = add(parent, std::move(module), layer);
    make_linear(row, weight.columns, weight.rows);
    add_parameter(row, "weight", weight, is_expert);
    if (has_bias) {
      add_parameter(row, "bias", {weight.rows}, is_expert);
    }
    return row;
  }

  void make_linear(std::size_t row, std::int64_t inputs, std::int64_t outputs) {
    tree_.modules[row].is_linear = true;
    tree_.modules[row].inputs = inputs;
    tree_.modules[row].outputs = outputs;
  }

  ModelModule& module(std::size_t row) { return tree_.modules[row]; }
  ModelTree take() { return std::move(tree_); }

 private:
  static std::string without_index(const std::string& name, std::int64_t layer) {
    const std::string index = fmt::format(".{}.", layer);
    const std::size_t at = layer < 0 ? std::string::npos : name.find(index);
    return at == std::string::npos ? name : std::string(name).replace(at, index.size(), ".");
  }

  ModelTree tree_;
};

/// The tree `gpt`: embed {wte, wpe}, blocks, norm {norm}, head {out}.
class GptTree {
 public:
  explicit GptTree(const LocalParameters& parameters) : builder_("GPT") {
    for (const LocalParameter& parameter : parameters) {
      layers_ = std::max(layers_, parameter.layer + 1);
      by_leaf_[{parameter.leaf, parameter.layer}].push_back(parameter);
    }
  }

  /// The experts and the low ranks of `job`; null: a client's own model.
  ModelTree build(const Job* job) {
    job_ = job;
    add_embedding();
    const std::size_t blocks =
        builder_.add(k_root, {.name = "blocks", .class_name = "ModuleList", .is_called = false});
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const std::size_t block = add_block(blocks, layer);
      builder_.module(k_root).calls.push_back(block);
    }
    const std::size_t norm = builder_.add(k_root, {.name = "norm", .class_name = "Norm"});
    add_leaf(norm, "norm", Leaf::norm, -1);
    const std::size_t head = builder_.add(k_root, {.name = "head", .class_name = "Head"});
    const std::size_t out = add_leaf(head, "out", Leaf::head, -1);
    const auto weight = by_leaf_.find({Leaf::wte, -1});
    if (builder_.module(out).parameters.empty() && weight != by_leaf_.end()) {
      builder_.module(out).parameters.push_back(0);  // tied: the weight of the embedding
    }
    return builder_.take();
  }

 private:
  void add_embedding() {
    const std::size_t embed =
        builder_.add(k_root, {.name = "embed", .class_name = "Embed", .input = Input::no_gradient});
    add_leaf(embed, "wte", Leaf::wte, -1);
    if (by_leaf_.contains({Leaf::wpe, -1})) {
      add_leaf(embed, "wpe", Leaf::wpe, -1);
    }
  }

  std::size_t add_block(std::size_t blocks, std::int64_t layer) {
    const std::size_t block =
        builder_.add(blocks, {.name = fmt::format("{}", layer), .class_name = "Block"}, layer);
    builder_.module(block).is_block = true;
    add_leaf(block, "ln1", Leaf::ln1, layer);
    add_linear(block, "qkv", Leaf::qkv, layer);
    add_linear(block, "proj", Leaf::proj, layer);
    add_leaf(block, "ln2", Leaf::ln2, layer);
    if (has_experts(layer)) {
      add_experts(block, layer);
      return block;
    }
    if (by_leaf_.contains({Leaf::router, layer})) {
      add_leaf(block, "router", Leaf::router, layer);
    }
    add_linear(block, "fc1", Leaf::fc1, layer);
    add_linear(block, "fc2", Leaf::fc2, layer);
    return block;
  }

  bool has_experts(std::int64_t layer) const {
    if (job_ == nullptr) {
      return false;
    }
    const std::vector<std::int64_t>& layers = options(*job_).mixture.layers;
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  }

  /// moe {deepspeed_moe {gate {wg}, experts {deepspeed_experts {0 {fc1, fc2}, …}}}}.
  void add_experts(std::size_t block, std::int64_t layer) {
    const ModelConfig& model = job_->model;
    const std::size_t moe = builder_.add(block, {.name = "moe", .class_name = "MoE"}, layer);
    const std::size_t inner =
        builder_.add(moe, {.name = "deepspeed_moe", .class_name = "MOELayer"}, layer);
    builder_.module(inner).combines = true;
    const std::size_t gate = builder_.add(inner, {.name = "gate", .class_name = "TopKGate"}, layer);
    builder_.add_linear(gate, {.name = "wg", .leaf = Leaf::router}, {model.experts, model.hidden}, false,
                        layer);
    const std::size_t experts = builder_.add(inner, {.name = "experts", .class_name = "Experts"}, layer);
    const std::size_t list = builder_.add(
        experts, {.name = "deepspeed_experts", .class_name = "ModuleList", .is_called = false}, layer);
    for (std::int64_t expert = 0; expert < model.experts / job_->layout.ep; ++expert) {
      const std::size_t one =
          builder_.add(list, {.name = fmt::format("{}", expert), .class_name = "Expert"}, layer);
      builder_.module(experts).calls.push_back(one);
      const bool computes = expert == 0;  // the kernels of a part are those of all experts of a rank
      const std::optional<Leaf> fc1 = computes ? std::optional(Leaf::fc1) : std::nullopt;
      const std::optional<Leaf> fc2 = computes ? std::optional(Leaf::fc2) : std::nullopt;
      builder_.add_linear(one, {.name = "fc1", .leaf = fc1}, {4 * model.hidden, model.hidden}, true, layer,
                          true);
      builder_.add_linear(one, {.name = "fc2", .leaf = fc2}, {model.hidden, 4 * model.hidden}, true, layer,
                          true);
    }
  }

  std::size_t add_leaf(std::size_t parent, const std::string& name, Leaf leaf, std::int64_t layer) {
    const bool is_embedding = leaf == Leaf::wte || leaf == Leaf::wpe;
    const bool is_linear = leaf == Leaf::head || leaf == Leaf::router;
    const std::size_t row = builder_.add(parent,
                                         {.name = name,
                                          .class_name = is_embedding ? "Embedding"
                                                        : is_linear  ? "Linear"
                                                                     : "LayerNorm",
                                          .leaf = leaf,
                                          .input = is_embedding ? Input::no_gradient : Input::previous},
                                         layer);
    if (is_linear) {
      make_linear(row, leaf, layer);
    }
    add_parameters(row, leaf, layer);
    return row;
  }

  void make_linear(std::size_t row, Leaf leaf, std::int64_t layer) {
    const auto found = by_leaf_.find({leaf, layer});
    const std::int64_t count = found == by_leaf_.end() ? 0 : found->second.front().count;
    const std::int64_t hidden = job_ == nullptr ? 1 : job_->model.hidden;
    const std::int64_t inputs = job_ != nullptr && leaf == Leaf::fc2 ? job_->model.ffn_hidden : hidden;
    builder_.make_linear(row, inputs, count / inputs);
  }

  void add_parameters(std::size_t row, Leaf leaf, std::int64_t layer) {
    if (const auto found = by_leaf_.find({leaf, layer}); found != by_leaf_.end()) {
      for (LocalParameter parameter : found->second) {
        parameter.count /= tensor_parts(builder_.module(row).name, parameter);
        builder_.add_parameter(row, std::move(parameter));
      }
    }
  }

  /// Over how many tensor ranks AutoTP splits it; the bias with the rows of its weight.
  std::int64_t tensor_parts(const std::string& module, const LocalParameter& parameter) const {
    const TensorSplit split =
        job_ == nullptr ? TensorSplit::replicated : tensor_split(*job_, module + ".weight");
    const bool is_split = split == TensorSplit::column || (split == TensorSplit::row && !parameter.is_bias);
    return is_split ? job_->layout.tp : 1;
  }

  void add_linear(std::size_t block, const std::string& name, Leaf leaf, std::int64_t layer) {
    const std::vector<std::string> none;
    const std::vector<std::string>& targets = job_ == nullptr ? none : options(*job_).low_rank.targets;
    if (std::find(targets.begin(), targets.end(), name) == targets.end()) {
      const std::size_t row =
          builder_.add(block, {.name = name, .class_name = "Linear", .leaf = leaf}, layer);
      make_linear(row, leaf, layer);
      add_parameters(row, leaf, layer);
      return;
    }
    const std::size_t around = builder_.add(block, {.name = name, .class_name = "LoraLinear"}, layer);
    const std::size_t base = builder_.add(
        around, {.name = "base", .class_name = "Linear", .leaf = leaf, .input = Input::same_as_parent},
        layer);
    make_linear(base, leaf, layer);
    add_parameters(base, leaf, layer);
    const std::int64_t rank = options(*job_).low_rank.rank;
    const ModelModule whole = builder_.module(base);
    builder_.add_linear(around, {.name = "A", .input = Input::same_as_parent}, {rank, whole.inputs}, false,
                        layer);
    builder_.add_linear(around, {.name = "B"}, {whole.outputs, rank}, false, layer);
  }

  TreeBuilder builder_;
  const Job* job_ = nullptr;
  std::map<std::pair<Leaf, std::int64_t>, LocalParameters> by_leaf_;
  std::int64_t layers_ = 0;
};

/// The tree `llama`: embed_tokens, layers, norm, lm_head; or LlamaForCausalLM and MixtralForCausalLM of
/// transformers, which have all but the head in `model`. Source of the latter: transformers 5.23
/// models/llama/modeling_llama.py, models/mixtral/modeling_mixtral.py.
class LlamaTree {
 public:
  explicit LlamaTree(const Job& job)
      : job_(job),
        model_(job.model),
        is_transformers_(is_of_transformers(job)),
        builder_(is_transformers_ ? "LlamaForCausalLM" : "Llama") {}

  ModelTree build() {
    std::size_t body = k_root;
    if (is_transformers_) {
      body = builder_.add(k_root, {.name = "model", .class_name = "LlamaModel", .input = Input::no_gradient});
    }
    const std::size_t tokens = builder_.add(body, {.name = "embed_tokens",
                                                   .class_name = "Embedding",
                                                   .leaf = Leaf::wte,
                                                   .input = Input::no_gradient});
    builder_.add_parameter(tokens, "weight", {model_.vocab, model_.hidden});
    const std::size_t layers =
        builder_.add(body, {.name = "layers", .class_name = "ModuleList", .is_called = false});
    std::vector<std::size_t> blocks;
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      blocks.push_back(add_block(layers, layer));
    }
    const std::size_t norm = add_norm(body, "norm", Leaf::norm, -1);
    std::vector<std::size_t> calls = {tokens};
    if (is_transformers_) {
      calls.push_back(builder_.add(
          body,
          {.name = "rotary_emb", .class_name = "LlamaRotaryEmbedding", .input = Input::no_gradient}));
    }
    calls.insert(calls.end(), blocks.begin(), blocks.end());
    calls.push_back(norm);
    builder_.module(body).calls = std::move(calls);
    if (model_.tied_embeddings) {
      const std::size_t head =
          builder_.add(k_root, {.name = "lm_head", .class_name = "Linear", .leaf = Leaf::head});
      builder_.make_linear(head, model_.hidden, model_.vocab);
      builder_.module(head).parameters.push_back(0);
    } else {
      add_linear(k_root, "lm_head", Leaf::head, {model_.vocab, model_.hidden}, -1);
    }
    return builder_.take();
  }

 private:
  std::size_t add_norm(std::size_t parent, const std::string& name, Leaf leaf, std::int64_t layer) {
    const std::size_t row = builder_.add(
        parent, {.name = name, .class_name = is_transformers_ ? "LlamaRMSNorm" : "RMS", .leaf = leaf}, layer);
    builder_.add_parameter(row, "weight", {model_.hidden});
    return row;
  }

  std::size_t add_linear(std::size_t parent, const std::string& name, std::optional<Leaf> leaf,
                         const Shape& whole, std::int64_t layer, Input input = Input::previous) {
    const std::string& place = builder_.module(parent).name;
    const std::string path = place.empty() ? name : fmt::format("{}.{}", place, name);
    Shape shape = whole;
    switch (tensor_split(job_, path + ".weight")) {
      case TensorSplit::column:
        shape.rows /= job_.layout.tp;
        break;
      case TensorSplit::row:
        shape.columns /= job_.layout.tp;
        break;
      case TensorSplit::replicated:
        break;
    }
    const std::size_t row =
        builder_.add_linear(parent, {.name = name, .leaf = leaf, .input = input}, shape, false, layer);
    builder_.make_linear(row, whole.columns, whole.rows);
    return row;
  }

  std::size_t add_block(std::size_t layers, std::int64_t layer) {
    const std::size_t block = builder_.add(
        layers,
        {.name = fmt::format("{}", layer), .class_name = is_transformers_ ? "LlamaDecoderLayer" : "LlamaBlock"},
        layer);
    builder_.module(block).is_block = true;
    const std::size_t attention = add_attention(block, layer);
    const std::size_t mlp = options(job_).auto_ep ? add_experts(block, layer) : add_mlp(block, layer);
    const std::size_t ln1 = add_norm(block, "input_layernorm", Leaf::ln1, layer);
    const std::size_t ln2 = add_norm(block, "post_attention_layernorm", Leaf::ln2, layer);
    builder_.module(block).calls = {ln1, attention, ln2, mlp};
    return block;
  }

  std::size_t add_attention(std::size_t block, std::int64_t layer) {
    const std::size_t attention =
        builder_.add(block, {.name = "self_attn", .class_name = "LlamaAttention"}, layer);
    const std::int64_t queries = model_.heads * model_.head_dim;
    const std::int64_t keys = model_.kv_heads * model_.head_dim;
    const auto same = Input::same_as_parent;
    add_linear(attention, "q_proj", std::nullopt, {queries, model_.hidden}, layer, same);
    add_linear(attention, "k_proj", std::nullopt, {keys, model_.hidden}, layer, same);
    add_linear(attention, "v_proj", Leaf::qkv, {keys, model_.hidden}, layer, same);
    add_linear(attention, "o_proj", Leaf::proj, {model_.hidden, queries}, layer);
    return attention;
  }

  std::size_t add_mlp(std::size_t block, std::int64_t layer) {
    const std::size_t mlp = builder_.add(block, {.name = "mlp", .class_name = "LlamaMLP"}, layer);
    const auto same = Input::same_as_parent;
    const std::size_t gate =
        add_linear(mlp, "gate_proj", std::nullopt, {model_.ffn_hidden, model_.hidden}, layer, same);
    const std::size_t up =
        add_linear(mlp, "up_proj", Leaf::fc1, {model_.ffn_hidden, model_.hidden}, layer, same);
    const std::size_t down = add_linear(mlp, "down_proj", Leaf::fc2, {model_.hidden, model_.ffn_hidden}, layer);
    if (is_transformers_) {
      const std::size_t activation = builder_.add(mlp, {.name = "act_fn", .class_name = "SiLUActivation"}, layer);
      builder_.module(mlp).calls = {gate, activation, up, down};
    }
    return mlp;
  }

  /// AutoEP's layer: the router, and the experts of this rank as two stacks.
  std::size_t add_experts(std::size_t block, std::int64_t layer) {
    const std::size_t mlp = builder_.add(block, {.name = "mlp", .class_name = "AutoEPMoELayer"}, layer);
    builder_.module(mlp).combines = true;
    const std::size_t router = builder_.add(mlp, {.name = "router", .class_name = "TokenChoiceTopKRouter"}, layer);
    builder_.add_linear(router, {.name = "gate", .leaf = Leaf::router}, {model_.experts, model_.hidden}, false, layer);
    const std::size_t experts =
        builder_.add(mlp, {.name = "experts", .class_name = "GroupedExperts", .leaf = Leaf::fc1}, layer);
    const std::int64_t own = model_.experts / job_.layout.ep;
    for (const char* name : {"w1", "w2", "w3"}) {
      builder_.add_parameter(experts, name, {own * model_.ffn_hidden, model_.hidden}, true);
    }
    return mlp;
  }

  const Job& job_;
  const ModelConfig& model_;
  bool is_transformers_;
  TreeBuilder builder_;
};

void freeze(ModelTree& tree, const Job& job) {
  const Options& own = options(job);
  for (const ModelModule& module : tree.modules) {
    const bool is_low_rank = module.name.ends_with(".A") || module.name.ends_with(".B");
    for (const std::size_t row : module.parameters) {
      const std::string path = module.name + ".";
      const auto begins = [&](const std::string& beginning) { return path.starts_with(beginning); };
      const bool is_frozen = std::any_of(own.frozen.begin(), own.frozen.end(), begins);
      tree.parameters[row].is_trainable = !is_frozen && (own.low_rank.rank == 0 || is_low_rank);
    }
  }
}

/// Which parameters torch_autocast casts: those of linears, unless the configuration names other classes.
/// Source: runtime/torch_autocast.py:36 of 0.19.6.
void cast(ModelTree& tree, const Job& job) {
  if (!options(job).autocast) {
    return;
  }
  const std::vector<std::string>& classes = options(job).autocast_modules;
  for (const ModelModule& module : tree.modules) {
    const auto is_named = [&](const std::string& name) { return name == "torch.nn." + module.class_name; };
    const bool is_cast = classes.empty() ? module.is_linear
                                         : std::any_of(classes.begin(), classes.end(), is_named);
    for (const std::size_t row : module.parameters) {
      tree.parameters[row].is_cast = is_cast;
    }
  }
}

/// Which modules get and return something that a gradient reaches, from the first to the last.
class GradientFlow {
 public:
  explicit GradientFlow(ModelTree& tree) : tree_(tree) {}
  bool follow(std::size_t row, bool reaches) {
    ModelModule& module = tree_.modules[row];
    module.needs_input_gradient = reaches;
    bool returned = reaches || std::any_of(module.parameters.begin(), module.parameters.end(),
                                           [&](std::size_t p) { return tree_.parameters[p].is_trainable; });
    bool previous = reaches;
    for (const std::size_t call : module.calls) {
      const Input input = tree_.modules[call].input;
      const bool got = input == Input::no_gradient ? false : input == Input::same_as_parent ? reaches : previous;
      const bool gives = follow(call, got);
      previous = previous || gives;
      returned = returned || gives;
    }
    tree_.modules[row].needs_output_gradient = returned;
    return returned;
  }

 private:
  ModelTree& tree_;
};

}  // namespace

std::vector<std::size_t> ModelTree::parameters_below(std::size_t module) const {
  std::vector<std::size_t> rows = modules[module].parameters;
  for (const std::size_t child : modules[module].children) {
    const std::vector<std::size_t> below = parameters_below(child);
    rows.insert(rows.end(), below.begin(), below.end());
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

ModelTree model_tree(const Job& job) {
  const bool is_llama = job.model.family == Family::llama;
  ModelTree tree;
  if (is_llama) {
    tree = LlamaTree(job).build();
  } else {
    ModelConfig dense = job.model;  // experts are in the blocks that the options name
    dense.experts = dense.top_k = 0;
    const StagePart everything{.layers = dense.layers};
    tree = GptTree(local_parameters(dense, ParameterList(dense), 1, everything)).build(&job);
  }
  freeze(tree, job);
  cast(tree, job);
  GradientFlow(tree).follow(k_root, false);
  return tree;
}

ModelTree gpt_tree(const LocalParameters& parameters) {
  ModelTree tree = GptTree(parameters).build(nullptr);
  GradientFlow(tree).follow(k_root, false);
  return tree;
}

}  // namespace commlens::deepspeed
