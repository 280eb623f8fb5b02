// The settings of Megatron that make two runs of a model differ, and those that advice weighs.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {
namespace {

bool is_oldest(const Job& job) { return behaviour(job).has_rules_of_its_own; }

void add_switches(Variations& variations) {
  const std::pair<std::string_view, bool Options::*> switches[] = {
      {"overlap-param-gather", &Options::overlap_param_gather},
      {"overlap-p2p-communication", &Options::overlaps_p2p},
      {"calculate-per-token-loss", &Options::counts_tokens},
      {"create-attention-mask-in-dataloader", &Options::has_attention_mask},
      {"log-num-zeros-in-grad", &Options::logs_zeros},
      {"log-params-norm", &Options::logs_params_norm},
      {"exit-signal-handler", &Options::handles_signals},
      {"data-parallel-random-init", &Options::broadcasts_parameters},
      {"ddp-pad-buckets-for-high-nccl-busbw", &Options::pads_buckets},
      {"ddp-reduce-scatter-with-fp32-accumulation", &Options::scatters_by_all_to_all},
      {"moe-router-enable-expert-bias", &Options::has_expert_bias},
      {"moe-pad-expert-input-to-capacity", &Options::pads_to_capacity},
      {"moe-shared-expert-overlap", &Options::overlaps_shared_expert}};
  for (const auto& [setting, member] : switches) {
    variations.toggle(setting, [field = member](Job& job) -> bool& { return options(job).*field; });
  }
}

void add_gradients(Variations& variations) {
  const bool in_bf16 = !options(variations.job()).gradients_in_bf16;
  variations.add("grad-reduce-in-bf16", in_bf16 ? "true" : "false", [&](Job& job) {
    options(job).gradients_in_bf16 = in_bf16;
    options(job).gradients_in_fp32 = !in_bf16;
  });
  const std::int64_t bucket_sizes[] = {10'000, 100'000, 1'000'000, 10'000'000, 40'000'000, 100'000'000};
  for (const std::int64_t size : bucket_sizes) {
    variations.add("ddp-bucket-size", fmt::format("{}", size),
                   [&](Job& job) { options(job).bucket_size = size; });
  }
  for (const std::int64_t instances : {1, 2, 4, 8}) {
    if (instances != options(variations.job()).instances) {
      variations.add("num-distributed-optimizer-instances", fmt::format("{}", instances),
                     [&](Job& job) { options(job).instances = instances; });
    }
  }
}

void add_experts(Variations& variations) {
  const bool is_alltoall = options(variations.job()).moe_dispatcher == "alltoall";
  const std::string other = is_alltoall ? "allgather" : "alltoall";
  variations.add("moe-token-dispatcher-type", other, [&](Job& job) { options(job).moe_dispatcher = other; });
  for (std::int64_t ranks = 1; ranks <= variations.job().layout.tp; ranks *= 2) {
    variations.add("expert-tensor-parallel-size", fmt::format("{}", ranks),
                   [&](Job& job) { options(job).expert_tp = ranks; });
  }
}

void add_loop(Variations& variations) {
  const bool reruns = options(variations.job()).rerun_mode != "disabled";
  const std::string mode = reruns ? "disabled" : "validate_results";
  variations.add("rerun-mode", mode, [&](Job& job) { options(job).rerun_mode = mode; });
  const bool is_fused = options(variations.job()).cross_entropy != CrossEntropy::unfused;
  variations.add("cross-entropy-loss-fusion", is_fused ? "false" : "true", [&](Job& job) {
    options(job).cross_entropy = is_fused ? CrossEntropy::unfused : CrossEntropy::native;
  });
  for (const std::int64_t interval : {1, 2, 5, 10, 100}) {
    if (interval != options(variations.job()).log_interval) {
      variations.add("log-interval", fmt::format("{}", interval),
                     [&](Job& job) { options(job).log_interval = interval; });
    }
  }
}

void add_releases(Variations& variations) {
  std::vector<KnownVersion> releases = known_versions();
  std::reverse(releases.begin(), releases.end());
  for (const KnownVersion& release : releases) {
    if (release.name != behaviour(variations.job()).version.name) {
      variations.add_release(std::string(release.name),
                             [&](Job& job) { job.framework_version = release.last; });
    }
  }
}

AdvisedChange advised(const Job& job, std::string title, std::string setting, void (*change)(Options& own)) {
  Job changed = job;
  change(options(changed));
  return {std::move(changed), std::move(title), setting + " of Megatron"};
}

}  // namespace

std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic) {
  const Options& own = options(job);
  if (topic == AdviceTopic::overlap && !own.overlap_grad_reduce) {
    return {advised(job, "", "--overlap-grad-reduce", [](Options& it) { it.overlap_grad_reduce = true; })};
  }
  if (is_oldest(job)) {
    return {};
  }
  if (topic == AdviceTopic::overlap && job.train.zero_stage == 1 && !own.overlap_param_gather) {
    return {advised(job, "Gather parameters during the forward pass", "--overlap-param-gather",
                    [](Options& it) { it.overlap_param_gather = true; })};
  }
  if (topic == AdviceTopic::attention_mask && own.has_attention_mask && !own.is_core_loop) {
    return {advised(job, "Make the attention mask on each rank instead of broadcasting it",
                    "--no-create-attention-mask-in-dataloader",
                    [](Options& it) { it.has_attention_mask = false; })};
  }
  if (topic == AdviceTopic::gradient_dtype && job.train.dtype == DType::bf16 && own.gradients_in_fp32) {
    return {advised(job, "Reduce gradients in bf16", "--grad-reduce-in-bf16", [](Options& it) {
      it.gradients_in_bf16 = true;
      it.gradients_in_fp32 = false;
    })};
  }
  if (topic == AdviceTopic::experts && job.layout.ep > 1 && own.moe_dispatcher == "allgather") {
    return {advised(job, "Send tokens to their experts alone", "--moe-token-dispatcher-type alltoall",
                    [](Options& it) { it.moe_dispatcher = "alltoall"; })};
  }
  return {};
}

void add_variations(Variations& variations) {
  variations.toggle("accumulate-allreduce-grads-in-fp32",
                    [](Job& job) -> bool& { return options(job).gradients_in_fp32; });
  variations.toggle("distribute-saved-activations",
                    [](Job& job) -> bool& { return job.train.partition_activations; });
  variations.toggle("variable-seq-lengths",
                    [](Job& job) -> bool& { return options(job).variable_seq_lengths; });
  variations.toggle("overlap-grad-reduce",
                    [](Job& job) -> bool& { return options(job).overlap_grad_reduce; });
  variations.toggle("sequence-parallel", [](Job& job) -> bool& { return job.layout.sequence_parallel; });
  if (is_oldest(variations.job())) {
    return;
  }
  add_switches(variations);
  add_gradients(variations);
  if (variations.job().model.experts > 0) {
    add_experts(variations);
  }
  add_loop(variations);
  add_releases(variations);
}

}  // namespace commlens::megatron
