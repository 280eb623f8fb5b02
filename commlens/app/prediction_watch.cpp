#include "commlens/app/prediction_watch.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/explain_sides.hpp"
#include "commlens/app/repeated_iteration.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/base/table.hpp"
#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

Bytes bytes_of(const std::optional<CommOp>& op, std::int64_t calls) {
  return op ? saturating_product(message_bytes(*op), calls) : Bytes{};
}

using OpAlongAxis = std::pair<Axis, CommKind>;

/// Of the ranks that were recorded.
std::map<OpAlongAxis, Bytes> predicted_bytes(const Trace& trace, const Trace& recorded) {
  std::map<OpAlongAxis, Bytes> sums;
  for (const RankStream& stream : recorded.streams) {
    const RankStream* const said = trace.stream_of(stream.ranks.first);
    if (said == nullptr) {
      continue;
    }
    for (const CommEvent& event : said->events) {
      const CommOp& op = trace.op(event.op);
      Bytes& sum = sums[{trace.groups.axis(op.group), op.kind}];
      sum = saturating_sum(sum, message_bytes(op));
    }
  }
  return sums;
}

/// The axis that the prediction gives to the group of a call that it lacks, where it has such a group.
Axis axis_of(const Difference& difference, const Trace& predicted) {
  const auto has_members = [&](const CommOp& op) {
    return predicted.groups.knows_members(op.group) &&
           predicted.groups.members(op.group, difference.example_rank) == difference.example_group;
  };
  const auto known = difference.verdict != Verdict::extra
                         ? predicted.ops().end()
                         : std::find_if(predicted.ops().begin(), predicted.ops().end(), has_members);
  return known == predicted.ops().end() ? difference.axis : predicted.groups.axis(known->group);
}

std::vector<LiveDeviation> deviations_of(const Comparison& comparison, const Trace& predicted,
                                         const Trace& recorded) {
  std::map<OpAlongAxis, LiveDeviation> rows;
  const std::map<OpAlongAxis, Bytes> sums = predicted_bytes(predicted, recorded);
  for (const Difference& difference : comparison.differences) {
    const OpAlongAxis key(axis_of(difference, predicted), difference.kind);
    const auto [row, is_new] =
        rows.try_emplace(key, LiveDeviation{.kind = difference.kind, .axis = key.first});
    if (const auto sum = sums.find(key); is_new && sum != sums.end()) {
      row->second.predicted = sum->second;
      row->second.recorded = sum->second;
    }
    const Bytes gone = bytes_of(difference.a, difference.calls);
    const Bytes come = bytes_of(difference.b, difference.calls);
    Bytes& recorded = row->second.recorded;
    recorded = saturating_sum(Bytes{recorded.value - std::min(recorded, gone).value}, come);
  }
  std::vector<LiveDeviation> found;
  for (const auto& [key, row] : rows) {
    found.push_back(row);
  }
  const auto apart = [](const LiveDeviation& row) {
    return std::max(row.predicted, row.recorded).value - std::min(row.predicted, row.recorded).value;
  };
  std::stable_sort(found.begin(), found.end(), [&](const LiveDeviation& one, const LiveDeviation& other) {
    return apart(one) > apart(other);
  });
  return found;
}

/// The same for iterations that differ alike.
std::string signature_of(const Comparison& comparison) {
  std::string text;
  for (const Difference& difference : comparison.differences) {
    text += fmt::format("{} {} {} {} {} {} {}\n", name_of(difference.verdict), name_of(difference.kind),
                        name_of(difference.axis), difference.group_size, difference.calls,
                        bytes_of(difference.a, 1).value, bytes_of(difference.b, 1).value);
  }
  return text;
}

std::string counts_text(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const auto& [calls, words] :
       {std::pair(comparison.size, "of another size"), std::pair(comparison.missing, "missing"),
        std::pair(comparison.extra, "more than predicted")}) {
    if (calls > 0) {
      parts.push_back(fmt::format("{} {}", calls, words));
    }
  }
  return fmt::format("{} call{} as predicted, {}", comparison.exact, comparison.exact == 1 ? "" : "s",
                     fmt::join(parts, ", "));
}

/// Settings that explain it, else the cause of most bytes.
std::string why_text(const WhyCallsDiffer& why) {
  std::vector<std::string> settings;
  for (const SettingGuess& guess : why.guesses) {
    settings.push_back(fmt::format("{} were {}", guess.setting, guess.value));
  }
  if (!settings.empty()) {
    return fmt::format("; it looks as if {}", fmt::join(settings, " and "));
  }
  const std::vector<ExplainedGroup>& groups = why.explanation.explained;
  return groups.empty() ? "" : fmt::format("; most bytes: {}", groups.front().cause.title);
}

