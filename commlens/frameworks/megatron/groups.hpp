#pragma once
#include "commlens/plan/program_builder.hpp"

namespace commlens::megatron {

/// The groups of Megatron (core/parallel_state.py), by its names.
struct MegatronGroups {
  explicit MegatronGroups(const ProgramBuilder& out);

  GroupId world;
  GroupId tp;
  GroupId pp;
  GroupId mp;     // tp-pp
  GroupId dp;     // data ranks alone
  GroupId dp_cp;  // data and context ranks
  GroupId cp;
  GroupId tp_cp;
  GroupId tp_dp_cp;
  GroupId embeddings;   // embd: the stages with a copy of the table
  GroupId intra_dp_cp;  // of one instance of the distributed optimizer
  // Of experts.
  GroupId ep;
  GroupId etp;
  GroupId tp_ep;
  GroupId tp_ep_pp;
  GroupId edp;
  GroupId intra_edp;
  GroupId inter_instances;  // inter_dist_opt, of dense buffers too
  GroupId instance;         // intra_dist_opt
};

}  // namespace commlens::megatron
