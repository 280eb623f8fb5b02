#include "commlens/frameworks/overrides.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens {
namespace {

template <typename Value>
void replace(Value& value, const std::optional<Value>& flag) {
  if (flag) {
    value = *flag;
  }
}

bool changes_world(const Overrides& flags) {
  return flags.ranks || flags.dp || flags.tp || flags.pp || flags.cp;
}

void override_layout(Job& job, const Overrides& flags) {
  ParallelLayout& layout = job.layout;
  replace(layout.tp, flags.tp);
  replace(layout.pp, flags.pp);
  replace(layout.cp, flags.cp);
  replace(layout.ep, flags.ep);
  replace(layout.order, flags.rank_order);
  if (flags.dp) {
    layout.dp = *flags.dp == 0 ? -1 : *flags.dp;  // 0 means "what remains", which is not what was asked for
    layout.ranks = 0;
  } else if (changes_world(flags)) {
    layout.dp = 0;
  }
  if (flags.ranks) {
    layout.ranks = *flags.ranks == 0 ? -1 : *flags.ranks;
  }
  if (flags.sp) {
    layout.sequence_parallel = *flags.sp;
    const auto ask = rules_of(job).settings.ask_for_sequence_parallelism;
    if (*flags.sp && ask != nullptr) {
      ask(job);
    }
    if (const auto set = rules_of(job).settings.set_sequence_parallelism) {
      set(job, *flags.sp);
    }
  }
  if (flags.virtual_stages) {
    layout.virtual_stages = *flags.virtual_stages;
    job.train.schedule = *flags.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  }
  replace(job.train.schedule, flags.schedule);
}

void override_batches(Job& job, const Overrides& flags) {
  TrainConfig& train = job.train;
  replace(train.micro_batch, flags.micro_batch);
  if (flags.global_batch) {
    job.global_batch = *flags.global_batch;
    const std::int64_t open = train.micro_batch > 0 ? 0 : train.micro_batches;  // 0: what it leaves
    train.micro_batches = flags.micro_batches.value_or(open);
    return;
  }
  const bool is_stated_twice = job.global_batch > 0 && train.micro_batches > 0 && train.micro_batch > 0;
  if (flags.micro_batches) {
    train.micro_batches = *flags.micro_batches == 0 ? -1 : *flags.micro_batches;
    job.global_batch = 0;
  } else if (is_stated_twice && (flags.micro_batch || changes_world(flags))) {
    job.warnings.push_back(fmt::format(
        "the flags change the batch: the file's global batch of {} no longer holds", job.global_batch));
    job.global_batch = 0;
  }
}

void override_width(ModelConfig& model, const Overrides& flags) {
  replace(model.layers, flags.layers);
  if (!flags.hidden && !flags.heads) {
    return;
  }
  if (flags.hidden && model.hidden > 0 &&
      *flags.hidden <= INT64_MAX / std::max<std::int64_t>(model.ffn_hidden, 1)) {
    model.ffn_hidden = model.ffn_hidden * *flags.hidden / model.hidden;
  }
  replace(model.hidden, flags.hidden);
  if (flags.heads) {
    const bool is_grouped = model.kv_heads != 0 && model.kv_heads != model.heads;
    model.kv_heads = is_grouped ? model.kv_heads : *flags.heads;
    model.heads = *flags.heads;
  }
  model.head_dim = 0;
}

void override_model(Job& job, const Overrides& flags) {
  ModelConfig& model = job.model;
  if (flags.seq) {
    model.sequence = *flags.seq;
    if (model.max_positions != 0 && model.max_positions < model.sequence) {
      job.warnings.push_back(fmt::format(
          "--seq {}: max_position_embeddings raised from {}{}", model.sequence, model.max_positions,
          model.positions == Positions::learned ? ", which adds parameters" : ""));
      model.max_positions = model.sequence;
    }
  }
  override_width(model, flags);
  for (const FrameworkRules& rules : frameworks()) {
    if (rules.settings.follow_width != nullptr) {
      rules.settings.follow_width(job);
    }
  }
  if (flags.vocab) {
    model.raw_vocab = *flags.vocab;
    model.vocab = *flags.vocab;
    model.vocab_is_padded = false;
    model.vocab_is_assumed = false;
  }
}

Result<void> override_bucket(Job& job, Bytes bucket) {
  if (bucket.value < 1) {
    return failure(fmt::format("--bucket {}: a bucket holds at least one byte", bucket.value));
  }
  const auto set = rules_of(job).settings.set_bucket;
  return set == nullptr ? failure(fmt::format("--bucket: the {} rules have no bucket size", job.framework))
                        : set(job, bucket);
}

Result<void> refuse_unknown(const Job& job, const Overrides& flags) {
  const FrameworkRules& rules = rules_of(job);
  const std::pair<bool, const char*> sharding[] = {
      {flags.persistence_threshold.has_value(), "--persistence-threshold"},
      {flags.hpz.has_value(), "--hpz"},
      {flags.qwz, "--qwz"},
      {flags.qgz, "--qgz"},
      {flags.partition_activations, "--partition-activations"}};
  for (const auto& [is_given, flag] : sharding) {
    if (is_given && !rules.settings.has_sharding_details) {
      return not_covered(fmt::format("{}: the {} rules do not have it", flag, job.framework));
    }
  }
  if (flags.all_reduce_gradients && rules.settings.reduce_by_all_reduce == nullptr) {
    return not_covered(fmt::format(
        "--deepspeed-like: only our trainer reduces gradients in two ways, not the {} rules", job.framework));
  }
  if (flags.partition_activations && job.train.recompute != Recompute::full) {
    return failure("--partition-activations splits what full recomputation stores; use --recompute full");
  }
  return {};
}

/// Sharding and recomputation details.
Result<void> override_details(Job& job, const Overrides& flags) {
  if (const Result<void> ok = refuse_unknown(job, flags); !ok) {
    return ok;
  }
  TrainConfig& train = job.train;
  replace(train.persistence_threshold, flags.persistence_threshold);
  replace(train.hpz, flags.hpz);
  train.quantized_weights = train.quantized_weights || flags.qwz;
  train.quantized_gradients = train.quantized_gradients || flags.qgz;
  train.partition_activations = train.partition_activations || flags.partition_activations;
  if (flags.all_reduce_gradients) {
    rules_of(job).settings.reduce_by_all_reduce(job);
  }
  return {};
}

}  // namespace

