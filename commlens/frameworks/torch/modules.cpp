#include "commlens/frameworks/torch/modules.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fnmatch.h>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::pytorch {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Shape {
  std::string_view name;  // within its module
  std::int64_t rows;
  std::int64_t row;  // 0: of one dimension
  TensorSharding sharding = TensorSharding::whole;
};

/// The parameters of a module, of which a tensor rank holds its part.
class TreeBuilder {
 public:
  explicit TreeBuilder(const Job& job) : job_(job), model_(job.model) {}

  Module module(Module::Kind kind, const std::string& name, const std::vector<Shape>& shapes,
                std::int64_t layer = 0) const {
    Module module{.kind = kind, .layer = layer, .is_used = !contains(model_.unused, name)};
    module.has_feed_forward = !contains(model_.unused, name + ".feed_forward");
    for (const Shape& shape : shapes) {
      module.parameters.push_back(parameter(name, module, shape));
    }
    return module;
  }

  Module block(std::int64_t layer) const {
    const std::string name = fmt::format("layers.{}", layer);
    return module(Module::Kind::block, name, model_.family == Family::llama ? llama_shapes() : gpt_shapes(),
                  layer);
  }

 private:
  std::vector<Shape> llama_shapes() const {
    const std::int64_t h = model_.hidden;
    const std::int64_t queries = model_.heads * model_.head_dim;
    const std::int64_t keys = model_.kv_heads * model_.head_dim;
    constexpr auto rows = TensorSharding::rows;
    constexpr auto columns = TensorSharding::columns;
    return {{"attention.wq.weight", queries, h, rows},
            {"attention.wk.weight", keys, h, rows},
            {"attention.wv.weight", keys, h, rows},
            {"attention.wo.weight", h, queries, columns},
            {"feed_forward.w1.weight", model_.ffn_hidden, h, rows},
            {"feed_forward.w2.weight", h, model_.ffn_hidden, columns},
            {"feed_forward.w3.weight", model_.ffn_hidden, h, rows},
            {"attention_norm.weight", h, 0},
            {"ffn_norm.weight", h, 0}};
  }
  std::vector<Shape> gpt_shapes() const {
    const std::int64_t h = model_.hidden;
    const std::int64_t f = model_.ffn_hidden;
    return {{"ln1.weight", h, 0},  {"ln1.bias", h, 0},  {"qkv.weight", 3 * h, h}, {"qkv.bias", 3 * h, 0},
            {"proj.weight", h, h}, {"proj.bias", h, 0}, {"ln2.weight", h, 0},     {"ln2.bias", h, 0},
            {"fc1.weight", f, h},  {"fc1.bias", f, 0},  {"fc2.weight", h, f},     {"fc2.bias", h, 0}};
  }

  Parameter parameter(const std::string& module_name, const Module& module, const Shape& shape) const {
    Parameter parameter;
    parameter.name = fmt::format("{}.{}", module_name, shape.name);
    parameter.dimensions = shape.row == 0 ? 1 : 2;
    parameter.rows = parameter.whole_rows = shape.rows;
    parameter.row = parameter.whole_row = std::max<std::int64_t>(shape.row, 1);
    parameter.sharding = shape.sharding;
    const std::int64_t tp = job_.layout.tp;
    if (shape.sharding == TensorSharding::rows) {
      parameter.rows = ceil_div(shape.rows, tp);
    } else if (shape.sharding == TensorSharding::columns) {
      parameter.row = ceil_div(shape.row, tp);
    }
    parameter.is_partial = tp > 1 && job_.layout.sequence_parallel && parameter.dimensions == 1;
    const bool is_mixed = !model_.fp32_patterns.empty();
    parameter.dtype = !is_mixed                                           ? job_.train.dtype
                      : matches_any(model_.fp32_patterns, parameter.name) ? DType::fp32
                                                                          : DType::bf16;
    // SequenceParallel makes new parameters, which are trained (tensor/parallel/style.py:395 of 2.15); older
    // releases do so with what is split too.
    const bool is_new = parameter.is_partial || (tp > 1 && shape.sharding != TensorSharding::whole &&
                                                 !behaviour(job_).keeps_split_parameters_frozen);
    parameter.is_trainable = is_new || !matches_any(model_.frozen, parameter.name);
    const bool is_of_feed_forward =
        shape.name.starts_with("feed_forward.") || shape.name.starts_with("ffn_norm.");
    parameter.is_used = module.is_used && (module.has_feed_forward || !is_of_feed_forward);
    return parameter;
  }

