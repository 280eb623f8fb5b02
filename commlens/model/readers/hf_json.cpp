#include "commlens/model/readers/hf_json.hpp"

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "commlens/model/framework_options.hpp"
#include "commlens/model/readers/map_reader.hpp"

namespace commlens {
namespace {

// Keys of transformers' configurations that change neither parameters nor messages.
constexpr std::string_view k_other_hf_keys =
    "_commit_hash _name_or_path activation_function "
    "architectures attention_dropout attention_probs_dropout_prob attn_pdrop bad_words_ids "
    "begin_suppress_tokens bos_token_id classifier_dropout cross_attention_hidden_size "
    "decoder_start_token_id embd_pdrop eos_token_id finetuning_task hidden_act "
    "hidden_dropout hidden_dropout_prob id2label initializer_range is_decoder "
    "label2id layer_norm_eps layer_norm_epsilon mask_token_id model_type n_ctx output_attentions "
    "output_hidden_states output_past output_router_logits pad_token_id pretraining_tp problem_type "
    "reorder_and_upcast_attn resid_pdrop return_dict rms_norm_eps "
    "rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct router_aux_loss_coef "
    "router_jitter_noise scale_attn_by_inverse_layer_idx scale_attn_weights sliding_window "
    "summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj "
    "task_specific_params tokenizer_class transformers_version unk_token_id use_cache";

// The same of generation, which configurations of older versions repeat.
constexpr std::string_view k_generation_keys =
    "chunk_size_feed_forward diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size "
    "exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id initializer_factor "
    "layer_types length_penalty max_length max_window_layers min_length no_repeat_ngram_size num_beam_groups "
    "num_beams num_return_sequences output_scores partial_rotary_factor prefix remove_invalid_values "
    "repetition_penalty return_dict_in_generate sep_token_id suppress_tokens temperature tf_legacy_loss "
    "top_k "
    "top_p typical_p use_bfloat16 use_sliding_window";

// What changes the parameters or their type in a way that is not modelled: left out, unless switched off.
constexpr std::string_view k_left_out_hf_keys =
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
      config.leave_out("architectures", "architecture " + shown_text(name.text));
    }
  }
}

void read_gpt2(MapReader& config, ModelConfig& model) {
  config.require("n_layer", model.layers);
  config.require("n_embd", model.hidden);
  config.require("n_head", model.heads);
  config.require("n_positions", model.max_positions);
  config.read("n_inner", model.ffn_hidden);
  model.positions = Positions::learned;
  model.tied_embeddings = true;
}

void read_hf_sizes(MapReader& config, ModelConfig& model) {
  config.require("num_hidden_layers", model.layers);
  config.require("hidden_size", model.hidden);
  config.require("num_attention_heads", model.heads);
  config.require("intermediate_size", model.ffn_hidden);
  config.require("max_position_embeddings", model.max_positions);
  config.read("head_dim", model.head_dim);
  model.positions = Positions::rotary;
}

void read_gpt_neox(MapReader& config, ModelConfig& model) {
  read_hf_sizes(config, model);
  model.parallel_residual = true;
  model.rotary_fraction = 0.25;  // the default of GPTNeoXConfig
  config.read("rotary_pct", model.rotary_fraction);
  if (!(model.rotary_fraction >= 0 && model.rotary_fraction <= 1)) {
    config.fail("rotary_pct", "is not between 0 and 1");
  }
  config.read("use_parallel_residual", model.parallel_residual);
  bool has_bias = true;
  config.read("attention_bias", has_bias);
  if (!has_bias) {
    config.fail("attention_bias", "is false, which is not supported");
  }
}

void read_llama(MapReader& config, ModelConfig& model) {
  read_hf_sizes(config, model);
  config.read("num_key_value_heads", model.kv_heads);
  model.family = Family::llama;
  model.gated_mlp = true;
  model.linear_bias = model.qkv_bias = model.norm_bias = false;
  config.refuse_true("attention_bias", "is not supported");
  config.refuse_true("mlp_bias", "is not supported");
}

void read_mixtral(MapReader& config, ModelConfig& model) {
  read_llama(config, model);
  config.require("num_local_experts", model.experts);
  config.require("num_experts_per_tok", model.top_k);
}

/// transformers' names: eager, sdpa, flash_attention_2 and others that are all fused.
void read_hf_attention(MapReader& config, TrainConfig& train) {
  const ConfigNode* const name = config.node("_attn_implementation");
  if (name != nullptr && name->kind == ConfigNode::Kind::scalar && !name->text.empty()) {
    train.attention = name->text == "eager" ? Attention::eager : Attention::flash;
  }
}

using ReadModel = void (*)(MapReader&, ModelConfig&);

std::string hf_model_name(const ConfigNode& config) {
  const ConfigNode* name = find(config, "_name_or_path");
  if (name != nullptr && name->kind == ConfigNode::Kind::scalar && !name->text.empty()) {
    return std::filesystem::path(name->text).filename().string();
  }
  const std::filesystem::path path(config.file);
  return path.stem() == "config" && path.has_parent_path() ? path.parent_path().filename().string()
                                                           : path.stem().string();
}

}  // namespace

Result<Job> job_from_hf(const ConfigNode& config) {
  Job job;
  job.framework = Framework::commlens;
  ModelConfig& model = job.model;
  model.name = hf_model_name(config);
  MapReader reader(config, {job.warnings, job.unmodelled});
  ReadModel read_model = nullptr;
  reader.choose<ReadModel>("model_type",
                           {{"gpt2", read_gpt2},
                            {"gpt_neox", read_gpt_neox},
                            {"llama", read_llama},
                            {"mistral", read_llama},
                            {"mixtral", read_mixtral}},
                           read_model);
  if (!reader.failed() && read_model == nullptr) {
    reader.fail_at(config, "'model_type' is missing");
  }
  if (reader.failed() || read_model == nullptr) {
    return tl::unexpected(reader.finish().error());
  }
  read_model(reader, model);
  reader.require("vocab_size", model.raw_vocab);
  model.vocab = model.raw_vocab;
  reader.read("tie_word_embeddings", model.tied_embeddings);
  model.sequence = model.max_positions;
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    reader.choose(key, {{"float32", DType::fp32}, {"float16", DType::fp16}, {"bfloat16", DType::bf16}},
                  job.train.dtype);
  }
  job.commlens.is_carried_over = true;  // the dtype is the checkpoint's, not a choice of how to train
  bool checkpoints = false;
  reader.read("gradient_checkpointing", checkpoints);
  if (checkpoints) {
    set_recompute(job, Recompute::full);
  }
  read_hf_attention(reader, job.train);
  read_architectures(reader);
  reader.leave_out_unless_off(k_left_out_hf_keys);
  reader.accept(k_other_hf_keys);
  reader.accept(k_generation_keys);
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  return job;
}

}  // namespace commlens
