#include "commlens/model/framework_options.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::int64_t k_training_vocab_multiple = 128;  // default of GPT-NeoX and Megatron-LM

/// GPT-NeoX and Megatron-LM pad the vocabulary; other clients take it as it is.
void pad_vocab(ModelConfig& model) {
  if (model.vocab_multiple <= 1 && !model.vocab_is_padded) {
    model.vocab_multiple = k_training_vocab_multiple;
  }
}

void to_neox(Job& job) {
  pad_vocab(job.model);
  job.framework_version = k_neox_version;
  job.deepspeed.weight_decay_groups = true;
  job.deepspeed.attention_mask = true;
  job.neox.partition_activations = job.deepspeed.partition_activations;
}

void to_megatron(Job& job) {
  pad_vocab(job.model);
  job.megatron.recompute_num_layers = job.neox.checkpoint_num_layers;
  job.megatron.is_script = true;
  set_zero_stage(job, job.train.zero_stage);
}

/// DistributedDataParallel keeps whole parameters, gradients and optimizer states on every rank.
void to_torch_ddp(Job& job) {
  if (job.train.zero_stage > 0) {
    job.warnings.push_back(fmt::format("torch-ddp has no ZeRO: stage {} of the configuration is left out",
                                       job.train.zero_stage));
    set_zero_stage(job, 0);
  }
}

/// ZeRO-3 and ZeRO++ in DeepSpeed's words.
void to_commlens(Job& job) {
  CommlensOptions& options = job.commlens;
  const DeepSpeedOptions& deepspeed = job.deepspeed;
  options.persistence_threshold = deepspeed.param_persistence_threshold;
  options.hpz = deepspeed.hpz_partition_size;
  options.quantized_weights = deepspeed.quantized_weights;
  options.quantized_gradients = deepspeed.quantized_gradients;
  options.partition_activations = deepspeed.partition_activations || job.neox.partition_activations;
  options.is_carried_over = true;
  if (job.train.dtype == DType::fp16 && !job.train.dtype_is_chosen) {
    job.train.dtype = DType::bf16;  // which needs no loss scaling and is faster on CPUs
  }
  if (deepspeed.offload) {
    job.warnings.emplace_back("our trainer keeps everything on its device: offload is left out");
  }
}

}  // namespace

void settle_carried_over(Job& job) {
  CommlensOptions& options = job.commlens;
  if (job.framework != Framework::commlens || !options.is_carried_over) {
    return;
  }
  options.is_carried_over = false;
  if (job.train.zero_stage != 3) {
    options.hpz = 1;
    options.quantized_weights = options.quantized_gradients = false;
  }
  const bool is_split = job.layout.tp > 1 && !job.layout.sequence_parallel;
  options.partition_activations =
      options.partition_activations && is_split && job.train.recompute == Recompute::full;
}

void settle_width_sizes(Job& job) {
  constexpr std::int64_t widest = 1'000'000'000;  // beyond it no job is valid, and the square overflows
  const std::int64_t hidden = job.model.hidden;
  DeepSpeedOptions& options = job.deepspeed;
  if (hidden < 1 || hidden > widest) {
    return;
  }
  if (options.follows_width.reduce_bucket) {
    options.reduce_bucket_size = hidden * hidden;
  }
  if (options.follows_width.prefetch_bucket) {
    const auto width = static_cast<double>(hidden);
    options.prefetch_bucket_size = static_cast<std::int64_t>(0.9 * width * width);  // in Python's order
  }
  if (options.follows_width.persistence_threshold) {
    options.param_persistence_threshold = 10 * hidden;
    if (job.commlens.is_carried_over) {
      job.commlens.persistence_threshold = options.param_persistence_threshold;
    }
  }
}

void set_recompute(Job& job, Recompute recompute) {
  job.train.recompute = recompute;
  job.deepspeed.checkpoint_activations = recompute == Recompute::full;
  if (recompute != Recompute::full) {
    job.deepspeed.partition_activations = false;
    job.neox.partition_activations = false;
    job.commlens.partition_activations = false;
    job.megatron.recompute_method.clear();
    job.megatron.distribute_saved_activations = false;
  } else if (job.megatron.recompute_method.empty()) {
    job.megatron.recompute_method = "uniform";
  }
}

void set_zero_stage(Job& job, int stage) {
  job.train.zero_stage = stage;
  job.megatron.distributed_optimizer = stage >= 1;
}

Job with_framework(Job job, Framework framework) {
  if (job.framework == framework) {
    return job;
  }
  job.framework = framework;
  job.framework_version.clear();
  switch (framework) {
    case Framework::neox:
      to_neox(job);
      break;
    case Framework::megatron:
      to_megatron(job);
      break;
    case Framework::torch_ddp:
      to_torch_ddp(job);
      break;
    case Framework::commlens:
      to_commlens(job);
      break;
    case Framework::deepspeed:
    case Framework::paper:
      break;
  }
  return job;
}

}  // namespace commlens
