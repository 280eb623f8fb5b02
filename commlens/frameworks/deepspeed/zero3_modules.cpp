#include "commlens/frameworks/deepspeed/zero3_modules.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

namespace commlens::deepspeed {
namespace {

/// Modules in pre-hook order, looked up by leaf and layer.
class ModuleTree {
 public:
  explicit ModuleTree(const LocalParameters& parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      layers_ = std::max(layers_, parameters[i].layer + 1);
      by_leaf_[{parameters[i].leaf, parameters[i].layer}].push_back(i);
    }
  }

  HookedModule leaf(Leaf leaf, std::int64_t layer, bool has_post_backward = true) const {
    HookedModule module;
    if (const auto found = by_leaf_.find({leaf, layer}); found != by_leaf_.end()) {
      module.parameters = found->second;
    }
    module.has_post_backward = has_post_backward;
    module.leaf = leaf;
    return module;
  }
  bool has_positions() const { return by_leaf_.contains({Leaf::wpe, -1}); }
  std::int64_t layers() const { return layers_; }

 private:
  std::map<std::pair<Leaf, std::int64_t>, std::vector<std::size_t>> by_leaf_;
  std::int64_t layers_ = 0;
};

void append_embedding(const ModuleTree& tree, bool wpe_first, std::vector<HookedModule>& modules) {
  modules.push_back({{}, false});  // embed, a container
  if (wpe_first && tree.has_positions()) {
    modules.push_back(tree.leaf(Leaf::wpe, -1, false));
  }
  modules.push_back(tree.leaf(Leaf::wte, -1, false));
  if (!wpe_first && tree.has_positions()) {
    modules.push_back(tree.leaf(Leaf::wpe, -1, false));
  }
}

void append_block(const ModuleTree& tree, std::int64_t layer, std::initializer_list<Leaf> leaves,
                  std::vector<HookedModule>& modules) {
  modules.push_back({});  // the block, a container
  for (const Leaf leaf : leaves) {
    HookedModule module = tree.leaf(leaf, layer);
    if (leaf != Leaf::router || !module.parameters.empty()) {
      modules.push_back(std::move(module));
    }
  }
}

}  // namespace

std::vector<HookedModule> forward_modules(const LocalParameters& parameters) {
  const ModuleTree tree(parameters);
  std::vector<HookedModule> modules{{}};  // root
  append_embedding(tree, false, modules);
  for (std::int64_t layer = 0; layer < tree.layers(); ++layer) {
    append_block(tree, layer,
                 {Leaf::ln1, Leaf::qkv, Leaf::proj, Leaf::ln2, Leaf::router, Leaf::fc1, Leaf::fc2}, modules);
  }
  modules.push_back({});  // norm, a container
  modules.push_back(tree.leaf(Leaf::norm, -1));
  modules.push_back({});  // head, a container
  modules.push_back(tree.leaf(Leaf::head, -1));
  return modules;
}

std::vector<HookedModule> backward_modules(const LocalParameters& parameters) {
  const ModuleTree tree(parameters);
  std::vector<HookedModule> modules{{}};  // root
  modules.push_back({});
  modules.push_back(tree.leaf(Leaf::head, -1));
  modules.push_back({});
  modules.push_back(tree.leaf(Leaf::norm, -1));
  for (std::int64_t layer = tree.layers() - 1; layer >= 0; --layer) {
    append_block(tree, layer,
                 {Leaf::fc2, Leaf::fc1, Leaf::router, Leaf::ln2, Leaf::proj, Leaf::qkv, Leaf::ln1}, modules);
  }
  append_embedding(tree, true, modules);
  return modules;
}

}  // namespace commlens::deepspeed
