#include "commlens/simulate/timeline/account.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace commlens {
namespace {

/// Where something begins or ends.
struct Edge {
  Ticks when = 0;
  bool is_begin = false;
  StepIndex step = 0;
};

std::vector<Edge> edges_of(const ClassTimeline& line) {
  std::vector<Edge> edges;
  for (StepIndex step = 0; step < line.times.size(); ++step) {
    const StepTimes& times = line.times[step];
    if (times.finished > times.moving) {
      edges.push_back({times.moving, true, step});
      edges.push_back({times.finished, false, step});
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.when, a.is_begin, a.step) < std::tie(b.when, b.is_begin, b.step);
  });
  return edges;
}

}  // namespace

RankAccount rank_account(const Plan& plan, const ClassTimeline& line, const TimeWindow& window) {
  RankAccount account;
  const auto key_of = [&](StepIndex step) {
    const CommOp& op = plan.tables.op(line.program.steps[step].op());
    return RankAccount::Key(op.kind, plan.tables.groups.axis(op.group));
  };
  for (StepIndex step = 0; step < line.times.size(); ++step) {
    const PlanStep& planned = line.program.steps[step];
    if (planned.kind == PlanStep::Kind::call &&
        plan.tables.groups.size(plan.tables.op(planned.op()).group) > 1) {
      RankAccount::Calls& calls = account.calls[key_of(step)];
      calls.calls += 1;
      calls.moving += window.part_of(line.times[step].moving, line.times[step].finished);
    }
  }
  bool computes = false;
  std::set<std::pair<Ticks, StepIndex>> moving;
  Ticks last = window.begin;
  const auto pass = [&](Ticks until) {
    const double span = window.part_of(last, until);
    last = until;
    if (computes) {
      account.compute += span;
    } else if (moving.empty()) {
      account.waiting += span;
    } else {
      account.exposed += span;
      account.calls[key_of(moving.begin()->second)].exposed += span;
    }
  };
  for (const Edge& edge : edges_of(line)) {
    pass(edge.when);
    if (line.program.steps[edge.step].kind == PlanStep::Kind::work) {
      computes = edge.is_begin;
    } else if (edge.is_begin) {
      moving.emplace(line.times[edge.step].moving, edge.step);
    } else {
      moving.erase({line.times[edge.step].moving, edge.step});
    }
  }
  pass(window.end);
  return account;
}

}  // namespace commlens
