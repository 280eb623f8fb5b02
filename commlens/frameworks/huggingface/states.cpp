#include "commlens/frameworks/huggingface/states.hpp"

#include "commlens/base/units.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/rule_names.hpp"

namespace commlens::huggingface {
namespace {

using pytorch::Module;
using pytorch::Parameter;

std::vector<const Parameter*> parameters_of(const std::vector<Module>& modules) {
  std::vector<const Parameter*> all;
  for (const Module& module : modules) {
    for (const Parameter& parameter : module.parameters) {
      all.push_back(&parameter);
    }
  }
  return all;
}

/// The entries of a state dict: a tied output has one of its own.
std::vector<const Parameter*> states_of(const Job& job, const std::vector<Module>& modules) {
  std::vector<const Parameter*> all = parameters_of(modules);
  if (job.model.tied_embeddings) {
    all.push_back(all.front());
  }
  return all;
}

void gather_state(ProgramBuilder& out, const pytorch::Groups& groups, const Parameter& parameter, int times) {
  const Elements shard{ceil_div(parameter.rows, groups.shard_ranks) * parameter.row};
  for (int time = 0; time < times; ++time) {
    out.all_gather(groups.shard, shard, DType::fp32, k_save_gather, parameter.name);
  }
}

}  // namespace

bool loads_on_rank0(const Job& job) {
  const Fsdp& fsdp = options(job).fsdp;
  return fsdp.is_used && fsdp.version == 2 && fsdp.loads_on_rank0 && job.layout.dp > 1;
}

void load_states(ProgramBuilder& out, const pytorch::Groups& groups, const std::vector<Module>& modules,
                 bool is_rank0) {
  for (const Parameter* const parameter : states_of(out.job(), modules)) {
    const Elements whole{parameter->count()};
    const Elements shard{ceil_div(parameter->rows, groups.shard_ranks) * parameter->row};
    out.broadcast({groups.data, GroupRank{0}}, whole, parameter->dtype, k_load_broadcast, parameter->name);
    out.scatter({groups.shard, GroupRank{0}}, {is_rank0 ? shard.value * groups.shard_ranks : 0}, shard,
                parameter->dtype, k_load_scatter, parameter->name);
  }
}

void save_states(ProgramBuilder& out, const pytorch::Groups& groups, const std::vector<Module>& modules) {
  const std::vector<const Parameter*> all = parameters_of(modules);
  for (int file = 0; file < 2; ++file) {
    for (const Parameter* const parameter : all) {
      gather_state(out, groups, *parameter, 1);
    }
  }
  // Of the optimizer's groups, the one whose weights decay first: norms and biases do not.
  for (const bool decays : {true, false}) {
    for (const Parameter* const parameter : all) {
      if ((parameter->dimensions > 1) == decays) {
        gather_state(out, groups, *parameter, 2);
      }
    }
  }
}

}  // namespace commlens::huggingface
