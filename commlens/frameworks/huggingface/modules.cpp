#include "commlens/frameworks/huggingface/modules.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/tensor_plan.hpp"

namespace commlens::huggingface {
namespace {

using pytorch::Module;
using pytorch::Parameter;
using pytorch::TensorSharding;
using ModuleKind = Module::Kind;
constexpr auto k_whole = TensorSharding::whole;
constexpr auto k_by_rows = TensorSharding::rows;
constexpr auto k_by_columns = TensorSharding::columns;

/// A tensor of a module: rows x row elements, of so many dimensions.
struct Shape {
  std::string name;  // within the module
  std::int64_t rows = 0;
  std::int64_t row = 0;  // 0: of one dimension
  TensorSharding sharding = k_whole;
  int dimensions = 2;
};

/// The parameters of a module in the order of registration, and where each is in the forward pass.
struct Tree {
  std::vector<Shape> registered;
  std::vector<std::string> executed = {};  // names; empty: in the order of registration
};

/// A linear: its weight and, where it has one, its bias.
void add_linear(std::vector<Shape>& shapes, const std::string& name, const Shape& weight, bool has_bias) {
  shapes.push_back({name + ".weight", weight.rows, weight.row, weight.sharding});
  if (has_bias) {
    shapes.push_back({name + ".bias", weight.rows, 0, weight.sharding == k_by_rows ? k_by_rows : k_whole});
  }
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const Job& job)
      : job_(job),
        model_(job.model),
        plan_(tensor_plan(job)),
        is_v3_(options(job).model_type == "deepseek_v3") {}

  Module module(ModuleKind kind, const std::string& name, const Tree& tree, std::int64_t layer = 0) const {
    Module module{.kind = kind, .layer = layer};
    for (const Shape& shape : tree.registered) {
      module.parameters.push_back(parameter(name, shape));
    }
    module.gradient_order = gradient_order(tree);
    return module;
  }

  Module block(std::int64_t layer) const {
    const bool is_mixture = huggingface::has_experts(model_, layer);
    std::vector<Shape> attention = model_.latent.is_used() ? latent_attention() : usual_attention();
    std::vector<Shape> feed_forward = is_mixture ? experts() : mlp("mlp.", model_.ffn_hidden);
    Tree tree;
    tree.executed = {"input_layernorm.weight"};
    append_names(tree.executed, executed_attention(attention));
    tree.executed.emplace_back("post_attention_layernorm.weight");
    append_names(tree.executed, is_mixture ? executed_experts() : names_of(feed_forward));
    tree.registered = std::move(attention);
    tree.registered.insert(tree.registered.end(), feed_forward.begin(), feed_forward.end());
    tree.registered.push_back({"input_layernorm.weight", model_.hidden});
    tree.registered.push_back({"post_attention_layernorm.weight", model_.hidden});
    Module block = module(ModuleKind::block, fmt::format("model.layers.{}", layer), tree, layer);
    if (is_mixture && is_v3_) {
      block.buffers = {{model_.experts, DType::fp32}};  // e_score_correction_bias
    }
    return block;
  }

 private:
  static std::vector<std::string> names_of(const std::vector<Shape>& shapes) {
    std::vector<std::string> names;
    for (const Shape& shape : shapes) {
      names.push_back(shape.name);
    }
    return names;
  }
  static void append_names(std::vector<std::string>& names, const std::vector<std::string>& more) {
    names.insert(names.end(), more.begin(), more.end());
  }

  std::vector<Shape> usual_attention() const {
    const std::int64_t h = model_.hidden;
    const std::int64_t queries = model_.heads * model_.head_dim;
    const std::int64_t keys = model_.kv_heads * model_.head_dim;
    const auto rows = plan_.splits_attention ? k_by_rows : k_whole;
    std::vector<Shape> shapes;
    if (model_.attention_sinks) {
      shapes.push_back({"self_attn.sinks", model_.heads});
    }
    add_linear(shapes, "self_attn.q_proj", {"", queries, h, rows}, model_.qkv_bias);
    add_linear(shapes, "self_attn.k_proj", {"", keys, h, rows}, model_.qkv_bias);
    add_linear(shapes, "self_attn.v_proj", {"", keys, h, rows}, model_.qkv_bias);
    add_linear(shapes, "self_attn.o_proj", {"", h, queries, plan_.splits_attention ? k_by_columns : k_whole},
               model_.linear_bias);
    if (model_.qk_norm) {
      shapes.push_back({"self_attn.q_norm.weight", model_.head_dim});
      shapes.push_back({"self_attn.k_norm.weight", model_.head_dim});
    }
    return shapes;
  }

