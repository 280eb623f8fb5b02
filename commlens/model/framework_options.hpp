#pragma once
#include "commlens/model/job.hpp"

namespace commlens {

/// The job as `framework` would run it: settings the two frameworks share are carried over (ZeRO stage,
/// bucket size, checkpointing; to our trainer the persistence threshold, ZeRO++ and partitioned activations,
/// but not the bucket size), what only the new one knows gets its defaults. The same framework leaves the job
/// as it is.
Job with_framework(Job job, Framework framework);

/// Of a job that came to our trainer from another framework: ZeRO++ outside stage 3 and partitioned
/// activations where nothing is recomputed or split are left out. Leaves other jobs as they are. To be called
/// once the stage and the layout are settled.
void settle_carried_over(Job& job);

/// Gives the sizes that follow the width of the model (DeepSpeedOptions::follows_width) their values, in
/// elements: reduce_bucket_size hidden^2, prefetch_bucket_size int(0.9 hidden^2), param_persistence_threshold
/// 10 hidden. To be called again whenever the width changes. Source: transformers integrations/deepspeed.py
/// trainer_config_finalize; accelerate accelerator.py _prepare_deepspeed.
void settle_width_sizes(Job& job);

/// Sets recomputation everywhere a framework's own settings repeat it.
void set_recompute(Job& job, Recompute recompute);

/// Sets the ZeRO stage; Megatron's name for stage 1 is the distributed optimizer.
void set_zero_stage(Job& job, int stage);

/// The commit of GPT-NeoX whose rules are measured, and the later one that has sequence parallelism.
inline constexpr const char* k_neox_version = "4bc66703";
inline constexpr const char* k_neox_sequence_parallel_version = "8b43196f";

}  // namespace commlens
