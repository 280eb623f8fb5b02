#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "commlens/frameworks/deepspeed/model_tree.hpp"

namespace commlens::deepspeed {

/// A module that is to be added: what it is, not where.
struct NewModule {
  std::string name;  // within its parent
  std::string class_name;
  std::optional<Leaf> leaf = {};
  ModelModule::Input input = ModelModule::Input::previous;
  bool is_called = true;
};

/// A weight or a bias of `rows` x `columns` elements; 0 columns: of one dimension.
struct Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t count() const { return rows * std::max<std::int64_t>(columns, 1); }
};

/// Adds modules and their parameters to a tree, parents before their children.
class TreeBuilder {
 public:
  static constexpr std::size_t k_root = 0;  // the model itself

  explicit TreeBuilder(std::string class_name);

  std::size_t add(std::size_t parent, NewModule module, std::int64_t layer = -1);
  void add_parameter(std::size_t module, LocalParameter parameter);
  /// A parameter called after its module.
  void add_parameter(std::size_t module, std::string_view name, const Shape& shape, bool is_expert = false);
  /// A linear of `weight` with its parameters.
  std::size_t add_linear(std::size_t parent, NewModule module, const Shape& weight, bool has_bias,
                         std::int64_t layer, bool is_expert = false);
  void make_linear(std::size_t row, std::int64_t inputs, std::int64_t outputs);

  ModelModule& module(std::size_t row) { return tree_.modules[row]; }
  ModelTree take() { return std::move(tree_); }

 private:
  ModelTree tree_;
};

}  // namespace commlens::deepspeed
