#pragma once
#include <cstdint>
#include <optional>

#include "commlens/base/dtype.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Arguments of the training script besides its DeepSpeed JSON; absent ones have transformers' default.
struct TrainingArguments {
  std::optional<std::int64_t> micro_batch;    // --per_device_train_batch_size, 8
  std::optional<std::int64_t> micro_batches;  // --gradient_accumulation_steps, 1
  std::optional<DType> dtype;                 // --fp16 or --bf16; fp32 with neither
  bool are_all_known = false;                 // nothing is noted of what "auto" becomes
};

/// The settings with every "auto" replaced as transformers' trainer does before it calls DeepSpeed: batch,
/// clipping (--max_grad_norm 1) and precision from the training arguments; the three sizes that follow the
/// width of the model are marked in `deepspeed::options(job).follows_width` (`settle_width_sizes` computes
/// them). Any other "auto" becomes null, DeepSpeed's default. A Llama
/// model is then the Trainer's (Options::has_auto_values): two parameter groups, numbers of items. One line
/// of `job.warnings` lists the values of them. Source: transformers 5.23 (and 4.x) integrations/deepspeed.py
/// trainer_config_process, trainer_config_finalize; training_args.py for the defaults.
ConfigNode with_auto_settled(const ConfigNode& settings, const TrainingArguments& given, Job& job);

}  // namespace commlens
