// The rule set of GPT-NeoX on DeepSpeed.
// The source of a rule is beside it; docs/rules.md has the limits.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/engine.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/pipeline.hpp"
#include "commlens/frameworks/deepspeed/source.hpp"
#include "commlens/frameworks/deepspeed/zero3.hpp"
#include "commlens/frameworks/neox/behaviour.hpp"
#include "commlens/frameworks/neox/framework.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/neox/reader.hpp"
#include "commlens/frameworks/neox/tensor.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens::neox {
namespace {

const Rule k_total_params{"neox.total_parameters", k_source<"megatron/utils.py:408 get_total_params">};
const Rule k_flags{"neox.data_flags", k_source<"megatron/data/data_utils.py:437">};
const Rule k_loss{"neox.loss_all_reduce", k_source<"megatron/utils.py:47 reduce_losses">};

/// The transformer layers of each stage: NeoX's list of layers is [embedding, _pre_transformer_block, layer x
/// L, _post_transformer_block, norm, head].
struct LayerList {
  std::vector<deepspeed::PipelineLayer> layers;
  static constexpr std::int64_t k_first_layer = 2;
};

LayerList layer_list(const Job& job, const ParameterList& all) {
  LayerList list;
  const auto count = static_cast<std::size_t>(job.model.layers);
  list.layers = {{"EmbeddingPipe", 0}, {"_pre_transformer_block", 0}};
  list.layers.resize(LayerList::k_first_layer + count, {"ParallelTransformerLayerPipe", 0});
  list.layers.insert(list.layers.end(),
                     {{"_post_transformer_block", 0}, {"NormPipe", 0}, {"ParallelLinearPipe", 0}});
  for (const Parameter& parameter : all.all()) {
    std::size_t at = 0;
    if (parameter.module == ModuleKind::layer) {
      at = static_cast<std::size_t>(LayerList::k_first_layer + parameter.layer);
    } else if (parameter.module == ModuleKind::final_norm) {
      at = list.layers.size() - 2;
    } else if (parameter.module == ModuleKind::head) {
      at = list.layers.size() - 1;
    }
    list.layers[at].parameters += on_tensor_rank(parameter, job.layout.tp).value;
  }
  return list;
}

Result<std::vector<StagePart>> stage_parts(const Job& job, const ParameterList& all) {
  const LayerList list = layer_list(job, all);
  const Result<StageBounds> bounds =
      deepspeed::stage_bounds(list.layers, job.layout.pp, options(job).partition_method);
  if (!bounds) {
    return tl::unexpected(bounds.error());
  }
  const std::int64_t layers_end = LayerList::k_first_layer + job.model.layers;
  const auto items = static_cast<std::int64_t>(list.layers.size());
  std::vector<StagePart> parts;
  for (std::size_t stage = 0; stage + 1 < bounds->size(); ++stage) {
    const std::int64_t begin = std::clamp((*bounds)[stage], LayerList::k_first_layer, layers_end);
    const std::int64_t end = std::clamp((*bounds)[stage + 1], LayerList::k_first_layer, layers_end);
    const auto holds = [&](std::int64_t item) {
      return (*bounds)[stage] <= item && item < (*bounds)[stage + 1];
    };
    parts.push_back(
        {begin - LayerList::k_first_layer, end - begin, holds(0), holds(items - 2), holds(items - 1)});
  }
  return parts;
}

deepspeed::EngineRank engine_rank(const ProgramBuilder& out, LocalParameters parameters) {
  const Job& job = out.job();
  deepspeed::EngineRank rank;
  rank.job = &job;
  rank.groups = deepspeed::engine_groups(out);
  rank.parameters = std::move(parameters);
  rank.model_ranks = job.layout.pp * job.layout.tp;
  rank.has_pipeline_engine = uses_pipeline_engine(job);
  rank.has_mpu = true;
  return rank;
}

Result<std::vector<StagePart>> parts(const Job& job) { return stage_parts(job, ParameterList(job.model)); }

std::int64_t tied_weight(const Job& job) {
  return job.model.tied_embeddings ? job.model.vocab / job.layout.tp * job.model.hidden : 0;
}

void write_start_end(ProgramBuilder& out, const Job& job) {
  out.set_phase(Phase::init);
  out.all_reduce(out.groups.world, {1}, DType::int64, k_total_params, "parameter count");
  out.broadcast({job.layout.pp > 1 ? out.groups.world : out.groups.tp, GroupRank{0}}, {3}, DType::int64,
                k_flags, "train, valid and test flags");
}

/// pipe_parallel_size 1 at 4bc66703: DeepSpeed's plain engine.
StagePrograms write_sequential(const Job& job, const ParameterList& all, Plan& plan) {
  ProgramBuilder out(plan);
  const StagePart everything{.layers = job.model.layers};
  const deepspeed::ModelTree tree =
      deepspeed::gpt_tree(local_parameters(job.model, all, job.layout.tp, everything));
  deepspeed::EngineRank rank = engine_rank(out, tree.parameters);
  rank.tree = &tree;
  TensorParallelStage tensor(out, job, {job.model.layers, true, true});
  rank.compute_until = [&](const LocalParameter& parameter) {
    if (parameter.leaf == Leaf::wte || parameter.leaf == Leaf::wpe) {
      tensor.end_backward();
    } else {
      tensor.backward_until(parameter.layer);
    }
  };
  rank.end_backward = [&] { tensor.end_backward(); };
  rank.zero3_computes = false;
  StagePrograms programs;
  std::vector<Program> zero3;
  out.set_phase(Phase::init);
  if (deepspeed::optimizer_path(job) == deepspeed::OptimizerPath::zero3) {
    deepspeed::Zero3Programs written = deepspeed::write_zero3(out, rank);
    programs.init = std::move(written.init);
    zero3 = std::move(written.iterations);
  } else {
    deepspeed::write_parameter_broadcasts(out, rank);
    programs.init = out.take();
  }
  write_start_end(out, job);
  programs.init.append(out.take());
  for (std::int64_t micro_batch = 0; micro_batch < job.train.micro_batches; ++micro_batch) {
    out.set_phase(Phase::forward, static_cast<std::int32_t>(micro_batch));
    tensor.load();
    tensor.forward(static_cast<std::int32_t>(micro_batch));
    tensor.start_backward(static_cast<std::int32_t>(micro_batch));
    deepspeed::write_gradients(out, rank, micro_batch + 1 == job.train.micro_batches);
  }
  out.set_phase(Phase::optimizer);
  deepspeed::write_step(out, rank);
  const Program body = out.take();
  out.set_phase(Phase::other);
  out.all_reduce(out.groups.world, {job.train.micro_batches}, DType::fp32, k_loss, "loss");
  const Program loss = out.take();
  zero3.resize(std::max<std::size_t>(zero3.size(), 1));
  for (const Program& program : zero3) {
    programs.iterations.push_back(body);
    programs.iterations.back().append(program);
    programs.iterations.back().append(loss);
  }
  return programs;
}

StagePrograms write_pipeline_stage(const Job& job, const ParameterList& all, const StagePart& part,
                                   std::int64_t stage, Plan& plan) {
  ProgramBuilder out(plan);
  const bool is_last = stage + 1 == job.layout.pp;
  TensorParallelStage tensor(out, job, {part.layers, stage == 0, is_last, part.has_final_norm});
  deepspeed::PipelineRank rank;
  rank.engine = engine_rank(out, local_parameters(job.model, all, job.layout.tp, part));
  rank.stage = stage;
  rank.stages = job.layout.pp;
  rank.tensor_ranks = job.layout.tp;
  rank.activation = job.train.micro_batch * job.model.sequence * job.model.hidden;
  rank.mask = job.model.sequence * job.model.sequence;
  rank.tied_weight = tied_weight(job);
  rank.built_in = job.train.dtype;
  rank.load = [&](std::int32_t) { tensor.load(); };
  rank.passes.forward = [&](std::int32_t micro_batch) { tensor.forward(micro_batch); };
  rank.passes.backward = [&](std::int32_t micro_batch) { tensor.backward(micro_batch); };
  StagePrograms programs;
  deepspeed::write_pipeline_start(out, rank);
  write_start_end(out, job);
  programs.init = out.take();
  const int iterations = job.layout.pp > 1 ? 2 : 1;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    deepspeed::write_pipeline_iteration(out, rank, iteration == 0);
    programs.iterations.push_back(out.take());
  }
  return programs;
}

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  const ParameterList all(job.model);
  if (!uses_pipeline_engine(job)) {
    return std::vector<StagePrograms>{write_sequential(job, all, plan)};
  }
  const Result<std::vector<StagePart>> parts = stage_parts(job, all);
  if (!parts) {
    return tl::unexpected(parts.error());
  }
  std::vector<StagePrograms> programs;
  for (const std::int64_t stage : stages) {
    programs.push_back(
        write_pipeline_stage(job, all, (*parts)[static_cast<std::size_t>(stage)], stage, plan));
  }
  return programs;
}

