#include "commlens/frameworks/paper/steps.hpp"

#include <array>
#include <numeric>
#include <set>
#include <string_view>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/source.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/paper/program.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {
namespace {

using paper::Correction;

/// A correction, its cause, and where the frameworks do what it corrects.
struct CorrectionCause {
  Correction correction;
  std::string_view cause;
  std::string_view deepspeed;  // GPT-NeoX as well
  std::string_view megatron;
  std::string_view zero3;  // DeepSpeed's ZeRO-3, where that is another line
};

constexpr std::string_view k_pipe_utils = deepspeed::k_source<"runtime/utils.py:602 partition_balanced">;

constexpr std::array<CorrectionCause, 19> k_corrections = {{
    {Correction::layer_parameters, "layer_parameters", "", ""},
    {Correction::positions, "position_embeddings", "", ""},
    {Correction::tied_weights, "tied_weights", "", ""},
    {Correction::padded_vocabulary, "padded_vocabulary",
     neox::k_source<"megatron/tokenizer/tokenizer.py:73 _vocab_size_with_padding">, ""},
    {Correction::replicated_ranks, "replicated_ranks", "", ""},
    {Correction::replicated_tensors, "replicated_tensors", "", ""},
    {Correction::stage_partition, "stage_partition", k_pipe_utils, ""},
    {Correction::gradient_dtype, "gradient_dtype",
     deepspeed::k_source<"runtime/engine.py:826 communication_data_type">, ""},
    {Correction::sharded_bf16, "bf16_optimizer", deepspeed::k_source<"runtime/bf16_optimizer.py:106">, ""},
    {Correction::all_reduce, "all_reduce_for_reduce_scatter",
     deepspeed::k_source<"runtime/zero/stage_1_and_2.py:1496 allreduce_bucket">, ""},
    {Correction::every_micro_batch, "every_micro_batch",
     deepspeed::k_source<"runtime/zero/stage_1_and_2.py:1410">, "",
     deepspeed::k_source<"runtime/zero/stage3.py:1221">},
    {Correction::partition_padding, "partition_padding", deepspeed::k_source<"runtime/utils.py:951">,
     megatron::k_source<"optimizer/distrib_optimizer.py">,
     deepspeed::k_source<"runtime/zero/partition_parameters.py:1120">},
    {Correction::tied_modules, "tied_modules",
     deepspeed::k_source<"runtime/zero/partitioned_param_coordinator.py:261 fetch_sub_module">, ""},
    {Correction::whole_boundaries, "whole_boundaries", deepspeed::k_source<"runtime/config.py:465">,
     megatron::k_source<"pipeline_parallel/schedules.py:1039 get_tensor_shapes">},
    {Correction::no_recompute, "no_recompute", "", ""},
    {Correction::parallel_residual, "parallel_residual", neox::k_source<"megatron/model/transformer.py:1227">,
     ""},
    {Correction::first_stage_embedding, "first_stage_embedding", neox::k_source<"megatron/mpu/layers.py:209">,
     megatron::k_source<"tensor_parallel/layers.py">},
    {Correction::unembedding, "unembedding_all_reduce", neox::k_source<"megatron/mpu/layers.py:555">,
     megatron::k_source<"tensor_parallel/layers.py:441">},
    {Correction::activation_dtype, "fp32_activations", neox::k_source<"megatron/mpu/mappings.py:38 _reduce">,
     ""},
}};

std::string_view source_of(const CorrectionCause& row, const Job& job) {
  if (job.framework == "megatron") {
    return row.megatron;
  }
  if (job.framework == "commlens") {
    return row.deepspeed.empty() ? "" : "docs/training.md";
  }
  if (job.framework != "deepspeed" && job.framework != "neox") {
    return "";
  }
  return job.train.zero_stage == 3 && !row.zero3.empty() ? row.zero3 : row.deepspeed;
}

Result<Plan> corrected_plan(const Job& job, const std::set<Correction>& corrections) {
  const Mesh mesh = job.layout.mesh();
  Plan plan{.job = job, .tables = Trace(mesh)};
  plan.tables.provenance.framework = "paper arXiv 2408.10197";
  std::vector<std::int64_t> stages(static_cast<std::size_t>(job.layout.pp));
  std::iota(stages.begin(), stages.end(), 0);
  Result<std::vector<StagePrograms>> programs = paper::write_equations(job, corrections, stages, plan);
  if (!programs) {
    return tl::unexpected(programs.error());
  }
  for (const std::int64_t stage : stages) {
    StagePrograms& written = (*programs)[static_cast<std::size_t>(stage)];
    plan.classes.push_back(
        {mesh.range(Axis::pp, stage, stage), stage, std::move(written.init), std::move(written.iterations)});
  }
  return plan;
}

/// The calls of an iteration with all that describes them.
std::vector<std::vector<CommOp>> calls_of(const Plan& plan) {
  std::vector<std::vector<CommOp>> calls;
  for (const RankClass& rank_class : plan.classes) {
    std::vector<CommOp>& of_class = calls.emplace_back();
    for (const PlanStep& step : rank_class.iterations.front().steps) {
      if (step.kind == PlanStep::Kind::call) {
        of_class.push_back(plan.tables.op(step.op()));
      }
    }
  }
  return calls;
}

/// Settings that split, merge or spare calls of the equations' purpose; each entry sets one of them to what
/// the job has, starting from what the equations assume.
struct RestoredSetting {
  std::string_view cause;
  std::string_view source;
  std::string_view source_in_zero3;  // where that is another line
  void (*idealise)(Job& job);
  void (*restore)(Job& job, const Job& actual);
};

constexpr std::int64_t k_one_bucket = std::int64_t{1} << 60;

const std::array<RestoredSetting, 8> k_settings = {{
    {"gradient_buckets",
     deepspeed::k_source<"runtime/zero/stage_1_and_2.py:923 reduce_independent_p_g_buckets">,
     deepspeed::k_source<"runtime/zero/stage3.py:1221">,
     [](Job& job) { deepspeed::options(job).reduce_bucket_size = k_one_bucket; },
     [](Job& job, const Job& actual) {
       deepspeed::options(job).reduce_bucket_size = deepspeed::options(actual).reduce_bucket_size;
     }},
    {"bucket_cut_at_partition",
     deepspeed::k_source<"runtime/zero/stage_1_and_2.py:1011 allreduce_and_scatter">, "",
     [](Job& job) { deepspeed::options(job).contiguous_gradients = false; },
     [](Job& job, const Job& actual) {
       deepspeed::options(job).contiguous_gradients = deepspeed::options(actual).contiguous_gradients;
     }},
    {"reduce_to_owner", deepspeed::k_source<"runtime/zero/stage_1_and_2.py:1499 allreduce_bucket">, "",
     [](Job& job) { deepspeed::options(job).use_multi_rank_bucket_allreduce = true; },
     [](Job& job, const Job& actual) {
       deepspeed::options(job).use_multi_rank_bucket_allreduce =
           deepspeed::options(actual).use_multi_rank_bucket_allreduce;
     }},
    {"whole_buffer", deepspeed::k_source<"runtime/zero/stage_1_and_2.py:1042">,
     deepspeed::k_source<"runtime/zero/stage3.py:1269 __avg_scatter_contiguous_grads">,
     [](Job& job) { deepspeed::options(job).reduce_scatter = true; },
     [](Job& job, const Job& actual) {
       deepspeed::options(job).reduce_scatter = deepspeed::options(actual).reduce_scatter;
     }},
    {"persistent_parameters",
     deepspeed::k_source<"runtime/zero/partition_parameters.py:1766 _allgather_params_coalesced">, "",
     [](Job& job) { job.train.persistence_threshold = 0; },
     [](Job& job, const Job& actual) {
       job.train.persistence_threshold = actual.train.persistence_threshold;
     }},
    {"gathered_to_recompute",
     deepspeed::k_source<"runtime/zero/partitioned_param_coordinator.py:261 fetch_sub_module">, "",
     [](Job& job) {
       job.train.recompute = job.train.zero_stage == 3 ? Recompute::none : job.train.recompute;
     },
     [](Job& job, const Job& actual) { job.train.recompute = actual.train.recompute; }},
    {"secondary_partition", deepspeed::k_source<"runtime/zero/partitioned_param_coordinator.py:447">, "",
     [](Job& job) { job.train.hpz = 1; },
     [](Job& job, const Job& actual) { job.train.hpz = actual.train.hpz; }},
    {"persistent_parameters", "docs/training.md#data-parallel", "",
     [](Job& job) {
       if (job.framework == "commlens" && job.train.zero_stage == 3) {
         job.train.persistence_threshold = 0;
       }
     },
     [](Job& job, const Job& actual) {
       job.train.persistence_threshold = actual.train.persistence_threshold;
     }},
}};

/// Whether the setting means anything to the framework of the job: the last one is our trainer's.
bool concerns(const RestoredSetting& setting, const Job& job) {
  const bool is_own = &setting == &k_settings.back();
  return is_own ? job.framework == "commlens" : deepspeed::runs(job);
}

Result<void> add_settings(const Job& job, PaperSteps& steps) {
  Job changing = job;
  for (const RestoredSetting& setting : k_settings) {
    if (concerns(setting, job)) {
      setting.idealise(changing);
    }
  }
  Result<Plan> idealised = make_plan(changing);
  if (!idealised) {
    return tl::unexpected(idealised.error());
  }
  steps.idealised = std::move(*idealised);
  for (const RestoredSetting& setting : k_settings) {
    if (!concerns(setting, job)) {
      continue;
    }
    setting.restore(changing, job);
    Result<Plan> plan = make_plan(changing);
    if (!plan) {
      return tl::unexpected(plan.error());
    }
    const bool elsewhere = job.train.zero_stage == 3 && !setting.source_in_zero3.empty();
    steps.settings.push_back({std::string(setting.cause),
                              std::string(elsewhere ? setting.source_in_zero3 : setting.source),
                              std::move(*plan)});
  }
  return {};
}

}  // namespace

Result<PaperSteps> paper_steps(const Job& job) {
  if (const Result<void> known = paper::check_equations(job); !known) {
    return tl::unexpected(known.error());
  }
  std::set<Correction> corrections;
  Result<Plan> equations = corrected_plan(job, corrections);
  if (!equations) {
    return tl::unexpected(equations.error());
  }
  PaperSteps steps;
  steps.equations = std::move(*equations);
  auto before = calls_of(steps.equations);
  for (const CorrectionCause& row : k_corrections) {
    corrections.insert(row.correction);
    Result<Plan> plan = corrected_plan(job, corrections);
    if (!plan) {
      return tl::unexpected(plan.error());
    }
    auto calls = calls_of(*plan);
    if (calls != before) {
      steps.corrected.push_back({std::string(row.cause), std::string(source_of(row, job)), std::move(*plan)});
      before = std::move(calls);
    }
  }
  return add_settings(job, steps).map([&] { return std::move(steps); });
}

}  // namespace commlens