  std::vector<Shape> latent_attention() const {
    const LatentAttention& latent = model_.latent;
    const std::int64_t h = model_.hidden;
    const std::int64_t queries = model_.heads * (latent.nope_dim + latent.rope_dim);
    const auto rows = plan_.splits_attention ? k_by_rows : k_whole;
    std::vector<Shape> shapes;
    if (latent.query_rank == 0) {
      shapes.push_back({"self_attn.q_proj.weight", queries, h, rows});
    } else {
      shapes.push_back({"self_attn.q_a_proj.weight", latent.query_rank, h});
      shapes.push_back({"self_attn.q_a_layernorm.weight", latent.query_rank});
      shapes.push_back({"self_attn.q_b_proj.weight", queries, latent.query_rank, rows});
    }
    shapes.push_back({"self_attn.kv_a_proj_with_mqa.weight", latent.kv_rank + latent.rope_dim, h});
    shapes.push_back({"self_attn.kv_a_layernorm.weight", latent.kv_rank});
    shapes.push_back({"self_attn.kv_b_proj.weight", model_.heads * (latent.nope_dim + latent.value_dim),
                      latent.kv_rank, rows});
    shapes.push_back({"self_attn.o_proj.weight", h, model_.heads * latent.value_dim,
                      plan_.splits_attention ? k_by_columns : k_whole});
    return shapes;
  }

