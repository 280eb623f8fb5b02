#include "commlens/frameworks/torch/advice.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

std::string advised_setting(const Job& job, Setting setting) {
  const ParallelLayout& layout = job.layout;
  switch (setting) {
    case Setting::sequence_parallel:
      return "SequenceParallel() for the norms in parallelize_module, with inputs and outputs of attention "
             "and "
             "feed_forward in Shard(1)";
    case Setting::recompute:
      return job.train.recompute == Recompute::full
                 ? "checkpoint_wrapper around each block before fully_shard"
                 : "no checkpoint_wrapper around the blocks";
    case Setting::layout:
      return fmt::format("init_device_mesh with {} pipeline, {} data and {} tensor ranks", layout.pp,
                         layout.dp, layout.tp);
    case Setting::virtual_stages:
      return fmt::format("{} stages on each rank", layout.virtual_stages);
    case Setting::bucket:
      return fmt::format("bucket_cap_mb={} of DistributedDataParallel",
                         options(job).ddp.bucket_cap.value_or(Bytes{25 << 20}).value >> 20);
    case Setting::zero_stage:
    case Setting::whole_activations:
    case Setting::persistence_threshold:
      break;
  }
  return "";
}

AdvisedChange changed(const Job& job, std::string title, std::string setting,
                      const std::function<void(Job&, Options&)>& change) {
  Job other = job;
  change(other, options(other));
  return {std::move(other), std::move(title), std::move(setting)};
}

/// Shards over fewer ranks with replicas of them, over all, or none.
std::vector<AdvisedChange> other_shards(const Job& job) {
  const std::int64_t dp = job.layout.dp;
  const Options& own = options(job);
  std::vector<AdvisedChange> found;
  if (dp == 1 || job.layout.pp > 1 || own.fsdp.version == 1) {
    return found;
  }
  const auto sharded = [](std::int64_t ranks) {
    return [ranks](Job&, Options& other) {
      other.ddp = {};
      other.fsdp.is_used = true;
      other.fsdp.is_replicate = false;
      other.data_shard = ranks;
    };
  };
  const bool is_full = own.fsdp.is_used && !own.fsdp.is_replicate && data_shard(job) == dp;
  if (!is_full) {
    found.push_back(changed(job, fmt::format("Shard over all {} data ranks (FSDP)", dp),
                            "fully_shard with a mesh of one dimension", sharded(dp)));
  }
  for (std::int64_t shard = 2; shard < dp; ++shard) {
    const bool is_now = own.fsdp.is_used && !own.fsdp.is_replicate && shard == data_shard(job);
    if (dp % shard == 0 && !is_now && job.layout.cp == 1) {
      found.push_back(changed(
          job, fmt::format("Shard over {} ranks, with {} replicas (HSDP)", shard, dp / shard),
          fmt::format("fully_shard with a mesh of {} x {} (data_replicate, data_shard)", dp / shard, shard),
          sharded(shard)));
    }
  }
  if (own.fsdp.is_used && !own.fsdp.is_replicate && job.layout.cp == 1) {
    found.push_back(changed(job, "Hold whole parameters on every rank", "replicate instead of fully_shard",
                            [](Job&, Options& other) {
                              other.fsdp.is_replicate = true;
                              other.data_shard = 1;
                            }));
  }
  return found;
}

bool has_shards(const Job& job) {
  const Options& own = options(job);
  return own.fsdp.is_used && own.fsdp.version == 2 && !own.fsdp.is_replicate &&
         data_shard(job) * job.layout.cp > 1;
}

std::vector<AdvisedChange> other_resharding(const Job& job) {
  using Kind = ReshardAfterForward::Kind;
  std::vector<AdvisedChange> found;
  if (!has_shards(job)) {
    return found;
  }
  const ReshardAfterForward now = options(job).fsdp.reshard_after_forward;
  const auto add = [&](std::string title, std::string value, ReshardAfterForward reshard) {
    if (!(reshard == now)) {
      found.push_back(
          changed(job, std::move(title), fmt::format("reshard_after_forward={} of fully_shard", value),
                  [reshard](Job&, Options& other) { other.fsdp.reshard_after_forward = reshard; }));
    }
  };
  add("Keep parameters gathered for the backward pass", "False", {Kind::no, 0});
  add("Shard parameters again after the forward pass", "None", {Kind::automatic, 0});
  const std::int64_t shard = data_shard(job) * job.layout.cp;
  constexpr std::array<std::int64_t, 4> parts = {2, 4, 8, 16};
  for (const std::int64_t part : parts) {
    if (part < shard && shard % part == 0 && job.layout.tp == 1) {
      add(fmt::format("Shard parameters over {} ranks after the forward pass", part), fmt::format("{}", part),
          {Kind::to_size, part});
    }
  }
  return found;
}

