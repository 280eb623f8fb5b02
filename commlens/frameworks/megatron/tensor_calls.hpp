#pragma once
#include <functional>
#include <string_view>

#include "commlens/frameworks/megatron/groups.hpp"
#include "commlens/plan/program_builder.hpp"
#include "commlens/plan/work.hpp"

namespace commlens::megatron {

/// The messages of matrices that tensor ranks split, with sequence parallelism or without. Sizes are those of
/// the whole sequence; nothing is sent by a group of one.
class TensorCalls {
 public:
  /// `out` and `groups` outlive it. `is_silent`: Transformer Engine's own buffers carry what is gathered and
  /// scattered along the sequence (tp-comm-overlap), which no communication library sees.
  TensorCalls(ProgramBuilder& out, const MegatronGroups& groups, const Job& job, bool is_silent = false);

  bool is_split() const { return ranks_ > 1; }
  bool sequence_parallel() const { return sequence_parallel_; }
  std::int64_t ranks() const { return ranks_; }

  /// Before a column-parallel matrix: its input is gathered.
  void enter_column(std::int64_t input, std::string_view tag) const;
  /// Behind a row-parallel matrix or a split table: its output is reduced, and scattered.
  void leave_row(std::int64_t output, std::string_view tag) const;
  /// An output that is reduced whatever sequence parallelism does with it.
  void reduce(std::int64_t output, std::string_view tag) const;
  /// Backward: the gradient of a row's output is gathered.
  void enter_row_gradient(std::int64_t output, std::string_view tag) const;
  /// Backward: the input is gathered once more and the gradient of the input reduced, beside the weight
  /// gradient. `compute` writes the kernels of a pass.
  void column_gradient(std::int64_t input, std::string_view tag,
                       const std::function<void(Pass)>& compute) const;

  /// Parts of the last dimension are put together; `whole` is the width of all.
  void gather_columns(std::int64_t whole, std::string_view tag) const;
  /// The gradient of a part is summed over all tensor ranks, of which each takes its own.
  void scatter_columns_gradient(std::int64_t whole, std::string_view tag) const;
  /// Parts of the sequence are put together, of an input or of a gradient.
  void gather_sequence(std::int64_t whole, std::string_view tag) const;
  void scatter_sequence_gradient(std::int64_t whole, std::string_view tag) const;

 private:
  ProgramBuilder& out_;
  GroupId group_;
  DType dtype_;
  std::int64_t ranks_;
  bool sequence_parallel_;
  bool is_silent_;
};

}  // namespace commlens::megatron
