#include "commlens/frameworks/torchtitan/steps.hpp"

#include <functional>
#include <string_view>

#include "commlens/frameworks/torchtitan/rule_names.hpp"

namespace commlens::torchtitan {
namespace {

using pytorch::Module;
using pytorch::Parameter;
using pytorch::TensorSharding;

void for_parameters(const Parts& parts, const std::function<void(const Parameter&)>& action) {
  for (const std::vector<Module>* const modules : parts) {
    for (const Module& module : *modules) {
      for (const Parameter& parameter : module.parameters) {
        if (!parameter.is_alias) {
          action(parameter);
        }
      }
    }
  }
}

/// A dimension of the mesh that a parameter is sharded along.
struct ShardedDim {
  GroupId group;
  std::int64_t ranks;
  int dimension;  // of the parameter
};

/// Those of a parameter, in the order of the mesh.
std::vector<ShardedDim> sharded_dims(const Parameter& parameter, const Job& job, const Groups& groups) {
  std::vector<ShardedDim> dims;
  const auto add = [&](GroupId group, std::int64_t ranks, int dimension) {
    if (ranks > 1) {
      dims.push_back({group, ranks, dimension});
    }
  };
  const bool is_apart = parameter.is_expert && job.layout.ep > 1;
  const int own = parameter.is_expert && shards_second_dimension(job) ? 1 : 0;
  if (is_apart) {
    add(groups.expert_shard, groups.expert_shard_ranks, own);
    add(groups.expert, job.layout.ep, 0);
    return dims;
  }
  add(groups.shard, groups.shard_ranks, own);
  if (parameter.sharding != TensorSharding::whole) {
    // Those of experts are one further back.
    add(groups.tensor, job.layout.tp,
        (parameter.sharding == TensorSharding::rows ? 0 : 1) + (parameter.is_expert ? 1 : 0));
  }
  return dims;
}

/// All shards of a parameter are gathered along one dimension of the mesh after the other, the last one
/// first, but of those that split the same dimension the first one first.
void gather_whole(ProgramBuilder& out, const Groups& groups, const Parameter& parameter, DType dtype,
                  const Rule& rule) {
  std::vector<ShardedDim> dims = sharded_dims(parameter, out.job(), groups);
  if (dims.size() == 2 && dims[0].dimension != dims[1].dimension) {
    std::swap(dims[0], dims[1]);
  }
  const bool is_apart = parameter.is_expert && out.job().layout.ep > 1;
  const std::int64_t shards = is_apart ? groups.expert_shard_ranks : groups.shard_ranks;
  std::int64_t shard = ceil_div(parameter.rows, shards) * parameter.row;
  for (const ShardedDim& dim : dims) {
    out.all_gather(dim.group, {shard}, dtype, rule, parameter.name);
    shard *= dim.ranks;
  }
}

/// The mask of what was drawn outside the bounds is gathered, to know whether there is any.
void gather_mask(ProgramBuilder& out, const Groups& groups, const Parameter& parameter) {
  gather_whole(out, groups, parameter, DType::boolean, k_init_mask);
}

/// Whether a weight is drawn by trunc_normal_ as a sharded tensor: queries, keys and values of one weight are
/// drawn apart and joined, except in gpt-oss; embeddings are normal.
bool is_drawn_sharded(const Parameter& parameter, const ModelConfig& model) {
  const std::string_view name = parameter.name;
  const bool is_bias = name.ends_with(".bias");
  const bool is_norm = parameter.dimensions == 1 && !name.ends_with(".sinks");
  const bool is_joined = name.ends_with(".wqkv.weight") && !model.qkv_bias;
  return !is_bias && !is_norm && !is_joined && !parameter.is_alias && !name.starts_with("tok_embeddings.");
}

/// Draws until no element is outside of three deviations: the expected number, which ends where less than
/// one is left.
int draws_of_head(const ModelConfig& model) {
  constexpr double outside = 0.0027;
  double left = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  int draws = 0;
  for (; left >= 1; ++draws) {
    left *= outside;
  }
  return draws;
}

void draw_weights(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules) {
  const ModelConfig& model = out.job().model;
  const auto draw = [&](const Module& module) {
    const Parameter* sinks = nullptr;
    for (const Parameter& parameter : module.parameters) {
      if (parameter.name.ends_with(".sinks")) {
        sinks = &parameter;  // of attention itself: after the weights of the modules in it
        continue;
      }
      if (is_drawn_sharded(parameter, model)) {
        gather_mask(out, groups, parameter);
      }
      if (sinks != nullptr && parameter.name.ends_with(".wo.weight")) {
        gather_mask(out, groups, *sinks);
      }
    }
  };
  for (const Module& module : modules) {
    const bool is_output = module.kind == Module::Kind::output;
    out.set_match(is_output ? Match::random : Match::exact);
    for (int time = 0; time < (is_output ? draws_of_head(model) : 1); ++time) {
      draw(module);
    }
  }
  out.set_match(Match::exact);
}

/// Queries, keys and values are saved as three weights: state dicts part them where they are whole.
void gather_joined_weights(ProgramBuilder& out, const Groups& groups, const Parts& parts) {
  for_parameters(parts, [&](const Parameter& parameter) {
    if (parameter.name.ends_with(".wqkv.weight")) {
      gather_whole(out, groups, parameter, parameter.dtype, k_checkpoint_weights);
    }
  });
}

}  // namespace

void initialise(ProgramBuilder& out, const Groups& groups, const Parts& parts) {
  const Job& job = out.job();
  if (!options(job).seed && job.layout.ranks > 1) {
    out.broadcast({out.groups.world, GroupRank{0}}, {8}, DType::uint8, k_init_seed, "seed");
  }
  const bool is_qwen3 = job.model.qk_norm && !job.model.latent.is_used();  // drawn from a normal distribution
  for (const std::vector<Module>* const modules : is_qwen3 ? Parts() : parts) {
    draw_weights(out, groups, *modules);
  }
  if (options(job).checkpoints.is_used) {
    gather_joined_weights(out, groups, parts);
  }
}

void count_tokens(ProgramBuilder& out, const Groups& groups) {
  if (groups.batch_ranks > 1) {
    out.set_reduction(Reduction::sum);
    out.all_reduce(groups.batch, {1}, DType::int64, k_valid_tokens, "valid tokens");
  }
}

void clip(ProgramBuilder& out, const Groups& groups, const Gradients& gradients) {
  const Job& job = out.job();
  out.set_reduction(Reduction::sum);
  const auto reduce = [&](GroupId group, std::int64_t ranks, std::int64_t norms) {
    if (ranks > 1 && norms > 0) {
      out.all_reduce(group, {norms}, job.train.dtype, k_clip_norms, "norms");
    }
  };
  // One group for both dimensions where a mesh of these ranks exists: that of the loss, or, flattened by
  // FSDP, of dp_shard and cp.
  if (job.layout.tp == 1 && (options(job).replicate == 1 || job.layout.cp > 1)) {
    reduce(groups.expert_state, groups.expert_shard_ranks * job.layout.ep, gradients.experts);
  } else {
    reduce(groups.expert_shard, groups.expert_shard_ranks, gradients.experts);
    reduce(groups.expert, job.layout.ep, gradients.experts);
  }
  reduce(groups.shard, groups.shard_ranks, gradients.dense);
  reduce(groups.tensor, job.layout.tp, gradients.dense);
  if (job.layout.pp > 1) {
    out.all_reduce(groups.pipeline, {1}, job.train.dtype, k_clip_stages, "norm");
  }
}

void balance_experts(ProgramBuilder& out, const Groups& groups, const Parts& parts) {
  const Job& job = out.job();
  std::int64_t layers = 0;
  for (const std::vector<Module>* const modules : parts) {
    for (const Module& module : *modules) {
      layers += module.kind == Module::Kind::block && is_mixture(job, module.layer) ? 1 : 0;
    }
  }
  if (!options(job).balances_experts || layers == 0) {
    return;
  }
  const Elements tokens{layers * job.model.experts};
  out.set_reduction(Reduction::sum);
  if (job.layout.ep > 1 && job.layout.tp > 1) {
    out.all_reduce(groups.tensor, tokens, DType::fp32, k_expert_balance, "tokens of experts");
  }
  if (groups.loss_ranks > 1) {
    out.all_reduce(groups.loss, tokens, DType::fp32, k_expert_balance, "tokens of experts");
  }
}

void report_loss(ProgramBuilder& out, const Groups& groups) {
  if (groups.loss_ranks == 1) {
    return;
  }
  out.set_reduction(Reduction::sum);
  out.all_reduce(groups.loss, {1}, DType::fp32, k_log, "mean loss");
  out.set_reduction(Reduction::max);
  out.all_reduce(groups.loss, {1}, DType::fp32, k_log, "largest loss");
  out.set_reduction(Reduction::sum);
  out.all_reduce(groups.loss, {1}, DType::int64, k_log, "tokens");
}

void save_checkpoint(ProgramBuilder& out, const Groups& groups, const Parts& parts) {
  gather_joined_weights(out, groups, parts);
  std::int64_t tensors = 0;
  for_parameters(parts, [&](const Parameter& /*parameter*/) { ++tensors; });
  if (out.job().layout.ranks == 1) {
    return;
  }
  constexpr std::int64_t states = 3;          // of each parameter: itself and two of AdamW
  constexpr std::int64_t description = 1000;  // bytes
  const Elements bytes{tensors * states * description};
  const Rooted world{out.groups.world, GroupRank{0}};
  out.set_match(Match::count);
  const auto gather_objects = [&] {
    out.all_gather(world.group, {1}, DType::int64, k_checkpoint_plan, "sizes");
    out.gather(world, bytes, {0}, DType::uint8, k_checkpoint_plan, "objects");
  };
  gather_objects();
  out.broadcast(world, {1}, DType::int64, k_checkpoint_plan, "size");
  out.scatter(world, {0}, bytes, DType::uint8, k_checkpoint_plan, "objects");
  out.scatter(world, {0}, {1}, DType::int64, k_checkpoint_plan, "sizes");
  gather_objects();
  out.broadcast(world, {1}, DType::int64, k_checkpoint_plan, "size");
  out.broadcast(world, bytes, DType::uint8, k_checkpoint_plan, "objects");
  out.set_match(Match::exact);
}

}  // namespace commlens::torchtitan
