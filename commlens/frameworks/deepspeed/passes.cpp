#include "commlens/frameworks/deepspeed/passes.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace commlens::deepspeed {
namespace {

using StepKind = PassStep::Kind;

constexpr std::size_t k_model = 0;

class PassWriter {
 public:
  PassWriter(const ModelTree& tree, const PassOptions& options)
      : tree_(tree),
        options_(options),
        last_user_(tree.parameters.size(), k_model),
        is_leaf_(tree.modules.size(), false) {
    for (const std::size_t leaf : options.leaves) {
      is_leaf_[leaf] = true;
    }
    find_last_users(k_model);
  }

  std::vector<PassStep> forward() {
    forward(k_model);
    return std::move(steps_);
  }

  std::vector<PassStep> backward() {
    backward(k_model);
    return std::move(steps_);
  }

 private:
  /// A parameter of several modules: its gradient is complete after the first of them that the model calls.
  void find_last_users(std::size_t row) {
    for (const std::size_t parameter : tree_.modules[row].parameters) {
      if (last_user_[parameter] == k_model) {
        last_user_[parameter] = row;
      }
    }
    for (const std::size_t child : tree_.modules[row].children) {
      find_last_users(child);
    }
  }

  void add(StepKind kind, std::size_t row) { steps_.push_back({kind, row}); }

  bool is_skipped(std::size_t row) const {
    return tree_.modules[row].is_block && tree_.modules[row].layer == options_.skipped_block;
  }

  /// The gradients of a leaf are reduced by parameter groups of the optimizer, the one of experts last.
  /// Source: runtime/zero/stage3.py:1483 create_reduce_and_remove_grad_hooks of 0.19.8.
  void add_leaf_gradients(std::size_t row) {
    std::vector<std::size_t> rows = tree_.parameters_below(row);
    const auto group = [&](std::size_t parameter) {
      const LocalParameter& one = tree_.parameters[parameter];
      return one.is_expert ? 2 : options_.decays_apart && !one.decays ? 1 : 0;
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](std::size_t a, std::size_t b) { return group(a) < group(b); });
    for (const std::size_t parameter : rows) {
      add_gradient(parameter);
    }
  }

  void forward(std::size_t row) {
    const ModelModule& module = tree_.modules[row];
    const bool is_outermost_leaf = !leaf_ && is_leaf_[row];
    add(StepKind::before, row);
    if (!leaf_) {
      add(StepKind::fetch, row);
    }
    if (is_outermost_leaf) {
      leaf_ = row;
    }
    for (const std::size_t call : module.calls) {
      if (!is_skipped(call)) {
        forward(call);
      }
    }
    if (module.leaf) {
      add(StepKind::compute, row);
    }
    add(StepKind::inside, row);
    if (is_outermost_leaf) {
      leaf_.reset();
    }
    if (!leaf_) {
      add(StepKind::release, row);
    }
    add(StepKind::after, row);
  }

  /// The steps of the forward pass of a block until its last linear has what its backward pass needs.
  void recompute(std::size_t block, bool stops_early) {
    std::vector<PassStep> around = std::move(steps_);
    steps_.clear();
    const std::optional<std::size_t> leaf = std::exchange(leaf_, std::nullopt);
    forward(block);
    leaf_ = leaf;
    if (stops_early) {
      const auto is_needed = [&](const PassStep& step) {
        return step.kind == StepKind::compute ||
               (step.kind == StepKind::fetch && !tree_.modules[step.row].parameters.empty());
      };
      const auto last = std::find_if(steps_.rbegin(), steps_.rend(), is_needed);
      steps_.erase(last.base(), steps_.end());
    }
    around.push_back({StepKind::begin_recompute, block});
    around.insert(around.end(), steps_.begin(), steps_.end());
    around.push_back({StepKind::end_recompute, block});
    steps_ = std::move(around);
  }

  /// A checkpointed block, where something that its backward pass needs is asked for first.
  void recompute_block() {
    if (block_to_recompute_) {
      recompute(*std::exchange(block_to_recompute_, std::nullopt), true);
    }
  }

  void backward(std::size_t row) {
    const ModelModule& module = tree_.modules[row];
    if (!module.needs_output_gradient) {
      return;
    }
    const bool is_checkpointed = options_.recomputes && module.is_block;
    if (is_checkpointed && options_.is_reentrant) {
      recompute(row, false);
    }
    const bool is_outermost_leaf = !leaf_ && is_leaf_[row];
    add(StepKind::before, row);
    if (!leaf_) {
      add(StepKind::fetch, row);
    }
    if (is_outermost_leaf) {
      leaf_ = row;
    }
    if (is_checkpointed && !options_.is_reentrant) {
      block_to_recompute_ = row;
    }
    if (module.combines) {
      recompute_block();
    }
    for (auto call = module.calls.rbegin(); call != module.calls.rend(); ++call) {
      if (!is_skipped(*call)) {
        backward(*call);
      }
    }
    if (module.leaf || !module.parameters.empty()) {
      recompute_block();
    }
    if (module.leaf) {
      add(StepKind::compute, row);
    }
    add_gradients(row);
    add(StepKind::inside, row);
    if (is_outermost_leaf) {
      leaf_.reset();
      add_leaf_gradients(row);
    }
    if (!leaf_ && module.needs_input_gradient) {
      add(StepKind::release, row);
    }
    add(StepKind::after, row);
  }

  void add_gradients(std::size_t row) {
    if (leaf_) {
      return;  // reduced together when the backward pass of the leaf is over
    }
    const ModelModule& module = tree_.modules[row];
    std::vector<std::size_t> own = module.parameters;
    // AutoTP's own linears add their bias to a product. Source: module_inject/layers.py:898 of 0.19.8.
    const bool is_split = module.split != TensorSplit::replicated;
    if (module.is_linear && (is_split || !options_.is_weight_first)) {
      std::reverse(own.begin(), own.end());
    }
    for (const std::size_t parameter : own) {
      if (last_user_[parameter] == row) {
        add_gradient(parameter);
      }
    }
  }

  void add_gradient(std::size_t parameter) {
    if (tree_.parameters[parameter].is_trainable) {
      add(StepKind::gradient, parameter);
    }
  }

  const ModelTree& tree_;
  const PassOptions& options_;
  std::vector<std::size_t> last_user_;  // by parameter
  std::vector<bool> is_leaf_;           // by module
  std::vector<PassStep> steps_;
  std::optional<std::size_t> leaf_;  // the one that is under way
  std::optional<std::size_t> block_to_recompute_;
};

}  // namespace

std::vector<PassStep> forward_steps(const ModelTree& tree, const PassOptions& options) {
  return PassWriter(tree, options).forward();
}

std::vector<PassStep> backward_steps(const ModelTree& tree, const PassOptions& options) {
  return PassWriter(tree, options).backward();
}

LocalParameters in_gradient_order(const ModelTree& tree, const PassOptions& options) {
  LocalParameters order;
  for (const PassStep& step : backward_steps(tree, options)) {
    if (step.kind == PassStep::Kind::gradient) {
      order.push_back(tree.parameters[step.row]);
    }
  }
  return order;
}

}  // namespace commlens::deepspeed
