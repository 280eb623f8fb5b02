#include "commlens/frameworks/deepspeed/zero3_modules.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::size_t k_whole_model = 0;

/// Parameters for each layer below a module. Source: parameter_offload.py _get_granularity_recursively.
class Granularity {
 public:
  explicit Granularity(const ModelTree& tree) : tree_(tree), values_(tree.modules.size(), k_never) {
    measure(k_whole_model);
  }

  /// Parents before their children.
  void add_leaves(std::size_t row, std::int64_t threshold, std::vector<std::size_t>& leaves) const {
    if (tree_.parameters_below(row).empty()) {
      return;
    }
    if (values_[row] <= threshold) {
      leaves.push_back(row);
      return;
    }
    for (const std::size_t child : tree_.modules[row].children) {
      add_leaves(child, threshold, leaves);
    }
  }

 private:
  static constexpr std::int64_t k_never = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t k_largest_leaf = 1'000'000'000;  // Z3_MAX_LEAF_SIZE

  struct Size {
    std::int64_t layers = 0;
    std::int64_t parameters = 0;
  };

  Size measure(std::size_t row) {
    const ModelModule& module = tree_.modules[row];
    Size size;
    if (tree_.parameters_below(row).empty()) {
      return size;
    }
    for (const std::size_t parameter : module.parameters) {
      size.parameters += tree_.parameters[parameter].count;
    }
    if (module.children.empty()) {
      size.layers = 1;
      return size;
    }
    for (const std::size_t child : module.children) {
      const Size below = measure(child);
      size.layers += below.layers;
      size.parameters += below.parameters;
    }
    if (module.is_called) {
      size.layers += 1;
      values_[row] = size.parameters <= k_largest_leaf ? size.parameters / size.layers : k_never;
    }
    return size;
  }

  const ModelTree& tree_;
  std::vector<std::int64_t> values_;
};

bool is_named(const ModelModule& module, const LeafModules& named) {
  const auto any = [](const std::vector<std::string>& names, auto&& is_it) {
    return std::any_of(names.begin(), names.end(), is_it);
  };
  const auto is_class = [&](const std::string& name) {
    return name == module.class_name || name.ends_with("." + module.class_name);
  };
  return any(named.classes, is_class) ||
         any(named.names, [&](const std::string& name) { return name == module.name; }) ||
         any(named.suffixes, [&](const std::string& suffix) { return module.name.ends_with(suffix); });
}

}  // namespace

std::vector<std::size_t> leaf_modules(const ModelTree& tree, const Job& job) {
  std::vector<std::size_t> leaves;
  for (std::size_t row = 0; row < tree.modules.size(); ++row) {
    if (is_named(tree.modules[row], options(job).leaf_modules)) {
      leaves.push_back(row);
    }
  }
  if (options(job).granularity > 0) {
    Granularity(tree).add_leaves(k_whole_model, options(job).granularity, leaves);
  }
  return leaves;
}

std::vector<HookedModule> hooked_modules(const ModelTree& tree, const std::vector<std::size_t>& leaves) {
  std::vector<HookedModule> hooked;
  std::vector<bool> is_leaf(tree.modules.size(), false);
  for (const std::size_t leaf : leaves) {
    is_leaf[leaf] = true;
  }
  for (std::size_t row = 0; row < tree.modules.size(); ++row) {
    HookedModule module;
    module.is_leaf = is_leaf[row];
    module.own = tree.modules[row].parameters;
    module.below = tree.parameters_below(row);
    module.parameters = module.is_leaf ? module.below : module.own;
    hooked.push_back(std::move(module));
  }
  return hooked;
}

std::string unmatched_leaf_module(const Job& job) {
  const ModelTree tree = model_tree(job);
  const LeafModules& named = options(job).leaf_modules;
  const std::pair<const std::vector<std::string>&, std::vector<std::string> LeafModules::*> lists[] = {
      {named.classes, &LeafModules::classes},
      {named.names, &LeafModules::names},
      {named.suffixes, &LeafModules::suffixes}};
  for (const auto& [names, list] : lists) {
    for (const std::string& name : names) {
      LeafModules one;
      (one.*list) = {name};
      const bool is_there = std::any_of(tree.modules.begin(), tree.modules.end(),
                                        [&](const ModelModule& module) { return is_named(module, one); });
      if (!is_there) {
        return name;
      }
    }
  }
  return "";
}

Result<void> check_leaf_modules(const Job& job) {
  const ModelTree tree = model_tree(job);
  for (const std::size_t leaf : leaf_modules(tree, job)) {
    if (!tree.modules[leaf].needs_input_gradient && tree.modules[leaf].needs_output_gradient) {
      return failure(
          fmt::format("zero_optimization: module '{}' would be a leaf, but no gradient reaches its input, so "
                      "that DeepSpeed's hooks release its parameters before their gradients and backward() "
                      "fails; let leaf modules leave it out",
                      tree.modules[leaf].name.empty() ? "(the whole model)" : tree.modules[leaf].name));
    }
  }
  return {};
}

}  // namespace commlens::deepspeed
