#include "commlens/plan/plan.hpp"

#include <algorithm>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

void append(const Program& program, Iteration iteration, RankStream& stream) {
  for (const PlannedCall& call : program) {
    stream.events.push_back({call.op, iteration, call.micro_batch});
  }
}

}  // namespace

const Program& RankClass::at(Iteration iteration) const {
  if (iteration == k_init_iteration) {
    return init;
  }
  COMMLENS_CHECK(iteration >= 0 && !iterations.empty(), "a class has at least one iteration");
  return iterations[std::min(static_cast<std::size_t>(iteration), iterations.size() - 1)];
}

Iteration Plan::steady_iteration() const {
  std::size_t most = 1;
  for (const RankClass& rank_class : classes) {
    most = std::max(most, rank_class.iterations.size());
  }
  return static_cast<Iteration>(most - 1);
}

Trace Plan::trace(std::int64_t iterations) const {
  std::vector<Iteration> all;
  for (Iteration iteration = k_init_iteration; iteration < iterations; ++iteration) {
    all.push_back(iteration);
  }
  return trace_of(all);
}

Trace Plan::trace_of(const std::vector<Iteration>& iterations) const {
  Trace trace = tables;
  for (const RankClass& rank_class : classes) {
    RankStream stream{rank_class.ranks, {}, {}};
    for (const Iteration iteration : iterations) {
      append(rank_class.at(iteration), iteration, stream);
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

}  // namespace commlens
