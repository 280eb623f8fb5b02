#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "commlens/compare/compare.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/trace/logger_view.hpp"
#include "commlens/trace/training_steps.hpp"

namespace commlens {
namespace {

/// Predicted calls of one op and size: at initialisation and in each predicted iteration.
struct PredictedCalls {
  std::int64_t init = 0;
  std::vector<std::int64_t> iterations;
  std::set<std::string> rules;

  /// Over a run of `count` iterations, the last predicted one repeated.
  std::int64_t total(std::int64_t count) const {
    std::int64_t sum = init;
    const auto predicted = static_cast<std::int64_t>(iterations.size());
    for (std::int64_t at = 0; at < std::min(count, predicted); ++at) {
      sum += iterations[static_cast<std::size_t>(at)];
    }
    return predicted == 0 ? sum : sum + std::max<std::int64_t>(count - predicted, 0) * iterations.back();
  }
};
using PredictedSizes = std::map<std::pair<CommKind, Bytes>, PredictedCalls>;

/// Counts per iteration have the index of the iteration in `iterations`.
PredictedSizes predicted_sizes(const Trace& predicted, const RankStream& stream,
                               const std::vector<Iteration>& iterations) {
  PredictedSizes sizes;
  for (const CommEvent& event : stream.events) {
    const CommOp& op = predicted.op(event.op);
    const Rule& rule = predicted.rule(op.rule);
    if (event.iteration < k_init_iteration || op.kind == CommKind::barrier || !logger_sees(rule)) {
      continue;
    }
    PredictedCalls& calls = sizes[{op.kind, logged_bytes(op)}];
    calls.iterations.resize(iterations.size(), 0);
    if (event.iteration == k_init_iteration) {
      ++calls.init;
    } else {
      const auto place = std::lower_bound(iterations.begin(), iterations.end(), event.iteration);
      ++calls.iterations[static_cast<std::size_t>(place - iterations.begin())];
    }
    if (!rule.name.empty()) {
      calls.rules.insert(rule.name);
    }
  }
  return sizes;
}

struct Row {
  LoggedRow row;
  std::vector<const PredictedCalls*> calls;
  std::int64_t predicted(std::int64_t iterations) const {
    std::int64_t sum = 0;
    for (const PredictedCalls* each : calls) {
      sum += each->total(iterations);
    }
    return sum;
  }
};

std::vector<Row> logged_rows(const Trace& log) {
  std::map<std::tuple<CommKind, Bytes, Bytes>, Row> rows;
  for (const RankStream& stream : log.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = log.op(event.op);
      if (op.kind == CommKind::barrier || op.kind == CommKind::other) {
        continue;
      }
      LoggedRow& row = rows[{op.kind, logged_bytes(op), op.rounding}].row;
      row.kind = op.kind;
      row.size = logged_bytes(op);
      row.rounding = op.rounding;
      ++row.logged;
    }
    break;  // only rank 0 prints
  }
  std::vector<Row> result;
  for (auto& [key, row] : rows) {
    result.push_back(std::move(row));
  }
  return result;
}

/// Assigns every predicted size to the row with the nearest printed size, or to a new row.
void assign(const PredictedSizes& sizes, std::vector<Row>& rows) {
  const std::size_t logged = rows.size();
  for (const auto& [key, calls] : sizes) {
    Row* nearest = nullptr;
    std::int64_t distance = INT64_MAX;
    for (std::size_t at = 0; at < logged; ++at) {
      const LoggedRow& row = rows[at].row;
      const std::int64_t apart = std::llabs(row.size.value - key.second.value);
      if (row.kind == key.first && apart <= row.rounding.value && apart < distance) {
        distance = apart;
        nearest = &rows[at];
      }
    }
    if (nearest == nullptr) {
      rows.push_back({});
      nearest = &rows.back();
      nearest->row.kind = key.first;
      nearest->row.size = key.second;
    }
    nearest->calls.push_back(&calls);
    for (const std::string& rule : calls.rules) {
      std::vector<std::string>& rules = nearest->row.rules;
      if (std::find(rules.begin(), rules.end(), rule) == rules.end()) {
        rules.push_back(rule);
      }
    }
  }
}

/// The rows of ignored kinds, removed from `rows`.
std::vector<Row> taken_out(std::vector<Row>& rows, const std::vector<CommKind>& ignored) {
  const auto from = std::stable_partition(rows.begin(), rows.end(), [&](const Row& row) {
    return std::find(ignored.begin(), ignored.end(), row.row.kind) == ignored.end();
  });
  std::vector<Row> taken(from, rows.end());
  rows.erase(from, rows.end());
  return taken;
}

/// Sum over the printed rows of |logged - predicted|.
double misfit(const std::vector<Row>& rows, std::int64_t iterations) {
  double sum = 0;
  for (const Row& row : rows) {
    if (row.row.logged > 0) {
      sum += std::fabs(static_cast<double>(row.row.logged - row.predicted(iterations)));
    }
  }
  return sum;
}

/// The smallest number of iterations with the least misfit. Beyond the predicted iterations each row grows
/// evenly, so the misfit is convex there.
std::int64_t fitted_iterations(const std::vector<Row>& rows, std::int64_t predicted_iterations) {
  std::int64_t most = 1;
  for (const Row& row : rows) {
    most = std::max(most, row.row.logged);
  }
  std::int64_t low = std::min(most, std::max<std::int64_t>(predicted_iterations, 1));
  std::int64_t high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (misfit(rows, middle + 1) >= misfit(rows, middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::int64_t best = low;
  for (std::int64_t count = std::min(most, predicted_iterations); count >= 1; --count) {
    if (misfit(rows, count) <= misfit(rows, best)) {
      best = count;
    }
  }
  return best;
}

/// The purposes of the rules, each cause once.
std::vector<std::string_view> causes_of(const RuleBook& book, const std::vector<std::string>& rules) {
  std::vector<std::string_view> causes;
  for (const std::string& rule : rules) {
    const std::string_view cause = cause_of_rule(book, rule, Axis::unknown);
    if (!cause.empty() && std::find(causes.begin(), causes.end(), cause) == causes.end()) {
      causes.push_back(cause);
    }
  }
  return causes;
}

}  // namespace

Result<LoggedComparison> compare_logged(const Trace& predicted, const Trace& log,
                                        std::optional<std::int64_t> iterations,
                                        const std::vector<CommKind>& ignored, const RuleBook& rules) {
  const RankStream* stream = predicted.stream_of(Rank{0});
  const std::vector<Iteration> known = training_iterations(predicted);
  if (stream == nullptr || known.empty()) {
    return failure("the prediction holds no iteration of rank 0, which a printed log is about");
  }
  const PredictedSizes sizes = predicted_sizes(predicted, *stream, known);
  std::vector<Row> rows = logged_rows(log);
  if (rows.empty()) {
    return failure("the log holds no call with a size; give the lines that DeepSpeed's comms logger printed");
  }
  assign(sizes, rows);
  const std::vector<Row> left_out = taken_out(rows, ignored);
  if (std::none_of(rows.begin(), rows.end(), [](const Row& row) { return row.row.logged > 0; })) {
    return failure("every logged call is of an ignored op; ignore fewer with --ignore-op");
  }

  LoggedComparison result;
  result.iterations_fitted = !iterations.has_value();
  result.iterations = iterations ? *iterations : fitted_iterations(rows, std::ssize(known));
  for (const Row& row : left_out) {
    result.ignored_rows += row.row.logged > 0 || row.predicted(result.iterations) > 0 ? 1 : 0;
  }
  for (Row& row : rows) {
    row.row.predicted = row.predicted(result.iterations);
    if (row.row.logged == 0 && row.row.predicted == 0) {
      continue;  // calls of iterations the run does not have
    }
    result.exact_rows += row.row.logged == row.row.predicted ? 1 : 0;
    row.row.causes = causes_of(rules, row.row.rules);
    result.rows.push_back(std::move(row.row));
  }
  std::stable_sort(result.rows.begin(), result.rows.end(), [](const LoggedRow& l, const LoggedRow& r) {
    return std::pair(l.kind, l.size) < std::pair(r.kind, r.size);
  });
  return result;
}

}  // namespace commlens
