#include "commlens/frameworks/torch/update.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {
namespace {

using Each = std::function<void(const Parameter&)>;

void for_parameters(const std::vector<Module>& modules, const Each& action) {
  for (const Module& module : modules) {
    for (const Parameter& parameter : module.parameters) {
      action(parameter);
    }
  }
}

std::int64_t gradients(const std::vector<Module>& modules) {
  std::int64_t count = 0;
  for_parameters(modules, [&](const Parameter& parameter) { count += parameter.has_gradient() ? 1 : 0; });
  return count;
}

/// Of the norms of all gradients: the widest of the parameters that have one.
DType norm_dtype(const std::vector<Module>& modules) {
  std::optional<DType> dtype;
  for_parameters(modules, [&](const Parameter& parameter) {
    const bool is_wider = !dtype || size_of(parameter.dtype) > size_of(*dtype);
    dtype = parameter.has_gradient() && is_wider ? parameter.dtype : dtype;
  });
  return dtype.value_or(DType::fp32);
}

void sum_partial(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules, int times,
                 const Rule& rule) {
  for_parameters(modules, [&](const Parameter& parameter) {
    for (int time = 0; parameter.is_partial && parameter.has_gradient() && time < times; ++time) {
      out.all_reduce(groups.tensor, {parameter.count()}, parameter.dtype, rule, parameter.name);
    }
  });
}

/// Pure tensor parallelism: some gradients are partial.
void clip_partial(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules) {
  const std::int64_t count = gradients(modules);
  const DType dtype = norm_dtype(modules);
  using Clip = Behaviour::PartialClip;
  const Clip clip = behaviour(out.job()).partial_clip;
  if (clip == Clip::scalars) {
    for (std::int64_t gradient = 1; gradient < count; ++gradient) {
      out.all_reduce(groups.tensor, {1}, dtype, k_clip_norms, "norm");
    }
    sum_partial(out, groups, modules, 1, k_clip_partial);
    return;
  }
  sum_partial(out, groups, modules, 1, k_clip_partial);
  out.all_reduce(groups.tensor, {count}, dtype, k_clip_norms, "norms");
  if (clip == Clip::summed_twice) {
    sum_partial(out, groups, modules, 1, k_clip_partial);
  }
}

}  // namespace

void clip_gradients(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules) {
  const Options& own = options(out.job());
  const DType dtype = norm_dtype(modules);
  if (!own.trainer.clip || gradients(modules) == 0) {
    return;
  }
  out.set_reduction(Reduction::sum);
  if (own.fsdp.is_used && own.fsdp.version == 1) {
    if (own.fsdp.strategy != FsdpStrategy::no_shard) {
      out.all_reduce(groups.shard, {1}, DType::fp32, k_clip_norms, "norm");
    }
    return;
  }
  if (!own.fsdp.is_used) {
    if (out.job().layout.tp > 1) {
      clip_partial(out, groups, modules);
    }
    return;
  }
  const bool is_each = behaviour(out.job()).clips_each_norm;
  const Elements norms{is_each ? gradients(modules) : 1};
  // Releases that reduce one norm do it in a group of one too.
  const bool is_sharded = !is_each || (groups.shard_ranks > 1 && !own.fsdp.is_replicate);
  const int times = !is_each && own.trainer.norm_full_tensor ? 2 : 1;
  for (int time = 0; time < times; ++time) {
    const Rule& rule = time == 0 ? k_clip_norms : k_clip_full_tensor;
    if (is_sharded) {
      out.all_reduce(groups.shard, norms, dtype, rule, "norms");
    }
    if (out.job().layout.tp > 1) {
      out.all_reduce(groups.tensor, norms, dtype, rule, "norms");
    }
  }
}

void sum_in_optimizer(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules) {
  const Options& own = options(out.job());
  if (own.fsdp.is_used || out.job().layout.tp == 1) {
    return;
  }
  out.set_reduction(Reduction::sum);
  sum_partial(out, groups, modules, own.trainer.optimizer == Optimizer::sgd ? 1 : 3, k_tensor_optimizer);
}

void sum_when_scaling(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules) {
  if (!options(out.job()).fsdp.is_used) {
    out.set_reduction(Reduction::sum);
    sum_partial(out, groups, modules, 1, k_tensor_optimizer);
  }
}

bool scatters_weights(const Job& job) { return options(job).tensor.init_from_rank0 && job.layout.tp > 1; }

void scatter_weights(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules,
                     bool is_root) {
  const auto scatter = [&](const Module& module) {
    for (const Parameter& parameter : module.parameters) {
      if (parameter.sharding != TensorSharding::whole) {
        const Elements part{parameter.count()};
        out.scatter({groups.tensor, GroupRank{0}}, {is_root ? part.value * out.job().layout.tp : 0}, part,
                    parameter.dtype, k_tensor_scatter, parameter.name);
      }
    }
  };
  // The plan of the whole model comes before those of the blocks.
  for (const bool is_block : {false, true}) {
    for (const Module& module : modules) {
      if ((module.kind == Module::Kind::block) == is_block) {
        scatter(module);
      }
    }
  }
}

}  // namespace commlens::pytorch
