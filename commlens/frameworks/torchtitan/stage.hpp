#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "commlens/frameworks/torch/stage.hpp"
#include "commlens/frameworks/torchtitan/behaviour.hpp"
#include "commlens/frameworks/torchtitan/modules.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::torchtitan {

/// A stage of one of torchtitan's decoders. Its activations are typed by spmd_types, whose redistributions
/// are the messages inside the modules (docs/frameworks/torchtitan.md).
class Stage : public pytorch::Stage {
 public:
  /// `stage` of `stages`. `out` and `groups` outlive it.
  Stage(ProgramBuilder& out, const Groups& groups, std::int64_t stage, std::int64_t stages);

  void forward() override;
  void backward() override;
  const std::vector<pytorch::Module>& modules() const override { return modules_; }
  Elements updated() const override { return shards_.updated(); }
  pytorch::ShardedStage* shards() override { return &shards_; }
  Elements boundary() const override;
  DType activation_dtype() const override { return dtype_; }
  void attach(pytorch::DataParallel* /*ddp*/) override {}

 private:
  void forward_messages(const pytorch::Module& module);
  void backward_messages(const pytorch::Module& module);
  /// Computed again, it sends nothing that is saved.
  void forward_block(std::int64_t layer, bool is_recomputed);
  void backward_block(std::int64_t layer);
  void recompute(std::int64_t layer);
  void forward_attention(bool is_recomputed);
  void exchange_keys(bool is_recomputed);
  void reduce_keys();
  void backward_attention();
  void forward_mixture(bool is_recomputed);
  void backward_mixture_outputs();
  void backward_mixture();
  void exchange_tokens();
  void loss();
  void chunked_loss(std::size_t output);
  void reduce_loss(std::int64_t tokens);
  /// What goes from a module that tensor ranks share: to parts of the sequence, or summed; and the gradient
  /// of what goes into one.
  void leave(const Rule& rule, bool is_saved = false);
  void gather();
  bool saves_scattered(bool is_recomputed) const;
  bool has_shared_experts() const { return job_.model.shared_experts > 0; }
  bool is_chunked() const { return options_.loss_chunks > 0; }
  std::int64_t keys() const;
  std::int64_t values() const;

  ProgramBuilder& out_;
  const Groups& groups_;
  const Job& job_;
  const Options& options_;
  const Behaviour& behaviour_;
  std::vector<pytorch::Module> modules_;
  pytorch::ShardedStage shards_;
  DType dtype_;          // of activations
  std::int64_t tokens_;  // of a micro-batch on one data and context rank
  bool has_tensor_;
  bool is_sequence_;
  ModelWork work_;
};

}  // namespace commlens::torchtitan