Result<void> check(const Job& job) {
  if (job.layout.replicate > 1) {
    return failure(
        "layout.replicate is an option of DeepSpeed cases; GPT-NeoX splits every tensor rank's parameters");
  }
  if (job.layout.cp > 1) {
    return not_covered("the neox rules do not cover context parallelism (--cp); use --cp 1");
  }
  if (job.layout.ep > 1 || job.model.experts > 0) {
    return not_covered("the neox rules do not cover mixtures of experts; leave --ep out");
  }
  if (job.train.quantized_weights || job.train.quantized_gradients || deepspeed::options(job).autocast) {
    return failure(
        "quantised ZeRO++ and torch_autocast are newer than what GPT-NeoX was recorded with; leave "
        "zero_quantized_weights, zero_quantized_gradients and torch_autocast out");
  }
  if (const Result<void> supported = check_version(job); !supported) {
    return supported;
  }
  return deepspeed::check(job);
}

/// What the rules of this file mean where calls are compared.
constexpr std::array k_causes = {
    RuleRow{"neox.total_parameters", {Term::none, "start"}},
    RuleRow{"neox.data_flags", {Term::none, "start"}},
    RuleRow{"neox.loss_all_reduce", {Term::none, "loss"}},
};

bool needs_ready_order(const Job& job) {
  const bool ready_order = job.train.zero_stage == 2 || deepspeed::options(job).overlap_comm;
  const bool splits =
      parameter_count(job.model).value / job.layout.tp > deepspeed::options(job).reduce_bucket_size;
  return (job.train.zero_stage == 1 || job.train.zero_stage == 2) && ready_order && splits &&
         !uses_pipeline_engine(job);
}

