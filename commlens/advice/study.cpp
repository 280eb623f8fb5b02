#include "commlens/advice/study.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {
namespace {

constexpr double k_tolerated_growth = 0.01;  // of the wire bytes, if calls are saved

double share_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Result<Outcome> planned(const Job& job, const AdviceOptions& options) {
  Result<Plan> plan = validated(job).and_then([](const Job& valid) { return make_plan(valid); });
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  PlannedStep step = planned_step(*plan, options);
  return Outcome{std::move(plan->job), std::move(step), std::move(plan->unverified)};
}

/// The messages of the trace's steady iterations if it has times, else of the predicted one.
SmallMessages small_messages(const Outcome& now, const std::optional<CallTimes>& times,
                             const AdviceOptions& options) {
  if (times) {
    return times->small();
  }
  const StepVolume& volume = now.step.cost.all_ranks;
  return {.limit = options.small_limit, .calls = volume.small_calls, .all_calls = volume.calls};
}

bool adds_nothing_unverified(const Outcome& now, const Outcome& then) {
  return std::all_of(then.unverified.begin(), then.unverified.end(), [&](const std::string& reason) {
    return std::find(now.unverified.begin(), now.unverified.end(), reason) != now.unverified.end();
  });
}

/// Byte savings or the part of the step, whichever is larger.
double bytes_share(const StepCost& before, const StepCost& after) {
  const StepVolume& was = before.per_rank;
  const StepVolume& is = after.per_rank;
  return std::max({share_of(was.wire.value - is.wire.value, was.wire.value),
                   share_of(was.wire_inter_node.value - is.wire_inter_node.value, was.wire_inter_node.value),
                   before.bubble - after.bubble});
}

double calls_share(const StepCost& before, const StepCost& after) {
  const bool grows = share_of(after.per_rank.wire.value - before.per_rank.wire.value,
                              before.per_rank.wire.value) > k_tolerated_growth;
  return grows ? 0.0 : share_of(before.per_rank.calls - after.per_rank.calls, before.per_rank.calls);
}

/// "a reduce_scatter of 4.00 MiB along dp (4 ranks)".
std::string shape_text(const CallShape& shape) {
  const std::string_view kind = name_of(shape.kind);
  const bool has_vowel = std::string_view("aeiou").find(kind.front()) != std::string_view::npos;
  return fmt::format("{} {} of {} along {} ({} ranks)", has_vowel ? "an" : "a", kind, to_text(shape.message),
                     name_of(shape.axis), shape.group_size);
}

/// The flags that set the value in the job.
std::string flag_text(const Job& job, Setting setting) {
  const ParallelLayout& layout = job.layout;
  switch (setting) {
    case Setting::zero_stage:
      return fmt::format("--zero {}", job.train.zero_stage);
    case Setting::sequence_parallel:
      return "--sp on,";
    case Setting::recompute:
      return fmt::format("--recompute {}", job.train.recompute == Recompute::full        ? "full"
                                           : job.train.recompute == Recompute::selective ? "selective"
                                                                                         : "none");
    case Setting::whole_activations:
      return "leave --partition-activations out,";
    case Setting::layout:
      return fmt::format("--tp {} --pp {}", layout.tp, layout.pp);
    case Setting::virtual_stages:
      return fmt::format("--virtual-stages {}", layout.virtual_stages);
    case Setting::bucket:
      return fmt::format("--bucket {}", bucket_of(job).value);
    case Setting::persistence_threshold:
      return fmt::format("--persistence-threshold {}", job.train.persistence_threshold);
  }
  return "";
}

/// Required changes first, the cheapest of them before others. Then by savings of time, bytes, calls.
bool is_more_useful(const Recommendation& a, const Recommendation& b) {
  const auto order = [](const Recommendation& one) {
    const auto time = one.time_saved.value_or(std::chrono::nanoseconds(0));
    const double bytes = bytes_share(one.before, one.after);
    return std::tuple(one.required, time, bytes, calls_share(one.before, one.after));
  };
  return order(a) > order(b);
}

}  // namespace

Study::Study(Outcome now, const Trace* trace, const AdviceOptions& options)
    : now_(std::move(now)), trace_(trace), options_(options) {
  if (trace != nullptr) {
    times_ = CallTimes::of(*trace, now_.job.layout.mesh(), options.small_limit);
  }
  advice_.cost = now_.step.cost;
  advice_.small = small_messages(now_, times_, options);
}

Result<Study> Study::of(const Job& job, const Trace* trace, const AdviceOptions& options) {
  return planned(job, options).map([&](Outcome now) { return Study(std::move(now), trace, options); });
}

std::optional<Outcome> Study::outcome(Job changed) const {
  changed.warnings.clear();
  Result<Outcome> result = planned(changed, options_);
  return result ? std::optional(std::move(*result)) : std::nullopt;
}

