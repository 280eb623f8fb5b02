// What a rank of Megatron holds, module by module.
#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/modules.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"

namespace commlens::megatron {

HeldStage held(const Job& job, std::int64_t stage) {
  HeldStage result = held_by_stage(job, stage);
  const Result<StageLayouts> layouts = stage_layouts(job);
  if (behaviour(job).has_rules_of_its_own || !layouts) {
    return result;
  }
  result.layers = 0;
  result.all = {};
  for (const ChunkLayout& chunk : (*layouts)[static_cast<std::size_t>(stage)]) {
    result.layers += chunk.layers + chunk.mtp_layers;
    for (const ModuleParameter& parameter : chunk_parameters(job, chunk)) {
      (parameter.is_expert ? result.all.expert : result.all.dense) += parameter.count;
    }
  }
  return result;
}

}  // namespace commlens::megatron