std::vector<std::string> unverified(const Job& job) {
  std::vector<std::string> reasons = deepspeed::unverified(job);
  const auto add = [&](bool applies, std::string reason) {
    if (applies) {
      reasons.push_back(std::move(reason));
    }
  };
  add(job.train.zero_stage == 3, "GPT-NeoX under ZeRO-3");
  add(needs_ready_order(job),
      "gradient buckets smaller than the model that fill in ready order (overlap_comm, ZeRO-2)");
  add(options(job).checkpoint_num_layers > 1, "checkpoint_num_layers > 1");
  add(options(job).fp16_lm_cross_entropy, "fp16_lm_cross_entropy");
  for (std::string& reason : unverified_by_version(job)) {
    reasons.push_back(std::move(reason));
  }
  return reasons;
}

}  // namespace

std::span<const RuleRow> causes() {
  static const std::vector<RuleRow> all = [] {
    std::vector<RuleRow> rows(k_causes.begin(), k_causes.end());
    const std::span<const RuleRow> tensor = tensor_causes();
    rows.insert(rows.end(), tensor.begin(), tensor.end());
    return rows;
  }();
  return all;
}

FrameworkRules rules() {
  return {
      .name = k_name,
      .engine = deepspeed::k_name,
      .versions = versions_of(k_behaviours),
      .base = k_joined<" on deepspeed ", k_vendored_deepspeed>.data(),
      .check = check,
      .unverified = unverified,
      .write = write,
      .parts = parts,
      .settings = setting_rules(),
      .memory = {.buffers = deepspeed::memory_buffers,
                 .layers_recomputed_at_once = layers_recomputed_at_once,
                 .keeps_small_parameters = true,
                 .most_kept = deepspeed::most_kept},
      .advice = {.place = "in the GPT-NeoX yml",
                 .setting = setting_text,
                 .changes = deepspeed::advised_changes},
      .variations = add_variations,
      .case_file = {.read_options = read_case_options, .arguments = k_name, .read_arguments = job_from_neox},
      .causes = causes()};
}

}  // namespace commlens::neox