std::optional<Outcome> Study::on_nodes_of(std::int64_t ranks_per_node) const {
  AdviceOptions options = options_;
  options.ranks_per_node = ranks_per_node;
  Result<Outcome> result = planned(now_.job, options);
  return result ? std::optional(std::move(*result)) : std::nullopt;
}

Bytes Study::memory() const {
  COMMLENS_CHECK(options_.memory.has_value(), "what asks for it leaves jobs of unknown memory alone");
  return *options_.memory;
}

std::optional<std::chrono::nanoseconds> Study::time_saved(const Outcome& outcome) const {
  return times_ ? commlens::time_saved(now_.step, outcome.step, *times_) : std::nullopt;
}

void Study::keep_best(std::optional<Outcome>& best, std::optional<Outcome> tried) const {
  if (tried && fits(tried->cost()) && is_worth(*tried) &&
      (!best || saved_share(*tried) > saved_share(*best))) {
    best = std::move(tried);
  }
}

double Study::saved_share(const Outcome& outcome) const {
  const double share = bytes_share(cost(), outcome.cost());
  const std::optional<std::chrono::nanoseconds> time = time_saved(outcome);
  const std::optional<double> all = times_ ? times_->nanoseconds_of(now_.step.calls) : std::nullopt;
  if (time && all && *all > 0) {
    return std::max(share, static_cast<double>(time->count()) / *all);
  }
  return std::max(share, calls_share(cost(), outcome.cost()));
}

bool Study::is_worth_memory(const Outcome& outcome) const {
  const bool by_time = time_saved(outcome).has_value() && is_worth(outcome);
  return by_time || bytes_share(cost(), outcome.cost()) >= options_.least_saving;
}

Recommendation Study::recommendation(Change change, const Outcome& outcome) const {
  Recommendation made;
  made.id = std::move(change.id);
  made.title = std::move(change.title);
  made.reason = std::move(change.reason);
  made.flag = std::move(change.flag);
  made.setting = std::move(change.setting);
  made.before = cost();
  made.after = outcome.cost();
  made.required = options_.memory && cost().memory > *options_.memory && fits(outcome.cost());
  made.verified = adds_nothing_unverified(now_, outcome);
  return made;
}

void Study::recommend(Change change, const Outcome& outcome) {
  Recommendation made = recommendation(std::move(change), outcome);
  made.time_saved = time_saved(outcome);
  if (made.time_saved) {
    made.time_source =
        "calls that change, each at the trace's median for its kind, group and size (between sizes: linear); "
        "waiting for other ranks is in it, overlap is not taken off";
  } else if (times_) {
    const std::optional<CallShape> missing = times_->unknown_in(fewer_calls(now_.step, outcome.step));
    cannot_judge(fmt::format("{}: no time is estimated, the trace has no call comparable to {}", made.id,
                             missing ? shape_text(*missing) : "those that change"));
  }
  advice_.recommended.push_back(std::move(made));
}

void Study::recommend(Change change, const Outcome& outcome, std::chrono::nanoseconds saved,
                      std::string source) {
  Recommendation made = recommendation(std::move(change), outcome);
  made.time_saved = saved;
  made.time_source = std::move(source);
  advice_.recommended.push_back(std::move(made));
}

Advice Study::take() {
  std::stable_sort(advice_.recommended.begin(), advice_.recommended.end(), is_more_useful);
  return std::move(advice_);
}

std::string share_text(double part, double whole) {
  const double percent = whole == 0 ? 0.0 : 100 * part / whole;
  return fmt::format("{:.{}f} %", percent, percent < 10 ? 1 : 0);
}

std::string change_text(Bytes added) {
  if (added.value == 0) {
    return "as much memory";
  }
  return added.value > 0 ? to_text(added) + " more" : to_text(Bytes{-added.value}) + " less";
}

std::string settings_place(const Job& job) {
  const std::string_view place = rules_of(job).advice.place;
  return std::string(place.empty() ? "of commlens train" : place);
}

std::string setting_text(const Job& job, Setting setting) {
  const auto own = rules_of(job).advice.setting;
  std::string text = own == nullptr ? "" : own(job, setting);
  return text.empty() ? fmt::format("{} {}", flag_text(job, setting), settings_place(job)) : text;
}

std::string batch_text(const Job& job) {
  const auto own = rules_of(job).advice.batch;
  return own != nullptr
             ? own(job)
             : fmt::format("micro-batch {} and {} {} {}", job.train.micro_batch, job.train.micro_batches,
                           job.layout.pp > 1 ? "micro-batches" : "accumulation steps", settings_place(job));
}

std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic) {
  const auto changes = rules_of(job).advice.changes;
  return changes == nullptr ? std::vector<AdvisedChange>{} : changes(job, topic);
}

bool has_sequence_parallelism(const Job& job) {
  const auto has_it = rules_of(job).settings.has_sequence_parallelism;
  return has_it != nullptr && has_it(job);
}

Bytes bucket_of(const Job& job) {
  const auto bucket = rules_of(job).settings.bucket;
  return bucket == nullptr ? Bytes{} : bucket(job);
}

}  // namespace commlens