Result<Recompute> recompute_from(std::string_view name) {
  if (name == "none") {
    return Recompute::none;
  }
  if (name == "selective") {
    return Recompute::selective;
  }
  if (name == "full") {
    return Recompute::full;
  }
  return failure(
      fmt::format("there is no recompute mode '{}'; choose none, selective or full", name.substr(0, 40)));
}

Result<Schedule> schedule_from(std::string_view name) {
  if (name == "gpipe") {
    return Schedule::gpipe;
  }
  if (name == "1f1b") {
    return Schedule::one_f_one_b;
  }
  if (name == "interleaved") {
    return Schedule::interleaved;
  }
  return failure(
      fmt::format("there is no schedule '{}'; choose gpipe, 1f1b or interleaved", name.substr(0, 40)));
}

Result<Attention> attention_from(std::string_view name) {
  if (name == "flash") {
    return Attention::flash;
  }
  if (name == "eager") {
    return Attention::eager;
  }
  return failure(fmt::format("there is no attention '{}'; choose flash or eager", name.substr(0, 40)));
}

std::string_view name_of(Attention attention) { return attention == Attention::flash ? "flash" : "eager"; }

Result<Job> with_overrides(Job job, const Overrides& flags) {
  if (flags.framework) {
    job = with_framework(std::move(job), *flags.framework);
  }
  override_batches(job, flags);
  override_layout(job, flags);
  override_model(job, flags);
  replace(job.train.dtype, flags.dtype);
  replace(job.iterations, flags.iterations);
  replace(job.train.zero_stage, flags.zero);
  if (flags.recompute) {
    set_recompute(job, *flags.recompute);
  }
  if (flags.attention) {
    job.train.attention = flags.attention;
  }
  replace(job.train.gradient_clipping, flags.clip);
  job.train.clipping_is_given = job.train.clipping_is_given || flags.clip.has_value();
  if (const auto remove_converted = rules_of(job).settings.skip_converted) {
    remove_converted(job);  // what the flags ask for is refused where it does not apply, not skipped
  }
  if (const Result<void> ok = override_details(job, flags); !ok) {
    return tl::unexpected(ok.error());
  }
  if (flags.bucket) {
    if (const Result<void> ok = override_bucket(job, *flags.bucket); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return job;
}

}  // namespace commlens
