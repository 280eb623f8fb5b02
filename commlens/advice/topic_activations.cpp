// The cost of activations: recomputation, partitioned and sequence-parallel activations, masks in sends.
#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

Job with_whole_activations(Job job) {
  job.train.partition_activations = false;
  return job;
}

std::string traffic_text(const Study& study, const Outcome& outcome) {
  return fmt::format("a rank makes {} calls instead of {} and sends {} instead of {}",
                     with_commas(outcome.cost().per_rank.calls), with_commas(study.cost().per_rank.calls),
                     to_text(outcome.cost().per_rank.wire), to_text(study.cost().per_rank.wire));
}

/// Which recomputation repeats calls of the forward pass in the job, and so can save them.
bool repeats_calls(const Job& job) {
  if (rules_of(job).advice.selective_repeats_calls) {
    return job.train.recompute != Recompute::none &&
           (job.layout.tp > 1 || job.layout.cp > 1 || job.layout.ep > 1);
  }
  return job.train.recompute == Recompute::full && (job.layout.tp > 1 || job.train.zero_stage == 3);
}

/// What it saves and needs; empty where the rules refuse it.
std::string without_recomputation(const Study& study) {
  Job changed = study.job();
  set_recompute(changed, Recompute::none);
  const std::optional<Outcome> tried = study.outcome(std::move(changed));
  return tried ? fmt::format("{}; the fullest rank needs {}", traffic_text(study, *tried),
                             to_text(tried->cost().memory))
               : "";
}

/// The least change that fits: selective recomputation or none, the one that saves more of those that fit.
void advise_recompute(Study& study) {
  std::optional<Outcome> best;
  for (const Recompute recompute : {Recompute::selective, Recompute::none}) {
    Job changed = study.job();
    set_recompute(changed, recompute);
    study.keep_best(best, study.outcome(std::move(changed)));
  }
  if (!best) {
    const std::string less = without_recomputation(study);
    return study.leave(
        less.empty() ? "recomputing less: nothing that fits saves enough communication"
                     : fmt::format("recomputing less: without any {} of {}", less, to_text(study.memory())));
  }
  const bool is_selective = best->job.train.recompute == Recompute::selective;
  study.recommend({.id = "recompute",
                   .title = is_selective ? "Recompute attention only" : "Do not recompute",
                   .reason = fmt::format(
                       "{} recomputation repeats the calls of the forward pass. Without it {}; the "
                       "fullest rank needs {} of {}.",
                       study.job().train.recompute == Recompute::full ? "full" : "selective",
                       traffic_text(study, *best), to_text(best->cost().memory), to_text(study.memory())),
                   .flag = is_selective ? "--recompute selective" : "--recompute none",
                   .setting = setting_text(best->job, Setting::recompute)},
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
       .setting = setting_text(job, Setting::whole_activations)},
      *tried);
}

}  // namespace

void advise_activations(Study& study) {
  const Job& job = study.job();
  const bool recomputes = repeats_calls(job);
  const bool partitions = job.train.partition_activations && job.layout.model_ranks() > 1;
  if (!recomputes && !partitions) {
    return;
  }
  if (!study.options().memory) {
    const std::string less = recomputes ? without_recomputation(study) : "";
    return study.cannot_judge(fmt::format(
        "whether recomputing or partitioning less would fit: how much memory a GPU has is not known; add "
        "--gpu-memory{}",
        less.empty() ? "" : ". Without recomputation " + less));
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
  if (job.layout.tp == 1 || job.layout.sequence_parallel || !has_sequence_parallelism(job)) {
    return;
  }
  Job changed = with_whole_activations(job);
  changed.layout.sequence_parallel = true;
  const std::optional<Outcome> tried = study.outcome(std::move(changed));
  const double memory_share = tried ? 1 - static_cast<double>(tried->cost().memory.value) /
                                              static_cast<double>(study.cost().memory.value)
                                    : 0;
  // Gradients of norms are summed over the tensor ranks then: little beside what is gathered and scattered.
  constexpr double tolerated = 0.01;
  const bool sends_more =
      tried && static_cast<double>(tried->cost().per_rank.wire.value) >
                   (1 + tolerated) * static_cast<double>(study.cost().per_rank.wire.value);
  if (!tried || sends_more || (memory_share < study.options().least_saving && !study.is_worth(*tried))) {
    return study.leave(!tried
                           ? "sequence parallelism: this layout does not allow it"
                           : fmt::format("sequence parallelism: {}, memory {}", traffic_text(study, *tried),
                                         change_text(tried->cost().memory - study.cost().memory)));
  }
  study.recommend({.id = "sequence_parallel",
                   .title = "Split activations along the sequence",
                   .reason = fmt::format(
                       "between the split layers every tensor rank holds the same activations. With "
                       "sequence parallelism {}; its memory: {}.",
                       traffic_text(study, *tried), change_text(tried->cost().memory - study.cost().memory)),
                   .flag = "--sp on",
                   .setting = setting_text(job, Setting::sequence_parallel)},
                  *tried);
}

void advise_attention_mask(Study& study) {
  const Job& job = study.job();
  std::vector<AdvisedChange> advised = advised_changes(job, AdviceTopic::attention_mask);
  if (advised.empty()) {
    return;
  }
  const std::optional<Outcome> tried = study.outcome(std::move(advised.front().job));
  if (!tried || !study.is_worth(*tried)) {
    return study.leave("the attention mask in sends: too small to matter");
  }
  study.recommend({.id = "attention_mask",
                   .title = std::move(advised.front().title),
                   .reason = fmt::format(
                       "{}. Without it {}.",
                       advised.front().reason.empty()
                           ? fmt::format("every send between stages carries the mask of {} x {} elements, "
                                         "which each stage could make itself",
                                         job.model.sequence, job.model.sequence)
                           : advised.front().reason,
                       traffic_text(study, *tried)),
                   .flag = "",
                   .setting = std::move(advised.front().setting)},
                  *tried);
}

}  // namespace commlens
