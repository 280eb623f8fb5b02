#include "commlens/frameworks/deepspeed/zero3.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/session.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"
#include "commlens/frameworks/deepspeed/zero3_gathers.hpp"
#include "commlens/frameworks/deepspeed/zero3_modules.hpp"
#include "commlens/frameworks/deepspeed/zero3_reductions.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_init_broadcast{"zero3.broadcast_parameter_again",
                            k_source<"runtime/zero/partition_parameters.py:1011 _zero_init_param">};
const Rule k_start_gather{"zero3.start_gather", k_source<"runtime/zero/stage3.py:1112 "
                                                         "create_reduce_and_remove_grad_hooks">};
const Rule k_persistent{"zero3.persistent_parameter_gather",
                        k_source<"runtime/zero/partition_parameters.py:1766 _allgather_params_coalesced">};
const Rule k_trace{"zero3.trace_check", k_source<"runtime/zero/utils.py:72 get_lst_from_rank0">};
const Rule k_overflow{"zero3.overflow_flag", k_source<"runtime/zero/stage3.py:2155 has_overflow">};
const Rule k_overflow_mp{"zero3.overflow_flag_model_parallel",
                         k_source<"runtime/zero/stage3.py:2155 has_overflow">};
const Rule k_norm{"zero3.norm", k_source<"runtime/zero/stage3.py:1759 get_grad_norm_direct">};
const Rule k_norm_mp{"zero3.norm_model_parallel",
                     k_source<"runtime/zero/stage3.py:1759 get_grad_norm_direct">};
const Rule k_norm_experts{"zero3.norm_of_experts",
                          k_new_source<"runtime/zero/stage3.py:2475 get_grad_norm_direct">};
const Rule k_guarded_gather{"zero3.gathered_parameters",
                            k_new_source<"runtime/zero/partition_parameters.py:2440 GatheredParameters">};
const Rule k_guarded_broadcast{"zero3.gathered_parameters_broadcast",
                               k_new_source<"runtime/zero/partition_parameters.py:2560 GatheredParameters">};
const Rule k_guarded_check{"zero3.gathered_parameters_check",
                           k_new_source<"runtime/zero/partition_parameters.py:2495 GatheredParameters">};

/// One rank of a ZeRO-3 run from start to end.
class Zero3Run {
 public:
  Zero3Run(ProgramBuilder& out, const EngineRank& rank)
      : out_(out),
        rank_(rank),
        job_(*rank.job),
        own_(options(job_)),
        tree_(*rank.tree),
        leaves_(leaf_modules(tree_, job_)),
        is_leaf_(tree_.modules.size(), false),
        gathers_(out, rank),
        coordinator_(rank.parameters, hooked_modules(tree_, leaves_), job_),
        passes_(out, tree_, options_of_passes(), rank.messages),
        reductions_(out, rank) {
    if (!rank.zero3_computes) {
      passes_.leave_out_computing();
    }
    for (const std::size_t leaf : leaves_) {
      is_leaf_[leaf] = true;
    }
    coordinator_.gather = [this](const std::vector<std::size_t>& set) { gathers_.write(set); };
    coordinator_.on_release = [this](std::size_t parameter) { gathers_.keep_copy(parameter); };
    coordinator_.on_check = [this](std::int64_t numbers) { write_check(out_, numbers, k_trace); };
    hooks_ = {.fetch = [this](std::size_t module, bool is_recomputed) { fetch(module, is_recomputed); },
              .release = [this](std::size_t module,
                                bool is_recomputed) { coordinator_.release(module, pass(is_recomputed)); },
              .gradient =
                  [this](std::size_t parameter) {
                    if (!own_.coalesces_reductions) {
                      reductions_.add(parameter);
                    }
                  }};
  }

  Program init() {
    out_.set_phase(Phase::init);
    if (!own_.zero_init) {
      write_parameter_broadcasts(out_, rank_);
    }
    for (const LocalParameter& parameter : rank_.parameters) {
      write_parameter_broadcast(out_, {sharing_group(rank_, parameter), GroupRank{0}}, parameter,
                                k_init_broadcast, parameter.name);
    }
    for (const OptimizerGroup& group : optimizer_groups(rank_)) {
      for (const LocalParameter& parameter : group.parameters) {
        out_.all_gather(sharing_group(rank_, parameter), {shard(parameter)}, job_.train.dtype, k_start_gather,
                        parameter.name);
      }
    }
    return out_.take();
  }

  const std::string& refusal() const { return gathers_.refusal(); }

  /// All that the next iteration depends on.
  using State = std::pair<Zero3Coordinator::State, std::vector<bool>>;
  State state() const { return {coordinator_.state(), gathers_.copies()}; }

  Program iteration(std::int64_t number) {
    if (is_in(own_.evaluated_before, number)) {
      write_evaluation();
    }
    if (!own_.gathered.modules.empty()) {
      write_gathered_parameters();
    }
    if (is_in(own_.skipped.iterations, number)) {
      write_iteration(skipping_passes(), number);
    } else {
      write_iteration(passes_, number);
    }
    if (own_.saves_after == number) {
      write_checkpoint();
    }
    return out_.take();
  }

