#include "commlens/frameworks/deepspeed/model_tree.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "commlens/frameworks/deepspeed/model_trees.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

using Input = ModelModule::Input;

constexpr std::size_t k_root = 0;

/// Source of the names: tests/golden/deepspeed_0.19/z0_FROZEN_w4_fp32.
void freeze(ModelTree& tree, const Job& job) {
  const Options& own = options(job);
  const std::vector<std::string> names = tree.parameter_names();
  for (const ModelModule& module : tree.modules) {
    const bool is_low_rank = module.name.ends_with(".A") || module.name.ends_with(".B");
    for (const std::size_t row : module.parameters) {
      const auto begins = [&](const std::string& beginning) { return names[row].starts_with(beginning); };
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
  const std::optional<std::vector<std::string>>& classes = options(job).autocast_modules;
  for (const ModelModule& module : tree.modules) {
    const auto is_named = [&](const std::string& name) {
      return name.starts_with("torch.nn.") && name.ends_with("." + module.class_name);
    };
    const bool is_cast = classes ? std::any_of(classes->begin(), classes->end(), is_named) : module.is_linear;
    for (const std::size_t row : module.parameters) {
      tree.parameters[row].is_cast = tree.parameters[row].is_cast || is_cast;
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
      const bool got = input == Input::no_gradient      ? false
                       : input == Input::same_as_parent ? reaches
                                                        : previous;
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

std::vector<std::string> ModelTree::parameter_names() const {
  std::vector<std::string> names(parameters.size());
  for (const ModelModule& module : modules) {
    for (const std::size_t row : module.parameters) {
      const std::string& name = parameters[row].name;
      const std::size_t dot = name.rfind('.');
      if (names[row].empty()) {
        names[row] = module.name + (dot == std::string::npos ? "." + name : name.substr(dot));
      }
    }
  }
  return names;
}

ModelTree model_tree(const Job& job) {
  const bool is_llama = job.model.family == Family::llama;
  ModelTree tree;
  if (is_llama) {
    tree = build_llama_tree(job);
  } else {
    ModelConfig dense = job.model;  // experts are in the blocks that the options name
    dense.experts = dense.top_k = 0;
    const StagePart everything{.layers = dense.layers};
    tree = build_gpt_tree(local_parameters(dense, ParameterList(dense), 1, everything), &job);
  }
  freeze(tree, job);
  cast(tree, job);
  GradientFlow(tree).follow(k_root, false);
  return tree;
}

ModelTree gpt_tree(const LocalParameters& parameters) {
  ModelTree tree = build_gpt_tree(parameters, nullptr);
  GradientFlow(tree).follow(k_root, false);
  return tree;
}

}  // namespace commlens::deepspeed
