// Sharding among data-parallel ranks: ZeRO's stages and memory, how gradients are reduced, and how often.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

std::string memory_text(const Study& study, const StepCost& cost) {
  return fmt::format("{} of {}", to_text(cost.memory), to_text(study.memory()));
}

/// The wire bytes of a rank before and after: "4.00 GiB instead of 2.00 GiB".
std::string wire_text(const Study& study, const Outcome& outcome) {
  return fmt::format("{} instead of {}", to_text(outcome.cost().per_rank.wire),
                     to_text(study.cost().per_rank.wire));
}

Job with_stage(Job job, int stage) {
  job.train.zero_stage = stage;
  return job;
}

/// A way to need less memory.
struct Remedy {
  Change change;
  std::optional<Outcome> outcome;
};

std::vector<Remedy> stage_remedies(const Study& study) {
  constexpr int highest = 3;
  std::vector<Remedy> remedies;
  for (int stage = study.job().train.zero_stage + 1; stage <= highest; ++stage) {
    remedies.push_back({{.id = "zero_stage",
                         .title = fmt::format("Shard more of the model states: ZeRO-{}", stage),
                         .flag = fmt::format("--zero {}", stage),
                         .setting = setting_text(with_stage(study.job(), stage), Setting::zero_stage)},
                        study.outcome(with_stage(study.job(), stage))});
  }
  return remedies;
}

std::vector<Remedy> activation_remedies(const Study& study) {
  const Job& job = study.job();
  std::vector<Remedy> remedies;
  if (job.layout.tp > 1 && !job.layout.sequence_parallel && has_sequence_parallelism(job)) {
    Job changed = job;
    changed.layout.sequence_parallel = true;
    changed.train.partition_activations = false;
    remedies.push_back({{.id = "sequence_parallel",
                         .title = "Split activations along the sequence",
                         .flag = "--sp on",
                         .setting = setting_text(job, Setting::sequence_parallel)},
                        study.outcome(std::move(changed))});
  }
  if (job.train.recompute == Recompute::none && rules_of(job).advice.selective_repeats_calls) {
    Job changed = job;
    set_recompute(changed, Recompute::selective);
    remedies.push_back({{.id = "recompute",
                         .title = "Recompute a part of the activations in the backward pass",
                         .flag = "--recompute selective",
                         .setting = setting_text(changed, Setting::recompute)},
                        study.outcome(std::move(changed))});
  }
  if (job.train.recompute != Recompute::full) {
    Job changed = job;
    set_recompute(changed, Recompute::full);
    remedies.push_back({{.id = "recompute",
                         .title = "Recompute activations in the backward pass",
                         .flag = "--recompute full",
                         .setting = setting_text(changed, Setting::recompute)},
                        study.outcome(std::move(changed))});
  }
  for (std::int64_t parts = 2; job.train.micro_batch % parts == 0; parts *= 2) {
    Job changed = job;
    changed.train.micro_batch /= parts;
    changed.train.micro_batches *= parts;
    remedies.push_back({{.id = "micro_batch",
                         .title = "Cut the batch into smaller micro-batches",
                         .flag = fmt::format("--micro-batch {} --micro-batches {}", changed.train.micro_batch,
                                             changed.train.micro_batches),
                         .setting = batch_text(changed)},
                        study.outcome(std::move(changed))});
  }
  return remedies;
}

/// Recommends the first (least) remedy that fits, or reports the one that needs the least memory.
bool recommend_first_fit(Study& study, std::vector<Remedy> remedies, Bytes& least) {
  for (Remedy& remedy : remedies) {
    if (!remedy.outcome) {
      continue;
    }
    least = std::min(least, remedy.outcome->cost().memory);
    if (!study.fits(remedy.outcome->cost())) {
      continue;
    }
    remedy.change.reason = fmt::format(
        "the fullest rank needs {}, more than there is; with this it needs {}. It costs: a rank makes {} "
        "calls "
        "instead of {} and sends {}.",
        memory_text(study, study.cost()), to_text(remedy.outcome->cost().memory),
        with_commas(remedy.outcome->cost().per_rank.calls), with_commas(study.cost().per_rank.calls),
        wire_text(study, *remedy.outcome));
    study.recommend(std::move(remedy.change), *remedy.outcome);
    return true;
  }
  return false;
}

}  // namespace

void advise_memory(Study& study) {
  if (!study.options().memory || study.fits(study.cost())) {
    return;
  }
  Bytes least = study.cost().memory;
  const bool by_stage = recommend_first_fit(study, stage_remedies(study), least);
  const bool by_activations = recommend_first_fit(study, activation_remedies(study), least);
  if (!by_stage && !by_activations) {
    study.cannot_judge(fmt::format(
        "the fullest rank needs {}; no single setting makes it fit (the best needs {}): split the model over "
        "more ranks (--tp, --pp) or combine settings",
        memory_text(study, study.cost()), to_text(least)));
  }
}

