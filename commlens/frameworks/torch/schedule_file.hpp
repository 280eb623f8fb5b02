#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens::pytorch {

/// A step of a pipeline rank: what a schedule of torch.distributed.pipelining computes, and the messages and
/// shard states that its runtime adds.
struct PipelineAction {
  enum class Kind : std::uint8_t {
    forward,
    backward,        // of input and weights together
    backward_input,  // the two halves of it
    backward_weight,
    send_forward,
    receive_forward,
    send_backward,
    receive_backward,
    unshard,
    reshard,
    reduce,
    idle
  };
  Kind kind = Kind::idle;
  std::int32_t stage = 0;  // of all stages
  std::int32_t micro_batch = -1;
  bool is_paired = false;  // one piece with the next action, which it may overlap
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};
using RankActions = std::vector<PipelineAction>;

/// A schedule as _PipelineScheduleRuntime._load_csv takes it (format compute_only, schedules.py:2800
/// of 2.15): a row for each rank with what it computes, in order: "0F2" (forward pass of stage 0, micro-batch
/// 2), "B" (a backward pass), "I" and "W" (its halves), "(0F3;3B1)OVERLAP_F_B" (two at once); empty cells are
/// skipped.
struct ScheduleFile {
  std::vector<RankActions> ranks;
  std::int64_t stages_per_rank = 1;
  std::int64_t micro_batches = 0;
  bool is_v_shaped = false;  // rank r has the stages r and 2 x ranks - 1 - r, else every ranks-th
};
/// Fails with file:line for what is no such cell, for stages that are placed otherwise, for passes that are
/// missing or twice there, and for an order in which a rank would wait for ever.
Result<ScheduleFile> read_schedule_file(const std::filesystem::path& path);

}  // namespace commlens::pytorch
