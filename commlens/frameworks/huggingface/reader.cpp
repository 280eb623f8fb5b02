#include "commlens/frameworks/huggingface/reader.hpp"

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/huggingface/model_types.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/recipe_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

using huggingface::read_model_type;

// What changes the parameters or their type in a way that is not modelled: skipped, unless switched off.
constexpr std::string_view k_skipped_hf_keys =
    "add_cross_attention auto_map is_encoder_decoder pruned_heads quantization_config tie_encoder_decoder "
    "torchscript";

/// Other heads than the language model's have other parameters.
void read_architectures(MapReader& config) {
  const ConfigNode* architectures = config.node("architectures");
  if (architectures == nullptr) {
    return;
  }
  for (const ConfigNode& name : architectures->items) {
    if (!name.text.ends_with("ForCausalLM") && !name.text.ends_with("LMHeadModel")) {
      config.skip("architectures", "architecture " + shown_text(name.text));
    }
  }
}

/// transformers' names: eager, sdpa, flash_attention_2 and others that are all fused.
void read_hf_attention(MapReader& config, TrainConfig& train) {
  const ConfigNode* const name = config.node("_attn_implementation");
  if (name != nullptr && name->kind == ConfigNode::Kind::scalar && !name->text.empty()) {
    train.attention = name->text == "eager" ? Attention::eager : Attention::flash;
  }
}

/// Reads the base of rotary positions: in older files beside the sizes, in newer ones in a map.
Result<void> read_rotary(MapReader& config, Job& job) {
  double& base = job.model.rotary_base;
  read_within(config, "rotary_emb_base", {1, 1e12}, base);
  read_within(config, "rope_theta", {1, 1e12}, base);
  const ConfigNode* parameters = config.map("rope_parameters");
  if (parameters == nullptr) {
    return {};
  }
  std::vector<std::string> ignored;  // of a map whose other keys are named below
  MapReader reader(*parameters, {ignored, ignored});
  read_within(reader, "rope_theta", {1, 1e12}, base);
  read_within(reader, "partial_rotary_factor", {0, 1}, job.model.rotary_fraction);
  std::string type = "default";
  reader.read("rope_type", type);
  if (type != "default") {
    job.recipe.not_honoured.push_back(
        not_honoured_text("rope_parameters.rope_type", shown_text(type), "default"));
  }
  return reader.finish();
}

/// What decides the numbers of a layer, besides the sizes.
void read_hf_layers(MapReader& config, Job& job) {
  ModelConfig& model = job.model;
  read_within(config, "layer_norm_epsilon", {}, model.norm_epsilon);
  read_within(config, "layer_norm_eps", {}, model.norm_epsilon);
  read_within(config, "initializer_range", {}, model.initialisation.deviation);
  if (!model.gated_mlp) {
    read_activation(config, "activation_function", model.activation, job.recipe);
    read_activation(config, "hidden_act", model.activation, job.recipe);
  }
  std::int64_t window = 0;
  config.read("sliding_window", window, 0);
  if (window > 0) {
    job.recipe.attention_window = {"sliding_window", window};
  }
}

std::string hf_model_name(const ConfigNode& config) {
  const ConfigNode* name = find(config, "_name_or_path");
  if (name != nullptr && name->kind == ConfigNode::Kind::scalar && !name->text.empty()) {
    return std::filesystem::path(name->text).filename().string();
  }
  const std::filesystem::path path(config.file);
  const bool is_usual = path.stem() == "config" || path.stem() == "case";
  return is_usual && path.has_parent_path() ? path.parent_path().filename().string() : path.stem().string();
}

}  // namespace

Result<Job> job_from_hf(const ConfigNode& config) {
  Job job;
  job.framework = trainer::k_name;
  ModelConfig& model = job.model;
  model.name = hf_model_name(config);
  MapReader reader(config, {job.warnings, job.unmodelled});
  read_model_type(reader, config, job);
  if (reader.failed()) {
    return tl::unexpected(reader.finish().error());
  }
  read_hf_layers(reader, job);
  if (const Result<void> ok = read_rotary(reader, job); !ok) {
    return tl::unexpected(ok.error());
  }
  reader.require("vocab_size", model.raw_vocab);
  model.vocab = model.raw_vocab;
  reader.read("tie_word_embeddings", model.tied_embeddings);
  model.sequence = huggingface::options(job).longest_sequence = model.max_positions;
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    reader.choose(key, {{"float32", DType::fp32}, {"float16", DType::fp16}, {"bfloat16", DType::bf16}},
                  job.train.dtype);
  }
  job.is_converted = true;  // the dtype is the checkpoint's, not a choice of how to train
  bool checkpoints = false;
  reader.read("gradient_checkpointing", checkpoints);
  if (checkpoints) {
    set_recompute(job, Recompute::full);
  }
  read_hf_attention(reader, job.train);
  read_architectures(reader);
  reader.skip_unless_off(k_skipped_hf_keys);
  accept_known_keys(reader, config, huggingface::training_keys(), job.recipe);
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  return job;
}

ConfigReader huggingface::reader() {
  return {.name = "a Hugging Face config.json",
          .framework = trainer::k_name,
          .recognises =
              [](const ConfigFile& file) { return file.has("model_type") || file.has("architectures"); },
          .read = [](const std::vector<ConfigNode>& files) { return job_from_hf(files[0]); },
          .additions = Additions::added,
          .preset_names = preset_names(),
          .preset = preset};
}

}  // namespace commlens
