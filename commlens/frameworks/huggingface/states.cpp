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

/// All but norms and biases (get_decay_parameter_names of transformers 5.23 trainer.py).
bool weight_decays(const Parameter& parameter) {
  return parameter.name.find("norm") == std::string::npos && parameter.name.find("bias") == std::string::npos;
}

void gather_state(ProgramBuilder& out, const pytorch::Groups& groups, const Parameter& parameter, int times) {
  const Elements shard{ceil_div(parameter.rows, groups.shard_ranks) * parameter.row};
  for (int time = 0; time < times; ++time) {
    out.all_gather(groups.shard, shard, DType::fp32, k_save_gather, parameter.name);
  }
}

/// all_gather_object: sizes, then bytes, of which there are about so many for each parameter.
void gather_object(ProgramBuilder& out, GroupId group, std::int64_t parameters) {
  constexpr std::int64_t bytes_of_parameter = 250;
  out.all_gather(group, {1}, DType::int64, k_save_describe, "size of an object");
  out.set_match(Match::count);
  out.all_gather(group, {bytes_of_parameter * parameters}, DType::uint8, k_save_describe, "an object");
  out.set_match(Match::exact);
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
    if (groups.replicate_ranks > 1) {
      out.broadcast({groups.replicate, GroupRank{0}}, whole, parameter->dtype, k_load_scatter,
                    parameter->name);
    }
    out.scatter({groups.shard, GroupRank{0}}, {is_rank0 ? shard.value * groups.shard_ranks : 0}, shard,
                parameter->dtype, k_load_scatter, parameter->name);
  }
}

void save_states(ProgramBuilder& out, const pytorch::Groups& groups, const std::vector<Module>& modules) {
  const std::vector<const Parameter*> all = parameters_of(modules);
  const bool saves_all = !options(out.job()).saving.only_model;
  for (int file = 0; file < (saves_all ? 2 : 1); ++file) {
    for (const Parameter* const parameter : states_of(out.job(), modules)) {
      gather_state(out, groups, *parameter, 1);
    }
  }
  if (!saves_all) {
    return;
  }
  // Of the optimizer's groups, the one whose weights decay first.
  for (const bool decays : {true, false}) {
    for (const Parameter* const parameter : all) {
      if (weight_decays(*parameter) == decays) {
        gather_state(out, groups, *parameter, 2);
      }
    }
  }
}

void save_flat_states(ProgramBuilder& out, const std::vector<pytorch::ShardUnit>& units) {
  const GroupId group = units.front().groups.front().mesh.shard;
  std::int64_t parameters = 0;
  const auto gather_unit = [&](const pytorch::ShardGroup& unit) {
    const pytorch::GroupSizes sizes = pytorch::sizes_of(unit, out.job());
    out.all_gather(group, sizes.gathered_shard, DType::fp32, k_save_gather, "parameters");
  };
  const bool saves_all = !options(out.job()).saving.only_model;
  for (int file = 0; file < (saves_all ? 2 : 1); ++file) {
    for (const pytorch::ShardUnit& unit : units) {
      gather_unit(unit.groups.front());
      parameters += std::ssize(unit.groups.front().parameters);
    }
  }
  if (!saves_all) {
    return;
  }
  gather_object(out, group, parameters / 2);
  for (const pytorch::ShardUnit& unit : units) {
    gather_object(out, group, std::ssize(unit.groups.front().parameters));
    for (int moment = 0; moment < 2; ++moment) {
      gather_unit(unit.groups.front());
    }
  }
}

}  // namespace commlens::huggingface