std::vector<AdvisedChange> other_units(const Job& job) {
  std::vector<AdvisedChange> found;
  if (!has_shards(job) || job.layout.pp > 1) {
    return found;
  }
  const Unit of_embedding = job.model.tied_embeddings ? Unit::embedding_with_head : Unit::embedding;
  std::vector<Unit> all = {of_embedding, Unit::blocks, Unit::root};
  if (!job.model.tied_embeddings) {
    all.insert(all.end() - 1, Unit::head_with_norm);
  }
  const auto add = [&](std::string title, std::string setting, const std::vector<Unit>& units) {
    if (units != options(job).fsdp.units) {
      found.push_back(changed(job, std::move(title), std::move(setting),
                              [units](Job&, Options& other) { other.fsdp.units = units; }));
    }
  };
  const auto has = [&](Unit unit) {
    const std::vector<Unit>& now = options(job).fsdp.units;
    return std::find(now.begin(), now.end(), unit) != now.end();
  };
  add(has(Unit::blocks) ? "Leave embedding and head to the root, which stays gathered"
                        : "Gather each block on its own",
      "fully_shard on each block, then on the model", {Unit::blocks, Unit::root});
  add("Gather embedding, head and each block on their own",
      job.model.tied_embeddings ? "fully_shard on [embedding, head] together, each block, then the model"
                                : "fully_shard on the embedding, each block and [norm, head], then the model",
      all);
  return found;
}

std::vector<AdvisedChange> other_loss(const Job& job) {
  if (job.layout.tp == 1 || options(job).tensor.loss_parallel) {
    return {};
  }
  return {changed(
      job, "Compute the loss where the logits are",
      "loss_parallel() around loss and backward, the head's output in Shard(-1), use_local_output=False",
      [](Job&, Options& other) { other.tensor.loss_parallel = true; })};
}

/// Reductions of micro-batches whose gradients are added up all the same.
std::vector<AdvisedChange> other_accumulation(const Job& job) {
  std::vector<AdvisedChange> found;
  const Options& own = options(job);
  if (job.train.micro_batches == 1 || job.layout.pp > 1 || job.layout.dp == 1) {
    return found;
  }
  if (own.ddp.is_used && own.ddp.accumulation_sync) {
    found.push_back(changed(job, "Reduce gradients of the last micro-batch only",
                            "model.no_sync() around all micro-batches but the last",
                            [](Job&, Options& other) { other.ddp.accumulation_sync = false; }));
  }
  if (!own.fsdp.is_used || !own.fsdp.sync_each_micro_batch) {
    return found;
  }
  if (own.fsdp.version == 2 && own.fsdp.all_reduce_each_micro_batch && data_shard(job) < job.layout.dp) {
    found.push_back(changed(job, "Sum over the replicas after the last micro-batch only",
                            "set_requires_all_reduce(False) before all micro-batches but the last",
                            [](Job&, Options& other) { other.fsdp.all_reduce_each_micro_batch = false; }));
  }
  found.push_back(changed(job, "Reduce gradients of the last micro-batch only",
                          own.fsdp.version == 2
                              ? "set_requires_gradient_sync(False) before all micro-batches but the last"
                              : "no_sync() around all micro-batches but the last",
                          [](Job&, Options& other) { other.fsdp.sync_each_micro_batch = false; }));
  if (has_shards(job) && own.fsdp.reshard_after_backward) {
    found.push_back(changed(
        job, "Keep parameters gathered between micro-batches, and reduce once",
        "set_requires_gradient_sync(False) and set_reshard_after_backward(False) before all but the last",
        [](Job&, Options& other) {
          other.fsdp.sync_each_micro_batch = false;
          other.fsdp.reshard_after_backward = false;
          other.fsdp.reshard_after_forward.kind = ReshardAfterForward::Kind::no;
        }));
  }
  return found;
}

std::vector<AdvisedChange> other_schedule(const Job& job) {
  std::vector<AdvisedChange> found;
  if (job.layout.pp == 1) {
    return found;
  }
  for (std::int64_t stages = 2; stages <= 4; ++stages) {
    found.push_back(changed(job, "Interleave the stages",
                            fmt::format("ScheduleInterleaved1F1B with {} stages on each rank", stages),
                            [stages](Job& other, Options&) {
                              set_schedule(other, PipelineSchedule::interleaved_1f1b);
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
    case AdviceTopic::units:
      return other_units(job);
    case AdviceTopic::loss:
      return other_loss(job);
    case AdviceTopic::accumulation:
      return other_accumulation(job);
    case AdviceTopic::schedule:
      return other_schedule(job);
    case AdviceTopic::overlap:
    case AdviceTopic::gradient_reduction:
    case AdviceTopic::attention_mask:
    case AdviceTopic::gradient_dtype:
    case AdviceTopic::loss_chunks:
    case AdviceTopic::experts:
      break;
  }
  return {};
}

}  // namespace

AdviceTexts advice_texts() {
  return {.place = "of the training script", .setting = advised_setting, .changes = changes_of};
}

}  // namespace commlens::pytorch
