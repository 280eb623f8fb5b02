#include "commlens/frameworks/torch/writer.hpp"

#include <algorithm>
#include <optional>

#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/tree_stage.hpp"
#include "commlens/frameworks/torch/update.hpp"

namespace commlens::pytorch {
namespace {

/// The last rank whose inputs are exhausted, the highest of several.
Rank last_to_join(const std::vector<std::int64_t>& inputs) {
  const auto last = std::max_element(inputs.rbegin(), inputs.rend());
  return Rank{inputs.rend() - last - 1};
}

/// A job whose ranks all hold the whole model.
class SpmdWriter {
 public:
  explicit SpmdWriter(Plan& plan)
      : out_(plan),
        job_(plan.job),
        options_(options(plan.job)),
        groups_(out_, plan.job),
        stage_(out_, groups_, 0, 1),
        work_(out_) {
    if (options_.ddp.is_used) {
      ddp_.emplace(out_, groups_, stage_.modules());
      stage_.attach(&*ddp_);
    }
  }

  StagePrograms write() {
    StagePrograms programs;
    out_.set_phase(Phase::init);
    programs.init = initialisation(true);
    if (scatters_weights(job_)) {
      programs.init_of_other_tensor_ranks = initialisation(false);
    }
    for (std::int64_t iteration = 0; iteration < iterations(); ++iteration) {
      write_iteration();
      programs.iterations.push_back(out_.take());
    }
    if (!options_.ddp.join_inputs.empty()) {
      out_.set_phase(Phase::other);
      ddp_->end_of_join(last_to_join(options_.ddp.join_inputs));
      programs.iterations.push_back(out_.take());
      programs.iterations.push_back(out_.take());  // nothing follows
    }
    return programs;
  }

 private:
  /// Until they repeat.
  std::int64_t iterations() const {
    const std::vector<std::int64_t>& inputs = options_.ddp.join_inputs;
    if (!inputs.empty()) {
      return *std::max_element(inputs.begin(), inputs.end());
    }
    return options_.ddp.is_used ? 4 : 2;
  }

  Program initialisation(bool is_tensor_root) {
    if (scatters_weights(job_)) {
      scatter_weights(out_, groups_, stage_.modules(), is_tensor_root);
    }
    if (ddp_) {
      ddp_->initialise();
    }
    if (stage_.shards() != nullptr && options_.fsdp.version == 1 && options_.fsdp.sync_module_states) {
      stage_.shards()->broadcast_states();
    }
    return out_.take();
  }

  void write_iteration() {
    const auto last = static_cast<std::int32_t>(job_.train.micro_batches - 1);
    for (std::int32_t micro_batch = 0; micro_batch <= last; ++micro_batch) {
      const bool is_last = micro_batch == last;
      if (stage_.shards() != nullptr) {
        const Fsdp& fsdp = options_.fsdp;
        stage_.shards()->set({.reduces = is_last || fsdp.sync_each_micro_batch,
                              .all_reduces = is_last || fsdp.all_reduce_each_micro_batch,
                              .reshards = is_last || fsdp.reshard_after_backward});
      }
      out_.set_phase(Phase::forward, micro_batch);
      if (ddp_) {
        ddp_->before_forward(is_last || options_.ddp.accumulation_sync);
      }
      stage_.forward();
      out_.set_phase(Phase::backward, micro_batch);
      stage_.backward();
    }
    out_.set_phase(Phase::optimizer);
    clip_gradients(out_, groups_, stage_.modules());
    sum_in_optimizer(out_, groups_, stage_.modules());
    work_.optimizer(stage_.updated(), out_.job().train.dtype);  // states are of the parameters' type
  }

  ProgramBuilder out_;
  const Job& job_;
  const Options& options_;
  Groups groups_;
  TreeStage stage_;
  ModelWork work_;
  std::optional<DataParallel> ddp_;
};

}  // namespace

Result<std::vector<StagePrograms>> write_spmd(const Job& /*job*/, Plan& plan) {
  return std::vector{SpmdWriter(plan).write()};
}

}  // namespace commlens::pytorch
