#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/model/job.hpp"

namespace commlens::pytorch {

/// Whether a pattern of `frozen` or `fp32_patterns` names a parameter: a shell pattern.
bool matches(const std::string& pattern, const std::string& name);

/// How tensor ranks hold a parameter: whole, or a part of its first or second dimension (DTensor's Replicate,
/// Shard(0), Shard(1)).
enum class TensorSharding : std::uint8_t { whole, rows, columns };

/// A parameter of a tensor rank's module, as named_parameters() has it.
struct Parameter {
  std::string name;       // "layers.0.attention.wq.weight"
  std::int64_t rows = 0;  // dimension 0 of this rank's part, padded where tensor ranks hold uneven parts
  std::int64_t row = 1;   // elements of each
  std::int64_t whole_rows = 0;  // of all tensor ranks together
  std::int64_t whole_row = 1;
  int dimensions = 2;
  DType dtype = DType::fp32;
  TensorSharding sharding = TensorSharding::whole;
  bool is_expert = false;   // of a mixture: other ranks hold other experts
  bool is_alias = false;    // of an earlier parameter, which fully_shard manages once more under this name
  bool is_partial = false;  // each tensor rank has only a part of the sum that its gradient is
  bool is_trainable = true;
  bool is_used = true;  // in the forward pass

  std::int64_t count() const { return rows * row; }
  bool has_gradient() const { return is_trainable && is_used; }
};

/// A tensor of a module that is not trained.
struct Buffer {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
};

/// A part of the model that is called on its own, in the order of the forward pass.
struct Module {
  enum class Kind : std::uint8_t { embedding, positions, input_norm, block, norm, output };
  Kind kind = Kind::block;
  std::int64_t layer = 0;        // of the whole model
  bool is_used = true;           // false: left out of the forward pass
  bool has_feed_forward = true;  // false: that half of the block is left out
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers = {};  // beside batch norm's
  /// Places in `parameters`, in the order in which their gradients are complete; empty: that of the trees of
  /// case files.
  std::vector<std::size_t> gradient_order = {};
};

/// The layers of a stage: equally many, or, where they do not divide, as if the embedding and the head were a
/// layer each, the first stages having one more. Source: torchtitan 0.3 distributed/pipeline_parallel.py,
/// generate_llm_fqn_per_model_part. A count below 1: too many stages.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};
LayerRange stage_layers(std::int64_t layers, std::int64_t stage, std::int64_t stages);

/// The modules of one pipeline stage (`first_layer` and how many; the first one has the embedding, the last
/// one the head) in the order in which they are registered, which is that of the forward pass. Shapes and
/// order: the llama3 tree of torchtitan, and the gpt tree of docs/formats/case.md; docs/frameworks/torch.md.
std::vector<Module> stage_modules(const Job& job, std::int64_t stage, std::int64_t stages);

/// Output and embedding are one parameter: parallelize_module makes two of it (tensor/parallel/style.py:126,
/// :284).
bool are_embeddings_tied(const Job& job);

/// The order in which the gradients of a module are complete in the backward pass (recorded: of a linear the
/// bias first, of a norm the weight first).
std::vector<const Parameter*> in_gradient_order(const std::vector<Module>& modules);

/// Batch norm's buffers: running mean and variance (fp32, so many elements each), and how many batches it has
/// seen (int64, one); 0 without batch norm.
std::int64_t buffer_elements(const Job& job);

}  // namespace commlens::pytorch
