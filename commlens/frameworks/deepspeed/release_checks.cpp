#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/checks.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

/// A setting, whether a job asks for it, and whether its release has it.
struct Setting {
  std::string_view name;
  bool (*is_asked)(const Job& job);
  bool Behaviour::* is_there;
};

const std::array k_settings = {
    Setting{"additional losses of a pipeline",
            [](const Job& job) { return options(job).additional_losses > 0; },
            &Behaviour::has_additional_losses},
    Setting{"stage3_use_all_reduce_for_fetch_params",
            [](const Job& job) { return options(job).all_reduce_fetch; }, &Behaviour::has_all_reduce_fetch},
    Setting{"dynamic_shape", [](const Job& job) { return options(job).dynamic_shape; },
            &Behaviour::has_dynamic_shape},
    Setting{"sequence_parallel_size",
            [](const Job& job) {
              return job.layout.cp > 1 && options(job).sequence_groups == SequenceGroups::mesh;
            },
            &Behaviour::has_sequence_mesh},
    Setting{"stage3_module_granularity_threshold",
            [](const Job& job) { return options(job).granularity > 0; }, &Behaviour::has_granularity},
    Setting{"tensor_parallel.autotp_size", [](const Job& job) { return options(job).auto_tp; },
            &Behaviour::has_auto_tp},
    Setting{"UlyssesSPAttentionHF",
            [](const Job& job) { return job.layout.cp > 1 && is_of_transformers(job); },
            &Behaviour::has_sequence_of_transformers},
    Setting{"bf16.check_grad_overflow",
            [](const Job& job) { return options(job).checks_bf16_overflow.has_value(); },
            &Behaviour::has_bf16_overflow_check},
    Setting{"torch_autocast", [](const Job& job) { return options(job).autocast.has_value(); },
            &Behaviour::has_autocast},
    Setting{"enable_sanity_checks", [](const Job& job) { return options(job).has_sanity_checks; },
            &Behaviour::has_sanity_checks},
    Setting{"zero_optimization.leaf_module",
            [](const Job& job) { return !(options(job).leaf_modules == LeafModules{}); },
            &Behaviour::has_leaf_modules},
    Setting{"stage3_allgather_sequential", [](const Job& job) { return options(job).sequential_gather; },
            &Behaviour::has_sequential_gather},
    Setting{"expert_parallel", [](const Job& job) { return options(job).auto_ep; }, &Behaviour::has_auto_ep},
    Setting{"ZeRO-3 over more than the data ranks (zero.Init beside model-parallel ranks, a mesh of a split "
            "sequence)",
            [](const Job& job) { return shard_ranks(job) > data_ranks(job); }, &Behaviour::shards_over_all},
    Setting{"expert_parallel under ZeRO-3",
            [](const Job& job) { return options(job).auto_ep && job.train.zero_stage == 3; },
            &Behaviour::shards_experts},
    Setting{"coalesce_grad_reduction", [](const Job& job) { return options(job).coalesces_reductions; },
            &Behaviour::has_coalescing},
    Setting{"managed_gradient_accumulation",
            [](const Job& job) { return !options(job).manages_accumulation; },
            &Behaviour::has_unmanaged_accumulation},
    Setting{"compute_grad_norm", [](const Job& job) { return !options(job).computes_norm; },
            &Behaviour::has_norm_switch},
    Setting{"parameter_alignment", [](const Job& job) { return options(job).aligns_parameters; },
            &Behaviour::has_norm_switch},
    Setting{"DualPipeVModule", [](const Job& job) { return options(job).dual_pipe; },
            &Behaviour::has_dual_pipe},
    Setting{
        "a block that only some iterations leave out, after which a trace is recorded again,",
        [](const Job& job) { return job.train.zero_stage == 3 && !options(job).skipped.iterations.empty(); },
        &Behaviour::records_again},
};

/// What newer releases removed with a key, in their own words, and whether a release still takes it. Source:
/// runtime/config.py:83 of 0.19.8.
struct Removed {
  std::string_view key;
  std::string_view what;
  bool Behaviour::* takes;
};

