// training_log and what follows it (training/training.py:2560).
#include "commlens/frameworks/megatron/source.hpp"
#include "commlens/frameworks/megatron/step.hpp"

namespace commlens::megatron {
namespace {

const Rule k_rate{"megatron.step_statistic", k_new_source<"training/utils/common_utils.py:286">};
const Rule k_parameter_norm{"megatron.parameter_norm", k_new_source<"training/utils/common_utils.py:171">};
const Rule k_metric{"megatron.moe_metric", k_new_source<"core/transformer/moe/moe_logging.py:277">};
const Rule k_mtp_metric{"megatron.mtp_metric",
                        k_new_source<"core/transformer/multi_token_prediction.py:410">};
const Rule k_elapsed_barrier{"megatron.timer_barrier", k_new_source<"core/timers.py:164">};
const Rule k_timers{"megatron.timers", k_new_source<"core/timers.py:314">};
const Rule k_signals{"megatron.signals", k_new_source<"training/dist_signal_handler.py:45">};
const Rule k_time_limit{"megatron.time_limit", k_new_source<"training/training.py:3300">};

/// Sums of squares of sharded, and of gathered, parameters of dense and of expert layers, then over all.
void write_parameter_norm(const StageContext& stage) {
  const MegatronGroups& groups = stage.groups;
  const auto sum = [&](GroupId group) {
    stage.out.all_reduce(group, {1}, DType::fp32, k_parameter_norm, "parameter norm");
  };
  sum(groups.dp_cp);
  sum(groups.dp_cp);
  sum(groups.edp);
  sum(groups.edp);
  sum(stage.out.groups.over(Axis::self, {}));
  sum(groups.mp);
  if (stage.shares.splits_experts && stage.job.layout.ep * stage.shares.expert_tp != stage.job.layout.tp) {
    sum(groups.tp_ep_pp);
  }
}

/// The metrics of experts.
class MetricWriter {
 public:
  explicit MetricWriter(const StageContext& stage) : stage_(stage) {}

  void write() {
    const std::vector<std::string>& kinds = stage_.options.balancing;
    if (stage_.behaviour.has_one_balance) {
      // Before 0.12 the tracker's own order: the router's z loss comes first.
      const bool is_z_first = stage_.behaviour.idle_metrics != IdleMetrics::stages;
      if (is_z_first) {
        z_loss();
      }
      if (kinds.front() == "aux_loss" || kinds.front() == "seq_aux_loss") {
        balancing(kinds.front(), stage_.groups.tp_cp, false);
      }
      if (!is_z_first) {
        z_loss();
      }
      return;
    }
    // The name of a single kind is searched for as a part of it (training.py:2762).
    const bool is_single = kinds.size() == 1;
    const auto is_named = [&](std::string_view kind) {
      for (const std::string& one : kinds) {
        if (one == kind || (is_single && one.find(kind) != std::string::npos)) {
          return true;
        }
      }
      return false;
    };
    if (is_named("aux_loss")) {
      balancing("aux_loss", stage_.groups.tp_cp, false);
    }
    if (is_named("seq_aux_loss")) {
      balancing("seq_aux_loss", stage_.groups.tp_cp, false);
    }
    if (is_named("global_aux_loss")) {
      balancing("global_aux_loss", stage_.groups.tp_dp_cp, true);
    }
    z_loss();
  }

 private:
  using AveragedMetrics = Behaviour::AveragedMetrics;
  using IdleMetrics = Behaviour::IdleMetrics;

  double coefficient_of(std::string_view kind) const {
    for (std::size_t at = 0; at < stage_.options.balancing.size(); ++at) {
      if (stage_.options.balancing[at] == kind && at < stage_.options.balancing_coefficients.size()) {
        return stage_.options.balancing_coefficients[at];
      }
    }
    return 0;
  }

  void balancing(std::string_view kind, GroupId group, bool spans_data) {
    const bool is_active = coefficient_of(kind) != 0;
    const IdleMetrics idle = stage_.behaviour.idle_metrics;
    if (!is_active && idle == IdleMetrics::none) {
      return;
    }
    const bool is_recorded = (is_active || idle == IdleMetrics::stages_and_tokens) && stage_.moe_layers() > 0;
    is_idle_ = !is_active;
    over_stages();
    if (is_recorded && !is_alone(group)) {
      stage_.out.all_reduce(group, elements(), DType::fp32, k_metric, "expert metric");
    }
    average_of_all(is_recorded, is_active && spans_data);
    is_idle_ = false;
  }

