#include "commlens/frameworks/deepspeed/zero3.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"
#include "commlens/plan/schemes/buckets.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_init_broadcast{"zero3.broadcast_parameter_again",
                            k_source<"runtime/zero/partition_parameters.py:1011 _zero_init_param">};
const Rule k_start_gather{"zero3.start_gather", k_source<"runtime/zero/stage3.py:1112 "
                                                         "create_reduce_and_remove_grad_hooks">};
const Rule k_module_gather{"zero3.parameter_gather",
                           k_source<"runtime/zero/partitioned_param_coordinator.py:261 fetch_sub_module">};
const Rule k_persistent{"zero3.persistent_parameter_gather",
                        k_source<"runtime/zero/partition_parameters.py:1766 _allgather_params_coalesced">};
const Rule k_trace{"zero3.trace_check", k_source<"runtime/zero/utils.py:72 get_lst_from_rank0">};
const Rule k_reduce_scatter{"zero3.gradient_reduce_scatter",
                            k_source<"runtime/comm/coalesced_collectives.py:81 reduce_scatter_coalesced">};
const Rule k_all_reduce{"zero3.gradient_all_reduce",
                        k_source<"runtime/zero/stage3.py:1297 __avg_scatter_contiguous_grads">};
const Rule k_overflow{"zero3.overflow_flag", k_source<"runtime/zero/stage3.py:2155 has_overflow">};
const Rule k_norm{"zero3.norm", k_source<"runtime/zero/stage3.py:1759 get_grad_norm_direct">};

/// One rank of a ZeRO-3 run from start to end.
class Zero3Run {
 public:
  Zero3Run(ProgramBuilder& out, const EngineRank& rank)
      : out_(out),
        rank_(rank),
        job_(*rank.job),
        ranks_(job_.layout.dp),
        forward_(forward_modules(rank.parameters)),
        backward_(backward_modules(rank.parameters)),
        has_secondary_(rank.parameters.size(), job_.train.hpz > 1),
        coordinator_(rank.parameters, job_,
                     [this](const std::vector<std::size_t>& set) { write_gather(set); }),
        work_(out),
        gathers_(rank.parameters.size()),
        order_(in_ready_order(rank.parameters)) {
    std::vector<std::int64_t> sizes;
    for (const LocalParameter& parameter : order_) {
      sizes.push_back(parameter.count);
    }
    buckets_ = buckets_closed_before_exceeding(sizes, options(job_).reduce_bucket_size);
    const std::int64_t hpz = job_.train.hpz;
    node_ = out.groups.over(Axis::dp, {{Axis::dp, {Span::Shape::block, std::max<std::int64_t>(hpz, 1)}}});
    coordinator_.on_release = [this, hpz](std::size_t parameter) { has_secondary_[parameter] = hpz > 1; };
  }

  Program init() {
    out_.set_phase(Phase::init);
    if (!options(job_).zero_init) {
      write_parameter_broadcasts(out_, rank_);
    }
    for (const LocalParameter& parameter : rank_.parameters) {
      out_.broadcast({out_.groups.dp, GroupRank{0}}, {parameter.count}, job_.train.dtype, k_init_broadcast,
                     parameter.name);
    }
    for (const LocalParameter& parameter : rank_.parameters) {
      out_.all_gather(out_.groups.dp, {shard(parameter)}, job_.train.dtype, k_start_gather, parameter.name);
    }
    return out_.take();
  }

  std::int64_t available_count() const { return coordinator_.available_count(); }

  Program iteration() {
    for (std::int64_t micro_batch = 0; micro_batch < job_.train.micro_batches; ++micro_batch) {
      write_micro_batch(static_cast<std::int32_t>(micro_batch));
    }
    write_optimizer_step();
    return out_.take();
  }

 private:
  std::int64_t shard(const LocalParameter& parameter) const { return ceil_div(parameter.count, ranks_); }

