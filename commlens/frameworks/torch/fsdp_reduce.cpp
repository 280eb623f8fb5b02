// What one group sends to reduce its gradients.
#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {
namespace {

/// The ops of a reduction, by the divide factor (_get_gradient_divide_factors).
struct ReduceOps {
  Reduction scatter = Reduction::avg;
  Reduction replicas = Reduction::avg;
};

ReduceOps reduce_ops(const Fsdp& fsdp, const Behaviour& behaviour, const ShardMesh& mesh, DType dtype) {
  const auto shard = static_cast<double>(mesh.shard_ranks);
  const auto all = shard * static_cast<double>(mesh.replicate_ranks);
  if (dtype == DType::fp16) {
    // The op that was set with the factor stays (_fully_shard.py:404 of 2.6).
    const bool is_set =
        fsdp.divide_factor && behaviour.average_where_factor_is == Behaviour::DivideFactor::never;
    return {is_set ? Reduction::premul_sum : Reduction::sum, Reduction::sum};
  }
  if (behaviour.average_where_factor_is == Behaviour::DivideFactor::all && all == 1) {
    return {Reduction::sum, Reduction::sum};
  }
  if (!fsdp.divide_factor) {
    return {};
  }
  switch (behaviour.average_where_factor_is) {
    case Behaviour::DivideFactor::never:
      return {Reduction::premul_sum, Reduction::avg};
    case Behaviour::DivideFactor::all:
      return *fsdp.divide_factor == all ? ReduceOps{} : ReduceOps{Reduction::premul_sum, Reduction::sum};
    case Behaviour::DivideFactor::shard:
      return {*fsdp.divide_factor == shard ? Reduction::avg : Reduction::premul_sum, Reduction::sum};
  }
  return {};
}

}  // namespace

void ShardedStage::sum_partial_gradients(const Held& held, const ShardGroup& group, DType reduce_dtype) {
  for (const Parameter* const parameter : group.parameters) {
    if (parameter->is_partial && parameter->has_gradient()) {
      const DType gradient = options_.fsdp.param_dtype.value_or(parameter->dtype);
      // What was accumulated without a reduction was cast (_fsdp_param.py:627 of 2.9).
      const bool is_cast = behaviour_.sums_partial_in_reduce_dtype || held.has_unreduced;
      out_.all_reduce(groups_.tensor, {parameter->count()}, is_cast ? reduce_dtype : gradient,
                      k_fsdp_sum_partial, parameter->name);
    }
  }
}

/// The stream of reductions waits for what was computed; computing waits, before the next reduction, for the
/// one before, whose input it would free (_fsdp_param_group.py, post_backward). Version 1 has no such wait.
void ShardedStage::reduce_beside(const std::function<void()>& send) {
  if (options_.fsdp.version != 1 && scattering_) {
    out_.wait_for(*scattering_);
  }
  out_.issue_from(out_.moment(), send);
  scattering_ = out_.last_call();
  reductions_.push_back(out_.last_call());
}

/// After the group's reduce_scatter, if there is one.
void ShardedStage::sum_replicas_beside(bool follows, const std::function<void()>& send) {
  out_.issue_from(follows ? IssueMoment{std::nullopt, {*scattering_}} : out_.moment(), send);
  reductions_.push_back(out_.last_call());
}

void ShardedStage::wait_for_reductions() {
  for (const StepIndex call : std::exchange(reductions_, {})) {
    out_.wait_for(call);
  }
  scattering_.reset();
}

void ShardedStage::reduce_version_1(const Held& held) {
  const GroupSizes& sizes = held.sizes;
  out_.set_reduction(Reduction::sum);
  if (options_.fsdp.strategy == FsdpStrategy::no_shard || groups_.shard_ranks == 1) {
    reduce_beside([&] {
      out_.all_reduce(groups_.data, sizes.unpadded, sizes.reduce_dtype, k_fsdp1_reduce, "gradients");
    });
    return;
  }
  reduce_beside([&] {
    out_.reduce_scatter(groups_.shard, sizes.gathered_shard, sizes.reduce_dtype, k_fsdp1_reduce, "gradients");
  });
  if (groups_.replicate_ranks > 1) {
    sum_replicas_beside(true, [&] {
      out_.all_reduce(groups_.replicate, sizes.gathered_shard, sizes.reduce_dtype, k_fsdp1_reduce,
                      "gradients");
    });
  }
}

/// Of the parameters in `group`, which are some of those that are held.
void ShardedStage::reduce(Held& held, const ShardGroup& group) {
  if (!group.has_gradients()) {
    return;
  }
  for (const Parameter* const parameter : group.parameters) {
    if (parameter->has_gradient()) {
      reduced_.insert(parameter);
    }
  }
  if (options_.fsdp.version == 1) {
    reduce_version_1(held);
    return;
  }
  const GroupSizes sizes = sizes_of(group, out_.job());
  const ShardMesh& mesh = group.mesh;
  out_.set_reduction(Reduction::sum);
  sum_partial_gradients(held, group, sizes.reduce_dtype);
  held.has_unreduced = false;
  const ReduceOps ops = reduce_ops(options_.fsdp, behaviour_, mesh, sizes.reduce_dtype);
  const bool scatters = mesh.shard_ranks > 1 || behaviour_.alone_shard != Behaviour::AloneShard::none;
  if (scatters) {
    out_.set_reduction(ops.scatter);
    reduce_beside([&] {
      out_.reduce_scatter(mesh.shard, {sizes.reduced.value / mesh.shard_ranks}, sizes.reduce_dtype,
                          k_fsdp_reduce_scatter, "gradients");
    });
  }
  if (mesh.replicate_ranks > 1 && flags_.all_reduces) {
    out_.set_reduction(ops.replicas);
    sum_replicas_beside(scatters, [&] {
      out_.all_reduce(mesh.replicate,
                      scatters ? Elements{sizes.reduced.value / mesh.shard_ranks} : sizes.unpadded,
                      sizes.reduce_dtype, k_fsdp_reduce_replicas, "gradients");
    });
  }
}

}  // namespace commlens::pytorch
