#include "commlens/app/prediction_watch.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/explain_sides.hpp"
#include "commlens/app/repeated_iteration.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/base/table.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

CompareOptions options_by_rules() {
  CompareOptions options;
  options.rules = &rule_book();
  return options;
}

Bytes bytes_of(const std::optional<CommOp>& op, std::int64_t calls) {
  return op ? saturating_product(message_bytes(*op), calls) : Bytes{};
}

using OpAlongAxis = std::pair<Axis, CommKind>;

/// Of all ranks of a class.
std::map<OpAlongAxis, Bytes> predicted_bytes(const Trace& trace, Iteration iteration) {
  std::map<OpAlongAxis, Bytes> sums;
  for (const RankStream& stream : trace.streams) {
    const std::int64_t ranks = stream.ranks.last.value - stream.ranks.first.value + 1;
    for (const CommEvent& event : stream.events) {
      if (event.iteration == iteration) {
        const CommOp& op = trace.op(event.op);
        Bytes& sum = sums[{trace.groups.axis(op.group), op.kind}];
        sum = saturating_sum(sum, bytes_of(op, ranks));
      }
    }
  }
  return sums;
}

std::vector<LiveDeviation> deviations_of(const Comparison& comparison, const Trace& predicted,
                                         Iteration iteration) {
  std::map<OpAlongAxis, LiveDeviation> rows;
  const std::map<OpAlongAxis, Bytes> sums = predicted_bytes(predicted, iteration);
  for (const Difference& difference : comparison.differences) {
    const OpAlongAxis key(difference.axis, difference.kind);
    const auto [row, is_new] =
        rows.try_emplace(key, LiveDeviation{.kind = difference.kind, .axis = difference.axis});
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
  return fmt::format("{} calls as predicted, {}", comparison.exact, fmt::join(parts, ", "));
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

std::string iteration_text(Iteration iteration) {
  return iteration < 0 ? "an iteration" : fmt::format("iteration {}", iteration);
}

std::int64_t calls_in(const Trace& trace) {
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    calls += static_cast<std::int64_t>(stream.events.size());
  }
  return calls;
}

bool is_over(const JobView& view) {
  return view.state == LiveState::ended || view.state == LiveState::stopped;
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
        return PredictionWatch(std::move(side), expected.overrides, events);
      });
}

void PredictionWatch::forget(std::int64_t generation) {
  generation_ = generation;
  predicted_for_.reset();
  state_ = {};
  compared_at_.reset();
  calls_until_next_ = 0;
  waits_for_.clear();
  recorded_ = {};
  difference_.clear();
  alert_.reset();
}

/// Predicts what the job should send in an iteration. All after the steady one are like it.
Result<void> PredictionWatch::predict_for(Iteration iteration) {
  if (predicted_for_ == iteration) {
    return {};
  }
  return predict_side(predicted_, recorded_, overrides_, std::nullopt, planner_).map([&] {
    predicted_for_ = iteration;
    state_.source = predicted_.description();
  });
}

void PredictionWatch::count(const Comparison& comparison) {
  ++state_.iterations;
  state_.exact += comparison.exact;
  state_.size += comparison.size;
  state_.missing += comparison.missing;
  state_.extra += comparison.extra;
  state_.deviations = deviations_of(comparison, predicted_.trace, *predicted_for_);
  const std::string difference = signature_of(comparison);
  state_.in_a_row = difference.empty() ? 0 : difference == difference_ ? state_.in_a_row + 1 : 1;
  difference_ = difference;
}

/// Compares the iteration that was recorded, as which the prediction knows it.
Result<Comparison> PredictionWatch::compared() {
  const Iteration iteration = recorded_.trace.iterations().front();
  const Iteration as = std::min(iteration, predicted_.steady.value_or(iteration));
  for (RankStream& stream : recorded_.trace.streams) {
    for (CommEvent& event : stream.events) {
      event.iteration = as;
    }
  }
  return predict_for(as).and_then(
      [&] { return compare(predicted_.trace, recorded_.trace, options_by_rules()); });
}

/// The calls of an iteration that was not compared before.
std::optional<Trace> PredictionWatch::next_iteration(const JobView& view, const FolderFollower& follower) {
  std::optional<Trace> next;
  if (view.steps.iteration >= 0) {
    next = follower.latest_iteration(state_.iteration);
  } else if (view.totals.calls > 0 && view.totals.calls >= calls_until_next_) {
    Result<Trace> repeated = repeated_iteration(follower.latest_calls());
    waits_for_ = repeated ? "" : repeated.error().message;
    if (repeated) {
      next = std::move(*repeated);
      calls_until_next_ = view.totals.calls + calls_in(*next);
    }
  }
  return next && calls_in(*next) > 0 ? next : std::nullopt;
}

void PredictionWatch::take(Trace iteration, bool is_last, const PollTime& time) {
  compared_at_ = time.steady;
  const bool is_marked = iteration.iterations().front() != k_repeated;
  state_.iteration = is_marked ? iteration.iterations().front() : k_init_iteration;
  recorded_.trace = std::move(iteration);
  if (const Result<Comparison> comparison = compared()) {
    state_.error.clear();
    count(*comparison);
    settle_alert(*comparison, is_last, time);
  } else if (std::exchange(state_.error, comparison.error().message) != state_.error) {
    events_.warn(fmt::format("not compared with a prediction: {}", state_.error));
  }
}

void PredictionWatch::look(JobView& view, const FolderFollower& follower, const PollTime& time,
                           bool is_single) {
  if (generation_ != view.generation) {
    forget(view.generation);
    recorded_.argument = view.name;
  }
  const bool is_last = is_single || is_over(view);
  const bool is_due =
      !compared_at_ || !difference_.empty() || time.steady - *compared_at_ >= k_rest || is_last;
  if (is_due && !view.ranks.empty()) {
    if (std::optional<Trace> next = next_iteration(view, follower)) {
      take(std::move(*next), is_last, time);
    }
  }
  view.prediction = state_;
  if (state_.error.empty() && state_.iterations == 0) {
    view.prediction->error = waits_for_;
  }
  if (alert_) {
    view.alerts.push_back(*alert_);
  }
  view.alerts_fired += fired_;
}

/// `is_last`: no more iterations will be compared.
void PredictionWatch::settle_alert(const Comparison& comparison, bool is_last, const PollTime& time) {
  if (comparison.equal()) {
    alert_.reset();
    return;
  }
  const bool is_enough = state_.in_a_row >= k_enough || (is_last && state_.in_a_row == state_.iterations);
  if (alert_ || !is_enough) {
    return;
  }
  const Result<WhyCallsDiffer> why = why_calls_differ(predicted_, recorded_, comparison, options_by_rules());
  alert_ =
      LiveAlert{.id = fmt::format("volume-{}", ++fired_),
                .kind = std::string(k_alert_volume),
                .text = fmt::format("{} is not what {} says: {}{}", iteration_text(state_.iteration),
                                    predicted_.argument, counts_text(comparison), why ? why_text(*why) : ""),
                .culprits = {}};
  alert_->since_unix_ns = time.unix_ns;
}

}  // namespace commlens
