#include "commlens/app/compare_sides.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/table.hpp"
#include "commlens/compare/scope.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/trace/one_rank.hpp"

namespace commlens {
namespace {

bool has_calls(const Trace& trace) {
  return std::any_of(trace.streams.begin(), trace.streams.end(),
                     [](const RankStream& stream) { return !stream.events.empty(); });
}

constexpr std::int64_t k_most_iterations = 1000;  // that are predicted

std::vector<Iteration> every_iteration(const IterationRange& range) {
  std::vector<Iteration> iterations;
  for (std::int64_t iteration = range.first; iteration <= range.second; ++iteration) {
    iterations.push_back(static_cast<Iteration>(iteration));
  }
  return iterations;
}

/// The iterations of `other`, or those of the job if the other side is a configuration too.
std::vector<Iteration> iterations_to_predict(const Side& other, const Job& job,
                                             const std::optional<IterationRange>& range) {
  if (other.is_config()) {
    std::int64_t last = std::max(job.iterations, other.config().iterations) - 1;
    std::int64_t first = k_init_iteration;
    if (range) {
      first = range->first;
      last = range->second == INT32_MAX ? std::max(last, first) : range->second;
    }
    last = std::clamp(last, std::max<std::int64_t>(first, range ? first : 0), first + k_most_iterations - 1);
    return every_iteration({static_cast<Iteration>(first), static_cast<Iteration>(last)});
  }
  std::vector<Iteration> iterations = other.trace.iterations();
  if (range) {
    std::erase_if(iterations, [&](Iteration i) { return i < range->first || i > range->second; });
  }
  return iterations;
}

/// The number of iterations that a log covers according to the user: 0-9 are ten.
Result<std::optional<std::int64_t>> logged_iterations(const std::optional<IterationRange>& range) {
  if (!range) {
    return std::nullopt;
  }
  if (range->first > 0 || range->second < 0 || range->second == INT32_MAX) {
    return failure("--iteration: a printed log counts from the start of the run; write 0-LAST");
  }
  return std::int64_t{range->second} + 1;
}

/// Describes the part of a log that is compared.
struct LogScope {
  std::optional<std::int64_t> iterations;
  std::vector<CommKind> ignored;
};

double misfit(const LoggedComparison& comparison) {
  double sum = 0;
  for (const LoggedRow& row : comparison.rows) {
    sum += std::fabs(static_cast<double>(row.logged - row.predicted));
  }
  return sum;
}

Result<LoggedComparison> compare_plan_with_log(Side& side, const Side& log, const Overrides& overrides,
                                               const LogScope& scope, Planner& planner) {
  const Result<Plan> plan = planner.plan(side.config(), overrides, Rank{0});
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  side.trace = plan->trace(plan->steady_iteration() + 1);
  side.unverified = plan->unverified;
  return compare_logged(side.trace, log.trace, scope.iterations, scope.ignored, rule_book());
}

/// The power of two that, as data-parallel degree, explains the most rows of the log (of several, the one
/// with the smallest misfit); an error if no degree can be planned.
Result<std::int64_t> best_fitting_dp(Side& side, const Side& log, Overrides overrides, const LogScope& scope,
                                     Planner& planner) {
  constexpr std::int64_t largest_dp = 1024;
  Result<LoggedComparison> best = failure("no data-parallel degree fits");
  std::int64_t fitting = 0;
  for (std::int64_t dp = 1; dp <= largest_dp; dp *= 2) {
    overrides.dp = dp;
    Result<LoggedComparison> tried = compare_plan_with_log(side, log, overrides, scope, planner);
    const bool is_better =
        tried && (!best || tried->exact_rows > best->exact_rows ||
                  (tried->exact_rows == best->exact_rows && misfit(*tried) < misfit(*best)));
    if (is_better) {
      fitting = dp;
    }
    if (is_better || !best) {
      best = std::move(tried);
    }
  }
  return best.map([&](const LoggedComparison&) { return fitting; });
}

}  // namespace

bool leaves_world_open(const Job& job, const Overrides& overrides) {
  return !overrides.gives_world() && job.layout.dp == 0 && job.layout.ranks == 0;
}

CompareOptions options_by_rules() {
  CompareOptions options;
  options.rules = &rule_book();
  return options;
}

const Job& Side::config() const {
  COMMLENS_CHECK(job.has_value(), "callers ask is_config() first");
  return *job;
}

std::string Side::description() const {
  const std::string only = rank ? fmt::format(", rank {} alone", rank->value) : "";
  if (trace.provenance.source == Source::predicted && !trace.provenance.framework.empty()) {
    const std::int64_t ranks = ranks_of_job(trace);
    return fmt::format("{}: predicted by the rules of {}, {} rank{}{}{}{}{}", printable(argument),
                       printable(trace.provenance.framework), ranks, ranks == 1 ? "" : "s", only,
                       trace.provenance.verified ? "" : "; unverified", unverified.empty() ? "" : ": ",
                       fmt::join(unverified, "; "));
  }
  const std::string description =
      trace.provenance.source == Source::simulated ? printable(trace.provenance.description) : "";
  return fmt::format("{}: {}{}{}{}{}{}", printable(argument), name_of(trace.provenance.source),
                     trace.provenance.producer.empty() ? "" : ", ", printable(trace.provenance.producer),
                     only, description.empty() ? "" : "; ", description);
}

Result<Side> read_side(const Events& events, const std::string& argument, const std::string& framework) {
  Side side;
  side.argument = shown_name(argument);
  if (names_trace(argument)) {
    return open_trace(events, argument).map([&](Trace trace) {
      warn_of_lost_calls(events, argument, trace);
      side.trace = std::move(trace);
      return std::move(side);
    });
  }
  return read_config(files_of(argument), framework).map([&](Job job) {
    side.job = std::move(job);
    return std::move(side);
  });
}

Result<void> check_has_ranks(const std::vector<const Side*>& sides, const std::optional<Rank>& rank) {
  for (const Side* const side : sides) {
    if (rank && side->is_log()) {
      return failure(fmt::format(
          "--rank {}: {} is a printed summary, of one rank that it does not name; leave --rank out",
          rank->value, side->argument));
    }
  }
  return {};
}

Result<void> keep_rank_of(Side& side, Rank rank) {
  if (!keep_rank(side.trace, rank)) {
    return failure(fmt::format("--rank {}: {} has no calls of that rank, its highest is {}", rank.value,
                               side.argument, side.trace.ranks() - 1));
  }
  side.rank = rank;
  return {};
}

Overrides overrides_for(const Job& job, const Side& other, Overrides overrides) {
  if (!other.is_config() && leaves_world_open(job, overrides)) {
    overrides.ranks = ranks_of_job(other.trace);
  }
  return overrides;
}

bool records_own_trainer(const Trace& trace) {
  return trace.provenance.source == Source::recorded && trace.provenance.framework.starts_with("commlens");
}

Result<void> predict_side(Side& side, const Side& other, const Overrides& overrides,
                          const std::optional<IterationRange>& range, Planner& planner) {
  const Result<Plan> plan = planner.plan(side.config(), overrides_for(side.config(), other, overrides));
  if (!plan) {
    return failure(fmt::format("{}: {}", side.argument, plan.error().message));
  }
  const bool has_whole_job = !other.is_config() && has_calls(other.trace) && other.trace.iterations().empty();
  if (has_whole_job && (!range || range->second - range->first >= k_most_iterations)) {
    return failure(fmt::format(
        "{}: it does not say which iteration a call is of; say how many ran, as --iteration -1-9 for "
        "initialisation and ten, at most {}, or look at it with commlens summary",
        other.argument, k_most_iterations));
  }
  const std::vector<Iteration> iterations =
      has_whole_job ? every_iteration(*range) : iterations_to_predict(other, side.config(), range);
  if (iterations.empty() && range && !other.trace.iterations().empty()) {
    return failure(fmt::format(
        "no requested iteration is in both: {} is a configuration, predicted for any iteration, but {} has "
        "{}; change --iteration",
        side.argument, other.argument, to_text(other.trace.iterations())));
  }
  take_plan(side, *plan, iterations);
  return {};
}

void take_plan(Side& side, const Plan& plan, const std::vector<Iteration>& iterations) {
  side.trace = plan.trace_of(iterations);
  side.planned = plan.job;
  side.steady = plan.steady_iteration();
  side.flops_per_rank = plan.flops_per_rank(*side.steady);
  side.unverified = plan.unverified;
}

Result<LogMatch> compare_with_log(Side& side, const Side& log, Overrides overrides,
                                  const CompareOptions& options, Planner& planner) {
  const Result<std::optional<std::int64_t>> iterations = logged_iterations(options.iterations);
  if (!iterations) {
    return tl::unexpected(iterations.error());
  }
  const LogScope scope{*iterations, options.ignored};
  LogMatch match;
  if (side.is_config() && leaves_world_open(side.config(), overrides)) {
    const Result<std::int64_t> fitting = best_fitting_dp(side, log, overrides, scope, planner);
    if (!fitting) {
      return tl::unexpected(fitting.error());
    }
    match.fitted_dp = *fitting;
    overrides.dp = *fitting;
  }
  Result<LoggedComparison> compared =
      side.is_config() ? compare_plan_with_log(side, log, overrides, scope, planner)
                       : compare_logged(side.trace, log.trace, scope.iterations, scope.ignored, rule_book());
  if (!compared) {
    return tl::unexpected(compared.error());
  }
  match.comparison = std::move(*compared);
  return match;
}

}  // namespace commlens
