#include "commlens/app/baseline_watch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/trace_source.hpp"
#include "commlens/base/units.hpp"
#include "commlens/compare/regression.hpp"

namespace commlens {
namespace {

RegressionOptions a_tenth() {
  RegressionOptions options;
  options.tolerance = 0.10;
  options.may_lack_rows = true;
  return options;
}

LiveSlowdown slowdown_of(const RegressionRow& row) {
  const bool is_other = row.kind == CommKind::other && !row.name.empty();
  return {.op = row.is_step ? "step"
                : is_other  ? row.name
                            : std::string(name_of(row.kind)),
          .axis = row.is_step ? "" : std::string(name_of(row.axis)),
          .phase = row.is_step ? "" : std::string(name_of(row.phase)),
          .before = row.a,
          .now = row.b,
          .p_adjusted = row.p_adjusted,
          .is_slower = row.is_slower};
}

/// "all_reduce along dp 1.42 x (1.20 ms, now 1.70 ms)".
std::string text_of(const LiveSlowdown& row) {
  const std::string what = row.axis.empty() ? row.op : fmt::format("{} along {}", row.op, row.axis);
  return fmt::format("{} {:.2f} x ({}, now {})", what, row.ratio(), to_text(row.before), to_text(row.now));
}

}  // namespace

Result<BaselineWatch> BaselineWatch::open(const std::string& path, const Events& events) {
  return open_trace(events, path).and_then([&](Trace trace) {
    return regression(trace, trace, a_tenth())
        .map_error(
            [&](const Error& error) { return Error{fmt::format("--baseline {}: {}", path, error.message)}; })
        .map([&](const Regression&) { return BaselineWatch(shown_name(path), std::move(trace), events); });
  });
}

void BaselineWatch::forget(std::int64_t generation) {
  generation_ = generation;
  state_ = {};
  state_.source = source_;
  collected_ = {};
  iterations_ = 0;
  last_ = -1;
  added_at_.reset();
  alert_.reset();
}

void BaselineWatch::say_error(const std::string& error) {
  if (std::exchange(state_.error, error) != error) {
    events_.warn(fmt::format("times not compared with {}: {}", source_, error));
  }
}

/// Descriptions only grow while a job is followed: those of the latest iteration hold for the earlier ones.
void BaselineWatch::add(Trace iteration) {
  last_ = iteration.iterations().front();
  const bool are_timed =
      std::all_of(iteration.streams.begin(), iteration.streams.end(),
                  [](const RankStream& stream) { return stream.times.size() == stream.events.size(); });
  if (!are_timed) {
    say_error("an iteration has calls without times");
    return;
  }
  for (std::size_t row = 0; row < iteration.streams.size() && row < collected_.streams.size(); ++row) {
    RankStream& earlier = collected_.streams[row];
    RankStream& stream = iteration.streams[row];
    stream.events.insert(stream.events.begin(), earlier.events.begin(), earlier.events.end());
    stream.times.insert(stream.times.begin(), earlier.times.begin(), earlier.times.end());
  }
  collected_ = std::move(iteration);
  ++iterations_;
}

void BaselineWatch::test(const PollTime& time) {
  const Result<Regression> result = regression(baseline_, collected_, a_tenth());
  collected_ = {};
  iterations_ = 0;
  state_.rows.clear();
  if (!result) {
    alert_.reset();
    return say_error(result.error().message);
  }
  state_.error.clear();
  ++state_.tests;
  state_.iterations = k_iterations;
  for (const RegressionRow& row : result->rows) {
    const bool is_enough = std::min(row.iterations_a, row.iterations_b) >= result->iterations_needed;
    if (row.a.count() > 0 && is_enough) {
      state_.rows.push_back(slowdown_of(row));
    }
  }
  if (state_.rows.empty()) {
    say_error(fmt::format("too few iterations: {} are needed in {} and here", result->iterations_needed + 1,
                          source_));
  }
  settle_alert(time);
}

void BaselineWatch::settle_alert(const PollTime& time) {
  std::vector<std::string> slower;
  for (const LiveSlowdown& row : state_.rows) {
    if (row.is_slower) {
      slower.push_back(text_of(row));
    }
  }
  if (slower.empty()) {
    alert_.reset();
    return;
  }
  if (!alert_) {
    alert_ = LiveAlert{.id = fmt::format("slower-{}", ++fired_),
                       .kind = std::string(k_alert_slower),
                       .text = {},
                       .culprits = {}};
    alert_->since_unix_ns = time.unix_ns;
  }
  alert_->text = fmt::format("slower than in {}: {}", source_, fmt::join(slower, ", "));
}

void BaselineWatch::look(JobView& view, const FolderFollower& follower, const PollTime& time) {
  if (generation_ != view.generation) {
    forget(view.generation);
  }
  const bool is_due = !added_at_ || time.steady - *added_at_ >= k_apart;
  const bool is_there = view.state != LiveState::removed && view.state != LiveState::absent;
  const Iteration whole = is_due && is_there ? follower.whole_iteration() : k_unknown_iteration;
  std::optional<Trace> latest = whole > last_ && whole >= 0 ? follower.iteration(whole) : std::nullopt;
  if (latest) {
    added_at_ = time.steady;
    add(std::move(*latest));
    if (iterations_ > k_iterations) {
      test(time);
    }
  }
  view.baseline = state_;
  if (state_.tests == 0 && state_.error.empty() && view.totals.calls > 0 && view.steps.iteration < 0) {
    view.baseline->error = "the program has marked no iteration yet";
  }
  if (alert_ && is_there) {
    view.alerts.push_back(*alert_);
  }
  view.alerts_fired += fired_;
}

}  // namespace commlens