 private:
  static bool is_in(const std::vector<std::int64_t>& numbers, std::int64_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }

  PassOptions options_of_passes() const {
    PassOptions passes = pass_options(job_);
    passes.leaves = leaves_;
    passes.decays_apart = own_.weight_decay_groups;
    return passes;
  }

  PassRunner& skipping_passes() {
    if (!skipping_) {
      PassOptions passes = options_of_passes();
      passes.skipped_block = own_.skipped.block;
      skipping_.emplace(out_, tree_, passes, rank_.messages);
    }
    return *skipping_;
  }

  std::int64_t shard(const LocalParameter& parameter) const { return shard_of(rank_, parameter); }

  Zero3Coordinator::Pass pass(bool is_recomputed) const {
    using Pass = Zero3Coordinator::Pass;
    return is_recomputed ? Pass::recompute : is_backward_ ? Pass::backward : Pass::forward;
  }

  void write_iteration(PassRunner& passes, std::int64_t number) {
    for (std::int64_t micro_batch = 0; micro_batch < job_.train.micro_batches; ++micro_batch) {
      if (rank_.before_forward) {
        rank_.before_forward(number, static_cast<std::int32_t>(micro_batch));
      }
      write_micro_batch(passes, static_cast<std::int32_t>(micro_batch));
    }
    if (own_.coalesces_reductions) {
      write_coalesced_reductions();
    }
    write_optimizer_step(is_in(own_.overflows_in, number));
  }

  void write_micro_batch(PassRunner& passes, std::int32_t micro_batch) {
    out_.set_phase(Phase::forward, micro_batch);
    write_forward(passes, true);
    out_.set_phase(Phase::backward, micro_batch);
    is_backward_ = true;
    passes.start_backward();
    passes.end_backward(hooks_);
    coordinator_.before_last_reduction();
    out_.set_waiting(Waiting::later);
    reductions_.finish();
    coordinator_.end_backward();
    is_backward_ = false;
    out_.set_waiting(Waiting::at_once);
  }

  /// The gradients of all micro-batches, by parameter group. Source: runtime/engine.py:3327 of 0.19.8.
  void write_coalesced_reductions() {
    std::map<std::string_view, std::size_t> rows;
    for (std::size_t row = 0; row < rank_.parameters.size(); ++row) {
      rows[rank_.parameters[row].name] = row;
    }
    for (const OptimizerGroup& group : optimizer_groups(rank_)) {
      for (const LocalParameter& parameter : group.parameters) {
        reductions_.add(rows.at(parameter.name));
      }
    }
    reductions_.finish();
    out_.set_waiting(Waiting::at_once);
  }

  void write_forward(PassRunner& passes, bool trains) {
    coordinator_.start_forward(trains);
    out_.set_waiting(Waiting::later);
    passes.forward(hooks_);
  }

  void write_evaluation() {
    out_.set_phase(Phase::other);
    write_forward(passes_, false);
    out_.set_waiting(Waiting::at_once);
    coordinator_.end_evaluation();
  }

  /// A module waits for its own parameters, not for those that are fetched ahead.
  void fetch(std::size_t module, bool is_recomputed) {
    coordinator_.fetch(module, pass(is_recomputed));
    for (const std::size_t parameter :
         is_leaf_[module] ? tree_.parameters_below(module) : tree_.modules[module].parameters) {
      gathers_.wait_for(parameter);
    }
  }

  void write_optimizer_step(bool overflows) {
    out_.set_phase(Phase::optimizer);
    const bool has_model_group = rank_.model_ranks > 1;
    if (job_.train.dtype == DType::fp16) {
      write_overflow_flag(out_, rank_.groups.data, k_overflow);
      if (has_model_group) {
        write_overflow_flag(out_, rank_.groups.model, k_overflow_mp);
      }
    }
    coordinator_.step();
    gathers_.forget_waiting();
    if (overflows) {
      return;
    }
    gathers_.drop_copies();
    const bool is_spread = rank_.groups.shard_ranks > rank_.groups.data_ranks;
    const bool adds_model_ranks = has_model_group && (!is_spread || behaviour(job_).adds_spread_norms_again);
    const DType norm = own_.offloads_optimizer ? DType::fp32 : DType::fp64;
    for (const OptimizerGroup& group : optimizer_groups(rank_)) {
      for (std::int64_t i = 0; i < sub_groups(group.parameters); ++i) {
        out_.all_reduce(group.ranks, {1}, norm, k_norm, "gradient norm");
        if (adds_model_ranks) {
          out_.all_reduce(rank_.groups.model, {1}, norm, k_norm_mp, "gradient norm");
        }
        if (group.is_expert && job_.layout.ep > 1) {
          out_.all_reduce(rank_.groups.experts, {1}, norm, k_norm_experts, "gradient norm of experts");
        }
      }
    }
    write_update();
    write_persistent();
  }

