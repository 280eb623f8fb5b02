#pragma once
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "commlens/frameworks/deepspeed/model_tree.hpp"
#include "commlens/frameworks/deepspeed/passes.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::deepspeed {

/// What happens at the steps of a pass, beside computing. Null: nothing.
struct PassHooks {
  std::function<void(std::size_t module, bool is_recomputed)> fetch;
  std::function<void(std::size_t module, bool is_recomputed)> release;
  std::function<void(std::size_t parameter)> gradient;
};

/// Messages of modules, at `before`, `inside` and `after` of PassStep; those of a pass that computes a block
/// again are those of a forward pass.
using ModuleMessages = std::function<void(const ModelModule& module, PassStep::Kind place, bool is_backward)>;

/// Writes the passes of a rank: what its modules compute and send.
class PassRunner {
 public:
  /// `out` and `tree` outlive it.
  PassRunner(ProgramBuilder& out, const ModelTree& tree, const PassOptions& options, ModuleMessages messages);

  /// What modules compute is written by the client, not here.
  void leave_out_computing() { computes_ = false; }
  void forward(const PassHooks& hooks = {});
  /// Begins a backward pass.
  void start_backward();
  /// Goes on until the gradient of the parameter of that name is complete; nothing where it is already.
  void backward_until(std::string_view parameter, const PassHooks& hooks = {});
  void end_backward(const PassHooks& hooks = {});

 private:
  void run(const PassStep& step, bool is_backward, const PassHooks& hooks);
  void compute(Leaf leaf, bool is_backward);

  ProgramBuilder& out_;
  const ModelTree& tree_;
  ModuleMessages messages_;
  ModelWork work_;
  std::vector<PassStep> forward_;
  std::vector<PassStep> backward_;
  std::size_t next_ = 0;  // of backward_
  bool is_recomputing_ = false;
  bool computes_ = true;
};

}  // namespace commlens::deepspeed