  /// Norms of queries and keys follow their linears, sinks are in the attention.
  std::vector<std::string> executed_attention(const std::vector<Shape>& registered) const {
    std::vector<std::string> names = names_of(registered);
    const auto move_after = [&](const std::string& name, std::string_view end_of_others) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) {
        return;
      }
      names.erase(at);
      const auto last = std::find_if(names.rbegin(), names.rend(), [&](const std::string& other) {
        return other.starts_with(end_of_others);
      });
      names.insert(last.base(), name);
    };
    move_after("self_attn.q_norm.weight", "self_attn.q_proj");
    move_after("self_attn.k_norm.weight", "self_attn.k_proj");
    move_after("self_attn.sinks", "self_attn.v_proj");
    return names;
  }

  std::vector<Shape> mlp(const std::string& prefix, std::int64_t width) const {
    const auto rows = plan_.splits_mlp ? k_by_rows : k_whole;
    return {{prefix + "gate_proj.weight", width, model_.hidden, rows},
            {prefix + "up_proj.weight", width, model_.hidden, rows},
            {prefix + "down_proj.weight", model_.hidden, width, plan_.splits_mlp ? k_by_columns : k_whole}};
  }

  /// Experts are one tensor of three dimensions for each of their two projections.
  std::vector<Shape> experts() const {
    const std::int64_t e = model_.experts;
    const std::int64_t h = model_.hidden;
    const std::int64_t width = model_.expert_hidden();
    const auto split = plan_.splits_experts ? k_by_columns : k_whole;
    std::vector<Shape> shapes;
    if (model_.attention_sinks) {  // gpt_oss
      add_linear(shapes, "mlp.router", {"", e, h}, model_.router_bias);
      shapes.push_back({"mlp.experts.gate_up_proj", e, h * 2 * width, split, 3});
      shapes.push_back({"mlp.experts.gate_up_proj_bias", e, 2 * width, split});
      shapes.push_back({"mlp.experts.down_proj", e, width * h, split, 3});
      shapes.push_back({"mlp.experts.down_proj_bias", e, h});
      return shapes;
    }
    const Shape gate{"mlp.gate.weight", e, h};
    const bool is_gate_first = !model_.qk_norm && !model_.latent.is_used();  // mixtral
    if (is_gate_first) {
      shapes.push_back(gate);
    }
    shapes.push_back({"mlp.experts.gate_up_proj", e, 2 * width * h, split, 3});
    shapes.push_back({"mlp.experts.down_proj", e, h * width, split, 3});
    if (!is_gate_first) {
      shapes.push_back(gate);
    }
    if (model_.shared_experts > 0) {
      const std::vector<Shape> shared = mlp("mlp.shared_experts.", model_.shared_experts * width);
      shapes.insert(shapes.end(), shared.begin(), shared.end());
    }
    return shapes;
  }

  std::vector<std::string> executed_experts() const {
    if (model_.attention_sinks) {
      return {"mlp.router.weight",
              "mlp.router.bias",
              "mlp.experts.gate_up_proj_bias",
              "mlp.experts.gate_up_proj",
              "mlp.experts.down_proj_bias",
              "mlp.experts.down_proj"};
    }
    std::vector<std::string> names = {"mlp.gate.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
    if (model_.shared_experts > 0) {
      append_names(names, {"mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                           "mlp.shared_experts.down_proj.weight"});
    }
    return names;
  }

  Parameter parameter(const std::string& module, const Shape& shape) const {
    Parameter parameter;
    parameter.name = fmt::format("{}.{}", module, shape.name);
    parameter.dimensions = shape.row == 0 ? 1 : shape.dimensions;
    parameter.rows = parameter.whole_rows = shape.rows;
    parameter.row = parameter.whole_row = std::max<std::int64_t>(shape.row, 1);
    parameter.sharding = shape.sharding;
    parameter.dtype = job_.train.dtype;
    if (shape.sharding == k_by_rows) {
      parameter.rows = ceil_div(shape.rows, job_.layout.tp);
    } else if (shape.sharding == k_by_columns) {
      parameter.row = ceil_div(shape.row, job_.layout.tp);
    }
    return parameter;
  }

  /// Gradients are complete in the reverse order of the forward pass.
  static std::vector<std::size_t> gradient_order(const Tree& tree) {
    std::vector<std::string> names = tree.executed.empty() ? names_of(tree.registered) : tree.executed;
    std::reverse(names.begin(), names.end());
    std::vector<std::size_t> places;
    for (const std::string& name : names) {
      const auto at = std::find_if(tree.registered.begin(), tree.registered.end(),
                                   [&](const Shape& shape) { return shape.name == name; });
      places.push_back(static_cast<std::size_t>(at - tree.registered.begin()));
    }
    return places;
  }

  const Job& job_;
  const ModelConfig& model_;
  TensorPlan plan_;
  bool is_v3_;
};

/// inv_freq and original_inv_freq of model.rotary_emb: one wave for each pair of what is turned.
std::vector<pytorch::Buffer> rotary_buffers(const ModelConfig& model) {
  const std::int64_t turned = model.latent.is_used() ? model.latent.rope_dim : model.head_dim;
  const auto waves = static_cast<std::int64_t>(static_cast<double>(turned) * model.rotary_fraction) / 2;
  return {{waves, DType::fp32}, {waves, DType::fp32}};
}

}  // namespace

bool has_experts(const ModelConfig& model, std::int64_t layer) {
  return model.experts > 0 && layer >= model.dense_layers;
}

std::vector<Module> model_modules(const Job& job) {
  const ModelConfig& model = job.model;
  const TreeBuilder tree(job);
  const auto vocabulary = job.layout.tp > 1 ? k_by_rows : k_whole;
  std::vector<Module> modules;
  modules.push_back(tree.module(ModuleKind::embedding, "model.embed_tokens",
                                {{{"weight", model.vocab, model.hidden, vocabulary}}}));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    modules.push_back(tree.block(layer));
  }
  modules.push_back(tree.module(ModuleKind::norm, "model.norm", {{{"weight", model.hidden}}}));
  modules.back().buffers = rotary_buffers(model);  // model.rotary_emb comes after the norm
  Tree head;
  if (!model.tied_embeddings) {
    head.registered = {{"weight", model.vocab, model.hidden, vocabulary}};
  }
  modules.push_back(tree.module(ModuleKind::output, "lm_head", head));
  return modules;
}

}  // namespace commlens::huggingface
