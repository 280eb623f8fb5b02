#include "commlens/frameworks/deepspeed/zero3.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/session.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"
#include "commlens/frameworks/deepspeed/zero3_modules.hpp"
#include "commlens/frameworks/deepspeed/zero3_reductions.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::int64_t k_group_elements = 8000;  // that are quantised together, at most

const Rule k_init_broadcast{"zero3.broadcast_parameter_again",
                            k_source<"runtime/zero/partition_parameters.py:1011 _zero_init_param">};
const Rule k_start_gather{"zero3.start_gather", k_source<"runtime/zero/stage3.py:1112 "
                                                         "create_reduce_and_remove_grad_hooks">};
const Rule k_module_gather{"zero3.parameter_gather",
                           k_source<"runtime/zero/partitioned_param_coordinator.py:261 fetch_sub_module">};
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
const Rule k_fetch_all_reduce{"zero3.parameter_all_reduce",
                              k_new_source<"runtime/zero/partition_parameters.py:1419 all_gather_coalesced">};
const Rule k_quantized{"zero3.quantized_parameter_gather",
                       k_new_source<"runtime/zero/partition_parameters.py:1345 all_gather_coalesced">};
const Rule k_scales{"zero3.quantization_scales",
                    k_new_source<"runtime/zero/partition_parameters.py:1345 all_gather_coalesced">};
const Rule k_guarded_gather{"zero3.gathered_parameters",
                            k_new_source<"runtime/zero/partition_parameters.py:2440 GatheredParameters">};
const Rule k_guarded_broadcast{"zero3.gathered_parameters_broadcast",
                               k_new_source<"runtime/zero/partition_parameters.py:2560 GatheredParameters">};
const Rule k_guarded_check{"zero3.gathered_parameters_check",
                           k_new_source<"runtime/zero/partition_parameters.py:2495 GatheredParameters">};

/// How many groups a quantised tensor of `elements` has: about one for 8,000. Source: runtime/zero/
/// partition_parameters.py:846 quantize of 0.19.6.
std::int64_t quantization_groups(std::int64_t elements) {
  std::int64_t groups = ceil_div(elements, k_group_elements);
  while (groups < elements && elements % (8 * groups) != 0) {
    ++groups;
  }
  while (elements % (16 * groups) == 0 && elements / groups > k_group_elements) {
    groups *= 2;
  }
  return groups;
}

