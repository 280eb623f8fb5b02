#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens::deepspeed {

/// An entry of a PipelineModule's list of layers.
struct PipelineLayer {
  std::string class_name;       // what `type:WORDS` is matched against
  std::int64_t parameters = 0;  // elements, the weight of partition method "parameters"
};

/// First layer of each stage, by `method`: uniform, parameters or type:WORDS (alternatives of a regular
/// expression without other operators). Fails when the method is unknown. Source: runtime/pipe/module.py:298
/// (rules B8, D3).
Result<StageBounds> partitioned(const std::vector<PipelineLayer>& layers, std::int64_t stages,
                                const std::string& method);
/// The same; fails when a stage gets no layer.
Result<StageBounds> stage_bounds(const std::vector<PipelineLayer>& layers, std::int64_t stages,
                                 const std::string& method);

/// What a stage computes of a micro-batch, and what the client framework sends meanwhile.
struct StagePasses {
  std::function<void(std::int32_t)> forward;
  std::function<void(std::int32_t)> backward;
};

/// A stage of DeepSpeed's PipelineEngine.
struct PipelineRank {
  EngineRank engine;
  std::int64_t stage = 0;
  std::int64_t stages = 1;
  std::int64_t tensor_ranks = 1;  // ranks of the slice group, which share each message when it is partitioned
  std::int64_t activation = 0;    // elements of [b, s, h]
  std::int64_t mask = 0;          // elements of the attention mask [1, 1, s, s] sent along; 0: none
  std::int64_t tied_weight = 0;   // elements of the tied embedding on first and last stage; 0: untied
  DType built_in = DType::fp32;   // of the model's weights before the engine casts them
  bool turns_around = false;      // DualPipeV: the rank that holds the first stage holds the last one too
  std::function<void(std::int32_t)> load;  // first and last stage
  StagePasses passes;
};

/// One direction of a stage boundary, seen from one side.
struct StageLink {
  GroupId pair;
  void (ProgramBuilder::*move)(GroupId, Elements, DType, const Rule&, std::string_view);
};

/// Types and shapes of what is sent along, before the first activation.
void write_activation_description(ProgramBuilder& out, const PipelineRank& rank, const StageLink& link);

/// Start of training: tied weights, parameter broadcasts, the parameter count, the first handshake between
/// stages.
void write_pipeline_start(ProgramBuilder& out, const PipelineRank& rank);

/// One train_batch: 1F1B, gradient reductions, optimizer step, loss. The shapes travel in the first iteration
/// only.
void write_pipeline_iteration(ProgramBuilder& out, const PipelineRank& rank, bool is_first);

/// What follows the micro-batches: gradient reductions, optimizer step, loss.
void write_pipeline_end(ProgramBuilder& out, const PipelineRank& rank);

}  // namespace commlens::deepspeed
