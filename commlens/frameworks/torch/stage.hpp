#pragma once
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/modules.hpp"

namespace commlens::pytorch {

/// One pipeline stage (of the whole model, without pipeline) as a rank runs it: the messages inside its
/// modules, those of its shards around them, and what it computes.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  /// A pass of one micro-batch. The forward pass of the last stage ends with the loss.
  virtual void forward() = 0;
  virtual void backward() = 0;

  virtual const std::vector<Module>& modules() const = 0;
  /// Elements of parameters that this rank updates.
  virtual Elements updated() const = 0;
  /// Null without FSDP.
  virtual ShardedStage* shards() = 0;
  /// Elements of what it sends to the next stage for a micro-batch, and their type.
  virtual Elements boundary() const = 0;
  virtual DType activation_dtype() const = 0;
  /// Gradients are reduced by DDP, which outlives the stage.
  virtual void attach(DataParallel* ddp) = 0;
};

}  // namespace commlens::pytorch
