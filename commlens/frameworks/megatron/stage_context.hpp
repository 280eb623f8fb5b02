#pragma once
#include <vector>

#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/groups.hpp"
#include "commlens/frameworks/megatron/modules.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::megatron {

/// What all parts of one stage's programs know of it.
struct StageContext {
  StageContext(ProgramBuilder& builder, std::int64_t of_stage, std::vector<ChunkLayout> of_chunks);

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == job.layout.pp; }
  /// Messages of megatron.training.
  bool has_script() const { return !options.is_core_loop; }
  bool is_distributed() const { return job.train.zero_stage > 0; }
  /// One, and another one where experts are parameters of their own.
  int optimizers() const { return job.model.experts > 0 && shares.splits_experts ? 2 : 1; }
  bool has_mtp() const { return options.mtp_layers > 0; }
  /// A copy of the table of embeddings that another stage has too.
  bool has_tied_copy() const;
  std::int64_t moe_layers() const;  // of this stage
  std::int64_t mtp_layers() const;
  /// A barrier of all ranks, where timers of level 1 have one.
  void level1_barrier() const;

  ProgramBuilder& out;
  const Job& job;
  const Options& options;
  const Behaviour& behaviour;
  MegatronGroups groups;
  ModuleShares shares;
  std::int64_t stage;
  std::vector<ChunkLayout> chunks;
  std::vector<std::vector<ModuleParameter>> parameters;  // of each chunk
};

}  // namespace commlens::megatron
