#include "commlens/frameworks/megatron/step.hpp"

#include "commlens/frameworks/megatron/source.hpp"
#include "commlens/plan/model_work.hpp"

namespace commlens::megatron {
namespace {

const Rule k_replicated{"megatron.sequence_parallel_norm_gradients",
                        k_new_source<"core/distributed/finalize_model_grads.py:416">};
const Rule k_table{"megatron.tied_embedding_gradient",
                   k_new_source<"core/distributed/finalize_model_grads.py:258">};
const Rule k_bias{"megatron.expert_bias", k_new_source<"core/transformer/moe/moe_utils.py:1162">};
const Rule k_quantile{"megatron.moe_quantiles",
                      k_new_source<"core/distributed/finalize_model_grads.py:386 _update_router_qb_beta">};
const Rule k_token_count{"megatron.token_count",
                         k_new_source<"core/distributed/finalize_model_grads.py:686">};
const Rule k_rerun{"megatron.rerun_vote", k_new_source<"core/rerun_state_machine.py:269">};
const Rule k_overflow{"megatron.found_inf", k_new_source<"core/optimizer/optimizer.py:729">};
const Rule k_total_norm{"megatron.gradient_norm", k_new_source<"core/optimizer/clip_grads.py:132">};
const Rule k_shard_norm{"megatron.gradient_norm", k_new_source<"core/optimizer/clip_grads.py:129">};
const Rule k_norm_flag{"megatron.gradient_norm_flag", k_new_source<"core/optimizer/optimizer.py:316">};
const Rule k_zeros{"megatron.gradient_zeros", k_new_source<"core/optimizer/clip_grads.py:271">};
const Rule k_success{"megatron.step_success", k_new_source<"training/utils/common_utils.py:309">};
const Rule k_statistic{"megatron.step_statistic", k_new_source<"training/utils/common_utils.py:286">};
const Rule k_loss{"megatron.loss", k_new_source<"training/training.py:2547">};

/// One optimizer step of one stage.
class StepWriter {
 public:
  StepWriter(const StageContext& stage, GradientSync& gradients, ParameterShards* shards, StepKind kind)
      : stage_(stage), out_(stage.out), gradients_(gradients), shards_(shards), kind_(kind) {}

  void write() {
    if (stage_.has_script() && reruns()) {
      one(stage_.groups.world, DType::int32, k_rerun, "ranks that ask for another run");
    }
    stage_.level1_barrier();
    if (stage_.job.train.dtype == DType::fp16) {
      out_.set_reduction(Reduction::max);
      for (int optimizer = 0; optimizer < stage_.optimizers(); ++optimizer) {
        one(group(optimizer), DType::fp32, k_overflow, "overflow flag");
      }
      out_.set_reduction(Reduction::sum);
    }
    if (!kind_.overflows) {
      update();
    }
    if (stage_.has_script()) {
      statistics();
    }
  }

 private:
  void update() {
    stage_.level1_barrier();
    norms();
    zeros();
    for (int barrier = 0; barrier < 2; ++barrier) {
      stage_.level1_barrier();
    }
    ModelWork(out_).optimizer(gradients_.updated());
    if (stage_.is_distributed()) {
      stage_.level1_barrier();
    }
    gather();
  }

  void gather() {
    if (shards_ != nullptr) {
      shards_->step_ends();
    } else if (stage_.options.is_muon) {
      gradients_.gather_layers();
    } else if (stage_.is_distributed() && !gradients_.gathers_in_forward()) {
      gradients_.gather_updated(owners());
    }
  }

  bool reruns() const {
    const std::string& mode = stage_.options.rerun_mode;
    return mode.empty() ? stage_.behaviour.reruns_by_default : mode != "disabled";
  }

  void one(GroupId group, DType dtype, const Rule& rule, std::string_view tag) {
    out_.all_reduce(group, {1}, dtype, rule, tag);
  }

  /// The ranks that an optimizer's norm is taken over.
  GroupId group(int optimizer) const {
    if (stage_.options.is_muon) {
      return stage_.groups.world;
    }
    if (stage_.is_distributed()) {
      return stage_.groups.instance;
    }
    return optimizer == 0 ? stage_.groups.mp : stage_.groups.tp_ep_pp;
  }

  /// Distributed optimizers that have parameters here: each gathers the buckets of all.
  int owners() const {
    bool has_experts = false;
    for (const std::vector<ModuleParameter>& chunk : stage_.parameters) {
      for (const ModuleParameter& parameter : chunk) {
        has_experts |= parameter.is_expert;
      }
    }
    return has_experts ? 2 : 1;
  }

  /// All optimizers take one norm.
  bool shares_group() const { return stage_.is_distributed() || stage_.options.is_muon; }

  bool clips() const { return stage_.job.train.gradient_clipping > 0; }

