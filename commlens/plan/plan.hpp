#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/work.hpp"
#include "commlens/trace/step_order.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A queue of a device: its steps run one after the other. Row of Plan::streams.
enum class StreamId : std::uint8_t {};
/// The stream that every plan has: what a rank computes.
constexpr StreamId k_compute_stream{0};

/// Place of a step in its program.
using StepIndex = std::uint32_t;

/// A call or a piece of computing. It begins once the step before it on its stream has ended, and those that
/// it waits for on others.
struct PlanStep {
  enum class Kind : std::uint8_t { call, work };
  Kind kind = Kind::call;
  StreamId stream = k_compute_stream;
  std::uint16_t waits = 0;  // how many steps it waits for, and where they are in Program::waits
  std::uint32_t first_wait = 0;
  std::uint32_t row = 0;  // of the plan's ops (call) or works (work)
  std::int32_t micro_batch = k_no_micro_batch;

  OpId op() const { return OpId{row}; }
  WorkId work() const { return WorkId{row}; }
  friend bool operator==(const PlanStep&, const PlanStep&) = default;
};

/// The steps of a rank in the order in which it issues them. A step waits for earlier ones of the same
/// program alone; the first one of each stream follows its last one of the program before, and all that is
/// `open` there.
struct Program {
  std::vector<PlanStep> steps;
  std::vector<StepIndex> waits;
  std::vector<StepIndex>
      open;  // what all that follows waits for: computing, calls that are waited for at once

  std::span<const StepIndex> waits_of(const PlanStep& step) const {
    return std::span(waits).subspan(step.first_wait, step.waits);
  }
  /// Adds the steps of another program, as the one that follows.
  void append(const Program& next);
  std::int64_t calls() const;
  friend bool operator==(const Program&, const Program&) = default;
};

/// A program that some iterations take instead of the one in their place: `first`, and every `every`-th after
/// it (0: no other).
struct OtherProgram {
  Iteration first = 0;
  std::int64_t every = 0;
  Program program;
  bool is_taken(Iteration iteration) const;
  friend bool operator==(const OtherProgram&, const OtherProgram&) = default;
};

/// Ranks that take the same steps, and those steps: at initialisation, then in each iteration until they
/// repeat.
struct RankClass {
  RankRange ranks;
  std::int64_t stage = 0;  // pipeline stage of the first rank
  Program init;
  std::vector<Program> iterations;   // the last one repeats for ever
  std::vector<OtherProgram> others;  // the first that an iteration takes counts
  const Program& at(Iteration iteration) const;
};

/// Every message of a job, what is computed between them and what waits for what, per class of ranks; no
/// times (docs/plan.md). Descriptions, groups, rules and tags of calls live in `tables` (a trace without
/// streams).
struct Plan {
  Job job;
  Trace tables;
  WorkTable works = {};
  std::vector<std::string> streams = {"compute"};  // names; by communicator beside the first
  std::vector<RankClass> classes;
  std::vector<std::string> unverified;  // settings whose rules were never measured

  /// Floating-point operations of one rank in an iteration, the mean over the plan's ranks.
  Flops flops_per_rank(Iteration iteration) const;
  /// The first iteration from which on all classes repeat themselves, and which takes no other program.
  Iteration steady_iteration() const;
  /// The calls of initialisation and of `iterations` iterations, no times.
  Trace trace(std::int64_t iterations) const;
  /// The calls of the chosen iterations only (k_init_iteration is initialisation).
  Trace trace_of(const std::vector<Iteration>& iterations) const;
  /// What trace_of() of the same iterations drops: computing and waits.
  StepOrder order_of(const std::vector<Iteration>& iterations) const;
};

}  // namespace commlens
