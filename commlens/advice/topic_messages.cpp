// Small messages: the persistence threshold of ZeRO-3, and the sizes of gradient buckets.
#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

/// Where a call of a 25-50 GB/s link with 20-50 us of latency reaches two thirds of its bandwidth
/// (docs/advice.md#buckets).
constexpr Bytes k_bandwidth_bound{4 * 1024 * 1024};
constexpr double k_memory_slack = 0.01;  // accepted growth if the memory of a GPU is not known

std::string small_text(const Study& study) {
  const SmallMessages& small = study.small();
  return fmt::format(
      "messages below {} are {} of the calls{}", to_text(small.limit),
      share_text(static_cast<double>(small.calls), static_cast<double>(small.all_calls)),
      small.time && small.all_time
          ? fmt::format(" and {} of their time", share_text(static_cast<double>(small.time->count()),
                                                            static_cast<double>(small.all_time->count())))
          : "");
}

bool memory_allows(const Study& study, const Outcome& outcome) {
  if (study.options().memory) {
    return study.fits(outcome.cost());
  }
  const auto now = static_cast<double>(study.cost().memory.value);
  return static_cast<double>(outcome.cost().memory.value) <= now * (1 + k_memory_slack);
}

/// 0 and the sizes of the model's parameters: between two of them nothing changes.
std::set<std::int64_t> thresholds(const Job& job) {
  const ParameterList parameters(job.model);
  const std::int64_t tp = job.layout.splitting_ranks();
  std::set<std::int64_t> sizes{0};
  for (const Parameter& parameter : parameters.all()) {
    sizes.insert(on_tensor_rank(parameter, tp).value);
  }
  return sizes;
}

/// More is better: time, or fewer small calls, then fewer calls; then less memory.
auto merit(const Study& study, const Outcome& outcome) {
  const StepVolume& volume = outcome.cost().per_rank;
  return std::tuple(study.time_saved(outcome).value_or(std::chrono::nanoseconds(0)), -volume.small_calls,
                    -volume.calls, -outcome.cost().memory.value);
}

void keep_better(const Study& study, std::optional<Outcome>& best, std::optional<Outcome> tried) {
  if (tried && (!best || merit(study, *tried) > merit(study, *best))) {
    best = std::move(tried);
  }
}

std::string persistence_reason(const Study& study, const Outcome& best) {
  const KeptParameters kept = kept_gathered(study.job());
  const KeptParameters then = kept_gathered(best.job);
  const StepVolume& volume = study.cost().per_rank;
  return fmt::format(
      "{}. A rank makes {} calls an iteration, {} of them small; parameters of at most {} elements stay "
      "gathered, {} in all, and are gathered again after each step. With {} it is {} parameters and {} "
      "calls, "
      "{} of them small.",
      small_text(study), with_commas(volume.calls), with_commas(volume.small_calls),
      with_commas(study.job().train.persistence_threshold), with_commas(kept.count),
      with_commas(best.job.train.persistence_threshold), with_commas(then.count),
      with_commas(best.cost().per_rank.calls), with_commas(best.cost().per_rank.small_calls));
}

/// Mean message of the calls that `from` has more of than `to`; 0 when there are none.
Bytes mean_message_only_in(const PlannedStep& from, const PlannedStep& to) {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  for (const auto& [shape, count] : from.calls) {
    const auto other = to.calls.find(shape);
    const std::int64_t more = count - (other == to.calls.end() ? 0 : other->second);
    if (more > 0) {
      calls += more;
      bytes += more * shape.message.value;
    }
  }
  return {calls == 0 ? 0 : bytes / calls};
}

/// More is better: time, then fewer calls.
auto bucket_merit(const Study& study, const Outcome& outcome) {
  return std::pair(study.time_saved(outcome).value_or(std::chrono::nanoseconds(0)),
                   -outcome.cost().per_rank.calls);
}

