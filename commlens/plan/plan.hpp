#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One call of an iteration, as a row of the plan's op table.
struct PlannedCall {
  OpId op{};
  std::int32_t micro_batch = k_no_micro_batch;
  friend bool operator==(const PlannedCall&, const PlannedCall&) = default;
};
using Program = std::vector<PlannedCall>;

/// Ranks that issue the same calls, and those calls: at initialisation, then in each iteration until they
/// repeat.
struct RankClass {
  RankRange ranks;
  std::int64_t stage = 0;  // pipeline stage of the first rank
  Program init;
  std::vector<Program> iterations;  // the last one repeats for ever
  const Program& at(Iteration iteration) const;
};

/// Every message of a job, per class of ranks. Descriptions, groups, rules and tags live in `tables` (a trace
/// without streams).
struct Plan {
  Job job;
  Trace tables;
  std::vector<RankClass> classes;
  std::vector<std::string> unverified;  // settings whose rules were never measured

  /// The first iteration from which on all classes repeat themselves.
  Iteration steady_iteration() const;
  /// The calls of initialisation and of `iterations` iterations, no times.
  Trace trace(std::int64_t iterations) const;
  /// The calls of the chosen iterations only (k_init_iteration is initialisation).
  Trace trace_of(const std::vector<Iteration>& iterations) const;
};

}  // namespace commlens
