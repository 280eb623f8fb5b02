#include "commlens/simulate/timeline/account.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace commlens {
namespace {

/// Where something begins or ends.
struct Edge {
  Ticks when = 0;
  bool is_begin = false;
  StepIndex step = 0;
};

std::vector<Edge> edges_of(const ClassTimeline& line, StepIndex first_step) {
  std::vector<Edge> edges;
  for (StepIndex step = first_step; step < line.times.size(); ++step) {
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

RankAccount rank_account(const Plan& plan, const ClassTimeline& line, StepIndex first_step, Ticks begin,
                         Ticks end) {
  RankAccount account;
  const auto key_of = [&](StepIndex step) {
    const CommOp& op = plan.tables.op(line.program.steps[step].op());
    return RankAccount::Key(op.kind, plan.tables.groups.axis(op.group));
  };
  for (StepIndex step = first_step; step < line.times.size(); ++step) {
    if (line.program.steps[step].kind == PlanStep::Kind::call) {
      RankAccount::Calls& calls = account.calls[key_of(step)];
      calls.calls += 1;
      calls.moving += static_cast<double>(line.times[step].finished - line.times[step].moving);
    }
  }
  bool computes = false;
  std::set<std::pair<Ticks, StepIndex>> moving;
  Ticks last = begin;
  const auto pass = [&](Ticks until) {
    const auto span = static_cast<double>(std::clamp(until, begin, end) - std::clamp(last, begin, end));
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
  for (const Edge& edge : edges_of(line, first_step)) {
    pass(edge.when);
    if (line.program.steps[edge.step].kind == PlanStep::Kind::work) {
      computes = edge.is_begin;
    } else if (edge.is_begin) {
      moving.emplace(line.times[edge.step].moving, edge.step);
    } else {
      moving.erase({line.times[edge.step].moving, edge.step});
    }
  }
  pass(end);
  return account;
}

}  // namespace commlens
