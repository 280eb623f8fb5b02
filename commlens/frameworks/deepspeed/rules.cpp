// The rule set of DeepSpeed: a script that calls deepspeed.initialize (plain.cpp), or its PipelineModule.
// The source of a rule is beside it; docs/frameworks/deepspeed.md has the limits.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/dual_pipe.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/pipeline.hpp"
#include "commlens/frameworks/deepspeed/plain.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/deepspeed/session.hpp"
#include "commlens/frameworks/deepspeed/zero3_modules.hpp"

namespace commlens::deepspeed {
namespace {

std::int64_t activation_elements(const Job& job) {
  return job.train.micro_batch * job.model.sequence * job.model.hidden;
}

EngineRank engine_rank(const ProgramBuilder& out, LocalParameters parameters) {
  const Job& job = out.job();
  EngineRank rank;
  rank.job = &job;
  rank.groups = engine_groups(out);
  rank.parameters = std::move(parameters);
  rank.model_ranks = job.layout.pp * job.layout.model_ranks();
  rank.has_pipeline_engine = options(job).pipeline_engine;
  rank.has_mpu = rank.has_pipeline_engine || job.layout.model_ranks() > 1;
  return rank;
}

/// [embed, block x L, norm, head] (rules D2).
std::vector<PipelineLayer> pipeline_layers(const Job& job, const ParameterList& all) {
  std::vector<PipelineLayer> layers{{"Embed", 0}};
  layers.resize(static_cast<std::size_t>(job.model.layers) + 1, {"Block", 0});
  layers.push_back({"Norm", 0});
  layers.push_back({"Head", 0});
  for (const Parameter& parameter : all.all()) {
    std::size_t at = 0;
    switch (parameter.module) {
      case ModuleKind::embedding:
        at = 0;
        break;
      case ModuleKind::layer:
        at = static_cast<std::size_t>(parameter.layer) + 1;
        break;
      case ModuleKind::final_norm:
        at = layers.size() - 2;
        break;
      case ModuleKind::head:
        at = layers.size() - 1;
        break;
    }
    layers[at].parameters += parameter.count.value;
  }
  if (job.model.tied_embeddings) {
    layers.back().parameters = layers.front().parameters;  // the tied module once more
  }
  return layers;
}

StagePart part_of(const StageBounds& bounds, std::int64_t stage, std::int64_t layers) {
  const std::int64_t begin = bounds[static_cast<std::size_t>(stage)];
  const std::int64_t end = bounds[static_cast<std::size_t>(stage) + 1];
  const std::int64_t first_layer = std::max<std::int64_t>(begin, 1) - 1;
  const std::int64_t last_layer = std::min(end, layers + 1) - 1;
  return {first_layer, std::max<std::int64_t>(last_layer - first_layer, 0), begin == 0,
          begin <= layers + 1 && end > layers + 1, begin <= layers + 2 && end > layers + 2};
}

std::int64_t part_size(const StageBounds& bounds, std::int64_t stage) {
  return bounds[static_cast<std::size_t>(stage) + 1] - bounds[static_cast<std::size_t>(stage)];
}

/// The stages of the model, of which a rank of DualPipeV holds two.
std::int64_t model_stages(const Job& job) { return (options(job).dual_pipe ? 2 : 1) * job.layout.pp; }

/// DualPipeV: a stage may be empty, but not both of a rank.
Result<StageBounds> checked_for_dual_pipe(const Job& job, StageBounds bounds) {
  const std::int64_t stages = model_stages(job);
  const auto is_empty = [&](std::int64_t stage) { return part_size(bounds, stage) == 0; };
  for (std::int64_t rank = 0; rank < job.layout.pp; ++rank) {
    if (is_empty(rank) && is_empty(stages - 1 - rank)) {
      return failure(fmt::format("rank {} of a pipeline of {} would hold no layer; use fewer stages (--pp)",
                                 rank, job.layout.pp));
    }
  }
  if (job.model.tied_embeddings && is_empty(stages - 1)) {
    return failure(
        "DualPipeV with more stages than layers and a tied head, which another rank holds than the "
        "embedding, has no rules here; use fewer stages (--pp)");
  }
  return bounds;
}

Result<StageBounds> bounds_of(const Job& job, const ParameterList& all) {
  const std::vector<PipelineLayer> layers = pipeline_layers(job, all);
  const std::string& method = options(job).partition_method;
  if (!options(job).dual_pipe) {
    return stage_bounds(layers, job.layout.pp, method);
  }
  return partitioned(layers, model_stages(job), method).and_then([&](StageBounds bounds) {
    return checked_for_dual_pipe(job, std::move(bounds));
  });
}

/// Two stages of one rank as a part that holds as much: layers are alike.
StagePart together(const StagePart& a, const StagePart& b) {
  return {a.first_layer, a.layers + b.layers, a.has_embedding || b.has_embedding,
          a.has_final_norm || b.has_final_norm, a.has_head || b.has_head};
}

HeldStage held(const Job& job, std::int64_t stage) {
  return options(job).dual_pipe ? held_by_dual_pipe(job, stage) : held_by_stage(job, stage);
}

Result<std::vector<StagePart>> parts(const Job& job) {
  return bounds_of(job, ParameterList(job.model)).map([&](const StageBounds& bounds) {
    std::vector<StagePart> result;
    for (std::int64_t stage = 0; stage < job.layout.pp; ++stage) {
      StagePart part = part_of(bounds, stage, job.model.layers);
      if (options(job).dual_pipe) {
        part = together(part, part_of(bounds, model_stages(job) - 1 - stage, job.model.layers));
      }
      result.push_back(part);
    }
    return result;
  });
}

/// Whether a norm of each parameter group is reduced over all stages: by ZeRO-1, and in 16 bits without ZeRO.
bool sends_norm_of_groups(const Job& job) {
  const OptimizerPath path = optimizer_path(job);
  return (path == OptimizerPath::zero12 && options(job).computes_norm) ||
         (path == OptimizerPath::stage0 && job.train.dtype != DType::fp32 &&
          half_step(job) != HalfStep::fused);
}

/// With groups that only some stages have, DeepSpeed waits for ever where it reduces a norm of each. Groups:
/// matrices and embeddings; biases and norms. Source: a recorded run.
Result<void> check_groups(const Job& job) {
  if (!options(job).weight_decay_groups || !sends_norm_of_groups(job)) {
    return {};
  }
  const auto groups = [](const StagePart& part) {
    return (part.layers > 0 || part.has_embedding || part.has_head ? 1 : 0) +
           (part.layers > 0 || part.has_final_norm ? 1 : 0);
  };
  const Result<std::vector<StagePart>> held = parts(job);
  const auto differs = [&](const StagePart& part) { return groups(part) != groups(held->front()); };
  if (held && std::any_of(held->begin(), held->end(), differs)) {
    return failure(
        "pipeline stages with different numbers of parameter groups: DeepSpeed reduces a norm of each over "
        "all stages and waits for ever; use --zero 0 in fp32, one group, or stages with layers each (--pp)");
  }
  return {};
}

/// Those of a stage. The tied module is on the last stage too, with the table of positions that belongs to
/// it. Source: recorded runs (tests/golden/deepspeed_0.19).
LocalParameters stage_parameters(const Job& job, const ParameterList& all, const StagePart& part) {
  LocalParameters parameters = local_parameters(job.model, all, 1, part);
  const bool has_copy = job.model.tied_embeddings && part.has_head && !part.has_embedding;
  if (has_copy && job.model.positions == Positions::learned) {
    const StagePart embedding{.has_final_norm = false, .has_head = false};
    const LocalParameters module = local_parameters(job.model, all, 1, embedding);
    const auto positions = parameters.insert(parameters.begin() + 1, module.begin() + 1, module.end());
    positions->has_gradient = false;
  }
  return parameters;
}

PipelineRank pipeline_rank(const ProgramBuilder& out, LocalParameters parameters, std::int64_t stage) {
  const Job& job = out.job();
  PipelineRank rank;
  rank.engine = engine_rank(out, std::move(parameters));
  rank.stage = stage;
  rank.stages = job.layout.pp;
  rank.tensor_ranks = job.layout.model_ranks();
  rank.activation = activation_elements(job);
  rank.mask = options(job).attention_mask ? job.model.sequence * job.model.sequence : 0;
  rank.tied_weight = job.model.tied_embeddings ? job.model.vocab * job.model.hidden : 0;
  rank.turns_around = options(job).dual_pipe;
  rank.load = [](std::int32_t) {};
  return rank;
}

/// What is computed of a part; `out` and `work` outlive it.
StagePasses passes_of(ProgramBuilder& out, ModelWork& work, const StagePart& part) {
  return {.forward = [&work, part](std::int32_t) { work.forward_stage(part); },
          .backward =
              [&out, &work, part](std::int32_t) {
                write_checkpoint_gathers(out, part.layers);
                work.backward_stage(part);
              }};
}

StagePrograms write_stage(const Job& job, const ParameterList& all, const StagePart& part, std::int64_t stage,
                          Plan& plan) {
  ProgramBuilder out(plan);
  out.set_reduction(Reduction::sum);
  ModelWork work(out);
  PipelineRank rank = pipeline_rank(out, stage_parameters(job, all, part), stage);
  rank.passes = passes_of(out, work, part);
  StagePrograms programs;
  write_pipeline_start(out, rank);
  programs.init = out.take();
  for (const bool is_first : {true, false}) {
    write_pipeline_iteration(out, rank, is_first);
    programs.iterations.push_back(out.take());
  }
  return programs;
}

/// What enters a stage of the model: an activation, behind the head logits. The head takes no mask along.
DualPipeTensors entering(const PipelineRank& rank, const StageBounds& bounds, std::int64_t stage) {
  const Job& job = *rank.engine.job;
  const std::int64_t head = job.model.layers + 2;
  if (bounds[static_cast<std::size_t>(stage)] > head) {
    return {.activation = job.train.micro_batch * job.model.sequence * job.model.vocab};
  }
  return {.activation = rank.activation, .mask = rank.mask};
}

/// Of a rank's two stages. Where the first rank holds both ends of the model, their tied module is one.
LocalParameters dual_parameters(const Job& job, const ParameterList& all, const StagePart& out,
                                StagePart back) {
  LocalParameters parameters = local_parameters(job.model, all, 1, out);
  back.has_head = back.has_head && !job.model.tied_embeddings;
  for (LocalParameter& parameter : local_parameters(job.model, all, 1, back)) {
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

StagePrograms write_dual_stage(const Job& job, const ParameterList& all, const StageBounds& bounds,
                               std::int64_t stage, Plan& plan) {
  ProgramBuilder out(plan);
  out.set_reduction(Reduction::sum);
  ModelWork work(out);
  const std::array<std::int64_t, 2> held = {stage, model_stages(job) - 1 - stage};
  const auto part = [&](std::size_t way) { return part_of(bounds, held.at(way), job.model.layers); };
  const PipelineRank rank = pipeline_rank(out, dual_parameters(job, all, part(0), part(1)), stage);
  std::array<DualPipeStage, 2> stages;
  for (std::size_t way = 0; way < stages.size(); ++way) {
    stages.at(way) = {passes_of(out, work, part(way)), entering(rank, bounds, held.at(way)),
                      entering(rank, bounds, held.at(way) + 1)};
  }
  StagePrograms programs;
  write_pipeline_start(out, rank);
  programs.init = out.take();
  for (const bool is_first : {true, false}) {
    write_dual_pipe_iteration(out, rank, stages, is_first);
    programs.iterations.push_back(out.take());
  }
  return programs;
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  if (!options(job).pipeline_engine) {
    return write_plain(job, plan).map([](StagePrograms programs) {
      std::vector<StagePrograms> plain;
      plain.push_back(std::move(programs));
      return plain;
    });
  }
  const ParameterList all(job.model);
  const Result<StageBounds> bounds = bounds_of(job, all);
  if (!bounds) {
    return tl::unexpected(bounds.error());
  }
  if (const Result<void> ok = check_groups(job); !ok) {
    return tl::unexpected(ok.error());
  }
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    programs.push_back(options(job).dual_pipe
                           ? write_dual_stage(job, all, *bounds, stage, plan)
                           : write_stage(job, all, part_of(*bounds, stage, job.model.layers), stage, plan));
  }
  return programs;
}

}  // namespace

std::vector<std::string> unverified(const Job& job) {
  const Options& own = options(job);
  const bool has_tensor_ranks = job.layout.model_ranks() > 1;
  const bool zero3 = job.train.zero_stage == 3;
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(job.model.family != Family::gpt && job.framework != k_name, "models other than gpt");
  add(has_tensor_ranks && own.pipe_partitioned != own.grad_partitioned,
      "pipe_partitioned apart from grad_partitioned");
  add(own.auto_tp && !own.tensor_specs, "AutoTP's own choice of linears");
  add(own.is_accelerate, "accelerate");
  add(zero3 && !own.pipeline_engine && !unmatched_leaf_module(job).empty(),
      "leaf_module, which names a module that the model here lacks");
  add(own.auto_ep && own.autocast, "AutoEP under torch_autocast");
  add(zero3 && own.keeps_parameters_on_nvme,
      "parameters on NVMe, which DeepSpeed does not fetch ahead (partitioned_param_coordinator.py:460)");
  add(zero3 && job.train.quantized_gradients && own.gpus_per_node == 0,
      "the nodes of zero_quantized_gradients, unless options.gpus_per_node says them");
  add(job.framework == k_name && job.model.tied_embeddings && job.model.family == Family::llama,
      "tied embeddings of family llama");
  return reasons;
}

FrameworkRules rules() {
  return {.name = k_name,
          .engine = k_name,
          .versions = known_versions(),
          .default_version = known_versions().size() - 1,
          .base = "",
          .check = check_plain,
          .unverified = unverified,
          .write = write,
          .parts = parts,
          .fits_equations = [](const Job& job) { return !options(job).dual_pipe; },
          .has_context_parallelism = true,
          .has_expert_parallelism = true,
          .settings = {.follow_width = settle_width_sizes,
                       .settle = settle,
                       .bucket = bucket,
                       .set_bucket = set_bucket,
                       .has_sharding_details = true,
                       .reduces_every_micro_batch = [](const Job& job) { return job.train.zero_stage == 2; }},
          .memory = {.buffers = memory_buffers,
                     .keeps_small_parameters = true,
                     .most_kept = most_kept,
                     .held = held,
                     .of_stage = memory_of_stage},
          .advice = {.place = "in the DeepSpeed JSON", .setting = setting_text, .changes = advised_changes},
          .variations = add_variations,
          .case_file = {.sections = {"deepspeed"},
                        .read_section = read_case_section,
                        .read_layout = read_case_layout,
                        .read_options = read_case_options},
          .causes = causes()};
}

}  // namespace commlens::deepspeed
