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
      {"moe-shared-expert-overlap", &Options::overlaps_shared_expert},
      {"align-grad-reduce", &Options::aligns_grad_reduce},
      {"align-param-gather", &Options::aligns_param_gather},
      {"moe-z-loss-coeff", &Options::has_z_loss},
      {"tp-comm-overlap", &Options::overlaps_tp}};
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
  const std::string dispatcher = is_alltoall ? "allgather" : "alltoall";
  variations.add("moe-token-dispatcher-type", dispatcher,
                 [&](Job& changed) { options(changed).moe_dispatcher = dispatcher; });
  const Job& job = variations.job();
  const Options& own = options(job);
  for (const std::int64_t chosen : {1, 2, 4, 8}) {
    variations.add("moe-router-topk", fmt::format("{}", chosen),
                   [&](Job& other) { other.model.top_k = chosen; });
  }
  for (const std::int64_t ranks : {1, 2, 4, 8, 16, 32, 64}) {
    if (ranks != job.layout.ep) {
      variations.add("expert-model-parallel-size", fmt::format("{}", ranks),
                     [&](Job& other) { other.layout.ep = ranks; });
    }
  }
  for (const std::int64_t experts : {job.model.experts / 2, 2 * job.model.experts}) {
    variations.add("num-experts", fmt::format("{}", experts),
                   [&](Job& other) { other.model.experts = experts; });
  }
  const double coefficient = own.balancing_coefficients.front() != 0 ? 0 : 0.01;
  variations.add("moe-aux-loss-coeff", coefficient != 0 ? "more than 0" : "0", [&](Job& other) {
    options(other).balancing_coefficients.assign(own.balancing.size(), coefficient);
  });
  for (const char* const kind : {"aux_loss", "seq_aux_loss", "global_aux_loss", "none"}) {
    variations.add("moe-router-load-balancing-type", kind,
                   [&](Job& other) { options(other).balancing = {kind}; });
  }
  for (const double capacity : {0.0, 1.0, 1.25, 1.5, 2.0}) {
    if (capacity != own.expert_capacity) {
      variations.add("moe-expert-capacity-factor", capacity == 0 ? "none" : fmt::format("{}", capacity),
                     [&](Job& other) { options(other).expert_capacity = capacity; });
    }
  }
  for (const std::int64_t width : {std::int64_t{0}, job.model.expert_hidden()}) {
    if (width != own.shared_expert_hidden) {
      variations.add("moe-shared-expert-intermediate-size", fmt::format("{}", width),
                     [&](Job& other) { options(other).shared_expert_hidden = width; });
    }
  }
  for (std::int64_t ranks = 1; ranks <= variations.job().layout.tp; ranks *= 2) {
    variations.add("expert-tensor-parallel-size", fmt::format("{}", ranks),
                   [&](Job& other) { options(other).expert_tp = ranks; });
  }
}

void add_layouts(Variations& variations) {
  const Job& job = variations.job();
  for (const std::int64_t stages : {1, 2, 4, 8, 16}) {
    const std::int64_t others =
        job.layout.ranks / std::max<std::int64_t>(job.layout.tp * job.layout.cp * stages, 1);
    if (stages != job.layout.pp && others > 0) {
      variations.add("pipeline-model-parallel-size", fmt::format("{}", stages), [&](Job& other) {
        other.layout.pp = stages;
        other.layout.dp = others;
        other.train.micro_batches = job.train.micro_batches * job.layout.dp / others;
      });
    }
  }
  for (const std::int64_t chunks : {1, 2, 3, 4, 5, 6, 8}) {
    if (chunks != job.layout.virtual_stages) {
      variations.add("num-virtual-stages-per-pipeline-rank", fmt::format("{}", chunks), [&](Job& other) {
        other.layout.virtual_stages = chunks;
        other.train.schedule = chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
      });
    }
  }
  for (const std::int64_t layers : {0, 1, 2}) {
    if (layers != options(job).mtp_layers) {
      variations.add("mtp-num-layers", fmt::format("{}", layers),
                     [&](Job& other) { options(other).mtp_layers = layers; });
    }
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
  for (const std::int64_t interval : {0, 1, 2, 5, 10, 100}) {
    if (interval != options(variations.job()).eval_interval) {
      variations.add("eval-interval",
                     interval == 0 ? "more than the iterations" : fmt::format("{}", interval),
                     [&](Job& job) { options(job).eval_interval = interval; });
    }
  }
  for (const std::int64_t level : {0, 1, 2}) {
    if (level != options(variations.job()).timing_level) {
      variations.add("timing-log-level", fmt::format("{}", level),
                     [&](Job& job) { options(job).timing_level = static_cast<int>(level); });
    }
  }
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

AdvisedChange advised(const Job& job, std::string title, std::string setting, void (*change)(Options& own),
                      std::string reason = "") {
  Job changed = job;
  change(options(changed));
  return {std::move(changed), std::move(title), setting + " of Megatron", std::move(reason)};
}

/// Other numbers of replicas of the optimizer's shards.
std::vector<AdvisedChange> advised_instances(const Job& job) {
  std::vector<AdvisedChange> changes;
  for (const std::int64_t instances : {1, 2, 4, 8}) {
    if (instances != options(job).instances && job.layout.dp % instances == 0 && instances < job.layout.dp) {
      Job changed = job;
      options(changed).instances = instances;
      changes.push_back(
          {std::move(changed),
           fmt::format("{} of the optimizer's shards",
                       instances == 1 ? "Keep one copy" : fmt::format("Keep {} copies", instances)),
           fmt::format("--num-distributed-optimizer-instances {} of Megatron", instances)});
    }
  }
  return changes;
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
  if (topic == AdviceTopic::attention_mask && own.has_attention_mask && !own.is_core_loop &&
      job.layout.tp > 1) {
    return {advised(
        job, "Make the attention mask on each rank instead of broadcasting it",
        "--no-create-attention-mask-in-dataloader", [](Options& it) { it.has_attention_mask = false; },
        fmt::format("the first tensor rank broadcasts a mask of {} x {} with every micro-batch",
                    job.model.sequence, job.model.sequence))};
  }
  if (topic == AdviceTopic::sharding && job.train.zero_stage == 1) {
    return advised_instances(job);
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
  add_layouts(variations);
  add_loop(variations);
  add_releases(variations);
}

}  // namespace commlens::megatron
