#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commlens/frameworks/deepspeed/engine.hpp"

namespace commlens::deepspeed {

/// The gathers of stage 3 that fetch what modules need, in the form that the job asks for: of all parameters
/// of a set together or one by one, as they are or quantised, from all ranks that share them or, with
/// zero_hpz_partition_size, from those of a node. Source: runtime/zero/partition_parameters.py:1325-1600 of
/// 0.19.8.
class Zero3Gathers {
 public:
  /// `out` and `rank` outlive it.
  Zero3Gathers(ProgramBuilder& out, const EngineRank& rank);

  /// Gathers a set of parameters, ascending.
  void write(const std::vector<std::size_t>& set);
  /// What runs next waits for the gather of a parameter that is under way.
  void wait_for(std::size_t parameter);
  void forget_waiting();

  /// A parameter is released: the ranks of a node keep a copy of it among them, of which later gathers are.
  void keep_copy(std::size_t parameter);
  /// The optimizer changed the parameters that it has; copies of frozen ones stay. Source:
  /// runtime/zero/stage3.py:755 invalidate_secondary_tensor of 0.19.8.
  void drop_copies();

  /// Whose copies are kept now, by parameter.
  const std::vector<bool>& copies() const { return has_copy_; }

  /// Why DeepSpeed fails on a gather that was written; empty: it does not.
  const std::string& refusal() const { return refusal_; }

 private:
  void write(const std::vector<std::size_t>& set, bool is_on_node);
  void write_together(const std::vector<std::size_t>& set, GroupId group, std::int64_t times);
  void write_quantized(GroupId group, std::int64_t elements, std::string_view tag);
  std::int64_t quantization_groups(std::int64_t elements);
  std::int64_t shard(std::size_t parameter) const;
  DType dtype_of(std::size_t parameter) const;

  ProgramBuilder& out_;
  const EngineRank& rank_;
  const Job& job_;
  GroupId node_{};
  std::vector<bool> has_copy_;                            // by parameter
  std::vector<std::optional<StepIndex>> open_;            // by parameter: that nothing has waited for yet
  std::map<std::int64_t, std::int64_t> quantized_sizes_;  // groups by elements
  std::string refusal_;
};

}  // namespace commlens::deepspeed
