#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/model_trees.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/tensor_split.hpp"
#include "commlens/frameworks/deepspeed/tree_builder.hpp"

namespace commlens::deepspeed {
namespace {

using Input = ModelModule::Input;

/// The tree `llama`: embed_tokens, layers, norm, lm_head; or LlamaForCausalLM and MixtralForCausalLM of
/// transformers, which have all but the head in `model`. Source of the latter: transformers 5.23
/// models/llama/modeling_llama.py, models/mixtral/modeling_mixtral.py.
class LlamaTree {
 public:
  explicit LlamaTree(const Job& job)
      : job_(job),
        model_(job.model),
        is_transformers_(is_of_transformers(job)),
        splits_(job),
        builder_(is_transformers_ ? "LlamaForCausalLM" : "Llama") {}

  ModelTree build() {
    std::size_t body = TreeBuilder::k_root;
    if (is_transformers_) {
      body = builder_.add(TreeBuilder::k_root,
                          {.name = "model", .class_name = "LlamaModel", .input = Input::no_gradient});
    }
    const std::size_t tokens = builder_.add(
        body,
        {.name = "embed_tokens", .class_name = "Embedding", .leaf = Leaf::wte, .input = Input::no_gradient});
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
          body, {.name = "rotary_emb", .class_name = "LlamaRotaryEmbedding", .input = Input::no_gradient}));
    }
    calls.insert(calls.end(), blocks.begin(), blocks.end());
    calls.push_back(norm);
    builder_.module(body).calls = std::move(calls);
    if (model_.tied_embeddings) {
      const std::size_t head =
          builder_.add(TreeBuilder::k_root, {.name = "lm_head", .class_name = "Linear", .leaf = Leaf::head});
      builder_.make_linear(head, model_.hidden, model_.vocab);
      builder_.module(head).parameters.push_back(0);
    } else {
      add_linear(TreeBuilder::k_root, "lm_head", Leaf::head, {model_.vocab, model_.hidden}, -1);
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
    const TensorSplit split = splits_.of(path + ".weight");
    switch (split) {
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
    builder_.module(row).split = split;
    builder_.module(row).gathers_output = splits_.gathers(path + ".weight");
    return row;
  }

  std::size_t add_block(std::size_t layers, std::int64_t layer) {
    const std::size_t block =
        builder_.add(layers,
                     {.name = fmt::format("{}", layer),
                      .class_name = is_transformers_ ? "LlamaDecoderLayer" : "LlamaBlock"},
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
    const std::size_t down =
        add_linear(mlp, "down_proj", Leaf::fc2, {model_.hidden, model_.ffn_hidden}, layer);
    if (is_transformers_) {
      const std::size_t activation =
          builder_.add(mlp, {.name = "act_fn", .class_name = "SiLUActivation"}, layer);
      builder_.module(mlp).calls = {gate, activation, up, down};
    }
    return mlp;
  }

  /// AutoEP's layer: the router, and the experts of this rank as two stacks.
  std::size_t add_experts(std::size_t block, std::int64_t layer) {
    const std::size_t mlp = builder_.add(block, {.name = "mlp", .class_name = "AutoEPMoELayer"}, layer);
    builder_.module(mlp).combines = true;
    const std::size_t router =
        builder_.add(mlp, {.name = "router", .class_name = "TokenChoiceTopKRouter"}, layer);
    builder_.add_linear(router, {.name = "gate", .leaf = Leaf::router}, {model_.experts, model_.hidden},
                        false, layer);
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
  TensorSplits splits_;
  TreeBuilder builder_;
};

}  // namespace

ModelTree build_llama_tree(const Job& job) { return LlamaTree(job).build(); }

}  // namespace commlens::deepspeed
