#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/torch/fsdp.hpp"
#include "commlens/frameworks/torch/modules.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::torchtitan {

/// What parameters are sharded over: experts apart from the others where they are divided over ranks.
struct Meshes {
  pytorch::ShardMesh dense;
  pytorch::ShardMesh experts;
};

/// The process groups of a job, beside those of PyTorch (pytorch::Groups): ranks are numbered pipeline,
/// dp_replicate, dp_shard, cp, tp, the last the fastest; experts fold dp_shard, cp and tp into efsdp and ep.
/// Source: torchtitan 0.3 distributed/parallel_dims.py:211.
class Groups : public pytorch::Groups {
 public:
  Groups(ProgramBuilder& out, const Job& job);

  Meshes meshes() const;

  GroupId loss;          // dp_replicate x dp_shard x cp
  GroupId batch;         // dp_replicate x dp_shard
  GroupId expert;        // ep
  GroupId expert_shard;  // efsdp
  GroupId expert_state;  // efsdp x ep
  std::int64_t loss_ranks = 1;
  std::int64_t batch_ranks = 1;
  std::int64_t expert_shard_ranks = 1;
};

/// Ranks that the states of experts are sharded over, within one ep position.
std::int64_t expert_shard_ranks(const Job& job);

/// How experts are sharded: by expert, unless there are more ranks than experts (distributed/fsdp.py).
bool shards_second_dimension(const Job& job);

/// The layers of a stage: the embedding and the head count for some, the first stages have one more.
/// Source: distributed/pipeline_parallel.py, _generate_llm_fqn_per_model_part.
pytorch::LayerRange stage_layers(const Job& job, std::int64_t stage, std::int64_t stages);

/// Whether a layer has experts.
bool is_mixture(const Job& job, std::int64_t layer);

/// The modules of a stage in forward order, with the parameters in the order of named_parameters(). Shapes
/// are those of a tensor (and expert) rank. Source: models/common, models/{llama3,qwen3,deepseek_v3,gpt_oss}.
std::vector<pytorch::Module> stage_modules(const Job& job, std::int64_t stage, std::int64_t stages);

/// The calls of fully_shard on them (distributed/fsdp.py, apply_fsdp_to_decoder).
std::vector<pytorch::ShardUnit> shard_units(const Job& job, const Meshes& meshes,
                                            const std::vector<pytorch::Module>& modules);

}  // namespace commlens::torchtitan