  void write_persistent() {
    coordinator_.keep_persistent();
    for (const std::size_t index : coordinator_.persistent()) {
      const LocalParameter& parameter = rank_.parameters[index];
      if (sharing_ranks(rank_, parameter) > 1) {
        out_.all_gather(sharing_group(rank_, parameter), {shard(parameter)}, job_.train.dtype, k_persistent,
                        parameter.name);
      }
    }
  }

  /// The state of the optimizer is written from shards alone: parameters are released, and the persistent
  /// ones gathered again. Source: runtime/zero/stage3.py:3573 of 0.19.6.
  void write_checkpoint() {
    deepspeed::write_checkpoint(out_, rank_, [this] {
      coordinator_.step();
      write_persistent();
    });
  }

  /// Parameters gathered for the client, and what it changed given to all.
  void write_gathered_parameters() {
    out_.set_phase(Phase::other);
    for (const std::size_t row : guarded_parameters()) {
      const LocalParameter& parameter = rank_.parameters[row];
      if (coordinator_.take_away(row) && sharing_ranks(rank_, parameter) > 1) {
        out_.all_gather(sharing_group(rank_, parameter), {shard(parameter)}, job_.train.dtype,
                        k_guarded_gather, parameter.name);
      }
    }
    if (!own_.gathered.modifier_rank) {
      if (own_.has_sanity_checks && behaviour(job_).has_gathered_check) {
        out_.set_reduction(Reduction::max);
        const LocalParameter& first = rank_.parameters[guarded_parameters().front()];
        out_.all_reduce(sharing_group(rank_, first), {1}, DType::int64, k_guarded_check);
        out_.set_reduction(Reduction::sum);
      }
      return;
    }
    for (const std::size_t row : guarded_parameters()) {
      const LocalParameter& parameter = rank_.parameters[row];
      const Rooted from{sharing_group(rank_, parameter), GroupRank{*own_.gathered.modifier_rank}};
      write_parameter_broadcast(out_, from, parameter, k_guarded_broadcast, parameter.name);
    }
  }

  /// Each once, however many of the modules it is below. Source: partition_parameters.py:2444
  /// GatheredParameters of 0.19.8.
  std::vector<std::size_t> guarded_parameters() const {
    std::set<std::size_t> rows;
    for (std::size_t row = 0; row < tree_.modules.size(); ++row) {
      if (std::find(own_.gathered.modules.begin(), own_.gathered.modules.end(), tree_.modules[row].name) !=
          own_.gathered.modules.end()) {
        const std::vector<std::size_t> below = tree_.parameters_below(row);
        rows.insert(below.begin(), below.end());
      }
    }
    return {rows.begin(), rows.end()};
  }

  void write_update() {
    std::int64_t count = 0;
    for (const LocalParameter& parameter : rank_.parameters) {
      count += parameter.is_trainable ? shard(parameter) : 0;
    }
    ModelWork(out_).optimizer({count});
  }

  /// Source: runtime/zero/stage3.py:903 _create_fp16_sub_groups.
  std::int64_t sub_groups(const LocalParameters& group) const {
    std::int64_t count = 0;
    std::int64_t sum = 0;
    for (const LocalParameter& parameter : group) {
      sum += shard(parameter);
      if (sum >= own_.sub_group_size) {
        ++count;
        sum = 0;
      }
    }
    return count + (sum > 0 ? 1 : 0);
  }

  ProgramBuilder& out_;
  const EngineRank& rank_;
  const Job& job_;
  const Options& own_;
  const ModelTree& tree_;
  std::vector<std::size_t> leaves_;
  std::vector<bool> is_leaf_;  // by module
  Zero3Gathers gathers_;
  Zero3Coordinator coordinator_;
  PassRunner passes_;
  std::optional<PassRunner> skipping_;
  Zero3Reductions reductions_;
  PassHooks hooks_;
  bool is_backward_ = false;
};

}  // namespace

Zero3Programs write_zero3(ProgramBuilder& out, const EngineRank& rank, std::int64_t period) {
  constexpr int longest_transient = 64;  // measured runs repeat from iteration 1 or 2 on
  Zero3Run run(out, rank);
  Zero3Programs programs;
  programs.init = run.init();
  const std::int64_t special = last_special_iteration(*rank.job);
  Zero3Run::State start;
  std::int64_t next = 0;
  for (; next <= special + longest_transient; ++next) {
    programs.iterations.push_back(run.iteration(next));
    const Zero3Run::State end = run.state();
    if (next > special && end == start) {
      break;
    }
    start = end;
  }
  for (std::int64_t more = 1; more < period; ++more) {
    programs.iterations.push_back(run.iteration(next + more));
  }
  programs.refusal = run.refusal();
  return programs;
}

}  // namespace commlens::deepspeed
