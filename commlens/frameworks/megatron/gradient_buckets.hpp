#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/megatron/modules.hpp"

namespace commlens::megatron {

/// A part of a contiguous buffer of gradients and parameters, which is reduced and gathered by one call.
struct GradientBucket {
  std::int64_t count = 0;  // elements, with padding
  bool is_expert = false;
  std::vector<ModulePlace> places;  // of its parameters, in the order in which it fills
};

/// How the buffers of a chunk are cut.
struct BucketSettings {
  std::int64_t limit = 0;         // a bucket closes when it holds that many elements; 0: one bucket
  std::int64_t data_ranks = 1;    // that shard a dense bucket
  std::int64_t expert_ranks = 1;  // that shard one of experts
  bool is_sharded = false;        // the distributed optimizer
  bool pads_more = false;         // ddp-pad-buckets-for-high-nccl-busbw
};

/// The buckets of a chunk's parameters: those of dense ones in their order, then those of experts.
/// Source: core/optimizer/distrib_optimizer.py _compute_per_buffer_param_layout,
/// core/distributed/param_and_grad_buffer.py _compute_default_per_buffer_param_layout.
std::vector<GradientBucket> gradient_buckets(const std::vector<ModuleParameter>& parameters,
                                             const BucketSettings& settings);

}  // namespace commlens::megatron
