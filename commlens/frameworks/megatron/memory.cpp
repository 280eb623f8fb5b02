// What a rank of Megatron holds, module by module.
#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/modules.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"

namespace commlens::megatron {

ExpertLayers expert_layers(const Job& job) {
  std::int64_t mixtures = 0;
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer) {
    mixtures += is_moe_layer(job, layer) ? 1 : 0;
  }
  const std::int64_t own = options(job).shared_expert_hidden;
  return {static_cast<double>(mixtures) / static_cast<double>(job.model.layers),
          own > 0 ? own : job.model.shared_experts * job.model.expert_hidden()};
}

/// The parts of a layer that recompute-modules names (core/transformer/transformer_config.py). Activations of
/// MLPs are one of two kept sides, of gated ones one of three.
void drop_recomputed(const Job& job, KeptActivations& kept) {
  const double side = job.model.gated_mlp ? 1.0 / 3 : 1.0 / 2;
  for (const std::string& module : options(job).recompute_modules) {
    if (module == "core_attn") {
      kept.drop_scores();
    } else if (module == "layernorm") {
      kept.norm_outputs = 0;
    } else if (module == "mla_up_proj") {
      kept.queries_keys_values = job.model.latent.is_used() ? 0 : kept.queries_keys_values;
    } else if (module == "mlp") {
      kept.mlp = 0;
    } else if (module == "moe_act") {
      kept.experts *= 1 - side;
    } else if (module == "shared_experts") {
      kept.shared_experts = 0;
    } else if (module == "moe") {
      kept.expert_inputs = kept.experts = kept.shared_experts = 0;
    }
  }
}

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
