// The rule set of DeepSpeed: a script that calls deepspeed.initialize (plain.cpp), or its PipelineModule.
// The source of a rule is beside it; docs/frameworks/deepspeed.md has the limits.
#include <algorithm>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/behaviour.hpp"
#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/pipeline.hpp"
#include "commlens/frameworks/deepspeed/plain.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/deepspeed/session.hpp"

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
          begin <= layers + 1 && end > layers + 1, end > layers + 2};
}

Result<std::vector<StagePart>> parts(const Job& job) {
  return stage_bounds(pipeline_layers(job, ParameterList(job.model)), job.layout.pp,
                      options(job).partition_method)
      .map([&](const StageBounds& bounds) {
        std::vector<StagePart> result;
        for (std::int64_t stage = 0; stage < job.layout.pp; ++stage) {
          result.push_back(part_of(bounds, stage, job.model.layers));
        }
        return result;
      });
}

/// Whether the optimizers of pipeline stages have different numbers of groups: matrices and embeddings,
/// biases and norms, without empty ones.
bool has_unequal_groups(const Job& job) {
  if (job.layout.pp == 1 || !options(job).weight_decay_groups) {
    return false;
  }
  const Result<std::vector<StagePart>> stages = parts(job);
  const auto groups = [](const StagePart& part) {
    return (part.layers > 0 || part.has_embedding || part.has_head ? 1 : 0) +
           (part.layers > 0 || part.has_final_norm ? 1 : 0);
  };
  return stages && std::any_of(stages->begin(), stages->end(), [&](const StagePart& part) {
           return groups(part) != groups(stages->front());
         });
}

/// Those of a stage. The tied module is on the last stage too, with the table of positions that belongs to it.
/// Source: recorded runs (tests/golden/deepspeed_0.19).
LocalParameters stage_parameters(const Job& job, const ParameterList& all, const StagePart& part) {
  LocalParameters parameters = local_parameters(job.model, all, 1, part);
  const bool has_copy = job.model.tied_embeddings && part.has_head && !part.has_embedding;
  if (has_copy && job.model.positions == Positions::learned) {
    const StagePart embedding{.has_final_norm = false, .has_head = false};
    const LocalParameters module = local_parameters(job.model, all, 1, embedding);
    parameters.insert(parameters.begin() + 1, module.begin() + 1, module.end());
  }
  return parameters;
}

StagePrograms write_stage(const Job& job, const ParameterList& all, const StagePart& part, std::int64_t stage,
                          Plan& plan) {
  ProgramBuilder out(plan);
  out.set_reduction(Reduction::sum);
  PipelineRank rank;
  rank.engine = engine_rank(out, stage_parameters(job, all, part));
  rank.stage = stage;
  rank.stages = job.layout.pp;
  rank.tensor_ranks = job.layout.model_ranks();
  rank.activation = activation_elements(job);
  rank.mask = options(job).attention_mask ? job.model.sequence * job.model.sequence : 0;
  rank.tied_weight = job.model.tied_embeddings ? job.model.vocab * job.model.hidden : 0;
  ModelWork work(out);
  rank.load = [](std::int32_t) {};
  rank.forward = [&](std::int32_t) { work.forward_stage(part); };
  rank.backward = [&](std::int32_t) {
    write_checkpoint_gathers(out, part.layers);
    work.backward_stage(part);
  };
  StagePrograms programs;
  write_pipeline_start(out, rank);
  programs.init = out.take();
  for (const bool is_first : {true, false}) {
    write_pipeline_iteration(out, rank, is_first);
    programs.iterations.push_back(out.take());
  }
  return programs;
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  if (!options(job).pipeline_engine) {
    std::vector<StagePrograms> plain;
    plain.push_back(write_plain(job, plan));
    return plain;
  }
  const ParameterList all(job.model);
  const Result<StageBounds> bounds =
      stage_bounds(pipeline_layers(job, all), job.layout.pp, options(job).partition_method);
  if (!bounds) {
    return tl::unexpected(bounds.error());
  }
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    programs.push_back(write_stage(job, all, part_of(*bounds, stage, job.model.layers), stage, plan));
  }
  return programs;
}

}  // namespace

std::vector<std::string> unverified(const Job& job) {
  const Options& own = options(job);
  const bool zero3 = job.train.zero_stage == 3;
  const bool has_tensor_ranks = job.layout.model_ranks() > 1;
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(job.model.family != Family::gpt && job.framework != k_name, "models other than gpt");
  add(has_tensor_ranks && own.pipe_partitioned != own.grad_partitioned,
      "pipe_partitioned apart from grad_partitioned");
  add(job.framework == k_name && has_unequal_groups(job),
      "stages of different numbers of parameter groups (one that holds an embedding or a head alone has no "
      "biases and norms), whose gradient norms would wait for each other");
  add(own.auto_tp && own.tensor_specs.empty(), "AutoTP's own choice of linears");
  add(own.is_accelerate, "accelerate");
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
          .settings = {.follow_width = settle_width_sizes,
                       .settle = settle,
                       .bucket = bucket,
                       .set_bucket = set_bucket,
                       .has_sharding_details = true,
                       .reduces_every_micro_batch = [](const Job& job) { return job.train.zero_stage == 2; }},
          .memory = {.buffers = memory_buffers,
                     .keeps_small_parameters = true,
                     .most_kept = most_kept,
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