/// One rank of a ZeRO-3 run from start to end.
class Zero3Run {
 public:
  Zero3Run(ProgramBuilder& out, const EngineRank& rank)
      : out_(out),
        rank_(rank),
        job_(*rank.job),
        own_(options(job_)),
        tree_(*rank.tree),
        ranks_(rank.groups.data_ranks),
        leaves_(leaf_modules(tree_, job_)),
        has_secondary_(rank.parameters.size(), job_.train.hpz > 1),
        coordinator_(rank.parameters, hooked_modules(tree_, leaves_), job_),
        passes_(out, tree_, options_of_passes(), rank.messages),
        reductions_(out, rank),
        gathers_(rank.parameters.size()) {
    if (!rank.zero3_computes) {
      passes_.leave_out_computing();
    }
    const std::int64_t hpz = job_.train.hpz;
    node_ = out.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::block, std::max<std::int64_t>(hpz, 1)}}});
    coordinator_.gather = [this](const std::vector<std::size_t>& set) { write_gather(set); };
    coordinator_.on_release = [this, hpz](std::size_t parameter) { has_secondary_[parameter] = hpz > 1; };
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
      write_parameter_broadcast(out_, sharing_group(rank_, parameter), parameter, k_init_broadcast,
                                parameter.name);
    }
    for (const OptimizerGroup& group : optimizer_groups(rank_)) {
      for (const LocalParameter& parameter : group.parameters) {
        out_.all_gather(sharing_group(rank_, parameter), {shard(parameter)}, job_.train.dtype, k_start_gather,
                        parameter.name);
      }
    }
    return out_.take();
  }

  Zero3Coordinator::State state() const { return coordinator_.state(); }

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
    const bool is_leaf = std::find(leaves_.begin(), leaves_.end(), module) != leaves_.end();
    for (const std::size_t parameter :
         is_leaf ? tree_.parameters_below(module) : tree_.modules[module].parameters) {
      if (const auto gather = std::exchange(gathers_[parameter], std::nullopt)) {
        out_.wait_for(*gather);
      }
    }
  }

  /// Dense parameters and those of experts, that have a copy of their shard within the node, and that have
  /// none. One rank has nothing to gather (partition_parameters.py _no_gather_coalesced).
  void write_gather(const std::vector<std::size_t>& set) {
    std::map<std::pair<bool, bool>, std::vector<std::size_t>> parts;
    for (const std::size_t parameter : set) {
      const LocalParameter& one = rank_.parameters[parameter];
      if (sharing_ranks(rank_, one) > 1) {
        parts[{one.is_expert, !has_secondary_[parameter]}].push_back(parameter);
      }
    }
    for (const auto& [kind, part] : parts) {
      write_gather(part, !kind.second);
    }
  }

  void write_gather(const std::vector<std::size_t>& set, bool is_on_node) {
    const GroupId group = is_on_node ? node_ : sharing_group(rank_, rank_.parameters[set.front()]);
    const std::int64_t times = is_on_node ? ranks_ / job_.train.hpz : 1;  // of the shard among all ranks
    const std::string tag =
        set.size() == 1 ? rank_.parameters[set.front()].name : "parameters of a module or prefetch";
    if (own_.sequential_gather) {
      for (const std::size_t parameter : set) {
        const LocalParameter& one = rank_.parameters[parameter];
        out_.all_gather(group, {shard(one) * times}, gathered_dtype(one), k_module_gather, one.name);
        gathers_[parameter] = out_.last_call();
      }
      return;
    }
    std::map<std::string_view, std::pair<DType, std::int64_t>> sums;  // by the name of their dtype, as sent
    for (const std::size_t parameter : set) {
      const DType dtype = gathered_dtype(rank_.parameters[parameter]);
      auto& [its_dtype, sum] = sums[name_of(dtype)];
      its_dtype = dtype;
      sum += shard(rank_.parameters[parameter]) * times;
    }
    for (const auto& [name, part] : sums) {
      const auto [dtype, sum] = part;
      if (job_.train.quantized_weights) {
        out_.all_gather(group, {sum}, DType::int8, k_quantized, tag);
        out_.all_gather(group, {quantization_groups(sum)}, DType::fp32, k_scales, tag);
      } else if (own_.all_reduce_fetch && set.size() > 1 && !is_on_node) {
        out_.all_reduce(group, {sum * sharing_ranks(rank_, rank_.parameters[set.front()])}, dtype,
                        k_fetch_all_reduce, tag);
      } else {
        out_.all_gather(group, {sum}, dtype, k_module_gather, tag);
      }
    }
    for (const std::size_t parameter : set) {
      gathers_[parameter] = out_.last_call();
    }
  }

  /// torch_autocast gathers what it casts in its own dtype.
  DType gathered_dtype(const LocalParameter& parameter) const {
    return parameter.is_cast && own_.autocast ? *own_.autocast : job_.train.dtype;
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
    std::fill(gathers_.begin(), gathers_.end(), std::nullopt);
    if (overflows) {
      return;
    }
    std::fill(has_secondary_.begin(), has_secondary_.end(), false);
    const DType norm = own_.offloads_optimizer ? DType::fp32 : DType::fp64;
    for (const OptimizerGroup& group : optimizer_groups(rank_)) {
      for (std::int64_t i = 0; i < sub_groups(group.parameters); ++i) {
        out_.all_reduce(group.ranks, {1}, norm, k_norm, "gradient norm");
        if (has_model_group) {
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
      if (coordinator_.take_away(row) && ranks_ > 1) {
        const LocalParameter& parameter = rank_.parameters[row];
        out_.all_gather(rank_.groups.data, {shard(parameter)}, job_.train.dtype, k_guarded_gather,
                        parameter.name);
      }
    }
    if (!own_.gathered.modifier_rank) {
      if (own_.has_sanity_checks && behaviour(job_).has_gathered_check) {
        out_.set_reduction(Reduction::max);
        out_.all_reduce(out_.groups.world, {1}, DType::int64, k_guarded_check);
        out_.set_reduction(Reduction::sum);
      }
      return;
    }
    for (const std::size_t row : guarded_parameters()) {
      const LocalParameter& parameter = rank_.parameters[row];
      const Rooted from{rank_.groups.data, GroupRank{*own_.gathered.modifier_rank}};
      const Elements count{parameter.count};
      if (behaviour(job_).broadcasts_bytes) {
        out_.broadcast(from, {(count * job_.train.dtype).value}, DType::uint8, k_guarded_broadcast,
                       parameter.name);
      } else {
        out_.broadcast(from, count, job_.train.dtype, k_guarded_broadcast, parameter.name);
      }
    }
  }

  std::vector<std::size_t> guarded_parameters() const {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < tree_.modules.size(); ++row) {
      if (std::find(own_.gathered.modules.begin(), own_.gathered.modules.end(), tree_.modules[row].name) !=
          own_.gathered.modules.end()) {
        const std::vector<std::size_t> below = tree_.parameters_below(row);
        rows.insert(rows.end(), below.begin(), below.end());
      }
    }
    return rows;
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
  std::int64_t ranks_;
  std::vector<std::size_t> leaves_;
  std::vector<bool> has_secondary_;  // hpZ: a copy of the shard lives within the node's group
  Zero3Coordinator coordinator_;
  PassRunner passes_;
  std::optional<PassRunner> skipping_;
  Zero3Reductions reductions_;
  PassHooks hooks_;
  GroupId node_{};
  std::vector<std::optional<StepIndex>> gathers_;  // by parameter: the one that nothing has waited for yet
  bool is_backward_ = false;
};

}  // namespace

Zero3Programs write_zero3(ProgramBuilder& out, const EngineRank& rank, std::int64_t period) {
  constexpr int longest_transient = 64;  // measured runs repeat from iteration 1 or 2 on
  Zero3Run run(out, rank);
  Zero3Programs programs;
  programs.init = run.init();
  const std::int64_t special = last_special_iteration(*rank.job);
  Zero3Coordinator::State start;
  std::int64_t next = 0;
  for (; next <= special + longest_transient; ++next) {
    programs.iterations.push_back(run.iteration(next));
    const Zero3Coordinator::State end = run.state();
    if (next > special && end == start) {
      break;
    }
    start = end;
  }
  for (std::int64_t more = 1; more < period; ++more) {
    programs.iterations.push_back(run.iteration(next + more));
  }
  return programs;
}

}  // namespace commlens::deepspeed