std::string iteration_in_words(Iteration iteration) {
  return iteration < 0 ? "an iteration" : fmt::format("iteration {}", iteration);
}

std::int64_t calls_in(const Trace& trace) {
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    calls += std::ssize(stream.events);
  }
  return calls;
}

/// Whether `job` can be planned, as far as that can be said before the number of ranks is known: where that
/// is left open, it fails if no number of data ranks changes why.
Result<void> check_plan(const Job& job, const Overrides& overrides) {
  Overrides closed = overrides;
  if (leaves_world_open(job, overrides)) {
    constexpr std::int64_t tried[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 840};
    Planner planner({}, false);
    std::set<std::string> why;
    for (const std::int64_t dp : tried) {
      closed.dp = dp;
      const Result<Plan> plan = planner.plan(job, closed, Rank{0});
      if (plan || (why.insert(plan.error().message).second && why.size() > 1)) {
        return {};
      }
    }
    closed.dp = tried[0];
  }
  return Planner({}).plan(job, closed, Rank{0}).map([](const Plan&) {});
}

}  // namespace

Result<PredictionWatch> PredictionWatch::open(const ExpectedJob& expected, const Events& events) {
  if (names_trace(expected.config)) {
    return failure(fmt::format("--predict {}: this is a trace; a configuration is predicted",
                               shown_name(expected.config)));
  }
  return checked_framework(expected.framework)
      .and_then([&](const std::string&) { return read_side(events, expected.config, expected.framework); })
      .and_then([&](Side side) -> Result<PredictionWatch> {
        if (side.config().framework == "paper") {
          return failure(
              fmt::format("--predict {}: the paper's equations give volumes, and no calls; name a framework "
                          "with --framework",
                          expected.config));
        }
        const Result<void> checked = check_plan(side.config(), expected.overrides);
        if (!checked) {
          return failure(fmt::format("--predict {}: {}", side.argument, checked.error().message));
        }
        return PredictionWatch(std::move(side), expected.overrides, events);
      });
}

void PredictionWatch::forget(const JobView& view) {
  generation_ = view.generation;
  plan_.reset();
  recorded_ = {};
  recorded_.argument = view.name;
  last_.reset();
  state_ = {};
  compared_at_.reset();
  calls_until_next_ = 0;
  waits_for_.clear();
  difference_.clear();
  alert_.reset();
}

void PredictionWatch::say_error(const Error& error) {
  if (std::exchange(state_.error, error.message) != error.message) {
    events_.warn(fmt::format("not compared with a prediction: {}", error.message));
  }
}

/// Plans what a job of as many ranks should do.
Result<void> PredictionWatch::plan_for(const Trace& recorded) {
  if (plan_) {
    return {};
  }
  Side other;
  other.trace.provenance.job_ranks = ranks_of_job(recorded);
  return planner_.plan(predicted_.config(), overrides_for(predicted_.config(), other, overrides_))
      .map([&](Plan plan) {
        plan_ = std::move(plan);
        take_plan(predicted_, *plan_, {plan_->steady_iteration()});
        state_.source = predicted_.description();
      });
}

/// Compares the calls of recorded_ with those of an iteration of the plan.
Result<Comparison> PredictionWatch::compared(Iteration iteration) {
  take_plan(predicted_, *plan_, {iteration});
  for (RankStream& stream : recorded_.trace.streams) {
    for (CommEvent& event : stream.events) {
      event.iteration = iteration;
    }
  }
  return compare(predicted_.trace, recorded_.trace, options_by_rules());
}

void PredictionWatch::count(const Comparison& comparison) {
  state_.error.clear();
  ++state_.iterations;
  state_.exact += comparison.exact;
  state_.size += comparison.size;
  state_.missing += comparison.missing;
  state_.extra += comparison.extra;
  state_.deviations = deviations_of(comparison, predicted_.trace, recorded_.trace);
  difference_ = signature_of(comparison);
  state_.in_a_row = difference_.empty() ? 0 : 1;
  is_alone_ = false;
  if (state_.iterations == 1 && comparison.ranks_only_a + comparison.ranks_only_b > 0) {
    events_.warn(
        fmt::format("{} of {} ranks are compared: {} are only in the prediction, {} only in the recording",
                    comparison.ranks, comparison.ranks + comparison.ranks_only_a + comparison.ranks_only_b,
                    comparison.ranks_only_a, comparison.ranks_only_b));
  }
  last_ = comparison;
}

