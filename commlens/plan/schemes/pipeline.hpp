#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace commlens {

/// First item of each stage and, last, the number of items: stage k holds [bounds[k], bounds[k + 1]).
using StageBounds = std::vector<std::int64_t>;

/// `items` over `stages` with the first items % stages one larger; at most one item each when items <=
/// stages. Source: deepspeed runtime/utils.py partition_uniform (rules D3).
StageBounds partition_uniform(std::int64_t items, std::int64_t stages);

/// Contiguous partition that minimises max - min of the stages' weights by dynamic programming, the last of
/// equal solutions winning. Source: deepspeed runtime/utils.py:602 partition_balanced (rules D3).
StageBounds partition_balanced(std::span<const std::int64_t> weights, std::int64_t stages);

/// One step of a stage's schedule.
struct PipelineStep {
  enum class Kind : std::uint8_t {
    send_grad,
    recv_activation,
    recv_grad,
    send_activation,
    load,
    forward,
    backward
  };
  Kind kind = Kind::forward;
  std::int64_t micro_batch = 0;
};

/// The 1F1B order of DeepSpeed's TrainSchedule for `stage` of `stages`, communication included.
/// Source: deepspeed runtime/pipe/schedule.py:189.
std::vector<PipelineStep> one_f_one_b_with_transfers(std::int64_t stage, std::int64_t stages,
                                                     std::int64_t micro_batches);

/// Forward and backward order of a non-interleaved 1F1B stage: warm-up of min(stages - stage - 1,
/// micro_batches) forwards, then one forward and one backward in turn, then the remaining backwards. Source:
/// Megatron core/pipeline_parallel/schedules.py:1209.
struct ComputeStep {
  bool is_forward = true;
  std::int64_t micro_batch = 0;
  std::int64_t chunk = 0;
};
std::vector<ComputeStep> one_f_one_b(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches);

/// GPipe: all forward passes, then all backward ones, both in the order of the micro-batches.
std::vector<ComputeStep> gpipe(std::int64_t micro_batches);

/// Interleaved 1F1B with `chunks` model chunks a stage; micro_batches is a multiple of stages.
/// Source: Megatron core/pipeline_parallel/schedules.py:549.
std::vector<ComputeStep> interleaved_1f1b(std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                                          std::int64_t micro_batches);
/// The same in slots: what a stage computes between two batches of messages. One pass a slot while the
/// pipeline fills and drains, a forward and a backward pass between. Source: schedules.py:604-1000.
std::vector<std::vector<ComputeStep>> interleaved_slots(std::int64_t stage, std::int64_t stages,
                                                        std::int64_t chunks, std::int64_t micro_batches);

}  // namespace commlens