  void write_micro_batch(std::int32_t micro_batch) {
    const bool was_recording = coordinator_.is_recording();
    out_.set_phase(Phase::forward, micro_batch);
    out_.set_waiting(Waiting::later);
    for (const HookedModule& module : forward_) {
      fetch(module);
      compute(module);
      coordinator_.release(module);
    }
    out_.set_phase(Phase::backward, micro_batch);
    ready_ = 0;
    next_bucket_ = 0;
    for (const HookedModule& module : backward_) {
      fetch(module);
      compute_backward(module);
      write_full_buckets(module);
      if (module.has_post_backward) {
        coordinator_.release(module);
      }
    }
    write_last_bucket(was_recording);
    coordinator_.end_backward();
    out_.set_waiting(Waiting::at_once);
  }

  /// A module waits for its own parameters, not for those that are fetched ahead.
  void fetch(const HookedModule& module) {
    coordinator_.fetch(module);
    for (const std::size_t parameter : module.parameters) {
      if (const auto gather = std::exchange(gathers_[parameter], std::nullopt)) {
        out_.wait_for(*gather);
      }
    }
  }

  /// One rank has nothing to gather (partition_parameters.py _no_gather_coalesced; not measured).
  void write_gather(const std::vector<std::size_t>& set) {
    if (ranks_ == 1) {
      return;
    }
    const std::int64_t hpz = job_.train.hpz;
    std::int64_t on_world = 0;
    std::int64_t on_node = 0;
    for (const std::size_t index : set) {
      const std::int64_t count = shard(rank_.parameters[index]);
      (has_secondary_[index] ? on_node : on_world) += count;
    }
    const auto remember = [&](bool is_on_node) {
      for (const std::size_t index : set) {
        if (has_secondary_[index] == is_on_node) {
          gathers_[index] = out_.last_call();
        }
      }
    };
    const std::string tag =
        set.size() == 1 ? rank_.parameters[set.front()].name : "parameters of a module or prefetch";
    if (on_world > 0) {
      out_.all_gather(out_.groups.dp, {on_world}, job_.train.dtype, k_module_gather, tag);
      remember(false);
    }
    if (on_node > 0) {
      out_.all_gather(node_, {on_node * ranks_ / hpz}, job_.train.dtype, k_module_gather, tag);
      remember(true);
    }
  }

  void compute(const HookedModule& module) {
    if (!module.leaf || !rank_.zero3_computes) {
      return;
    }
    for (const ModulePart part : parts_of(*module.leaf)) {
      work_.write(part, Pass::forward);
    }
  }