  const Job& job_;
  const ModelConfig& model_;
};

}  // namespace

std::int64_t buffer_elements(const Job& job) { return job.model.has_batch_norm ? job.model.hidden : 0; }

LayerRange stage_layers(std::int64_t layers, std::int64_t stage, std::int64_t stages) {
  if (layers % stages == 0) {
    return {stage * (layers / stages), layers / stages};
  }
  // Of the embedding, the layers and the head.
  const auto begin = [&](std::int64_t at) {
    return at * ((layers + 2) / stages) + std::min(at, (layers + 2) % stages);
  };
  const std::int64_t first = std::max<std::int64_t>(begin(stage) - 1, 0);
  return {first, std::min(begin(stage + 1) - 1, layers) - first};
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool are_embeddings_tied(const Job& job) { return job.model.tied_embeddings && job.layout.tp == 1; }

std::vector<Module> stage_modules(const Job& job, std::int64_t stage, std::int64_t stages) {
  const ModelConfig& model = job.model;
  const TreeBuilder tree(job);
  std::vector<Module> modules;
  using Kind = Module::Kind;
  const bool is_gpt = model.family == Family::gpt;
  if (stage == 0) {
    modules.push_back(tree.module(Kind::embedding, "tok_embeddings",
                                  {{"weight", model.vocab, model.hidden, TensorSharding::rows}}));
    if (model.positions == Positions::learned) {
      modules.push_back(
          tree.module(Kind::positions, "pos_embeddings", {{"weight", model.sequence, model.hidden}}));
    }
    if (model.has_batch_norm) {
      modules.push_back(tree.module(Kind::input_norm, "input_norm",
                                    {{"weight", model.hidden, 0}, {"bias", model.hidden, 0}}));
    }
  }
  const LayerRange layers = stage_layers(model.layers, stage, stages);
  for (std::int64_t layer = layers.first; layer < layers.first + layers.count; ++layer) {
    modules.push_back(tree.block(layer));
  }
  if (stage == stages - 1) {
    std::vector<Shape> norm = {{"weight", model.hidden, 0}};
    if (is_gpt) {
      norm.push_back({"bias", model.hidden, 0});
    }
    modules.push_back(tree.module(Kind::norm, "norm", norm));
    // A tied output has the parameter of the embedding, which is listed there.
    modules.push_back(
        tree.module(Kind::output, "output",
                    are_embeddings_tied(job)
                        ? std::vector<Shape>{}
                        : std::vector<Shape>{{"weight", model.vocab, model.hidden, TensorSharding::rows}}));
  }
  return modules;
}

std::vector<const Parameter*> in_gradient_order(const std::vector<Module>& modules) {
  // Places in Module::parameters of a block, in the order in which their gradients are complete.
  constexpr std::array<std::size_t, 9> llama = {5, 6, 4, 8, 3, 2, 1, 0, 7};
  constexpr std::array<std::size_t, 12> gpt = {11, 10, 9, 8, 6, 7, 5, 4, 3, 2, 0, 1};
  std::vector<const Parameter*> order;
  const auto add = [&](const Module& module, const auto& places) {
    for (const std::size_t place : places) {
      order.push_back(&module.parameters[place]);
    }
  };
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
    if (!module->gradient_order.empty()) {
      add(*module, module->gradient_order);
    } else if (module->kind == Module::Kind::block && module->parameters.size() == llama.size()) {
      add(*module, llama);
    } else if (module->kind == Module::Kind::block) {
      add(*module, gpt);
    } else {
      for (const Parameter& parameter : module->parameters) {
        order.push_back(&parameter);
      }
    }
  }
  return order;
}

}  // namespace commlens::pytorch