/// The smallest of 2, 4, … 1024 times the bucket whose calls are bandwidth-bound, or else that with the
/// fewest calls; with times, the one that saves most.
std::optional<Outcome> best_bucket(const Study& study) {
  constexpr std::int64_t most = 1024;
  std::optional<Outcome> best;
  for (std::int64_t times = 2; times <= most; times *= 2) {
    Job changed = study.job();
    if (bucket_of(changed).value > INT64_MAX / most / most) {
      break;
    }
    const bool is_set =
        rules_of(changed).settings.set_bucket(changed, bucket_of(changed) * times).has_value();
    std::optional<Outcome> tried = is_set ? study.outcome(std::move(changed)) : std::nullopt;
    if (!tried || tried->cost().per_rank.wire > study.cost().per_rank.wire || !memory_allows(study, *tried)) {
      break;
    }
    if (!best || bucket_merit(study, *tried) > bucket_merit(study, *best)) {
      best = std::move(tried);
    }
    if (!study.times() && mean_message_only_in(best->step, study.step()) >= k_bandwidth_bound) {
      break;
    }
  }
  return best;
}

}  // namespace

void advise_persistence(Study& study) {
  const Job& job = study.job();
  const bool has_threshold = rules_of(job).memory.keeps_small_parameters;
  if (job.train.zero_stage != 3 || job.layout.dp == 1 || !has_threshold) {
    return;
  }
  if (study.small().share() < study.options().small_share) {
    return study.leave(fmt::format("persistence threshold: {}, below the share of {}", small_text(study),
                                   share_text(study.options().small_share, 1)));
  }
  std::optional<Outcome> best;
  const std::int64_t kept = kept_gathered(job).count;
  for (const std::int64_t threshold : thresholds(job)) {
    Job changed = job;
    changed.train.persistence_threshold = threshold;
    if (kept_gathered(changed).count == kept) {
      continue;
    }
    std::optional<Outcome> tried = study.outcome(std::move(changed));
    if (tried && memory_allows(study, *tried) && study.is_worth(*tried)) {
      keep_better(study, best, std::move(tried));
    }
  }
  if (!best) {
    return study.leave(fmt::format("persistence threshold: {}, but no other threshold {}saves enough",
                                   small_text(study), study.options().memory ? "that fits " : ""));
  }
  const std::int64_t threshold = best->job.train.persistence_threshold;
  study.recommend({.id = "persistence_threshold",
                   .title = threshold < job.train.persistence_threshold
                                ? "Gather small parameters together with their layers"
                                : "Keep more small parameters gathered",
                   .reason = persistence_reason(study, *best),
                   .flag = fmt::format("--persistence-threshold {}", threshold),
                   .setting = setting_text(best->job, Setting::persistence_threshold)},
                  *best);
}

void advise_buckets(Study& study) {
  const Job& job = study.job();
  const Bytes now = bucket_of(job);
  if (now.value == 0 || job.layout.dp == 1) {
    return;
  }
  const std::optional<Outcome> best = best_bucket(study);
  if (!best) {
    return study.leave(
        fmt::format("larger gradient buckets than {} would send more, or need more memory", to_text(now)));
  }
  if (best->cost().per_rank.calls >= study.cost().per_rank.calls) {
    return study.leave(
        fmt::format("larger gradient buckets than {} would not lower the calls", to_text(now)));
  }
  const Bytes mean = mean_message_only_in(study.step(), best->step);
  if (!study.is_worth(*best) || (!study.times() && mean >= k_bandwidth_bound)) {
    return study.leave(fmt::format(
        "larger gradient buckets than {}: the calls they would merge are {} on average, where size, not "
        "number, decides",
        to_text(now), to_text(mean)));
  }
  study.recommend(
      {.id = "bucket_size",
       .title = "Reduce gradients in larger buckets",
       .reason = fmt::format(
           "buckets of {} give calls of {} on average; with {} a rank makes {} calls instead of {}, with {} "
           "wire bytes. Larger buckets start later in the backward pass, so less of them can overlap.",
           to_text(now), to_text(mean), to_text(bucket_of(best->job)),
           with_commas(best->cost().per_rank.calls), with_commas(study.cost().per_rank.calls),
           best->cost().per_rank.wire == study.cost().per_rank.wire ? "the same" : "no more"),
       .flag = fmt::format("--bucket {}", bucket_of(best->job).value),
       .setting = setting_text(best->job, Setting::bucket)},
      *best);
}

}  // namespace commlens
