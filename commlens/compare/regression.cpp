#include "commlens/compare/regression.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/base/units.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/compare/significance.hpp"
#include "commlens/trace/training_steps.hpp"

namespace commlens {
namespace {

using RowKey = std::tuple<CommKind, std::string, Axis, Phase>;

/// A row in one iteration of one run.
struct RowCalls {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // message bytes of all ranks; data-dependent calls skipped
  std::vector<std::int64_t> durations;
};
using RowIterations = std::map<Iteration, RowCalls>;

/// A run's steady iterations.
struct Run {
  std::int64_t ranks = 0;
  std::map<RowKey, RowIterations> rows;
  std::map<Iteration, std::vector<std::int64_t>> steps;  // one value per rank
};

/// The row of each op of a trace; null for barriers, and for calls that random numbers decide: their number
/// is no property of the job.
std::vector<RowIterations*> rows_of_ops(const Trace& trace, Run& run) {
  std::vector<RowIterations*> rows;
  for (const CommOp& op : trace.ops()) {
    const std::string name = op.kind == CommKind::other ? trace.names.text(op.name) : "";
    const RowKey key{op.kind, name, trace.groups.axis(op.group), op.phase};
    const bool is_compared = op.kind != CommKind::barrier && op.match != Match::random;
    rows.push_back(is_compared ? &run.rows[key] : nullptr);
  }
  return rows;
}

void add_calls(const Trace& trace, const RankStream& stream, Iteration cold,
               const std::vector<RowIterations*>& rows) {
  const std::int64_t ranks = stream.ranks.count();
  for (std::size_t at = 0; at < stream.events.size(); ++at) {
    const CommEvent& event = stream.events[at];
    RowIterations* const row = rows[static_cast<std::size_t>(event.op)];
    if (event.iteration <= cold || row == nullptr) {
      continue;
    }
    const CommOp& op = trace.op(event.op);
    const Times& when = stream.times[at];
    RowCalls& calls = (*row)[event.iteration];
    calls.calls += ranks;
    if (op.match == Match::exact) {
      calls.bytes = saturating_sum(calls.bytes, saturating_product(message_bytes(op), ranks).value);
    }
    calls.durations.push_back(time_between(when.started, when.finished).count());
  }
}

/// `side`: "A" or "B", for the error.
Result<Run> run_of(const Trace& trace, const char* side) {
  if (trace.provenance.averaged_times) {
    return failure(fmt::format(
        "{} has averages of several calls, not the times of each; --regression compares two recordings",
        side));
  }
  const Iteration cold = cold_iteration(trace);
  Run run;
  run.ranks = trace.ranks();
  const std::vector<RowIterations*> rows = rows_of_ops(trace, run);
  bool has_times = false;
  for (const RankStream& stream : trace.streams) {
    if (stream.times.empty()) {
      continue;
    }
    COMMLENS_CHECK(stream.times.size() == stream.events.size(), "times are of all events or of none");
    has_times = has_times || !stream.events.empty();
    add_calls(trace, stream, cold, rows);
    for (const Step& step : steps_after(cold, stream)) {
      run.steps[step.iteration].push_back(step.length.count());
    }
  }
  std::erase_if(run.rows, [](const auto& row) { return row.second.empty(); });
  if (!has_times) {
    return failure(fmt::format("{} has no times; --regression compares two recordings", side));
  }
  if (run.rows.empty()) {
    return failure(
        fmt::format("{} has no call after its first iteration, which is cold; record more iterations", side));
  }
  return run;
}

std::string text_of(const RowKey& key) {
  const auto& [kind, name, axis, phase] = key;
  return fmt::format("{} along {} in {}", kind == CommKind::other ? name : std::string(name_of(kind)),
                     name_of(axis), name_of(phase));
}

tl::unexpected<Error> different_jobs(const std::string& what) {
  return failure(fmt::format(
      "not the same job, so times cannot be compared: {}; commlens compare A B says what differs", what));
}

/// Fails if the row does different work in a common iteration or, without common iterations, in the last
/// ones.
Result<void> check_same_work(const RowKey& key, const RowIterations& a, const RowIterations& b) {
  const auto check = [&](const RowCalls& in_a, const RowCalls& in_b) -> Result<void> {
    if (in_a.calls == in_b.calls && in_a.bytes == in_b.bytes) {
      return {};
    }
    return different_jobs(fmt::format("{}: A has {} calls of {} message bytes in an iteration, B {} of {}",
                                      text_of(key), with_commas(in_a.calls), with_commas(in_a.bytes),
                                      with_commas(in_b.calls), with_commas(in_b.bytes)));
  };
  bool any_common = false;
  for (const auto& [iteration, calls] : a) {
    const auto other = b.find(iteration);
    if (other == b.end()) {
      continue;
    }
    any_common = true;
    if (const Result<void> same = check(calls, other->second); !same) {
      return same;
    }
  }
  return any_common ? Result<void>{} : check(a.rbegin()->second, b.rbegin()->second);
}

/// Leaves the rows that both runs have.
void keep_common_rows(Run& a, Run& b) {
  std::erase_if(a.rows, [&](const auto& row) { return !b.rows.contains(row.first); });
  std::erase_if(b.rows, [&](const auto& row) { return !a.rows.contains(row.first); });
}

Result<void> check_same_job(const Run& a, const Run& b) {
  if (a.ranks != b.ranks) {
    return different_jobs(fmt::format("A ran on {} ranks, B on {}", a.ranks, b.ranks));
  }
  for (const auto& [mine, theirs, name] : {std::tuple(&a, &b, "B"), std::tuple(&b, &a, "A")}) {
    for (const auto& [key, iterations] : mine->rows) {
      if (!theirs->rows.contains(key)) {
        return different_jobs(fmt::format("{} has no {}", name, text_of(key)));
      }
    }
  }
  if (a.rows.empty()) {
    return different_jobs("they have no row in common");
  }
  for (const auto& [key, iterations] : a.rows) {
    if (const Result<void> same = check_same_work(key, iterations, b.rows.at(key)); !same) {
      return same;
    }
  }
  return {};
}

/// The ceil(share n)-th of n >= 1 values in ascending order.
double nearest_rank(std::vector<std::int64_t> values, double share) {
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(values.begin(), at, values.end());
  return static_cast<double>(*at);
}

std::vector<double> sample_of(const RowIterations& iterations, CallMetric metric) {
  constexpr double half = 0.5;
  constexpr double most = 0.95;
  std::vector<double> sample;
  for (const auto& [iteration, calls] : iterations) {
    sample.push_back(nearest_rank(calls.durations, metric == CallMetric::p50 ? half : most));
  }
  return sample;
}

std::vector<double> step_sample(const Run& run) {
  constexpr double half = 0.5;
  std::vector<double> sample;
  for (const auto& [iteration, steps] : run.steps) {
    sample.push_back(nearest_rank(steps, half));
  }
  return sample;
}

/// The median: the middle value, or the mean of the two middle ones; 0 if empty.
std::chrono::nanoseconds median(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double middle = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return std::chrono::nanoseconds(std::llround(middle));
}

void measure(RegressionRow& row, const std::vector<double>& a, const std::vector<double>& b) {
  row.iterations_a = std::ssize(a);
  row.iterations_b = std::ssize(b);
  row.a = median(a);
  row.b = median(b);
  row.p = mann_whitney(a, b).p;
}

RegressionRow row_of(const RowKey& key, const RowIterations& a, const RowIterations& b, CallMetric metric) {
  RegressionRow row;
  std::tie(row.kind, row.name, row.axis, row.phase) = key;
  row.calls = a.rbegin()->second.calls;
  measure(row, sample_of(a, metric), sample_of(b, metric));
  return row;
}

/// Adjusts the p-values over all rows and judges each.
void judge(Regression& result) {
  std::vector<double> p_values;
  for (const RegressionRow& row : result.rows) {
    p_values.push_back(row.p);
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  const double limit = 1 + result.options.tolerance;
  for (std::size_t at = 0; at < result.rows.size(); ++at) {
    RegressionRow& row = result.rows[at];
    row.p_adjusted = adjusted[at];
    const bool is_significant = row.p_adjusted < result.options.significance;
    const auto a = static_cast<double>(row.a.count());
    const auto b = static_cast<double>(row.b.count());
    row.is_slower = is_significant && b > a * limit;
    row.is_faster = is_significant && a > b * limit;
  }
}

/// The least iterations of each run for which Holm's first step can fall below the significance.
std::int64_t iterations_needed(std::size_t rows, double significance) {
  constexpr std::int64_t most = 1000;
  for (std::int64_t iterations = 2; iterations < most; ++iterations) {
    if (smallest_p(iterations, iterations) * static_cast<double>(rows) < significance) {
      return iterations;
    }
  }
  return most;
}

}  // namespace

double RegressionRow::ratio() const {
  if (a.count() == 0) {
    return b.count() == 0 ? 1.0 : INFINITY;
  }
  return static_cast<double>(b.count()) / static_cast<double>(a.count());
}

bool Regression::any_slower() const {
  return std::any_of(rows.begin(), rows.end(), [](const RegressionRow& row) { return row.is_slower; });
}

bool Regression::has_enough() const {
  const auto tests = static_cast<double>(rows.size());
  return std::all_of(rows.begin(), rows.end(), [&](const RegressionRow& row) {
    return smallest_p(row.iterations_a, row.iterations_b) * tests < options.significance;
  });
}

Result<Regression> regression(const Trace& a, const Trace& b, const RegressionOptions& options) {
  Result<Run> run_a = run_of(a, "A");
  Result<Run> run_b = run_of(b, "B");
  if (!run_a || !run_b) {
    return tl::unexpected(run_a ? run_b.error() : run_a.error());
  }
  if (options.may_lack_rows) {
    keep_common_rows(*run_a, *run_b);
  }
  if (const Result<void> same = check_same_job(*run_a, *run_b); !same) {
    return tl::unexpected(same.error());
  }
  Regression result{
      .options = options, .progress_a = a.provenance.progress, .progress_b = b.provenance.progress};
  for (const auto& [key, iterations] : run_a->rows) {
    result.rows.push_back(row_of(key, iterations, run_b->rows.at(key), options.metric));
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const RegressionRow& one, const RegressionRow& two) {
                     return static_cast<double>(one.a.count()) * static_cast<double>(one.calls) >
                            static_cast<double>(two.a.count()) * static_cast<double>(two.calls);
                   });
  if (!run_a->steps.empty() && !run_b->steps.empty()) {
    RegressionRow step{.is_step = true};
    measure(step, step_sample(*run_a), step_sample(*run_b));
    result.rows.insert(result.rows.begin(), step);
  }
  result.iterations_needed = iterations_needed(result.rows.size(), options.significance);
  judge(result);
  return result;
}

}  // namespace commlens
