// The rule set of plain DeepSpeed 0.14.0: a script that calls deepspeed.initialize, or its PipelineModule.
// The source of a rule is beside it; docs/rules.md has the limits.
#include <algorithm>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/pipeline.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3.hpp"

namespace commlens::deepspeed {
namespace {

const Rule k_checkpoint_gather{"checkpoint.gather_partitioned_activations",
                               k_source<"runtime/activation_checkpointing/checkpointing.py:294 "
                                        "gather_partitioned_activations">};

std::int64_t activation_elements(const Job& job) {
  return job.train.micro_batch * job.model.sequence * job.model.hidden;
}

/// One gather of the checkpointed input per block (rules B9).
void write_checkpoint_gathers(ProgramBuilder& out, const Job& job, std::int64_t layers) {
  const std::int64_t ranks = job.layout.model_ranks();
  if (!job.train.partition_activations || job.train.recompute != Recompute::full || ranks == 1) {
    return;
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    out.all_gather(out.groups.tp, {activation_elements(job) / ranks}, job.train.dtype, k_checkpoint_gather,
                   "checkpointed block input");
  }
}

EngineRank engine_rank(const Job& job, LocalParameters parameters) {
  EngineRank rank;
  rank.job = &job;
  rank.parameters = std::move(parameters);
  rank.model_ranks = job.layout.pp * job.layout.model_ranks();
  rank.has_pipeline_engine = options(job).pipeline_engine;
  rank.has_mpu = rank.has_pipeline_engine || job.layout.model_ranks() > 1;
  return rank;
}

StagePrograms write_plain(const Job& job, Plan& plan) {
  ProgramBuilder out(plan);
  const ParameterList parameters(job.model);
  const StagePart everything{.layers = job.model.layers};
  EngineRank rank = engine_rank(job, local_parameters(job.model, parameters, 1, everything));
  ModelWork work(out);
  BackwardWalk backward(out, everything);
  rank.compute_until = [&](const LocalParameter& parameter) { backward.until(parameter); };
  rank.end_backward = [&] { backward.to_the_end(); };
  StagePrograms programs;
  if (optimizer_path(job) == OptimizerPath::zero3) {
    Zero3Programs zero3 = write_zero3(out, rank);
    return {std::move(zero3.init), std::move(zero3.iterations)};
  }
  out.set_phase(Phase::init);
  write_parameter_broadcasts(out, rank);
  programs.init = out.take();
  for (std::int64_t micro_batch = 0; micro_batch < job.train.micro_batches; ++micro_batch) {
    out.set_phase(Phase::forward, static_cast<std::int32_t>(micro_batch));
    work.forward_stage(everything);
    out.set_phase(Phase::backward, static_cast<std::int32_t>(micro_batch));
    write_checkpoint_gathers(out, job, job.model.layers);
    backward.restart();
    write_gradients(out, rank, micro_batch + 1 == job.train.micro_batches);
  }
  out.set_phase(Phase::optimizer);
  write_step(out, rank);
  programs.iterations.push_back(out.take());
  return programs;
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

StagePrograms write_stage(const Job& job, const ParameterList& all, const StagePart& part, std::int64_t stage,
                          Plan& plan) {
  ProgramBuilder out(plan);
  PipelineRank rank;
  rank.engine = engine_rank(job, local_parameters(job.model, all, 1, part));
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
    write_checkpoint_gathers(out, job, part.layers);
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
    return std::vector<StagePrograms>{write_plain(job, plan)};
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

Result<void> check_plain(const Job& job) {
  if (job.layout.tp > 1 && !job.layout.replicated_tp) {
    return failure(
        "framework deepspeed has no tensor parallelism of its own; use --framework neox or megatron, or a "
        "case file with options.replicated_tensor_parallel");
  }
  if (job.layout.pp > 1 && !options(job).pipeline_engine) {
    return failure("pipeline parallelism needs DeepSpeed's pipeline engine; set options.engine: pipeline");
  }
  return check(job);
}

void settle(Job& job) { options(job).pipeline_engine = options(job).pipeline_engine || job.layout.pp > 1; }

}  // namespace

Result<void> check(const Job& job) {
  const std::string& name = job.framework;
  if (job.layout.cp > 1) {
    return failure(fmt::format("the {} rules do not cover context parallelism (--cp); use --cp 1", name));
  }
  if (job.layout.ep > 1 || job.model.experts > 0) {
    return failure(
        fmt::format("framework {} rules do not cover mixtures of experts (--ep); use --framework megatron or "
                    "leave it out",
                    name));
  }
  if (job.train.recompute == Recompute::selective) {
    return failure(fmt::format("{} has no selective recompute; use --recompute none or full", name));
  }
  if (job.layout.virtual_stages > 1 || job.train.schedule != Schedule::one_f_one_b) {
    return failure(fmt::format(
        "framework {} runs 1F1B pipelines only; leave --schedule and --virtual-stages out", name));
  }
  if (job.train.zero_stage > 1 && options(job).pipeline_engine) {
    return failure(fmt::format(
        "ZeRO-{} with a pipeline is refused by DeepSpeed (runtime/pipe/engine.py:73); use --zero 0 "
        "or 1",
        job.train.zero_stage));
  }
  const std::int64_t hpz = job.train.hpz;
  if (hpz > 1 && (job.train.zero_stage != 3 || job.layout.dp % hpz != 0)) {
    return failure(
        fmt::format("zero_hpz_partition_size {} needs ZeRO-3 and must divide dp {}", hpz, job.layout.dp));
  }
  if (job.train.quantized_weights || job.train.quantized_gradients) {
    return failure(
        "quantised ZeRO++ (zero_quantized_weights, zero_quantized_gradients) is not covered by the rules; "
        "set them to false");
  }
  if (options(job).offload) {
    return failure("offload is not covered by the rules; remove offload_optimizer and offload_param");
  }
  const std::int64_t activation = job.train.micro_batch * job.model.sequence * job.model.hidden;
  if (job.layout.model_ranks() > 1 && activation % job.layout.model_ranks() != 0) {
    return failure(
        fmt::format("an activation of {} elements is not divisible by {} tensor ranks; change --micro-batch, "
                    "--seq or --tp",
                    activation, job.layout.model_ranks()));
  }
  return {};
}

std::vector<std::string> unverified(const Job& job) {
  const Options& own = options(job);
  const bool zero3 = job.train.zero_stage == 3;
  const bool has_tensor_ranks = job.layout.model_ranks() > 1;
  const bool is_zero12 = job.train.zero_stage == 1 || job.train.zero_stage == 2;
  std::vector<std::string> reasons;
  const auto add = [&](bool applies, const char* reason) {
    if (applies) {
      reasons.emplace_back(reason);
    }
  };
  add(job.model.family != Family::gpt, "models other than gpt");
  add(has_tensor_ranks && own.pipe_partitioned != own.grad_partitioned,
      "pipe_partitioned apart from grad_partitioned");
  add(own.communication_dtype && *own.communication_dtype != job.train.dtype, "communication_data_type");
  add(is_zero12 && !own.contiguous_gradients, "contiguous_gradients: false");
  add(zero3 && has_tensor_ranks, "ZeRO-3 with tensor ranks");
  add(zero3 && job.model.tied_embeddings, "ZeRO-3 with tied embeddings");
  add(zero3 && job.layout.dp == 1, "ZeRO-3 on one data rank");
  add(zero3 && job.train.recompute == Recompute::full,
      "ZeRO-3 with activation checkpointing, whose recomputation fetches parameters once more");
  add(job.framework == "deepspeed" && job.model.tied_embeddings && job.layout.pp > 1,
      "tied embeddings in a pipeline");
  add(job.framework == k_name && has_unequal_groups(job),
      "stages of different numbers of parameter groups (one that holds an embedding or a head alone has no "
      "biases and "
      "norms), whose gradient norms would wait for each other");
  return reasons;
}

FrameworkRules rules() {
  return {.name = k_name,
          .engine = k_name,
          .versions = {recorded_version(k_version.view())},
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
          .memory = {.buffers = memory_buffers, .keeps_small_parameters = true, .most_kept = most_kept},
          .advice = {.place = "in the DeepSpeed JSON", .setting = setting_text, .changes = advised_changes},
          .variations = add_variations,
          .case_file = {.sections = {"deepspeed"},
                        .read_section = read_case_section,
                        .read_options = read_case_options},
          .causes = causes()};
}

}  // namespace commlens::deepspeed
