#include "commlens/plan/local_parameters.hpp"

#include <algorithm>

namespace commlens {
namespace {

bool belongs(const Parameter& parameter, const StagePart& part) {
  switch (parameter.module) {
    case ModuleKind::embedding:
      return part.has_embedding;
    case ModuleKind::layer:
      return parameter.layer >= part.first_layer && parameter.layer < part.first_layer + part.layers;
    case ModuleKind::final_norm:
      return part.has_final_norm;
    case ModuleKind::head:
      return part.has_head;
  }
  return false;
}

std::string tag_of(const Parameter& parameter) {
  const std::string index = std::to_string(parameter.layer) + ".";
  const std::size_t at = parameter.layer < 0 ? std::string::npos : parameter.name.find(index);
  return at == std::string::npos ? parameter.name : std::string(parameter.name).erase(at, index.size());
}

LocalParameter local(const Parameter& parameter, std::int64_t tp) {
  const std::vector<std::int64_t>& shape = parameter.shape;
  return {.name = parameter.name,
          .tag = tag_of(parameter),
          .leaf = parameter.leaf,
          .layer = parameter.layer,
          .count = on_tensor_rank(parameter, tp).value,
          .is_bias = parameter.is_bias,
          .is_expert = parameter.is_expert,
          .decays = parameter.decays,
          .longest_side = shape.size() < 2 ? 0 : *std::max_element(shape.begin(), shape.end())};
}

bool is_norm(Leaf leaf) { return leaf == Leaf::ln1 || leaf == Leaf::ln2 || leaf == Leaf::norm; }

}  // namespace

LocalParameters local_parameters(const ModelConfig& model, const ParameterList& all, std::int64_t tp,
                                 const StagePart& part) {
  LocalParameters result;
  if (model.tied_embeddings && part.has_head && !part.has_embedding) {
    result.push_back(local(all.all().front(), tp));
  }
  for (const Parameter& parameter : all.all()) {
    if (belongs(parameter, part)) {
      result.push_back(local(parameter, tp));
    }
  }
  return result;
}

LocalParameters in_ready_order(const LocalParameters& parameters) {
  LocalParameters ready(parameters.rbegin(), parameters.rend());
  for (std::size_t i = 0; i + 1 < ready.size(); ++i) {
    const bool same_norm =
        is_norm(ready[i].leaf) && ready[i].leaf == ready[i + 1].leaf && ready[i].layer == ready[i + 1].layer;
    if (same_norm && ready[i].is_bias && !ready[i + 1].is_bias) {
      std::swap(ready[i], ready[i + 1]);
    }
  }
  return ready;
}

std::vector<LocalParameters> optimizer_groups(const LocalParameters& parameters, bool by_weight_decay) {
  if (!by_weight_decay) {
    return {parameters};
  }
  std::vector<LocalParameters> groups(2);
  for (const LocalParameter& parameter : parameters) {
    groups[parameter.decays ? 0 : 1].push_back(parameter);
  }
  std::erase_if(groups, [](const LocalParameters& group) { return group.empty(); });
  return groups;
}

std::vector<std::int64_t> optimizer_group_sizes(const LocalParameters& parameters, bool by_weight_decay) {
  if (!by_weight_decay) {
    return {total_count(parameters)};
  }
  std::vector<std::int64_t> sizes(2, 0);
  for (const LocalParameter& parameter : parameters) {
    sizes[parameter.decays ? 0 : 1] += parameter.count;
  }
  std::erase(sizes, 0);
  return sizes;
}

std::int64_t total_count(const LocalParameters& parameters) {
  std::int64_t total = 0;
  for (const LocalParameter& parameter : parameters) {
    total += parameter.count;
  }
  return total;
}

}  // namespace commlens