  void z_loss() {
    if (!stage_.options.has_z_loss) {
      return;
    }
    over_stages();
    if (stage_.behaviour.averages_z_loss && stage_.moe_layers() > 0) {
      average(stage_.groups.tp_dp_cp);
    }
    average_of_all(false, false);
  }

  /// Older releases give their tracker no group where a rank is alone in it.
  bool is_alone(GroupId group) const {
    const Behaviour& release = stage_.behaviour;
    return release.has_one_balance && !release.sums_without_coefficient &&
           stage_.out.tables().groups.size(group) == 1;
  }

  Elements elements() const {
    const bool has_mtp = !is_idle_ || stage_.behaviour.counts_idle_mtp_metrics;
    return {stage_.job.model.layers + (has_mtp ? stage_.options.mtp_layers : 0)};
  }
  void over_stages() {
    stage_.out.all_reduce(stage_.groups.pp, elements(), DType::fp32, k_metric, "expert metric");
  }
  void average(GroupId group) {
    stage_.out.set_reduction(Reduction::avg);
    stage_.out.all_reduce(group, elements(), DType::fp32, k_metric, "expert metric");
    stage_.out.set_reduction(Reduction::sum);
  }

  void average_of_all(bool is_recorded, bool spans_data) {
    switch (stage_.behaviour.averaged_metrics) {
      case AveragedMetrics::none:
        break;
      case AveragedMetrics::data_unless_in:
        if (is_recorded && !spans_data) {
          average(stage_.groups.dp);
        }
        break;
      case AveragedMetrics::data:
        if (!spans_data) {
          average(stage_.groups.dp);
        }
        break;
      case AveragedMetrics::data_and_context:
        if (!spans_data) {
          average(stage_.groups.dp_cp);
        }
        break;
      case AveragedMetrics::all_over_data_and_context:
        average(stage_.groups.dp_cp);
        break;
    }
  }

  const StageContext& stage_;
  bool is_idle_ = false;  // the metric at work has a coefficient of 0
};

void write_mtp_metrics(const StageContext& stage) {
  const Elements layers{stage.options.mtp_layers};
  stage.out.set_reduction(Reduction::avg);
  stage.out.all_reduce(stage.groups.dp_cp, layers, DType::fp32, k_mtp_metric, "loss of predicted tokens");
  stage.out.set_reduction(Reduction::sum);
  for (int values = 0; stage.behaviour.measures_mtp_accuracy && values < 2; ++values) {
    stage.out.all_reduce(stage.groups.dp_cp, layers, DType::fp32, k_mtp_metric,
                         "accuracy of predicted tokens");
  }
}

void write_timers(const StageContext& stage) {
  constexpr std::int64_t names_of_level1 = 12;
  constexpr std::int64_t all_names = 24;
  const int level = stage.options.timing_level;
  stage.out.barrier(stage.groups.world, k_elapsed_barrier);
  stage.out.barrier(stage.groups.world, k_elapsed_barrier);
  if (stage.behaviour.gathers_timers || level > 0) {
    const bool has_all = stage.behaviour.gathers_timers || level > 1;
    stage.out.all_gather(stage.groups.world, {has_all ? all_names : names_of_level1}, DType::fp32, k_timers,
                         "timers");
  }
}

}  // namespace

void write_log(const StageContext& stage, bool is_logged) {
  stage.out.set_phase(Phase::other);
  if (stage.options.logs_params_norm) {
    write_parameter_norm(stage);
  }
  if (stage.behaviour.agrees_on_step) {
    stage.out.set_reduction(Reduction::max);
    stage.out.all_reduce(stage.groups.mp, {1}, DType::fp32, k_rate, "learning rate");
    stage.out.set_reduction(Reduction::sum);
  }
  if (stage.job.model.experts > 0) {
    MetricWriter(stage).write();
  }
  if (stage.mtp_layers() > 0) {
    write_mtp_metrics(stage);
  }
  if (is_logged) {
    write_timers(stage);
  }
}

void write_time_limit(const StageContext& stage) {
  if (stage.options.exit_minutes > 0) {
    stage.out.set_reduction(Reduction::max);
    stage.out.all_reduce(stage.groups.world, {1}, DType::int32, k_time_limit, "time limit");
    stage.out.set_reduction(Reduction::sum);
  }
}

void write_exit_checks(const StageContext& stage) {
  if (stage.options.handles_signals) {
    stage.out.all_gather(stage.groups.world, {1}, DType::int32, k_signals, "signals");
  }
  write_time_limit(stage);
}

}  // namespace commlens::megatron