  /// With full recomputation a block is computed again before its last module.
  void compute_backward(const HookedModule& module) {
    if (!module.leaf || !rank_.zero3_computes) {
      return;
    }
    if (*module.leaf == Leaf::fc2 && job_.train.recompute == Recompute::full) {
      out_.set_phase(Phase::recompute, out_.micro_batch());
      work_.forward_block();
      out_.set_phase(Phase::backward, out_.micro_batch());
    }
    const std::vector<ModulePart> parts = parts_of(*module.leaf);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      work_.backward({*part});
    }
  }

  /// A bucket is reduced when the first gradient that does not fit into it is ready, on a stream of its own
  /// with overlap_comm. Source: runtime/zero/stage3.py:1221 __reduce_and_partition_ipg_grads.
  void write_full_buckets(const HookedModule& module) {
    ready_ += module.parameters.size();
    while (next_bucket_ + 1 < buckets_.size() && buckets_[next_bucket_ + 1].front() < ready_) {
      write_bucket(buckets_[next_bucket_++]);
    }
  }

  /// The broadcasts that check the trace come before the last reduction of the first backward.
  void write_last_bucket(bool was_recording) {
    for (; next_bucket_ < buckets_.size(); ++next_bucket_) {
      if (was_recording && next_bucket_ + 1 == buckets_.size()) {
        write_trace_check();
      }
      write_bucket(buckets_[next_bucket_]);
    }
    for (const StepIndex call : std::exchange(reductions_, {})) {
      out_.wait_for(call);
    }
  }

  void write_trace_check() {
    out_.set_waiting(Waiting::at_once);
    for (const std::int64_t count : {coordinator_.traced_modules(), coordinator_.traced_parameters(),
                                     coordinator_.traced_parameters()}) {
      out_.broadcast({out_.groups.world, GroupRank{0}}, {count}, DType::int64, k_trace);
    }
  }

  void write_bucket(const std::vector<std::size_t>& bucket) {
    std::int64_t whole = 0;
    std::int64_t shards = 0;
    for (const std::size_t index : bucket) {
      whole += order_[index].count;
      shards += shard(order_[index]);
    }
    const DType dtype = communication_dtype(job_);
    out_.set_waiting(options(job_).overlap_comm ? Waiting::later : Waiting::at_once);
    if (!options(job_).reduce_scatter && whole <= options(job_).reduce_bucket_size) {
      out_.all_reduce(out_.groups.dp, {whole}, dtype, k_all_reduce, "gradient bucket");
    } else {
      out_.reduce_scatter(out_.groups.dp, {shards}, dtype, k_reduce_scatter, "gradient bucket");
    }
    if (options(job_).overlap_comm) {
      reductions_.push_back(out_.last_call());
    }
    out_.set_waiting(Waiting::later);
  }

  void write_optimizer_step() {
    out_.set_phase(Phase::optimizer);
    if (job_.train.dtype == DType::fp16) {
      out_.all_reduce(out_.groups.dp, {1}, DType::uint8, k_overflow, "overflow flag");
    }
    for (const LocalParameters& group :
         optimizer_groups(rank_.parameters, options(job_).weight_decay_groups)) {
      for (std::int64_t i = 0; i < sub_groups(group); ++i) {
        out_.all_reduce(out_.groups.dp, {1}, DType::fp64, k_norm, "gradient norm");
      }
    }
    write_update();
    coordinator_.step();
    std::fill(gathers_.begin(), gathers_.end(), std::nullopt);
    std::fill(has_secondary_.begin(), has_secondary_.end(), false);
    for (const std::size_t index : coordinator_.persistent()) {
      const LocalParameter& parameter = rank_.parameters[index];
      out_.all_gather(out_.groups.dp, {shard(parameter)}, job_.train.dtype, k_persistent, parameter.name);
    }
  }

  void write_update() {
    std::int64_t count = 0;
    for (const LocalParameter& parameter : rank_.parameters) {
      count += shard(parameter);
    }
    work_.optimizer({count});
  }

  /// Source: runtime/zero/stage3.py:903 _create_fp16_sub_groups.
  std::int64_t sub_groups(const LocalParameters& group) const {
    std::int64_t count = 0;
    std::int64_t sum = 0;
    for (const LocalParameter& parameter : group) {
      sum += shard(parameter);
      if (sum >= options(job_).sub_group_size) {
        ++count;
        sum = 0;
      }
    }
    return count + (sum > 0 ? 1 : 0);
  }

  ProgramBuilder& out_;
  const EngineRank& rank_;
  const Job& job_;
  std::int64_t ranks_;
  std::vector<HookedModule> forward_;
  std::vector<HookedModule> backward_;
  std::vector<bool> has_secondary_;  // hpZ: a copy of the shard lives within the node's group
  Zero3Coordinator coordinator_;
  GroupId node_{};
  ModelWork work_;
  std::vector<std::optional<StepIndex>> gathers_;  // by parameter: the one that nothing has waited for yet
  LocalParameters order_;                          // gradients as they get ready
  std::vector<std::vector<std::size_t>> buckets_;  // rows of order_
  std::size_t ready_ = 0;                          // gradients of this micro-batch
  std::size_t next_bucket_ = 0;
  std::vector<StepIndex> reductions_;  // of this micro-batch that nothing has waited for yet
};

}  // namespace

Zero3Programs write_zero3(ProgramBuilder& out, const EngineRank& rank) {
  constexpr int longest_transient = 64;  // measured runs repeat from iteration 1 or 2 on
  Zero3Run run(out, rank);
  Zero3Programs programs;
  programs.init = run.init();
  programs.iterations.push_back(run.iteration());  // records the trace
  std::int64_t start = run.available_count();
  for (int i = 0; i < longest_transient; ++i) {
    programs.iterations.push_back(run.iteration());
    const bool decides_releases = i == 0;
    if (!decides_releases && run.available_count() == start) {
      break;
    }
    start = run.available_count();
  }
  return programs;
}

}  // namespace commlens::deepspeed
