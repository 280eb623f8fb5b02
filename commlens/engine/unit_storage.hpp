#pragma once
#include <cstdint>
#include <vector>

#include "commlens/engine/torch.hpp"
#include "commlens/frameworks/commlens/flat_units.hpp"

namespace commlens::engine {

/// How the memory of a unit is shared among data ranks.
struct Sharding {
  int zero_stage = 0;
  std::int64_t ranks = 1;      // d
  std::int64_t rank = 0;       // of this rank in dp
  std::int64_t secondary = 1;  // ranks of a secondary partition (hpZ); 1: none
};

/// A run of elements that this rank updates, all of one parameter.
struct OwnedSegment {
  std::size_t parameter = 0;          // row of the chunk's table
  std::int64_t parameter_offset = 0;  // first element within the parameter
  std::int64_t offset = 0;            // first element within the owned part
  std::int64_t count = 0;
};

/// Memory of one unit on one rank: its parameters and gradients, and, of the part this rank owns (all of it
/// in stage 0, 1/d of the padded unit in stages 1-3), the fp32 values, gradients and moments of the
/// optimizer.
class UnitStorage {
 public:
  UnitStorage(FlatUnit unit, const HeldChunk& chunk, const Sharding& sharding, torch::ScalarType dtype,
              torch::Device device);

  const FlatUnit& unit() const { return unit_; }
  std::int64_t owned_count() const { return owned_count_; }
  const std::vector<OwnedSegment>& segments() const { return segments_; }
  /// The leaf tensor of a parameter (row of the chunk's table), of its shape on this rank; null when it lies
  /// in another unit. Its data are there while the parameters are allocated.
  const torch::Tensor* parameter(std::size_t row) const;

  /// Copies values [offset, offset + values.numel()) of a parameter, fp32 on the CPU, wherever this rank
  /// keeps them.
  void set_values(std::size_t row, std::int64_t offset, const torch::Tensor& values);
  /// The same for a tensor of the owned part alone (a moment).
  void set_owned(const torch::Tensor& owned, std::size_t row, std::int64_t offset,
                 const torch::Tensor& values) const;
  /// Copies the updated fp32 values into the owned part of the parameters.
  void publish();

  void allocate_parameters();
  void release_parameters();
  void allocate_gradient();  // zeroed
  void release_gradient();
  bool has_gradient() const { return gradient.storage().nbytes() > 0; }
  /// Whether all parameters of the unit are kept all the time.
  bool keeps_parameters() const { return sharding_.zero_stage < 3 || unit_.is_persistent; }

  torch::Tensor flat;            // [padded] of the model type: all parameters
  torch::Tensor gradient;        // [padded] of the model type
  torch::Tensor shard;           // [owned] of the model type: a part of `flat`, or its own memory in stage 3
  torch::Tensor secondary;       // [padded / secondary]; stage 3 with hpZ only
  torch::Tensor master;          // [owned] fp32; the same memory as `shard` when the model is fp32
  torch::Tensor owned_gradient;  // [owned] fp32, summed over data ranks and micro-batches
  torch::Tensor first_moment;    // [owned] fp32
  torch::Tensor second_moment;

 private:
  void find_segments();
  void make_parameters(const HeldChunk& chunk);
  std::int64_t position_of(std::size_t row) const;

  FlatUnit unit_;
  Sharding sharding_;
  std::int64_t owned_begin_ = 0;
  std::int64_t owned_count_ = 0;
  std::vector<OwnedSegment> segments_;
  std::vector<std::int64_t> offsets_;      // of unit_.parameters, and the end
  std::vector<torch::Tensor> parameters_;  // of unit_.parameters
};

}  // namespace commlens::engine
