#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/model/parameters.hpp"

namespace commlens {

/// A parameter as one rank holds it: its share of the tensor split.
struct LocalParameter {
  std::string name;  // "layers.3.fc1.weight"
  std::string tag;   // the same for every layer: "layers.fc1.weight"
  Leaf leaf = Leaf::wte;
  std::int64_t layer = -1;
  std::int64_t count = 0;  // elements on this rank
  bool is_bias = false;
  bool is_expert = false;
  bool decays = true;
  bool is_trainable = true;
  bool has_gradient = true;       // false where this rank holds it without using it
  std::int64_t longest_side = 0;  // of the whole tensor, where it has two dimensions; else 0
  bool is_cast = false;  // by an autocast that its framework knows of: its gradient is in another dtype
};
using LocalParameters = std::vector<LocalParameter>;

/// Which part of the model a pipeline stage (or a chunk of it) holds.
struct StagePart {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool has_embedding = true;
  bool has_final_norm = true;
  bool has_head = true;  // with tied embeddings: its own copy of wte when it holds no embedding
};

/// The parameters of `part` in named_parameters() order. A tied head on a stage without the embedding comes
/// first. Source: recorded runs (tests/golden).
LocalParameters local_parameters(const ModelConfig& model, const ParameterList& all, std::int64_t tp,
                                 const StagePart& part);

/// The order in which backward finishes their gradients: modules reversed, bias before weight, but the weight
/// of a norm before its bias; then wpe, wte. Source: recorded runs of ZeRO-2 (tests/golden/deepspeed).
LocalParameters in_ready_order(const LocalParameters& parameters);

/// Parameters per optimizer group: one group, or matrices and embeddings first and biases and norms second;
/// empty groups are skipped.
std::vector<LocalParameters> optimizer_groups(const LocalParameters& parameters, bool by_weight_decay);

/// Elements of each of these groups.
std::vector<std::int64_t> optimizer_group_sizes(const LocalParameters& parameters, bool by_weight_decay);

std::int64_t total_count(const LocalParameters& parameters);

}  // namespace commlens
