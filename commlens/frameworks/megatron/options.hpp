#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// The framework as the command line and files name it.
inline constexpr std::string_view k_name = "megatron";

/// Megatron core's own settings (core_v0.7.0 argument names).
/// The distributed optimizer is its name for ZeRO stage 1, distribute-saved-activations for partitioned
/// activations.
struct Options {
  bool gradients_in_fp32 = false;  // accumulate-allreduce-grads-in-fp32
  bool is_script = false;          // pretrain_gpt.py: bf16 switches gradients_in_fp32 on (arguments.py)
  bool variable_seq_lengths = false;
  std::string recompute_method = "uniform";  // of full recomputation: uniform or block
  std::int64_t recompute_num_layers = 1;
  std::string moe_dispatcher = "allgather";  // allgather, alltoall
  bool overlap_grad_reduce = false;
};

inline const Options& options(const Job& job) { return job.options.of<Options>(); }
inline Options& options(Job& job) { return job.options.edit<Options>(); }

}  // namespace commlens::megatron
