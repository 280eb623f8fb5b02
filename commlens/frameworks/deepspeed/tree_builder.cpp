#include "commlens/frameworks/deepspeed/tree_builder.hpp"

#include <fmt/format.h>

namespace commlens::deepspeed {
namespace {

std::string without_index(const std::string& name, std::int64_t layer) {
  const std::string index = fmt::format(".{}.", layer);
  const std::size_t at = layer < 0 ? std::string::npos : name.find(index);
  return at == std::string::npos ? name : std::string(name).replace(at, index.size(), ".");
}

}  // namespace

TreeBuilder::TreeBuilder(std::string class_name) {
  tree_.modules.push_back({.class_name = std::move(class_name), .input = ModelModule::Input::no_gradient});
}

std::size_t TreeBuilder::add(std::size_t parent, NewModule module, std::int64_t layer) {
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

void TreeBuilder::add_parameter(std::size_t module, LocalParameter parameter) {
  tree_.modules[module].parameters.push_back(tree_.parameters.size());
  tree_.parameters.push_back(std::move(parameter));
}

void TreeBuilder::add_parameter(std::size_t module, std::string_view name, const Shape& shape,
                                bool is_expert) {
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

std::size_t TreeBuilder::add_linear(std::size_t parent, NewModule module, const Shape& weight, bool has_bias,
                                    std::int64_t layer, bool is_expert) {
  module.class_name = "Linear";
  const std::size_t row = add(parent, std::move(module), layer);
  make_linear(row, weight.columns, weight.rows);
  add_parameter(row, "weight", weight, is_expert);
  if (has_bias) {
    add_parameter(row, "bias", {weight.rows}, is_expert);
  }
  return row;
}

void TreeBuilder::make_linear(std::size_t row, std::int64_t inputs, std::int64_t outputs) {
  tree_.modules[row].is_linear = true;
  tree_.modules[row].inputs = inputs;
  tree_.modules[row].outputs = outputs;
}

}  // namespace commlens::deepspeed
