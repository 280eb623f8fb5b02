#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "commlens/frameworks/deepspeed/pipeline.hpp"
#include "commlens/frameworks/memory_parts.hpp"

namespace commlens::deepspeed {

/// DualPipeV: a rank holds two stages. Activations go out through the first ones, to the last rank, and come
/// back through the second ones. Source: runtime/pipe/dualpipev.py of 0.19.8.
enum class DualPipeWay : std::uint8_t { out, back };

/// One instruction of a rank. Messages are queued; `commit` sends and receives all that are, as one batch.
struct DualPipeStep {
  enum class Kind : std::uint8_t {
    recv_activation,
    send_activation,
    recv_gradient,
    send_gradient,
    commit,
    forward,
    backward
  };
  Kind kind = Kind::commit;
  DualPipeWay way = DualPipeWay::out;
  std::int64_t micro_batch = 0;
};

/// The schedule of `rank` of `ranks`; micro_batches >= 2 x ranks.
/// Source: runtime/pipe/schedule.py of 0.19.8, DualPipeVSchedule.
std::vector<DualPipeStep> dual_pipe_schedule(std::int64_t rank, std::int64_t ranks,
                                             std::int64_t micro_batches);

/// What a rank holds for training: as many layers as in a plain pipeline, but the first rank has the ends of
/// the model, and passes of both stages are under way.
HeldStage held_by_dual_pipe(const Job& job, std::int64_t rank);

/// What two stages exchange for a micro-batch, in elements. Masks have no gradients.
struct DualPipeTensors {
  std::int64_t activation = 0;
  std::int64_t mask = 0;
};

struct DualPipeStage {
  StagePasses passes;
  DualPipeTensors input;
  DualPipeTensors output;
};

/// One train_batch. `rank` has all but its stages, on the way out and on the way back. Shapes travel in the
/// first iteration only.
void write_dual_pipe_iteration(ProgramBuilder& out, const PipelineRank& rank,
                               const std::array<DualPipeStage, 2>& stages, bool is_first);

}  // namespace commlens::deepspeed
