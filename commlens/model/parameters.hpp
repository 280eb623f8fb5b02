#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/model/model_config.hpp"

namespace commlens {

/// What a parameter belongs to; the order of the enumerators is the order of the modules in a forward pass.
enum class ModuleKind : std::uint8_t {
  embedding,  // wte and, if learned, wpe
  layer,      // one transformer block
  final_norm,
  head
};

/// The leaf module inside a block (or outside one) that owns a parameter.
enum class Leaf : std::uint8_t {
  wte,
  wpe,
  ln1,
  qkv,
  proj,
  ln2,
  router,
  fc1,
  fc2,
  norm,
  head,
  q_norm,  // from here on: parts of newer models (ModelConfig::newer_part)
  k_norm,
  sinks,
  q_a,  // latent attention
  q_a_norm,
  q_b,
  kv_a,
  kv_a_norm,
  kv_b
};
std::string_view name_of(Leaf leaf);

/// How tensor parallelism splits a parameter: not at all, along its output (column) or its input (row)
/// dimension.
enum class TensorSplit : std::uint8_t { replicated, column, row };

struct Parameter {
  std::string name;  // "layers.3.fc1.weight"
  ModuleKind module = ModuleKind::layer;
  Leaf leaf = Leaf::wte;
  std::int64_t layer = -1;          // block index, -1 outside the blocks
  bool is_bias = false;             // the second parameter of its leaf (bias of a linear or a norm)
  std::vector<std::int64_t> shape;  // of the whole tensor, before any split
  Elements count;                   // product of `shape`
  TensorSplit split = TensorSplit::replicated;
  bool decays = true;      // weight decay: matrices and embeddings; not biases and norms
  bool is_expert = false;  // one of the experts of a mixture (shared over ep)
};

/// Every tensor of the model in named_parameters() order: wte, [wpe], per block {ln1, qkv, proj, ln2, fc1,
/// fc2}, final norm, head (absent when tied); weight before bias. With experts, fc1 and fc2 appear once per
/// expert after the router, then once for all shared experts. Newer parts (ModelConfig::newer_part) stand
/// after the projection of attention, latent attention in place of qkv. Llama with a gated MLP: fc1 holds
/// gate and up, [2 ffn, h]. Source: runs of DeepSpeed and GPT-NeoX (tests/golden); llama from the Hugging
/// Face modules.
class ParameterList {
 public:
  explicit ParameterList(const ModelConfig& model);
  const std::vector<Parameter>& all() const { return parameters_; }
  /// The true parameter count, V as `model.vocab` has it.
  Elements total() const;

 private:
  std::vector<Parameter> parameters_;
};

/// Elements of `parameter` that one of `tp` tensor ranks holds.
Elements on_tensor_rank(const Parameter& parameter, std::int64_t tp);

/// Parameter count without building the list (the same number, for large sweeps).
Elements parameter_count(const ModelConfig& model);

/// Eq. 1 of arXiv 2408.10197 as printed: 2Vh + sh + L(12h^2 + 8h) + 2h, with the vocabulary the paper uses,
/// padded for one tensor rank whatever the layout.
Elements paper_parameter_count(const ModelConfig& model);

}  // namespace commlens
