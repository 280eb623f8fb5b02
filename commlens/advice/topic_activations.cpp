// What activations cost: recomputation, partitioned and sequence-parallel activations, masks in sends.
#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/model/framework_options.hpp"

namespace commlens {
namespace {

bool partitions_activations(const Job& job) {
  return job.deepspeed.partition_activations || job.neox.partition_activations ||
         job.commlens.partition_activations || job.megatron.distribute_saved_activations;
}

Job with_whole_activations(Job job) {
  job.deepspeed.partition_activations = false;
  job.neox.partition_activations = false;
  job.commlens.partition_activations = false;
  job.megatron.distribute_saved_activations = false;
  return job;
}

std::string whole_activations_setting(const Job& job) {
  switch (job.framework) {
    case Framework::megatron:
      return "leave --distribute-saved-activations out, of Megatron";
    case Framework::commlens:
      return "leave --partition-activations out, of commlens train (or set it to false in the configuration)";
    default:
      return fmt::format("partition_activations: false {}", settings_place(job));
  }
}

std::string traffic_text(const Study& study, const Outcome& outcome) {
  return fmt::format("a rank makes {} calls instead of {} and sends {} instead of {}",
                     with_commas(outcome.cost().per_rank.calls), with_commas(study.cost().per_rank.calls),
                     to_text(outcome.cost().per_rank.wire), to_text(study.cost().per_rank.wire));
}

std::string recompute_setting(const Job& job, bool is_selective) {
  switch (job.framework) {
    case Framework::megatron:
      return is_selective ? "--recompute-granularity selective of Megatron"
                          : "leave --recompute-granularity out, of Megatron";
    case Framework::neox:
      return "checkpoint_activations: false in the GPT-NeoX yml";
    case Framework::deepspeed:
      return "do not checkpoint blocks in the training script";
    default:
      return fmt::format("--recompute {} of commlens train", is_selective ? "selective" : "none");
  }
}

/// The mildest change that fits: selective recomputation, else none; the one that saves more of what fits.
void advise_recompute(Study& study) {
  std::optional<Outcome> best;
  for (const Recompute recompute : {Recompute::selective, Recompute::none}) {
    Job changed = study.job();
    set_recompute(changed, recompute);
    std::optional<Outcome> tried = study.outcome(std::move(changed));
    if (tried && study.fits(tried->cost()) && study.is_worth(*tried) &&
        (!best || study.saved_share(*tried) > study.saved_share(*best))) {
      best = std::move(tried);
    }
  }
  if (!best) {
    return study.leave("recomputing less: nothing that fits saves enough communication");
  }
  const bool is_selective = best->job.train.recompute == Recompute::selective;
  study.recommend({.id = "recompute",
                   .title = is_selective ? "Recompute attention only" : "Do not recompute",
                   .reason = fmt::format(
                       "full recomputation repeats the calls of the forward pass. Without it {}; the "
                       "fullest rank needs {} of {}.",
                       traffic_text(study, *best), to_text(best->cost().memory), to_text(study.memory())),
                   .flag = is_selective ? "--recompute selective" : "--recompute none",
                   .setting = recompute_setting(study.job(), is_selective)},
                  *best);
}

void advise_partitioned(Study& study) {
  const std::optional<Outcome> tried = study.outcome(with_whole_activations(study.job()));
  if (!tried || !study.fits(tried->cost()) || !study.is_worth(*tried)) {
    return study.leave("whole stored activations: they do not fit or save too little");
  }
  const Job& job = study.job();
  study.recommend(
      {.id = "partition_activations",
       .title = "Store activations whole",
       .reason = fmt::format(
           "partitioned activations are gathered again in the backward pass. Stored whole, {}; the "
           "fullest rank needs {} of {}.",
           traffic_text(study, *tried), to_text(tried->cost().memory), to_text(study.memory())),
       .flag = "",
       .setting = whole_activations_setting(job)},
      *tried);
}

}  // namespace

void advise_activations(Study& study) {
  const Job& job = study.job();
  const bool recomputes =
      job.train.recompute == Recompute::full && (job.layout.tp > 1 || job.train.zero_stage == 3);
  const bool partitions = partitions_activations(job) && job.layout.model_ranks() > 1;
  if (!recomputes && !partitions) {
    return;
  }
  if (!study.options().memory) {
    return study.cannot_judge(
        "whether recomputing or partitioning less would fit: how much memory a GPU has is not known; add "
        "--gpu-memory");
  }
  if (recomputes) {
    advise_recompute(study);
  }
  if (partitions) {
    advise_partitioned(study);
  }
}

void advise_sequence_parallelism(Study& study) {
  const Job& job = study.job();
  const bool has_it = job.framework == Framework::megatron || job.framework == Framework::commlens ||
                      (job.framework == Framework::neox && is_sequence_parallel_neox(job));
  if (job.layout.tp == 1 || job.layout.sequence_parallel || !has_it) {
    return;
  }
  Job changed = with_whole_activations(job);
  changed.layout.sequence_parallel = true;
  const std::optional<Outcome> tried = study.outcome(std::move(changed));
  const double memory_share = tried ? 1 - static_cast<double>(tried->cost().memory.value) /
                                              static_cast<double>(study.cost().memory.value)
                                    : 0;
  const bool sends_more = tried && tried->cost().per_rank.wire > study.cost().per_rank.wire;
  if (!tried || sends_more || (memory_share < study.options().least_saving && !study.is_worth(*tried))) {
    return study.leave(!tried
                           ? "sequence parallelism: this layout does not allow it"
                           : fmt::format("sequence parallelism: {}, memory {}", traffic_text(study, *tried),
                                         change_text(tried->cost().memory - study.cost().memory)));
  }
  study.recommend(
      {.id = "sequence_parallel",
       .title = "Split activations along the sequence",
       .reason =
           fmt::format("between the split layers every tensor rank holds the same activations. With "
                       "sequence parallelism {}; its memory: {}.",
                       traffic_text(study, *tried), change_text(tried->cost().memory - study.cost().memory)),
       .flag = "--sp on",
       .setting = job.framework == Framework::megatron ? "--sequence-parallel of Megatron"
                  : job.framework == Framework::neox   ? "sequence_parallel: true in the GPT-NeoX yml"
                                                       : "--sp on, of commlens train"},
      *tried);
}

void advise_attention_mask(Study& study) {
  const Job& job = study.job();
  if (job.framework != Framework::deepspeed || job.layout.pp == 1 || !job.deepspeed.attention_mask) {
    return;
  }
  Job changed = job;
  changed.deepspeed.attention_mask = false;
  const std::optional<Outcome> tried = study.outcome(std::move(changed));
  if (!tried || !study.is_worth(*tried)) {
    return study.leave("the attention mask in sends: too small to matter");
  }
  study.recommend(
      {.id = "attention_mask",
       .title = "Do not send the attention mask between stages",
       .reason = fmt::format(
           "every send between stages carries the mask of {} x {} elements, which each stage could "
           "make itself. Without it {}.",
           job.model.sequence, job.model.sequence, traffic_text(study, *tried)),
       .flag = "",
       .setting = "do not call engine.set_has_attention_mask(True); make the mask in each layer"},
      *tried);
}

}  // namespace commlens
