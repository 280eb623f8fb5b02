#include "commlens/app/prediction.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

Iteration iteration_of(const Plan& plan, const std::string& name) {
  return name == "init" ? k_init_iteration : name == "cold" ? 0 : plan.steady_iteration();
}

/// A call of the iteration whose rule was never measured makes it unverified, independent of the settings.
void add_unmeasured_rules(Prediction& prediction) {
  if (!prediction.unverified.empty()) {
    return;  // settings that cause such rules are listed already
  }
  for (const BreakdownRow& row : prediction.rows) {
    const Rule& rule = prediction.trace.rule(row.rule);
    const std::string reason = "rule " + rule.name;
    std::vector<std::string>& reasons = prediction.unverified;
    if (!rule.verified && std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(reason);
    }
  }
}

}  // namespace

Prediction predicted(const Plan& plan, const PredictionView& view) {
  Prediction prediction;
  prediction.view = view;
  prediction.job = plan.job;
  prediction.unverified = plan.unverified;
  prediction.iteration = iteration_of(plan, view.iteration);
  prediction.steady_iteration = plan.steady_iteration();
  prediction.has_other_iterations = std::any_of(plan.classes.begin(), plan.classes.end(),
                                                [](const RankClass& ranks) { return !ranks.others.empty(); });
  prediction.flops_per_rank = plan.flops_per_rank(prediction.steady_iteration);
  prediction.trace = plan.trace_of({prediction.iteration});
  BreakdownOptions options;
  options.by_tag = false;
  options.ranks_per_node = view.ranks_per_node;
  options.accounting = view.accounting;
  std::vector<BreakdownRow> all = breakdown(prediction.trace, options);
  prediction.aggregate_wire = aggregate_wire(all);
  options.rank = view.rank;
  prediction.rows = view.rank ? breakdown(prediction.trace, options) : std::move(all);
  add_unmeasured_rules(prediction);
  const Rank rank = view.rank.value_or(Rank{0});
  for (const BreakdownRow& row : prediction.rows) {
    if (row.ranks.contains(rank)) {
      prediction.inter_node_per_rank = saturating_sum(prediction.inter_node_per_rank, row.wire_inter_node);
    }
  }
  for (const RankStream& stream : prediction.trace.streams) {
    if (stream.ranks.contains(rank)) {
      prediction.per_rank = total_per_rank(prediction.rows, view.rank ? RankRange{rank, rank} : stream.ranks);
    }
  }
  return prediction;
}

std::string framework_text(const Prediction& prediction) { return prediction.trace.provenance.framework; }

std::string framework_version(const Prediction& prediction) {
  const std::string& text = prediction.trace.provenance.framework;
  const std::size_t space = text.find(' ');
  return space == std::string::npos ? "" : text.substr(space + 1);
}

std::string number_text(double value) {
  std::string text = fmt::format("{:.{}f}", value, value == std::floor(value) ? 0 : 1);
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  for (std::size_t at = std::min(text.find('.'), text.size()); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

}  // namespace commlens