constexpr std::array k_removed = {
    Removed{"amp", "NVIDIA Apex AMP integration", &Behaviour::takes_elasticity},
    Removed{"compression_training", "The DeepSpeed compression library", &Behaviour::takes_compression},
    Removed{"curriculum_learning", "Legacy top-level 'curriculum_learning'", &Behaviour::takes_elasticity},
    Removed{"eigenvalue", "Eigenvalue-based Mixture-of-Quantization (MoQ)", &Behaviour::takes_elasticity},
    Removed{"elasticity", "Elastic training", &Behaviour::takes_elasticity},
    Removed{"graph_harvesting", "Graph harvesting", &Behaviour::takes_elasticity},
    Removed{"mics_hierarchical_params_gather", "MiCS ZeRO-3 sharding", &Behaviour::takes_compression},
    Removed{"mics_shard_size", "MiCS ZeRO-3 sharding", &Behaviour::takes_compression},
    Removed{"nebula", "Nebula checkpointing", &Behaviour::takes_compression},
    Removed{"progressive_layer_drop", "Progressive Layer Dropping", &Behaviour::takes_elasticity},
    Removed{"quantize_training", "Mixture-of-Quantization (MoQ)", &Behaviour::takes_compression},
    Removed{"sparse_attention", "DeepSpeed Sparse Attention", &Behaviour::takes_compression},
    Removed{"sparse_gradients", "Sparse compression of embedding gradients", &Behaviour::takes_elasticity},
    Removed{"zeropp_loco_param", "LoCo-Zero++", &Behaviour::takes_elasticity},
};

Result<void> check_removed(const Job& job) {
  const Behaviour& has = behaviour(job);
  for (const RemovedKey& key : options(job).removed_keys) {
    const auto row = std::find_if(k_removed.begin(), k_removed.end(),
                                  [&](const Removed& removed) { return removed.key == key.name; });
    COMMLENS_CHECK(row != k_removed.end(), "only keys of this table are noted");
    if (!(has.*row->takes)) {
      return failure(
          fmt::format("{}: '{}': {} has been removed, and DeepSpeed {} refuses the key, also switched "
                      "off; leave it out",
                      key.where, key.name, row->what, has.version.name));
    }
    if (key.is_on && key.name != "graph_harvesting" && key.name != "nebula") {
      return failure(
          fmt::format("{}: '{}' can change what is sent and has no rules here ({}, which newer releases "
                      "of DeepSpeed removed); switch it off or leave it out",
                      key.where, key.name, row->what));
    }
  }
  return {};
}

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "torch.bfloat16";
    case DType::fp16:
      return "torch.float16";
    case DType::fp32:
      return "torch.float32";
    default:
      return "another dtype";
  }
}

}  // namespace

Result<void> check_release(const Job& job) {
  const Behaviour& has = behaviour(job);
  for (const Setting& setting : k_settings) {
    if (setting.is_asked(job) && !(has.*setting.is_there)) {
      return failure(fmt::format("DeepSpeed {} has no {}; leave it out or name a newer framework_version",
                                 has.version.name, setting.name));
    }
  }
  return check_removed(job);
}

/// Without ZeRO gradients are summed in the dtype of the model, but for bf16 up to some releases. Source:
/// runtime/engine.py:2279 _do_optimizer_sanity_check; :1189 of 0.14.0.
Result<void> check_accumulation(const Job& job) {
  const std::optional<DType> summed_in = options(job).grad_accumulation_dtype;
  if (!summed_in || job.train.zero_stage > 0) {
    return {};
  }
  const Behaviour& has = behaviour(job);
  const DType model = job.train.dtype;
  const bool is_same = model == *summed_in;
  const bool takes_fp32 =
      model == DType::bf16 && *summed_in == DType::fp32 && !has.refuses_bf16_summed_in_fp32;
  const bool needs_fp32 = model == DType::bf16 && has.sums_bf16_in_fp32 && !options(job).pipeline_engine;
  if ((is_same && !needs_fp32) || takes_fp32) {
    return {};
  }
  return failure(
      fmt::format("data_types.grad_accum_dtype: DeepSpeed {} refuses it without ZeRO: unsupported mix of "
                  "model_dtype={} and "
                  "grad_accum_dtype={}; leave it out or use --zero 1",
                  has.version.name, torch_name(model), torch_name(*summed_in)));
}

/// What ZeRO asserts of averaging. Source: runtime/zero/stage_1_and_2.py:350, runtime/zero/stage3.py:395,
/// runtime/config.py:694 of 0.19.8.
Result<void> check_averaging(const Job& job) {
  const Options& own = options(job);
  const int stage = job.train.zero_stage;
  if (own.is_predivided && own.reduce_scatter && (stage == 3 || (stage == 2 && !own.sums_gradients))) {
    return failure(
        "prescale_gradients and gradient_predivide_factor: DeepSpeed refuses them with reduce_scatter under "
        "ZeRO-2 and 3; leave them out");
  }
  if (own.sums_gradients && stage == 3) {
    return failure("gradient_allreduce_op: sum is refused by DeepSpeed under ZeRO-3; leave it out");
  }
  return {};
}

}  // namespace commlens::deepspeed
