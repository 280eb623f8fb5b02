#include "commlens/model/framework_options.hpp"

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

}  // namespace

void set_recompute(Job& job, Recompute recompute) {
  job.train.recompute = recompute;
  job.deepspeed.checkpoint_activations = recompute == Recompute::full;
  if (recompute != Recompute::full) {
    job.deepspeed.partition_activations = false;
    job.neox.partition_activations = false;
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
    case Framework::deepspeed:
    case Framework::paper:
    case Framework::commlens:
      break;
  }
  return job;
}

}  // namespace commlens