void advise_lower_stage(Study& study) {
  const Job& job = study.job();
  if (job.train.zero_stage == 0 || job.layout.dp == 1) {
    return;
  }
  if (!study.options().memory) {
    return study.cannot_judge(
        "whether a lower ZeRO stage would fit: how much memory a GPU has is not known; add --gpu-memory");
  }
  if (!study.fits(study.cost())) {
    return;
  }
  std::optional<Outcome> best;
  for (int stage = 0; stage < job.train.zero_stage; ++stage) {
    std::optional<Outcome> tried = study.outcome(with_stage(job, stage));
    if (!tried || !study.fits(tried->cost()) || !study.is_worth_memory(*tried)) {
      continue;
    }
    const auto saved = [&](const Outcome& outcome) {
      return std::pair(study.time_saved(outcome).value_or(std::chrono::nanoseconds(0)),
                       -outcome.cost().per_rank.wire.value);
    };
    // Equal savings: the higher stage, which needs less memory.
    if (!best || saved(*tried) >= saved(*best)) {
      best = std::move(tried);
    }
  }
  if (!best) {
    return study.leave(fmt::format("a lower stage than ZeRO-{}: none that fits {} saves enough",
                                   job.train.zero_stage, to_text(study.memory())));
  }
  const int stage = best->job.train.zero_stage;
  study.recommend(
      {.id = "zero_stage",
       .title = stage == 0 ? "Leave ZeRO out: whole model states fit"
                           : fmt::format("Use ZeRO-{}, which fits", stage),
       .reason = fmt::format("under ZeRO-{} the fullest rank needs {}, under ZeRO-{} {}, which fits too; it "
                             "then sends {} an iteration.",
                             job.train.zero_stage, memory_text(study, study.cost()), stage,
                             to_text(best->cost().memory), wire_text(study, *best)),
       .flag = fmt::format("--zero {}", stage),
       .setting = setting_text(with_stage(job, stage), Setting::zero_stage)},
      *best);
}

void advise_gradient_reduction(Study& study) {
  const Job& job = study.job();
  const int stage = job.train.zero_stage;
  if (job.layout.dp == 1 || (stage != 1 && stage != 2)) {
    return;
  }
  std::vector<AdvisedChange> advised = advised_changes(job, AdviceTopic::gradient_reduction);
  if (advised.empty()) {
    return;
  }
  Change change{.id = "gradient_reduction",
                .title = std::move(advised.front().title),
                .setting = std::move(advised.front().setting)};
  const std::optional<Outcome> tried = study.outcome(std::move(advised.front().job));
  if (!tried || !study.is_worth(*tried)) {
    return study.leave(fmt::format("{}: it would not save enough ({} wire bytes)", change.title,
                                   tried ? wire_text(study, *tried) : "not planned"));
  }
  change.reason = fmt::format(
      "ZeRO-{} keeps a shard of what it reduces, but all_reduce brings every rank the whole, twice the bytes "
      "it "
      "needs. A rank would send {} an iteration, in {} calls instead of {}.",
      stage, wire_text(study, *tried), with_commas(tried->cost().per_rank.calls),
      with_commas(study.cost().per_rank.calls));
  study.recommend(std::move(change), *tried);
}

void advise_accumulation(Study& study) {
  const Job& job = study.job();
  const auto reduces_every_time = rules_of(job).settings.reduces_every_micro_batch;
  if (job.train.zero_stage != 2 || job.train.micro_batches == 1 || job.layout.dp == 1 ||
      reduces_every_time == nullptr || !reduces_every_time(job)) {
    return;
  }
  const std::optional<Outcome> tried = study.outcome(with_stage(job, 1));
  if (!tried || !study.is_worth(*tried)) {
    return study.leave("ZeRO-1 for gradient accumulation: it would not save enough");
  }
  if (study.options().memory && !study.fits(tried->cost())) {
    return study.leave(
        fmt::format("ZeRO-1 for gradient accumulation: it needs {}", memory_text(study, tried->cost())));
  }
  if (study.options().memory) {
    return;  // the lower stage is recommended already
  }
  study.recommend(
      {.id = "accumulate_under_zero1",
       .title = "Accumulate gradients under ZeRO-1",
       .reason = fmt::format(
           "ZeRO-2 reduces the gradients of each of the {} micro-batches, ZeRO-1 their sum once: a "
           "rank sends {} an iteration. It holds whole gradients ({}); whether that fits is not "
           "known without --gpu-memory.",
           job.train.micro_batches, wire_text(study, *tried),
           change_text(tried->cost().memory - study.cost().memory)),
       .flag = "--zero 1",
       .setting = setting_text(with_stage(job, 1), Setting::zero_stage)},
      *tried);
}

void advise_larger_micro_batch(Study& study) {
  const Job& job = study.job();
  if (job.train.micro_batches == 1 || job.layout.pp > 1) {
    return;
  }
  if (!study.options().memory) {
    return study.cannot_judge(
        "whether larger micro-batches would fit: how much memory a GPU has is not known; add --gpu-memory");
  }
  std::optional<Outcome> best;
  for (std::int64_t times = 2; job.train.micro_batches % times == 0; times *= 2) {
    Job changed = job;
    changed.train.micro_batch *= times;
    changed.train.micro_batches /= times;
    study.keep_best(best, study.outcome(std::move(changed)));
  }
  if (!best) {
    return study.leave("larger micro-batches: none that fits saves enough");
  }
  const TrainConfig& then = best->job.train;
  study.recommend(
      {.id = "micro_batch",
       .title = "Train in fewer, larger micro-batches",
       .reason = fmt::format(
           "{} micro-batches of {} do the work of {} of {}: a rank makes {} calls instead of {} and "
           "sends {}; the fullest rank needs {}.",
           then.micro_batches, then.micro_batch, job.train.micro_batches, job.train.micro_batch,
           with_commas(best->cost().per_rank.calls), with_commas(study.cost().per_rank.calls),
           wire_text(study, *best), memory_text(study, best->cost())),
       .flag = fmt::format("--micro-batch {} --micro-batches {}", then.micro_batch, then.micro_batches),
       .setting = batch_text(best->job)},
      *best);
}

}  // namespace commlens
