#include "commlens/frameworks/huggingface/writer.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/huggingface/modules.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/rule_names.hpp"
#include "commlens/frameworks/huggingface/schedule.hpp"
#include "commlens/frameworks/huggingface/states.hpp"
#include "commlens/frameworks/huggingface/tensor_plan.hpp"
#include "commlens/frameworks/torch/ddp.hpp"
#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/update.hpp"

namespace commlens::huggingface {
namespace {

using PartKind = pytorch::Module::Kind;

/// Trainer.train(), or a plain loop over a model that is split by its plan.
class JobWriter {
 public:
  explicit JobWriter(Plan& plan)
      : out_(plan),
        job_(plan.job),
        own_(options(plan.job)),
        torch_(pytorch::options(plan.job)),
        groups_(out_, plan.job),
        modules_(model_modules(plan.job)),
        model_(out_, groups_),
        work_(out_),
        events_(plan.job) {
    if (torch_.fsdp.is_used) {
      shards_ = std::make_unique<pytorch::ShardedStage>(out_, groups_, modules_,
                                                        shard_units(job_, modules_, groups_.mesh()));
    }
    if (torch_.ddp.is_used) {
      ddp_.emplace(out_, groups_, modules_);
    }
  }

  StagePrograms write() {
    StagePrograms programs;
    out_.set_phase(Phase::init);
    programs.init = initialisation(true);
    if (loads_on_rank0(job_)) {
      programs.init_of_other_data_ranks = initialisation(false);
      programs.data_row = groups_.shard_ranks;
    }
    const std::int64_t cold = ddp_ ? 4 : 2;
    for (std::int64_t iteration = 0; iteration < cold; ++iteration) {
      programs.iterations.push_back(iteration_with(events_.at(iteration)));
    }
    programs.iterations.push_back(iteration_with(events_.usual()));  // it repeats
    for (const EventRow& row : is_trainer() ? events_.others(cold) : std::vector<EventRow>()) {
      programs.others.push_back({static_cast<Iteration>(row.first), row.every, iteration_with(row.events)});
    }
    return programs;
  }

 private:
  bool is_trainer() const { return own_.loop == Loop::trainer; }
  bool has_peers() const { return job_.layout.dp > 1; }

  Program initialisation(bool is_rank0) {
    if (loads_on_rank0(job_)) {
      load_states(out_, groups_, modules_, is_rank0);
    }
    if (ddp_) {
      ddp_->initialise();
    }
    if (shards_ && torch_.fsdp.version == 1 && torch_.fsdp.sync_module_states) {
      shards_->broadcast_states();
    }
    return out_.take();
  }

  /// Of one number from each rank.
  void gather_number(DType dtype, const Rule& rule, std::string_view tag) {
    out_.all_gather(groups_.data, {1}, dtype, rule, tag);
  }

  Program iteration_with(const StepEvents& events) {
    out_.set_phase(Phase::other);
    if (is_trainer() && has_peers() && own_.averages_tokens) {
      gather_number(DType::int64, k_count_items, "tokens with labels");
    }
    const auto last = static_cast<std::int32_t>(job_.train.micro_batches - 1);
    for (std::int32_t micro_batch = 0; micro_batch <= last; ++micro_batch) {
      const bool reduces = micro_batch == last || own_.syncs_each_batch;
      if (shards_) {
        shards_->set({.reduces = reduces, .all_reduces = reduces});
      }
      out_.set_phase(Phase::forward, micro_batch);
      if (ddp_) {
        ddp_->before_forward(reduces);
      }
      forward();
      out_.set_phase(Phase::backward, micro_batch);
      backward();
      if (is_trainer() && has_peers() && own_.counts_input) {
        out_.set_phase(Phase::other, micro_batch);
        gather_number(DType::int64, k_count_input, "input tokens");
      }
    }
    out_.set_phase(Phase::optimizer);
    pytorch::clip_gradients(out_, groups_, modules_);
    work_.optimizer(updated());
    if (is_trainer()) {
      out_.set_phase(Phase::other);
      end_of_step(events);
    }
    return out_.take();
  }

  void end_of_step(const StepEvents& events) {
    has_new_flops_ = true;
    for (const auto& [logs, saves] :
         {std::pair(events.logs, events.saves), std::pair(events.logs_at_end, events.saves_at_end)}) {
      if (logs) {
        gather_number(DType::fp32, k_log_loss, "loss");
        gather_flops();
      }
      if (saves) {
        gather_flops();
        save();
      }
    }
    if (events.ends) {
      gather_flops();
    }
  }
  /// Of what was counted since the last time: a floating-point number, or the integer 0 that it was reset to.
  void gather_flops() {
    gather_number(std::exchange(has_new_flops_, false) ? DType::fp32 : DType::int64, k_log_flops,
                  "floating-point operations");
  }
  void save() {
    if (shards_ && own_.fsdp.saves_whole && torch_.fsdp.version == 2) {
      save_states(out_, groups_, modules_);
    } else if (shards_ && own_.fsdp.saves_whole) {
      save_flat_states(out_, shard_units(job_, modules_, groups_.mesh()));
    }
  }

  void forward_module(const pytorch::Module& module) {
    switch (module.kind) {
      case PartKind::embedding:
        model_.forward_embedding();
        return;
      case PartKind::block:
        model_.forward_block(module.layer);
        return;
      case PartKind::output:
        model_.forward_head();
        return;
      default:
        return;
    }
  }
  void backward_module(const pytorch::Module& module) {
    switch (module.kind) {
      case PartKind::embedding:
        model_.backward_embedding();
        return;
      case PartKind::block:
        model_.backward_block(module.layer);
        return;
      case PartKind::output:
        model_.backward_head();
        return;
      default:
        return;
    }
  }

  void forward() {
    if (shards_) {
      shards_->begin_forward();
    }
    for (std::size_t at = 0; at < modules_.size(); ++at) {
      if (shards_) {
        shards_->before_forward(at);
      }
      forward_module(modules_[at]);
      if (shards_) {
        shards_->after_forward(at);
      }
    }
    if (shards_) {
      shards_->end_forward();
    }
  }

  void backward() {
    if (shards_) {
      shards_->begin_backward();
    }
    for (std::size_t at = modules_.size(); at-- > 0;) {
      if (shards_) {
        shards_->before_backward(at);
      }
      backward_module(modules_[at]);
      if (shards_) {
        shards_->after_backward(at);
      }
      if (ddp_) {
        ddp_->after_backward(at);
      }
    }
    if (shards_) {
      shards_->end_backward();
    }
    if (ddp_) {
      ddp_->end_backward();
    }
  }

  Elements updated() const {
    if (shards_) {
      return shards_->updated();
    }
    std::int64_t elements = 0;
    for (const pytorch::Module& module : modules_) {
      for (const pytorch::Parameter& parameter : module.parameters) {
        elements += parameter.count();
      }
    }
    return {elements};
  }

  ProgramBuilder out_;
  const Job& job_;
  const Options& own_;
  const pytorch::Options& torch_;
  pytorch::Groups groups_;
  std::vector<pytorch::Module> modules_;
  TensorModel model_;
  ModelWork work_;
  Events events_;
  bool has_new_flops_ = true;
  std::unique_ptr<pytorch::ShardedStage> shards_;
  std::optional<pytorch::DataParallel> ddp_;
};

}  // namespace

Result<std::vector<StagePrograms>> write_job(const Job& /*job*/, Plan& plan) {
  return std::vector{JobWriter(plan).write()};
}

}  // namespace commlens::huggingface