  void norms() {
    const bool is_one = stage_.behaviour.takes_one_norm && shares_group();
    if (stage_.options.is_torch_fsdp2) {
      one(stage_.groups.dp_cp, DType::fp32, k_shard_norm, "gradient norm of shards");
    }
    if (stage_.behaviour.takes_one_norm || clips()) {
      for (int optimizer = 0; optimizer < (is_one ? 1 : stage_.optimizers()); ++optimizer) {
        one(group(optimizer), DType::fp32, k_total_norm, "gradient norm");
      }
    }
    if (stage_.behaviour.asks_for_mtp_norm && clips() && kind_.is_first) {
      out_.set_reduction(Reduction::max);
      const int asked = stage_.options.is_muon ? 1 : stage_.optimizers();
      for (int optimizer = 0; optimizer < asked; ++optimizer) {
        one(group(optimizer), DType::int32, k_norm_flag, "norms of their own");
      }
      out_.set_reduction(Reduction::sum);
    }
  }

  void zeros() {
    const bool is_one = stage_.optimizers() == 1 || shares_group();
    if (stage_.options.logs_zeros) {
      const bool is_exact = stage_.behaviour.counts_zeros_as_integers;
      for (int optimizer = 0; optimizer < (is_one ? 1 : stage_.optimizers()); ++optimizer) {
        one(group(optimizer), is_exact ? DType::int64 : DType::fp32, k_zeros, "zeros of gradients");
      }
    } else if (stage_.behaviour.counts_zeros_always && is_one) {
      one(group(0), DType::fp32, k_zeros, "zeros of gradients");
    }
  }

  void statistics() {
    out_.set_phase(Phase::other);
    if (stage_.behaviour.agrees_on_step) {
      out_.set_reduction(Reduction::min);
      one(stage_.groups.mp, DType::int32, k_success, "success of the step");
      out_.set_reduction(Reduction::max);
      one(stage_.groups.mp, DType::fp32, k_statistic, "gradient norm");
      if (stage_.options.logs_zeros) {
        one(stage_.groups.mp, DType::fp32, k_statistic, "zeros of gradients");
      }
      out_.set_reduction(Reduction::sum);
    }
    if (stage_.behaviour.reports_loss_once && stage_.is_last()) {
      out_.all_reduce(stage_.groups.dp_cp, {2}, DType::fp32, k_loss, "loss and tokens");
    }
  }

  const StageContext& stage_;
  ProgramBuilder& out_;
  GradientSync& gradients_;
  ParameterShards* shards_;
  StepKind kind_;
};

void write_replicated_gradients(const StageContext& stage, DType dtype) {
  std::int64_t count = 0;
  for (const std::vector<ModuleParameter>& chunk : stage.parameters) {
    for (const ModuleParameter& parameter : chunk) {
      count += parameter.is_summed ? parameter.count : 0;
    }
  }
  if (stage.job.layout.tp > 1 && count > 0) {
    stage.out.all_reduce(stage.groups.tp, {count}, dtype, k_replicated, "norm and bias gradients");
  }
}

}  // namespace

void write_final_gradients(const StageContext& stage, GradientSync& gradients) {
  ProgramBuilder& out = stage.out;
  stage.level1_barrier();
  gradients.finish();
  for (int barrier = 0; barrier < 2; ++barrier) {
    stage.level1_barrier();
  }
  write_replicated_gradients(stage, gradients.gradient_dtype());
  stage.level1_barrier();
  if (stage.has_tied_copy()) {
    out.all_reduce(stage.groups.embeddings,
                   {stage.job.model.vocab / stage.job.layout.tp * stage.job.model.hidden},
                   gradients.gradient_dtype(), k_table, "tied embedding gradient");
  }
  if (stage.options.has_expert_bias && stage.moe_layers() > 0) {
    // A buffer, which the model's dtype casts.
    out.all_reduce(stage.groups.tp_dp_cp, {stage.moe_layers() * stage.job.model.experts},
                   stage.job.train.dtype, k_bias, "tokens of experts");
  }
  if (stage.moe_layers() > 0 && stage.options.balancing.front() == "quantile_balancing") {
    out.set_reduction(Reduction::avg);
    out.all_reduce(stage.groups.dp_cp, {stage.moe_layers() * stage.job.model.experts}, DType::fp32,
                   k_quantile, "quantiles of experts");
    out.set_reduction(Reduction::sum);
  }
  if (stage.options.counts_tokens) {
    const GroupRank last{stage.job.layout.pp - 1};
    out.broadcast({stage.groups.pp, last}, {1}, DType::int32, k_token_count, "tokens of the batch");
    out.all_reduce(stage.behaviour.counts_tokens_with_cp ? stage.groups.dp_cp : stage.groups.dp, {1},
                   DType::int32, k_token_count, "tokens of the batch");
  }
}

void write_step(const StageContext& stage, GradientSync& gradients, ParameterShards* shards, StepKind kind) {
  StepWriter(stage, gradients, shards, kind).write();
}

}  // namespace commlens::megatron
