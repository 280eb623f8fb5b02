#include "commlens/frameworks/megatron/tensor_calls.hpp"

#include <optional>

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_reduce_output{"megatron.tensor_parallel_forward_all_reduce",
                           k_new_source<"core/tensor_parallel/mappings.py:35">};
const Rule k_reduce_gradient{"megatron.tensor_parallel_backward_all_reduce",
                             k_new_source<"core/tensor_parallel/layers.py:639">};
const Rule k_gather_column_input{"megatron.sequence_parallel_gather_input",
                                 k_new_source<"core/tensor_parallel/layers.py:571">};
const Rule k_gather_input_again{"megatron.sequence_parallel_gather_input_again",
                                k_new_source<"core/tensor_parallel/layers.py:617">};
const Rule k_scatter_row_output{"megatron.sequence_parallel_reduce_scatter",
                                k_new_source<"core/tensor_parallel/mappings.py:186">};
const Rule k_gather_row_gradient{"megatron.sequence_parallel_gather_gradient",
                                 k_new_source<"core/tensor_parallel/mappings.py:146">};
const Rule k_scatter_input_gradient{"megatron.sequence_parallel_reduce_scatter_gradient",
                                    k_new_source<"core/tensor_parallel/layers.py:650">};
const Rule k_gather_columns{"megatron.gather_columns", k_new_source<"core/tensor_parallel/mappings.py:96">};
const Rule k_scatter_columns{"megatron.scatter_columns",
                             k_new_source<"core/tensor_parallel/mappings.py:197">};

}  // namespace

TensorCalls::TensorCalls(ProgramBuilder& out, const MegatronGroups& groups, const Job& job, bool is_silent)
    : out_(out),
      group_(groups.tp),
      dtype_(job.train.dtype),
      ranks_(job.layout.tp),
      sequence_parallel_(job.layout.sequence_parallel && job.layout.tp > 1),
      is_silent_(is_silent && sequence_parallel_) {}

void TensorCalls::enter_column(std::int64_t input, std::string_view tag) const {
  if (sequence_parallel_ && !is_silent_) {
    out_.all_gather(group_, {input / ranks_}, dtype_, k_gather_column_input, tag);
  }
}

void TensorCalls::leave_row(std::int64_t output, std::string_view tag) const {
  if (!sequence_parallel_) {
    return reduce(output, tag);
  }
  if (is_silent_) {
    return;
  }
  out_.reduce_scatter(group_, {output / ranks_}, dtype_, k_scatter_row_output, tag);
}

void TensorCalls::reduce(std::int64_t output, std::string_view tag) const {
  if (ranks_ > 1) {
    out_.all_reduce(group_, {output}, dtype_, k_reduce_output, tag);
  }
}

void TensorCalls::enter_row_gradient(std::int64_t output, std::string_view tag) const {
  if (sequence_parallel_ && !is_silent_) {
    out_.all_gather(group_, {output / ranks_}, dtype_, k_gather_row_gradient, tag);
  }
}

void TensorCalls::column_gradient(std::int64_t input, std::string_view tag,
                                  const std::function<void(Pass)>& compute) const {
  if (is_silent_) {
    compute(Pass::input_gradient);
    return compute(Pass::weight_gradient);
  }
  std::optional<StepIndex> beside;  // the weight gradient
  out_.set_waiting(Waiting::later);
  if (sequence_parallel_) {
    out_.all_gather(group_, {input / ranks_}, dtype_, k_gather_input_again, tag);
    const StepIndex gathered = out_.last_call();
    compute(Pass::input_gradient);
    out_.wait_for(gathered);
    out_.reduce_scatter(group_, {input / ranks_}, dtype_, k_scatter_input_gradient, tag);
    beside = out_.last_call();
  } else {
    compute(Pass::input_gradient);
    if (ranks_ > 1) {
      out_.all_reduce(group_, {input}, dtype_, k_reduce_gradient, tag);
      beside = out_.last_call();
    }
  }
  out_.set_waiting(Waiting::at_once);
  compute(Pass::weight_gradient);
  if (beside) {
    out_.wait_for(*beside);
  }
}

void TensorCalls::gather_columns(std::int64_t whole, std::string_view tag) const {
  if (ranks_ > 1) {
    out_.all_gather(group_, {whole / ranks_}, dtype_, k_gather_columns, tag);
  }
}

void TensorCalls::scatter_columns_gradient(std::int64_t whole, std::string_view tag) const {
  if (ranks_ > 1) {
    out_.reduce_scatter(group_, {whole / ranks_}, dtype_, k_scatter_columns, tag);
  }
}

void TensorCalls::gather_sequence(std::int64_t whole, std::string_view tag) const {
  if (sequence_parallel_) {
    out_.all_gather(group_, {whole / ranks_}, dtype_, k_gather_row_gradient, tag);
  }
}

void TensorCalls::scatter_sequence_gradient(std::int64_t whole, std::string_view tag) const {
  if (sequence_parallel_) {
    out_.reduce_scatter(group_, {whole / ranks_}, dtype_, k_scatter_row_output, tag);
  }
}

}  // namespace commlens::megatron