/// How many iterations, from the last one back, differ in the same way.
void PredictionWatch::count_alike(const FolderFollower& follower, Iteration last) {
  Trace latest = std::move(recorded_.trace);
  bool is_alike = true;
  for (Iteration back = 1; is_alike && back < k_enough && back <= last; ++back) {
    std::optional<Trace> calls = follower.iteration(last - back);
    is_alike = calls.has_value();
    if (is_alike) {
      recorded_.trace = std::move(*calls);
      const Result<Comparison> comparison = compared(last - back);
      is_alike = comparison && signature_of(*comparison) == difference_;
      state_.in_a_row += is_alike ? 1 : 0;
      is_alone_ = !is_alike;
    }
  }
  recorded_.trace = std::move(latest);
  take_plan(predicted_, *plan_, {last});
}

void PredictionWatch::compare_marked(const FolderFollower& follower, const PollTime& time) {
  const Iteration last = follower.whole_iteration();
  std::optional<Trace> calls = last > state_.iteration ? follower.iteration(last) : std::nullopt;
  if (!calls) {
    return;
  }
  compared_at_ = time.steady;
  state_.iteration = last;
  recorded_.trace = std::move(*calls);
  const Result<Comparison> comparison = plan_for(recorded_.trace).and_then([&] { return compared(last); });
  if (!comparison) {
    return say_error(comparison.error());
  }
  count(*comparison);
  if (!difference_.empty() && !alert_) {
    count_alike(follower, last);
  }
}

void PredictionWatch::compare_repeated(const JobView& view, const FolderFollower& follower,
                                       const PollTime& time) {
  if (view.totals.calls == 0 || view.totals.calls < calls_until_next_) {
    return;
  }
  constexpr std::int64_t k_more_of = 10;  // calls by a tenth until it is tried again
  calls_until_next_ = view.totals.calls + view.totals.calls / k_more_of + 1;
  Trace latest = follower.latest_calls();
  if (const Result<void> planned = plan_for(latest); !planned) {
    return say_error(planned.error());
  }
  const Iteration steady = plan_->steady_iteration();
  take_plan(predicted_, *plan_, {steady});
  Result<Trace> repeated = repeated_iteration(std::move(latest), predicted_.trace);
  waits_for_ = repeated ? "" : repeated.error().message;
  if (!repeated) {
    return;
  }
  compared_at_ = time.steady;
  recorded_.trace = std::move(*repeated);
  calls_until_next_ = view.totals.calls + calls_in(recorded_.trace);
  const Result<Comparison> comparison = compared(steady);
  if (!comparison) {
    return say_error(comparison.error());
  }
  count(*comparison);
  state_.in_a_row *= k_enough;
}

void PredictionWatch::look(JobView& view, const FolderFollower& follower, const PollTime& time,
                           bool is_single) {
  if (generation_ != view.generation) {
    forget(view);
  }
  const bool is_there = view.state != LiveState::removed && view.state != LiveState::absent;
  const bool is_last = is_single || is_at_end(view.state);
  const bool is_due =
      !compared_at_ || !difference_.empty() || time.steady - *compared_at_ >= k_rest || is_last;
  if (is_due && is_there && !view.ranks.empty()) {
    if (view.steps.iteration >= 0) {
      compare_marked(follower, time);
    } else {
      compare_repeated(view, follower, time);
    }
    settle_alert(is_last, time);
  }
  view.prediction = state_;
  if (state_.error.empty() && state_.iterations == 0) {
    view.prediction->error = waits_for_;
  }
  if (alert_ && is_there) {
    view.alerts.push_back(*alert_);
  }
  view.alerts_fired += fired_;
}

/// `is_last`: no more iterations will be compared.
void PredictionWatch::settle_alert(bool is_last, const PollTime& time) {
  if (!last_ || last_->equal()) {
    alert_.reset();
    return;
  }
  if (alert_ || !(state_.in_a_row >= k_enough || (is_last && !is_alone_))) {
    return;
  }
  const Result<WhyCallsDiffer> why = why_calls_differ(predicted_, recorded_, *last_, options_by_rules());
  alert_ = LiveAlert{.id = fmt::format("volume-{}", ++fired_),
                     .kind = std::string(k_alert_volume),
                     .text = fmt::format("{} is not what {} says: {}{}", iteration_in_words(state_.iteration),
                                         predicted_.argument, counts_text(*last_), why ? why_text(*why) : ""),
                     .culprits = {}};
  alert_->since_unix_ns = time.unix_ns;
}

}  // namespace commlens
