// What advice changes of a job of the Trainer, as its users write it.
#include <functional>

#include <fmt/format.h>

#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::huggingface {
namespace {

std::string advised_setting_of_trainer(const Job& job, Setting setting) {
  switch (setting) {
    case Setting::recompute:
      return fmt::format(
          "{}: {}",
          options(job).fsdp.is_used ? "fsdp_config.activation_checkpointing" : "gradient_checkpointing",
          job.train.recompute == Recompute::full ? "true" : "false");
    case Setting::bucket:
      return fmt::format("ddp_bucket_cap_mb: {}",
                         options(job).ddp.bucket_cap.value_or(Bytes{25 << 20}).value >> 20);
    case Setting::layout:
      return fmt::format("tp_plan=\"auto\" of from_pretrained on {} ranks", job.layout.tp);
    case Setting::zero_stage:
    case Setting::sequence_parallel:
    case Setting::whole_activations:
    case Setting::virtual_stages:
    case Setting::persistence_threshold:
      break;
  }
  return "";
}

AdvisedChange changed_to(const Job& job, std::string title, std::string setting,
                         const std::function<void(Options&)>& change) {
  Job other = job;
  change(options(other));
  return {std::move(other), std::move(title), std::move(setting)};
}

std::vector<AdvisedChange> other_sharding(const Job& job) {
  const std::int64_t dp = job.layout.dp;
  const Options& own = options(job);
  std::vector<AdvisedChange> found;
  if (dp == 1 || (own.fsdp.is_used && own.fsdp.version == 1)) {
    return found;
  }
  if (!own.fsdp.is_used || own.replicate > 1) {
    found.push_back(changed_to(job, fmt::format("Shard over all {} data ranks (FSDP)", dp), "fsdp: true",
                               [](Options& other) {
                                 other.fsdp.is_used = true;
                                 other.replicate = 1;
                               }));
  }
  for (std::int64_t replicas = 2; replicas < dp; ++replicas) {
    if (dp % replicas == 0 && replicas != own.replicate) {
      found.push_back(changed_to(
          job, fmt::format("Shard over {} ranks, with {} replicas (HSDP)", dp / replicas, replicas),
          fmt::format("fsdp: true, parallelism_config: {{dp_replicate_size: {}, dp_shard_size: {}}}",
                      replicas, dp / replicas),
          [replicas](Options& other) {
            other.fsdp.is_used = true;
            other.replicate = replicas;
          }));
    }
  }
  if (own.fsdp.is_used) {
    found.push_back(
        changed_to(job, "Hold whole parameters on every rank (DDP)", "fsdp: false", [](Options& other) {
          other.fsdp.is_used = false;
          other.replicate = 1;
        }));
  }
  return found;
}

std::vector<AdvisedChange> other_gathering(const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  if (!fsdp.is_used || fsdp.version == 1) {
    return {};
  }
  const bool reshards = fsdp.sharding == Sharding::full_shard;
  return {changed_to(job,
                     reshards ? "Keep parameters gathered for the backward pass"
                              : "Shard parameters again after the forward pass",
                     fmt::format("fsdp_config.reshard_after_forward: {}", reshards ? "false" : "true"),
                     [reshards](Options& other) {
                       other.fsdp.sharding = reshards ? Sharding::grad_op : Sharding::full_shard;
                     })};
}

/// Units, and calls that the Trainer adds to DDP's.
std::vector<AdvisedChange> other_calls(const Job& job) {
  const Options& own = options(job);
  std::vector<AdvisedChange> found;
  if (own.fsdp.is_used && own.fsdp.wrap == WrapPolicy::none) {
    found.push_back(changed_to(job, "Gather each layer on its own",
                               "fsdp_config.auto_wrap_policy: TRANSFORMER_BASED_WRAP",
                               [](Options& other) { other.fsdp.wrap = WrapPolicy::transformer; }));
  }
  return found;
}

std::vector<AdvisedChange> other_overlap(const Job& job) {
  if (!pytorch::options(job).ddp.is_used || !pytorch::options(job).ddp.find_unused_parameters) {
    return {};
  }
  return {changed_to(job, "Do not look for unused parameters", "ddp_find_unused_parameters: false",
                     [](Options& other) { other.ddp.find_unused_parameters = false; })};
}

std::vector<AdvisedChange> other_reductions(const Job& job) {
  if (!options(job).syncs_each_batch || job.train.micro_batches == 1) {
    return {};
  }
  return {changed_to(job, "Reduce gradients of the last micro-batch only",
                     "accelerator_config.gradient_accumulation_kwargs.sync_each_batch: false",
                     [](Options& other) { other.syncs_each_batch = false; })};
}

std::vector<AdvisedChange> changes_of_topic(const Job& job, AdviceTopic topic) {
  if (options(job).loop == Loop::plain) {
    return {};
  }
  switch (topic) {
    case AdviceTopic::sharding:
      return other_sharding(job);
    case AdviceTopic::gathering:
      return other_gathering(job);
    case AdviceTopic::units:
      return other_calls(job);
    case AdviceTopic::overlap:
      return other_overlap(job);
    case AdviceTopic::accumulation:
      return other_reductions(job);
    case AdviceTopic::gradient_reduction:
    case AdviceTopic::attention_mask:
    case AdviceTopic::gradient_dtype:
    case AdviceTopic::loss:
    case AdviceTopic::schedule:
    case AdviceTopic::loss_chunks:
    case AdviceTopic::experts:
      break;
  }
  return {};
}

}  // namespace

AdviceTexts advice_texts() {
  return {.place = "in the TrainingArguments",
          .setting = advised_setting_of_trainer,
          .changes = changes_of_topic};
}

}  // namespace commlens::huggingface
