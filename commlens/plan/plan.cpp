#include "commlens/plan/plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

void append_calls(const Program& program, Iteration iteration, RankStream& stream) {
  for (const PlanStep& step : program.steps) {
    if (step.kind == PlanStep::Kind::call) {
      stream.events.push_back({step.op(), iteration, step.micro_batch});
    }
  }
}

constexpr Iteration k_most_looked_at = 100;  // for one that is as most are

/// The state between programs of a list: the last step of each stream, what is open, calls so far.
struct OrderState {
  std::map<StreamId, std::uint32_t> last;
  std::vector<std::uint32_t> open;
  std::uint32_t calls = 0;
};

/// Adds the steps of a program after those of earlier ones.
void append_order(const Program& program, OrderState& state, StreamOrder& order) {
  const auto first_step = static_cast<std::uint32_t>(order.steps.size());
  for (const PlanStep& step : program.steps) {
    OrderedStep ordered{.first_wait = static_cast<std::uint32_t>(order.waits.size())};
    const auto wait = [&](std::uint32_t earlier) {
      const auto own = order.waits.begin() + ordered.first_wait;
      if (std::find(own, order.waits.end(), earlier) == order.waits.end()) {
        order.waits.push_back(earlier);
      }
    };
    const auto before = state.last.find(step.stream);
    if (before != state.last.end()) {
      wait(before->second);
    }
    if (before == state.last.end() || before->second < first_step) {
      std::for_each(state.open.begin(), state.open.end(), wait);
    }
    for (const StepIndex earlier : program.waits_of(step)) {
      wait(first_step + earlier);
    }
    ordered.waits = static_cast<std::uint32_t>(order.waits.size()) - ordered.first_wait;
    const bool is_call = step.kind == PlanStep::Kind::call;
    ordered.kind = is_call ? OrderedStep::Kind::call : OrderedStep::Kind::work;
    ordered.row = is_call ? state.calls++ : step.row;
    state.last[step.stream] = static_cast<std::uint32_t>(order.steps.size());
    order.steps.push_back(ordered);
  }
  if (!program.steps.empty()) {
    state.open.clear();
    for (const StepIndex open : program.open) {
      state.open.push_back(first_step + open);
    }
  }
}

}  // namespace

void Program::append(const Program& next) {
  if (next.steps.empty()) {
    return;
  }
  const auto first_step = static_cast<StepIndex>(steps.size());
  std::set<StreamId> begun;
  for (PlanStep step : next.steps) {
    const std::span<const StepIndex> earlier = next.waits_of(step);
    step.first_wait = static_cast<std::uint32_t>(waits.size());
    for (const StepIndex wait : earlier) {
      waits.push_back(wait + first_step);
    }
    if (begun.insert(step.stream).second) {
      for (const StepIndex wait : open) {
        if (steps[wait].stream != step.stream) {
          waits.push_back(wait);
        }
      }
    }
    step.waits = static_cast<std::uint16_t>(waits.size() - step.first_wait);
    steps.push_back(step);
  }
  open.clear();
  for (const StepIndex wait : next.open) {
    open.push_back(wait + first_step);
  }
}

std::int64_t Program::calls() const {
  return std::count_if(steps.begin(), steps.end(),
                       [](const PlanStep& step) { return step.kind == PlanStep::Kind::call; });
}

bool OtherProgram::is_taken(Iteration iteration) const {
  return iteration == first || (every > 0 && iteration > first && (iteration - first) % every == 0);
}

const Program& RankClass::at(Iteration iteration) const {
  if (iteration == k_init_iteration) {
    return init;
  }
  COMMLENS_CHECK(iteration >= 0 && !iterations.empty(), "a class has at least one iteration");
  for (const OtherProgram& other : others) {
    if (other.is_taken(iteration)) {
      return other.program;
    }
  }
  return iterations[std::min(static_cast<std::size_t>(iteration), iterations.size() - 1)];
}

Flops Plan::flops_per_rank(Iteration iteration) const {
  double flops = 0;
  double ranks = 0;
  for (const RankClass& rank_class : classes) {
    double of_rank = 0;
    for (const PlanStep& step : rank_class.at(iteration).steps) {
      of_rank += step.kind == PlanStep::Kind::work ? works[step.work()].flops.value : 0;
    }
    const auto members = static_cast<double>(rank_class.ranks.count());
    flops += of_rank * members;
    ranks += members;
  }
  return {ranks > 0 ? flops / ranks : 0};
}

Iteration Plan::steady_iteration() const {
  std::size_t most = 1;
  for (const RankClass& rank_class : classes) {
    most = std::max(most, rank_class.iterations.size());
  }
  const auto is_taken = [&](Iteration iteration) {
    return std::any_of(classes.begin(), classes.end(), [&](const RankClass& rank_class) {
      return std::any_of(rank_class.others.begin(), rank_class.others.end(),
                         [&](const OtherProgram& other) { return other.is_taken(iteration); });
    });
  };
  const auto first = static_cast<Iteration>(most - 1);
  Iteration iteration = first;
  while (iteration < first + k_most_looked_at && is_taken(iteration)) {
    ++iteration;
  }
  return is_taken(iteration) ? first : iteration;
}

Trace Plan::trace(std::int64_t iterations) const {
  std::vector<Iteration> all;
  for (Iteration iteration = k_init_iteration; iteration < iterations; ++iteration) {
    all.push_back(iteration);
  }
  return trace_of(all);
}

StepOrder Plan::order_of(const std::vector<Iteration>& iterations) const {
  StepOrder order;
  for (const RankClass& rank_class : classes) {
    StreamOrder& stream = order.streams.emplace_back();
    OrderState state;
    for (const Iteration iteration : iterations) {
      append_order(rank_class.at(iteration), state, stream);
    }
  }
  for (std::uint32_t row = 0; row < works.count(); ++row) {
    const PlanWork& work = works[WorkId{row}];
    order.works.push_back({std::string(name_of(work.phase)), work.flops.value, work.moved.value});
  }
  return order;
}

Trace Plan::trace_of(const std::vector<Iteration>& iterations) const {
  Trace trace = tables;
  for (const RankClass& rank_class : classes) {
    RankStream stream{rank_class.ranks, {}, {}};
    for (const Iteration iteration : iterations) {
      append_calls(rank_class.at(iteration), iteration, stream);
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

}  // namespace commlens
