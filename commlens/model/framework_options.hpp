#pragma once
#include "commlens/model/job.hpp"

namespace commlens {

/// The job as `framework` would run it: settings the two frameworks share are carried over (ZeRO stage,
/// bucket size, checkpointing), what only the new one knows gets its defaults. The same framework leaves the
/// job as it is.
Job with_framework(Job job, Framework framework);

/// Sets recomputation everywhere a framework's own settings repeat it.
void set_recompute(Job& job, Recompute recompute);

/// Sets the ZeRO stage; Megatron's name for stage 1 is the distributed optimizer.
void set_zero_stage(Job& job, int stage);

/// The commit of GPT-NeoX whose rules are measured, and the later one that has sequence parallelism.
inline constexpr const char* k_neox_version = "4bc66703";
inline constexpr const char* k_neox_sequence_parallel_version = "8b43196f";

}  // namespace commlens
