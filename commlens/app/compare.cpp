#include "commlens/app/compare.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/job_source.hpp"
#include "commlens/report/comparison_report.hpp"

namespace commlens {
namespace {

using Found = decltype(CompareResult::found);

CompareOptions options_of(const CompareRequest& request) {
  CompareOptions options = options_by_rules();
  options.iterations = request.iterations;
  options.order_counts = request.order;
  options.ignored = request.ignored;
  return options;
}

/// --framework NAME for both sides, or NAME,NAME for A and B.
std::pair<std::string, std::string> frameworks_of(const std::string& text) {
  const std::size_t comma = text.find(',');
  return comma == std::string::npos ? std::pair(text, text)
                                    : std::pair(text.substr(0, comma), text.substr(comma + 1));
}

tl::unexpected<Error> nothing_to_compare(const Side& a, const Side& b) {
  return failure(fmt::format("nothing to compare: {} and {} have no call but barriers and ignored ops",
                             a.argument, b.argument));
}

Result<Found> found_in_log(Side& a, Side& b, const CompareRequest& request, Planner& planner) {
  Side& predicted = a.is_log() ? b : a;
  const Side& log = a.is_log() ? a : b;
  const char* const other = predicted.is_prediction() ? "predicted" : a.is_log() ? "B" : "A";
  return compare_with_log(predicted, log, request.overrides, options_of(request), planner)
      .map([&](LogMatch match) { return Found(FoundInLog{std::move(match), other}); });
}

Result<Found> found_in_volumes(const Side& a, const Side& b, const CompareRequest& request,
                               Planner& planner) {
  const CompareOptions options = options_of(request);
  Result<std::vector<VolumeDifference>> rows = compare_volumes(a.trace, b.trace, options);
  if (!rows) {
    return tl::unexpected(rows.error());
  }
  if (rows->empty()) {
    return nothing_to_compare(a, b);
  }
  return explain_against_paper(a, b, request.overrides, options, planner).map([&](Explanation explanation) {
    return Found(FoundInVolumes{std::move(*rows), std::move(explanation)});
  });
}

/// For two views of one job of which one has no iterations.
Result<Found> found_in_whole_job(const Side& a, const Side& b, const CompareRequest& request) {
  if (request.order) {
    return failure(fmt::format(
        "--order: {} does not say which iteration a call is of, so calls are counted over the whole "
        "job; leave --order out",
        a.trace.iterations().empty() ? a.argument : b.argument));
  }
  Result<WholeJobComparison> comparison = compare_whole_job(a.trace, b.trace, options_of(request));
  if (!comparison) {
    return tl::unexpected(comparison.error());
  }
  if (comparison->rows.empty()) {
    return nothing_to_compare(a, b);
  }
  return Found(std::move(*comparison));
}

/// Sides without any equal call usually are not of one job. Two configurations may differ in everything.
std::string question_on(const Side& a, const Side& b, const Comparison& comparison) {
  const bool is_one_sided = comparison.calls_a == 0 || comparison.calls_b == 0;
  if (comparison.exact > 0 || is_one_sided || (a.is_config() && b.is_config())) {
    return "";
  }
  const std::string_view question = a.is_config()   ? "is B a run of this configuration?"
                                    : b.is_config() ? "is A a run of this configuration?"
                                                    : "are they of the same job?";
  return fmt::format("A and B have not one call in common: {}\n", question);
}

/// Calls, or what makes no difference for the verdict: order, reduce ops, calls before the first iteration of
/// a trace whose configuration predicts none.
bool differs_in_any_way(const Side& a, const Comparison& comparison) {
  constexpr Iteration initialisation = -1;
  const std::vector<Iteration>& only_trace = a.is_config() ? comparison.only_b : comparison.only_a;
  const bool has_more_init =
      std::find(only_trace.begin(), only_trace.end(), initialisation) != only_trace.end();
  return !comparison.equal() || comparison.order_differs > 0 || !comparison.reduce_ops.empty() ||
         has_more_init;
}

Result<Found> found_in_calls(const Side& a, const Side& b, const CompareRequest& request) {
  const CompareOptions options = options_of(request);
  Result<Comparison> comparison = compare(a.trace, b.trace, options);
  if (!comparison) {
    return tl::unexpected(comparison.error());
  }
  if (comparison->calls_a + comparison->calls_b == 0) {
    return nothing_to_compare(a, b);
  }
  FoundInCalls found{std::move(*comparison), std::nullopt, "", request.order};
  found.question = question_on(a, b, found.comparison);
  const bool has_rules = a.is_prediction() || b.is_prediction();
  if (has_rules && differs_in_any_way(a, found.comparison)) {
    Result<WhyCallsDiffer> why = why_calls_differ(a, b, found.comparison, options);
    if (!why) {
      return tl::unexpected(why.error());
    }
    if (!found.comparison.equal() || !why->guesses.empty()) {
      found.why = std::move(*why);
    }
    if (found.why && !found.why->guesses.empty()) {
      found.question.clear();  // one changed setting accounts for it
    }
  }
  return Found(std::move(found));
}

/// Refuses options that contradict each other or do not apply to these sides.
Result<void> check_request(const Side& a, const Side& b, const CompareRequest& request) {
  const bool changes_configs = request.overrides != Overrides() || !request.framework.empty();
  if (!a.is_config() && !b.is_config() && changes_configs) {
    return failure(
        "both sides are traces: --framework and the layout flags are for configurations; leave them out");
  }
  if (request.order && (a.is_log() || b.is_log())) {
    return failure(fmt::format("--order: {} is a printed summary, which has no order; leave --order out",
                               a.is_log() ? a.argument : b.argument));
  }
  return check_has_ranks({&a, &b}, request.rank);
}

Result<Found> found_between(Side& a, Side& b, const CompareRequest& request) {
  if (const Result<void> consistent = check_request(a, b, request); !consistent) {
    return tl::unexpected(consistent.error());
  }
  Planner planner(request.events);
  if (a.is_log() != b.is_log()) {
    return found_in_log(a, b, request, planner);
  }
  for (const auto& [side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (side->is_config()) {
      if (const Result<void> done =
              predict_side(*side, *other, request.overrides, request.iterations, planner);
          !done) {
        return tl::unexpected(done.error());
      }
    }
  }
  for (Side* const side : {&a, &b}) {
    if (request.rank) {
      if (const Result<void> kept = keep_rank_of(*side, *request.rank); !kept) {
        return tl::unexpected(kept.error());
      }
    }
  }
  if (a.has_volumes_only() != b.has_volumes_only()) {
    return found_in_volumes(a, b, request, planner);
  }
  return one_lacks_iterations(a.trace, b.trace) ? found_in_whole_job(a, b, request)
                                                : found_in_calls(a, b, request);
}

}  // namespace

bool CompareResult::equal() const {
  if (const auto* const log = std::get_if<FoundInLog>(&found)) {
    return log->match.comparison.equal();
  }
  if (const auto* const volumes = std::get_if<FoundInVolumes>(&found)) {
    return all_equal(volumes->rows);
  }
  if (const auto* const whole = std::get_if<WholeJobComparison>(&found)) {
    return whole->equal();
  }
  const auto& calls = std::get<FoundInCalls>(found);
  return calls.comparison.equal() && !(calls.order_counts && calls.comparison.order_differs > 0);
}

Result<CompareResult> compare(const CompareRequest& request) {
  const auto [framework_a, framework_b] = frameworks_of(request.framework);
  for (const std::string& framework : {framework_a, framework_b}) {
    if (const Result<std::string> known = checked_framework(framework); !known) {
      return tl::unexpected(known.error());
    }
  }
  Result<Side> a = read_side(request.events, request.a, framework_a);
  if (!a) {
    return tl::unexpected(a.error());
  }
  Result<Side> b = read_side(request.events, request.b, framework_b);
  if (!b) {
    return tl::unexpected(b.error());
  }
  return found_between(*a, *b, request).map([&](Found found) {
    return CompareResult{std::move(*a), std::move(*b), std::move(found)};
  });
}

Result<RegressionResult> compare_times(const RegressionRequest& request) {
  Result<Side> a = read_side(request.events, request.a, "");
  if (!a) {
    return tl::unexpected(a.error());
  }
  Result<Side> b = read_side(request.events, request.b, "");
  if (!b) {
    return tl::unexpected(b.error());
  }
  for (const Side* const side : {&*a, &*b}) {
    if (side->is_config()) {
      return failure(fmt::format(
          "{} is a configuration, which has no times; --regression compares two recordings", side->argument));
    }
  }
  Result<Regression> result = regression(a->trace, b->trace, request.options);
  if (!result) {
    return failure(fmt::format("{} (A = {}, B = {})", result.error().message, a->argument, b->argument));
  }
  return RegressionResult{a->description(), b->description(), std::move(*result)};
}

}  // namespace commlens
