#pragma once
#include <cstdint>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// What a model chunk holds.
struct ChunkLayout {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  std::int64_t mtp_layers = 0;  // of multi-token prediction
  bool has_embedding = false;
  bool has_final_norm = false;
  bool has_loss = false;
};

/// The chunks of each stage, [stage][chunk], or why the layers cannot be laid out so.
/// Source: core/transformer/transformer_block.py:70 get_num_layers_to_build,
/// core/transformer/pipeline_parallel_layer_layout.py.
using StageLayouts = std::vector<std::vector<ChunkLayout>>;
Result<StageLayouts> stage_layouts(const Job& job);

/// How many stages and chunks together a layout "Et|tt|tL" describes.
std::int64_t parts_of_layout(const std::string& layout);

}  // namespace commlens::megatron
