#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::pytorch {

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::int64_t ranks = 1;
  std::int64_t stages_per_rank = 1;
  std::int64_t micro_batches = 1;
  std::shared_ptr<const ScheduleFile> file = nullptr;  // of PipelineSchedule::from_file

  std::int64_t stages() const { return ranks * stages_per_rank; }
  bool is_v_shaped() const {
    return schedule == PipelineSchedule::zbv_zero_bubble || schedule == PipelineSchedule::dual_pipe_v ||
           (file != nullptr && file->is_v_shaped);
  }
  /// One stage a rank: GPipe and 1F1B have a writer of their own.
  bool is_single() const {
    return schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
  }
  /// V schedules: r and the mirrored one; else every ranks-th.
  std::int64_t rank_of(std::int64_t stage) const;
  std::vector<std::int64_t> stages_of(std::int64_t rank) const;
};

/// The kind of schedule that all frameworks know: all but GPipe and 1F1B are interleaved.
Schedule usual_schedule(PipelineSchedule schedule);
/// Gives a job this schedule.
void set_schedule(Job& job, PipelineSchedule schedule);

/// What the library refuses, by name.
Result<void> check(const PipelineShape& shape);

/// What each rank computes, in order, with the idle slots of the time grid. A forward pass of DualPipeV that
/// overlaps a backward pass is paired with it. Source: torch/distributed/pipelining/schedules.py,
/// _calculate_single_rank_operations of each schedule.
std::vector<RankActions> compute_actions(const PipelineShape& shape);

/// Forward passes of a rank whose backward passes are still to come, at its fullest moment.
std::int64_t passes_in_flight(const PipelineShape& shape, std::int64_t rank);

/// Steps of the runtime, which differ by release.
struct RuntimeSteps {
  bool pairs_passes = true;    // DualPipeV's passes that overlap are one step
  bool has_reductions = true;  // the reductions of a stage are one
  bool has_waits = true;       // the wait for them is another: idle here, but what follows is delayed
};

/// The same as the runtime carries it out (from 2.10; DualPipeV from 2.9): stages gathered before they are
/// needed, at most three at a time, reductions after the last backward pass of a stage, and messages in the
/// order in which the senders have them. Source: schedules.py, _add_unshard_reshard, _add_reduce_grad,
/// _add_send_recv.
std::vector<RankActions> runtime_actions(const PipelineShape& shape, const RuntimeSteps& steps);

/// The same as releases up to 2.9 do, all ranks one slot of the grid after the other: what is computed in a
/// slot is sent, and received by its neighbours, at the end of it. Source: schedules.py of 2.9,
/// PipelineScheduleMulti._step_microbatches. Fails where a rank would wait for ever, as it does there with
/// few micro-batches.
Result<std::vector<RankActions>> lock_step_actions(const PipelineShape& shape);

}  // namespace commlens::pytorch
