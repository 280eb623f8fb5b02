#include "commlens/frameworks/case_file.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/neox/reader.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens {
namespace {

/// The name of the case: its file, or its folder when the file has the usual name.
std::string case_name(const ConfigNode& document) {
  const std::filesystem::path path(document.file);
  return path.stem() == "case" && path.has_parent_path() ? path.parent_path().filename().string()
                                                         : path.stem().string();
}

void set_family(ModelConfig& model, Family family) {
  const bool is_llama = family == Family::llama;
  model.family = family;
  model.gated_mlp = is_llama;
  model.linear_bias = model.qkv_bias = model.norm_bias = !is_llama;
  model.positions = is_llama ? Positions::rotary : Positions::learned;
}

Result<void> read_model(const ConfigNode& section, Job& job) {
  ModelConfig& model = job.model;
  MapReader reader(section, {job.warnings, job.unmodelled});
  Family family = Family::gpt;
  reader.choose("family", {{"gpt", Family::gpt}, {"llama", Family::llama}}, family);
  set_family(model, family);
  reader.read("name", model.name);
  reader.require("layers", model.layers);
  reader.require("hidden", model.hidden);
  reader.require("heads", model.heads);
  reader.require("sequence", model.sequence);
  reader.require("vocab", model.raw_vocab);
  model.vocab = model.raw_vocab;
  reader.read("kv_heads", model.kv_heads);
  reader.read("head_dim", model.head_dim);
  reader.read("ffn_hidden", model.ffn_hidden);
  reader.read("max_positions", model.max_positions);
  reader.choose("positions",
                {{"learned", Positions::learned}, {"rotary", Positions::rotary}, {"none", Positions::none}},
                model.positions);
  reader.read("tied_embeddings", model.tied_embeddings);
  reader.read("parallel_residual", model.parallel_residual);
  reader.read("experts", model.experts, 0);
  reader.read("top_k", model.top_k, 0);
  if (family == Family::llama && model.ffn_hidden == 0) {
    reader.fail("family", "is llama, which needs ffn_hidden beside it");
  }
  return reader.finish();
}

Result<void> read_layout(const ConfigNode& section, Job& job) {
  ParallelLayout& layout = job.layout;
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.read("pipeline", layout.pp);
  reader.read("tensor", layout.tp);
  reader.read("replicate", layout.replicate);
  reader.read("data", layout.dp);
  reader.read("context", layout.cp);
  reader.read("expert", layout.ep);
  reader.read("sequence_parallel", layout.sequence_parallel);
  reader.read("virtual_stages", layout.virtual_stages);
  reader.read("order", layout.order);
  return reader.finish();
}

Result<void> read_options(const ConfigNode& section, Job& job) {
  deepspeed::Options& options = deepspeed::options(job);
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.choose("parameter_groups", {{"weight_decay", true}, {"single", false}}, options.weight_decay_groups);
  reader.choose("engine", {{"pipeline", true}, {"default", false}}, options.pipeline_engine);
  reader.read("attention_mask", options.attention_mask);
  reader.read("pipe_partition_method", options.partition_method);
  reader.read("pipe_partition_method", neox::options(job).partition_method);
  reader.read("zero_init", deepspeed::options(job).zero_init);
  reader.read("replicated_tensor_parallel", job.layout.replicated_tp);
  reader.choose("recompute",
                {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
                job.train.recompute);
  reader.choose(
      "schedule",
      {{"gpipe", Schedule::gpipe}, {"1f1b", Schedule::one_f_one_b}, {"interleaved", Schedule::interleaved}},
      job.train.schedule);
  reader.choose<std::optional<Attention>>(
      "attention", {{"flash", Attention::flash}, {"eager", Attention::eager}}, job.train.attention);
  bool checkpoints = job.train.recompute == Recompute::full;
  reader.read("checkpoint_activations", checkpoints);
  if (checkpoints) {
    set_recompute(job, Recompute::full);
  }
  reader.read("partition_activations", job.train.partition_activations);
  return reader.finish();
}

Result<void> read_ddp(const ConfigNode& section, Job& job) {
  MapReader reader(section, {job.warnings, job.unmodelled});
  double mebibytes = 25;
  reader.read("bucket_cap_mb", mebibytes);
  if (mebibytes <= 0 || mebibytes > 1e9) {
    reader.fail("bucket_cap_mb", "must be more than 0 and at most 1e9");
  } else {
    torch_ddp::options(job).bucket_cap = Bytes{static_cast<std::int64_t>(mebibytes * 1024.0 * 1024.0)};
  }
  reader.read("static_graph", torch_ddp::options(job).static_graph);
  return reader.finish();
}

Result<void> read_commlens(const ConfigNode& section, Job& job) {
  trainer::Options& options = trainer::options(job);
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.read("bucket", options.bucket.value);
  reader.read("persistence_threshold", job.train.persistence_threshold, 0);
  reader.read("deepspeed_like", options.all_reduce_gradients);
  reader.read("hpz", job.train.hpz);
  reader.read("quantized_weights", job.train.quantized_weights);
  reader.read("quantized_gradients", job.train.quantized_gradients);
  reader.read("partition_activations", job.train.partition_activations);
  std::int64_t stage = job.train.zero_stage;
  reader.read("zero", stage, 0);
  if (stage > 3) {
    reader.fail("zero", fmt::format("is {}; it must be 0, 1, 2 or 3", stage));
  } else {
    job.train.zero_stage = static_cast<int>(stage);
  }
  reader.read("gradient_clipping", job.train.gradient_clipping);
  if (job.train.gradient_clipping < 0) {
    reader.fail("gradient_clipping", "must not be negative; 0 switches it off");
  }
  return reader.finish();
}

constexpr std::int64_t k_absent = 0;  // a batch size that the case leaves to its DeepSpeed map

/// The batch and the precision are in the case and in its DeepSpeed map: both must say the same.
Result<void> read_deepspeed_section(const ConfigNode& section, Job& job) {
  const DType precision = job.train.dtype;
  const std::int64_t micro_batch = job.train.micro_batch;
  const std::int64_t micro_batches = job.train.micro_batches;
  job.train.micro_batch = std::max<std::int64_t>(micro_batch, 1);
  job.train.micro_batches = std::max<std::int64_t>(micro_batches, 1);
  TrainingArguments given;
  given.dtype = precision;
  if (micro_batch != k_absent) {
    given.micro_batch = micro_batch;
  }
  if (micro_batches != k_absent) {
    given.micro_batches = micro_batches;
  }
  if (const Result<void> ok = read_deepspeed(section, job, given); !ok) {
    return ok;
  }
  if (job.train.dtype != precision) {
    return failure(fmt::format("{}: the deepspeed map trains in {}, 'precision' says {}; make them agree",
                               section.where(), name_of(job.train.dtype), name_of(precision)));
  }
  const bool restates_batch =
      job.global_batch > 0 && (job.train.micro_batch == 0 || job.train.micro_batches == 0);
  if (restates_batch) {
    job.train.micro_batch = std::max<std::int64_t>(micro_batch, 1);
    job.train.micro_batches = std::max<std::int64_t>(micro_batches, 1);
  }
  if (micro_batch != k_absent && job.train.micro_batch != micro_batch) {
    return failure(
        fmt::format("{}: train_micro_batch_size_per_gpu is {}, 'micro_batch' says {}; make them agree",
                    section.where(), job.train.micro_batch, micro_batch));
  }
  if (micro_batches != k_absent && job.train.micro_batches != micro_batches) {
    return failure(
        fmt::format("{}: gradient_accumulation_steps is {}, 'micro_batches' says {}; make them agree",
                    section.where(), job.train.micro_batches, micro_batches));
  }
  return {};
}

Result<Job> job_from_arguments(MapReader& reader, std::string_view framework, const ConfigNode& arguments,
                               const std::string& version) {
  for (const std::string_view key :
       {"model", "layout", "micro_batch", "micro_batches", "precision", "deepspeed", "options", "ddp"}) {
    reader.refuse(key, fmt::format("must not stand beside the {} map, which says it all", framework));
  }
  std::int64_t padded_vocab = 0;
  reader.read("padded_vocab", padded_vocab);
  if (reader.failed()) {
    return tl::unexpected(reader.finish().error());
  }
  ConfigNode map = arguments;
  use_underscores(map);
  return framework == neox::k_name ? job_from_neox(map, padded_vocab, version)
                                   : job_from_megatron(map, padded_vocab);
}

Result<Job> job_from_sections(MapReader& reader, const ConfigNode& document, std::string_view framework,
                              const std::string& version) {
  Job job;
  job.model.name = case_name(document);
  reader.choose("precision", {{"fp32", DType::fp32}, {"fp16", DType::fp16}, {"bf16", DType::bf16}},
                job.train.dtype);
  job.train.micro_batch = job.train.micro_batches = k_absent;
  reader.read("micro_batch", job.train.micro_batch);
  reader.read("micro_batches", job.train.micro_batches);
  const ConfigNode* model = reader.map("model");
  if (!reader.failed() && model == nullptr) {
    reader.fail_at(document, "'model' is missing (or a neox or megatron map)");
  }
  if (reader.failed() || model == nullptr) {
    return tl::unexpected(reader.finish().error());
  }
  Result<void> ok = read_model(*model, job);
  job.framework = trainer::k_name;  // none of its own settings yet
  job = with_framework(std::move(job), framework);
  using Section = Result<void> (*)(const ConfigNode&, Job&);
  const std::pair<std::string_view, Section> sections[] = {{"layout", read_layout},
                                                           {"deepspeed", read_deepspeed_section},
                                                           {"options", read_options},
                                                           {"ddp", read_ddp}};
  for (const auto& [key, read] : sections) {
    const ConfigNode* section = reader.map(key);
    if (ok && section != nullptr) {
      ok = read(*section, job);
    }
  }
  if (!ok) {
    return tl::unexpected(ok.error());
  }
  job.train.micro_batch = std::max<std::int64_t>(job.train.micro_batch, 1);
  job.train.micro_batches = std::max<std::int64_t>(job.train.micro_batches, 1);
  job.framework_version = version;
  if (framework == trainer::k_name && reader.has("deepspeed")) {
    job.framework = deepspeed::k_name;  // its settings are carried over
  }
  return job;
}

}  // namespace

Result<Job> job_from_case(const ConfigNode& document) {
  Job notes;  // of the outermost keys, before the job is there
  MapReader reader(document, {notes.warnings, notes.unmodelled});
  std::string name;
  std::string version;
  reader.read("framework", name);
  reader.read("framework_version", version);
  if (!reader.failed() && name.empty()) {
    reader.fail_at(document, "'framework' is missing: " + framework_names(" or "));
  }
  const Result<const FrameworkRules*> framework = framework_named(shown_text(name));
  if (!reader.failed() && !framework) {
    reader.fail_at(*reader.node("framework"), framework.error().message);
  }
  const ConfigNode* of_neox = reader.map(neox::k_name);
  const ConfigNode* of_megatron = reader.map(megatron::k_name);
  if (of_neox != nullptr && of_megatron != nullptr) {
    reader.fail("neox", "and 'megatron' cannot both stand in a case");
  }
  std::int64_t ranks = 0;
  std::int64_t iterations = 3;
  reader.read("ranks", ranks);
  reader.read("iterations", iterations);
  if (reader.failed()) {
    return tl::unexpected(reader.finish().error());
  }
  const ConfigNode* ours = reader.map("commlens");
  if (ours != nullptr && (*framework)->name != trainer::k_name) {
    reader.fail("commlens", "has the settings of our own trainer; set 'framework: commlens'");
    return tl::unexpected(reader.finish().error());
  }
  const ConfigNode* arguments = of_neox != nullptr ? of_neox : of_megatron;
  const std::string_view source = of_neox != nullptr ? neox::k_name : megatron::k_name;
  Result<Job> job = arguments != nullptr ? job_from_arguments(reader, source, *arguments, version)
                                         : job_from_sections(reader, document, (*framework)->name, version);
  if (!job) {
    return job;
  }
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  Job result = with_framework(std::move(*job), (*framework)->name);
  if (ours != nullptr) {
    if (const Result<void> ok = read_commlens(*ours, result); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  result.framework_version = version.empty() ? result.framework_version : version;
  result.layout.ranks = ranks;
  result.iterations = iterations;
  result.model.name = arguments != nullptr ? case_name(document) : result.model.name;
  result.warnings.insert(result.warnings.begin(), notes.warnings.begin(), notes.warnings.end());
  result.unmodelled.insert(result.unmodelled.begin(), notes.unmodelled.begin(), notes.unmodelled.end());
  return result;
}

}  // namespace commlens
