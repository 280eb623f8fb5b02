// Settings of Megatron that follow from others, and how advice writes them.
#include "commlens/frameworks/megatron/settings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/neox/options.hpp"

namespace commlens::megatron {

/// It shares checkpoint_num_layers with GPT-NeoX, which comes from it, under another name.
void adopt(Job& job) {
  pad_vocab_for_training(job.model);
  options(job).recompute_num_layers = neox::options(job).checkpoint_num_layers;
  options(job).is_script = true;
  job.train.partition_activations = false;
}

/// The script switches this on by itself with bf16 (arguments.py), unlike the bare library.
void settle(Job& job) {
  Options& own = options(job);
  const bool is_bf16 = job.train.dtype == DType::bf16 && !own.gradients_in_bf16;
  if (is_bf16 && !behaviour(job).has_rules_of_its_own) {
    own.gradients_in_fp32 = true;
  } else if (own.is_script && is_bf16 && !own.gradients_in_fp32) {
    own.gradients_in_fp32 = true;
    job.warnings.emplace_back("bf16 switches accumulate-allreduce-grads-in-fp32 on, as Megatron does");
  }
  own.is_script = false;
  const std::vector<std::string>& modules = own.recompute_modules;
  const bool recomputes_mlp = job.train.recompute == Recompute::selective &&
                              std::find(modules.begin(), modules.end(), "mlp") != modules.end();
  if (recomputes_mlp && job.model.linear_bias && !behaviour(job).has_rules_of_its_own) {
    job.warnings.emplace_back(
        "recompute-modules mlp with biases of linear layers never ends in Megatron, whose checkpoint "
        "returns the bias (core/tensor_parallel/random.py:656); add disable-bias-linear");
  }
}

/// Newer releases number ranks for experts in a way of its own (core/parallel_state.py:871).
void prepare(Job& job) {
  const bool has_grid = behaviour(job).has_expert_grid;
  job.layout.folds_experts = has_grid;
  job.layout.expert_tp = 0;
  if (has_grid) {
    job.layout.expert_tp = options(job).expert_tp > 0 ? options(job).expert_tp : job.layout.tp;
  }
}

DType gradient_dtype_of(const Job& job) {
  return options(job).gradients_in_fp32 ? DType::fp32 : job.train.dtype;
}

FirstOverflows first_overflows(const Job& job) {
  // Gradients of 16-bit models are 2^-16 or so, the largest number of fp16 is 2^16.
  constexpr double surely_too_large = 16'777'216;
  constexpr double possibly_too_large = 65'536;
  const LossScaling& scaling = job.recipe.loss_scaling;
  FirstOverflows result;
  if (job.train.dtype != DType::fp16 || scaling.fixed > 0) {
    return result;
  }
  double scale = scaling.initial;
  std::int64_t left = scaling.hysteresis;
  while (scale > possibly_too_large && scale > scaling.minimum && result.possible < job.iterations) {
    result.sure += scale > surely_too_large ? 1 : 0;
    ++result.possible;
    --left;
    scale /= left <= 0 ? 2 : 1;
  }
  return result;
}

std::int64_t gradient_bytes(const Job& job) { return size_of(gradient_dtype_of(job)); }

std::string setting_text(const Job& job, Setting setting) {
  switch (setting) {
    case Setting::zero_stage:
      return job.train.zero_stage > 0 ? "--use-distributed-optimizer of Megatron"
                                      : "leave --use-distributed-optimizer out, of Megatron";
    case Setting::sequence_parallel:
      return "--sequence-parallel of Megatron";
    case Setting::recompute:
      return job.train.recompute == Recompute::none
                 ? "leave --recompute-granularity out, of Megatron"
                 : fmt::format("--recompute-granularity {} of Megatron",
                               job.train.recompute == Recompute::full ? "full" : "selective");
    case Setting::whole_activations:
      return "leave --distribute-saved-activations out, of Megatron";
    case Setting::layout:
      return fmt::format("--tensor-model-parallel-size {} --pipeline-model-parallel-size {} of Megatron",
                         job.layout.tp, job.layout.pp);
    case Setting::virtual_stages:
      return release_that_brings(job, "num_virtual_stages_per_pipeline_rank").empty()
                 ? fmt::format("--num-virtual-stages-per-pipeline-rank {} of Megatron",
                               job.layout.virtual_stages)
                 : fmt::format("--num-layers-per-virtual-pipeline-stage {} of Megatron",
                               job.model.layers / job.layout.pp / job.layout.virtual_stages);
    case Setting::bucket:
    case Setting::persistence_threshold:
      break;
  }
  return "";
}

}  // namespace commlens::megatron
