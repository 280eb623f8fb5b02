#include "commlens/frameworks/torchtitan/advice.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/settings.hpp"

namespace commlens::torchtitan {
namespace {

std::string_view name_of(Recompute recompute) {
  return recompute == Recompute::full ? "full" : recompute == Recompute::selective ? "selective" : "none";
}

std::string advised_setting(const Job& job, Setting setting) {
  const ParallelLayout& layout = job.layout;
  switch (setting) {
    case Setting::sequence_parallel:
      return "--parallelism.enable_sequence_parallel";
    case Setting::recompute:
      return fmt::format("activation-checkpoint:{}", name_of(job.train.recompute));
    case Setting::layout:
      return fmt::format("--parallelism.tensor_parallel_degree {} --parallelism.pipeline_parallel_degree {}",
                         layout.tp, layout.pp);
    case Setting::virtual_stages:
      return fmt::format(
          "--parallelism.pipeline_parallel_schedule Interleaved1F1B, with pipeline_parallel_layers_per_stage "
          "for {} stages on each rank",
          layout.virtual_stages);
    case Setting::zero_stage:
    case Setting::whole_activations:
    case Setting::bucket:
    case Setting::persistence_threshold:
      break;
  }
  return "";
}

/// A pipeline cuts the local batch, which stays as it is.
std::string advised_batch(const Job& job) {
  const TrainConfig& train = job.train;
  if (job.layout.pp > 1) {
    return fmt::format("--parallelism.pipeline_parallel_microbatch_size {}", train.micro_batch);
  }
  return fmt::format("--training.local_batch_size {} --training.global_batch_size {}", train.micro_batch,
                     sequences_per_iteration(job));
}

AdvisedChange changed(const Job& job, std::string title, std::string setting,
                      const std::function<void(Job&, Options&)>& change) {
  Job other = job;
  change(other, options(other));
  return {std::move(other), std::move(title), std::move(setting)};
}

/// Shards over all data ranks, or over fewer of them with replicas.
std::vector<AdvisedChange> other_shards(const Job& job) {
  const std::int64_t dp = job.layout.dp;
  std::vector<AdvisedChange> found;
  for (std::int64_t replicas = 1; replicas <= dp; ++replicas) {
    if (dp % replicas != 0 || replicas == options(job).replicate) {
      continue;
    }
    const std::int64_t shard = dp / replicas;
    found.push_back(changed(
        job,
        replicas == 1 ? fmt::format("Shard over all {} data ranks (FSDP)", dp)
        : shard == 1  ? "Hold whole states on every data rank"
                      : fmt::format("Shard over {} ranks, with {} replicas (HSDP)", shard, replicas),
        fmt::format(
            "--parallelism.data_parallel_replicate_degree {} --parallelism.data_parallel_shard_degree {}",
            replicas, shard),
        [replicas](Job&, Options& own) { own.replicate = replicas; }));
  }
  return found;
}

std::vector<AdvisedChange> other_resharding(const Job& job) {
  struct Policy {
    Reshard value;
    std::string_view name;
    std::string_view title;
  };
  constexpr std::array<Policy, 3> policies = {{
      {Reshard::never, "never", "Keep parameters gathered for the backward pass"},
      {Reshard::always, "always", "Shard all parameters again after the forward pass"},
      {Reshard::by_default, "default", "Leave resharding to the default"},
  }};
  std::vector<AdvisedChange> found;
  if (job.layout.dp / options(job).replicate * job.layout.cp == 1) {
    return found;
  }
  for (const Policy& policy : policies) {
    if (policy.value != options(job).reshard_after_forward) {
      found.push_back(changed(job, std::string(policy.title),
                              fmt::format("--parallelism.fsdp_reshard_after_forward {}", policy.name),
                              [&](Job&, Options& own) { own.reshard_after_forward = policy.value; }));
    }
  }
  return found;
}

/// Came with 0.3. The loss of a configuration is no option, its chunks are.
std::vector<AdvisedChange> other_chunks(const Job& job) {
  std::vector<AdvisedChange> found;
  const std::int64_t now = options(job).loss_chunks;
  if (job.framework_version.starts_with("0.2") || job.framework_version.starts_with("0.1")) {
    return found;
  }
  for (const std::int64_t chunks : {1, 2, 4, 8, 16, 32}) {
    if (chunks != now) {
      const std::string text = fmt::format("{} chunk{}", chunks, chunks == 1 ? "" : "s");
      found.push_back(changed(
          job, "Compute the loss in " + text,
          now == 0 ? fmt::format("loss=ChunkedLossWrapper.Config(num_chunks={}, …) in the configuration "
                                 "function, around its loss",
                                 chunks)
                   : fmt::format("--loss.num_chunks {}", chunks),
          [chunks](Job&, Options& own) { own.loss_chunks = chunks; }));
    }
  }
  if (now > 0) {
    found.push_back(changed(job, "Compute the loss of all tokens at once",
                            "loss=CrossEntropyLoss.Config(…) in the configuration function, without "
                            "ChunkedLossWrapper around it",
                            [](Job&, Options& own) { own.loss_chunks = 0; }));
  }
  return found;
}

std::vector<AdvisedChange> other_experts(const Job& job) {
  std::vector<AdvisedChange> found;
  const std::int64_t ranks = job.layout.dp / options(job).replicate * job.layout.cp * job.layout.tp;
  for (std::int64_t ep = 1; ep <= std::min(job.model.experts, ranks); ++ep) {
    if (job.model.experts % ep == 0 && ranks % ep == 0 && ep != job.layout.ep) {
      found.push_back(changed(
          job,
          ep == 1 ? "Hold all experts on every rank" : fmt::format("Divide the experts over {} ranks", ep),
          fmt::format("--parallelism.expert_parallel_degree {}", ep),
          [ep](Job& other, Options&) { other.layout.ep = ep; }));
    }
  }
  return found;
}

/// More stages on each rank than one: two unless the number of layers of each says otherwise.
std::vector<AdvisedChange> other_schedule(const Job& job) {
  std::vector<AdvisedChange> found;
  if (job.layout.pp == 1) {
    return found;
  }
  const Options& own = options(job);
  for (std::int64_t stages = 2; stages <= 4; ++stages) {
    const std::int64_t all = job.model.layers + own.first_stage_less_layers + own.last_stage_less_layers;
    const std::int64_t layers = ceil_div(all, job.layout.pp * stages);
    const StageLayers parts{job.model.layers, own.first_stage_less_layers, own.last_stage_less_layers,
                            layers};
    const bool is_usual = stages == 2;
    if (!is_usual && stages_per_rank(parts, job.layout.pp) != stages) {
      continue;
    }
    const std::string by_layers =
        is_usual ? "" : fmt::format(" --parallelism.pipeline_parallel_layers_per_stage {}", layers);
    found.push_back(
        changed(job, "Interleave the stages",
                fmt::format("--parallelism.pipeline_parallel_schedule Interleaved1F1B{}", by_layers),
                [&](Job& other, Options& changed_options) {
                  changed_options.schedule = pytorch::PipelineSchedule::interleaved_1f1b;
                  changed_options.layers_per_stage = is_usual ? std::nullopt : std::optional(layers);
                  other.train.schedule = Schedule::interleaved;
                  other.layout.virtual_stages = stages;
                }));
  }
  return found;
}

std::vector<AdvisedChange> changes_of(const Job& job, AdviceTopic topic) {
  switch (topic) {
    case AdviceTopic::sharding:
      return other_shards(job);
    case AdviceTopic::gathering:
      return other_resharding(job);
    case AdviceTopic::loss_chunks:
      return other_chunks(job);
    case AdviceTopic::experts:
      return other_experts(job);
    case AdviceTopic::schedule:
      return other_schedule(job);
    case AdviceTopic::units:
    case AdviceTopic::loss:
    case AdviceTopic::accumulation:
    case AdviceTopic::overlap:
    case AdviceTopic::gradient_reduction:
    case AdviceTopic::attention_mask:
    case AdviceTopic::gradient_dtype:
      break;
  }
  return {};
}

}  // namespace

AdviceTexts advice_texts() {
  return {.place = "on torchtitan's command line",
          .setting = advised_setting,
          .batch = advised_batch,
          .changes = changes_of,
          .selective_repeats_calls = true};
}

}  // namespace commlens::torchtitan
