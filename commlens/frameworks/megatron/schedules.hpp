#pragma once
#include <cstdint>
#include <vector>

namespace commlens::megatron {

/// Messages to and from the neighbouring stages that are asked for together.
struct Exchange {
  bool sends_forward = false;  // to the next stage
  bool receives_forward = false;
  bool sends_backward = false;  // to the previous stage
  bool receives_backward = false;
  /// Issued one by one in an order that depends on the stage, and waited for later; else in one batch.
  bool is_overlapped = false;
  bool is_empty() const {
    return !sends_forward && !receives_forward && !sends_backward && !receives_backward;
  }
};

/// A step of the schedule of one stage.
struct Action {
  enum class Kind : std::uint8_t {
    forward,
    backward,
    exchange,
    gather_parameters,  // of a chunk (config.param_sync_func)
    reduce_gradients,   // of a chunk (config.grad_sync_func)
  };
  Kind kind = Kind::forward;
  std::int64_t micro_batch = 0;
  std::int64_t chunk = 0;
  Exchange exchange = {};
  /// Of a backward pass: gradients are reduced as soon as they are complete.
  bool reduces = false;
};

/// What decides the schedule of a stage.
struct ScheduleSettings {
  std::int64_t stage = 0;
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::int64_t micro_batches = 1;
  std::int64_t group = 1;             // microbatch-group-size-per-virtual-pipeline-stage
  bool overlaps = true;               // overlap-p2p-communication
  bool overlaps_at_ends = false;      // overlap-p2p-communication-warmup-flush
  bool has_one_more_warm_up = false;  // overlap-moe-expert-parallel-comm
  bool forward_only = false;          // evaluation
  bool aligns_gradients = false;      // grad_sync_func is set
  bool aligns_parameters = false;     // param_sync_func is set
};

/// Without a pipeline, 1F1B, or interleaved with several chunks.
/// Source: core/pipeline_parallel/schedules.py of 0.19.
std::vector<Action> schedule(const ScheduleSettings& settings);

}  // namespace commlens::megatron
