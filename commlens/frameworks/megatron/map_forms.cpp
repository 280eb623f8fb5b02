#include "commlens/frameworks/megatron/map_forms.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/shell_values.hpp"
#include "commlens/frameworks/megatron/argument_lists.hpp"
#include "commlens/frameworks/megatron/script_reader.hpp"

namespace commlens::megatron {
namespace {

// Sections of a Megatron-Bridge configuration whose keys are arguments; those of the others count only by
// name.
constexpr std::string_view k_bridge_sections =
    "model ddp train validation dist optimizer rerun_state_machine rng";
constexpr std::string_view k_bridge_other_sections =
    "checkpoint comm_overlap dataset ft inprocess_restart logger mixed_precision nvrx_straggler profiling "
    "scheduler straggler tensor_inspect tokenizer optimizer_config_override_provider peft env_vars "
    "ENV_VARS _target_ megatron_mimo dataset_kwargs";
// Its fields that are no arguments of Megatron-LM and change no message.
constexpr std::string_view k_bridge_inert =
    "_target_ activation_func activation_func_fp8_input_store autocast_dtype autocast_enabled "
    "batch_p2p_comm batch_p2p_sync beta_fast beta_slow bias_activation_fusion check_optimizer_step_success "
    "config_logger_dir cpu_offloading cpu_offloading_activations cpu_offloading_double_buffering "
    "cpu_offloading_weights cuda_graph_retain_backward_graph cuda_graph_use_single_mempool "
    "data_parallel_size deallocate_pipeline_outputs decoupled_weight_decay "
    "disable_parameter_transpose_cache embedding_init_method enable_autocast "
    "enable_megatron_core_experimental external_gpu_device_mapping finalize_model_grads_func "
    "fp8_dot_product_attention fp8_multi_head_attention fsdp_all_gather_in_start_param_sync "
    "fused_single_qkv_rope generation_config grad_scale_func grad_sync_func hetereogenous_dist_checkpoint "
    "heterogeneous_block_specs hf_model_id inference_sampling_seed init_method memory_efficient_layer_norm "
    "moe_router_topk_limited_devices moe_token_dropping mtp_enabled no_sync_func "
    "num_microbatches_with_partial_activation_checkpoints original_max_position_embeddings "
    "output_layer_init_method parallel_output param_sync_func params_dtype pipeline_dtype quant_recipe "
    "restore_modelopt_state rope_scaling seq_len_interpolation_factor skip_sync_grad_norm_across_mp "
    "softmax_scale spiky_loss_factor store_param_remainders test_mode timers tp_comm_atomic_ag "
    "tp_comm_atomic_rs tp_comm_overlap_disable_fc1 tp_comm_overlap_disable_qkv tp_only_amax_red "
    "transformer_layer_spec use_arbitrary_attention_mask use_decentralized_pg "
    "use_inference_optimized_layers use_kitchen use_transformer_engine_full_layer_spec muon_use_nesterov "
    "weights_path yarn_mscale yarn_mscale_all_dim yarn_rotary_scaling_factor check_for_nan_in_loss";

const ConfigNode* map_at(const ConfigNode& document, std::string_view key) {
  const ConfigNode* const found = find(document, key);
  return found != nullptr && found->kind == ConfigNode::Kind::map ? found : nullptr;
}

bool is_null_value(const ConfigNode& node) { return node.kind == ConfigNode::Kind::null; }

ConfigNode scalar_like(const ConfigNode& place, std::string text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.file = place.file;
  node.line = place.line;
  node.text = std::move(text);
  return node;
}

ConfigNode empty_like(const ConfigNode& place) {
  ConfigNode map;
  map.kind = ConfigNode::Kind::map;
  map.file = place.file;
  map.line = place.line;
  return map;
}

/// Sets a key, in place of what it had.
void set_argument(ConfigNode& map, std::string_view key, ConfigNode value) {
  const auto found = std::find(map.keys.begin(), map.keys.end(), key);
  if (found == map.keys.end()) {
    append(map, std::string(key), std::move(value));
  } else {
    map.items[static_cast<std::size_t>(found - map.keys.begin())] = std::move(value);
  }
}

void remove_argument(ConfigNode& map, std::string_view key) {
  for (std::size_t index = map.keys.size(); index-- > 0;) {
    if (map.keys[index] == key) {
      map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(index));
      map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
}

/// Resolves ${NAME} in the values of a map.
class MapVariables {
 public:
  explicit MapVariables(const ConfigNode* values) {
    for (std::size_t index = 0; values != nullptr && index < values->keys.size(); ++index) {
      if (values->items[index].kind == ConfigNode::Kind::scalar) {
        values_.set(values->keys[index], {values->items[index].text, values->items[index].line});
      }
    }
  }

  Result<void> resolve(ConfigNode& map) {
    for (std::size_t index = 0; index < map.keys.size(); ++index) {
      if (map.keys[index] == k_notes_key) {
        continue;
      }
      if (const Result<void> ok = resolve(map.keys[index], map.items[index]); !ok) {
        return ok;
      }
    }
    return {};
  }

 private:
  Result<void> resolve(const std::string& key, ConfigNode& value) {
    for (ConfigNode& item : value.items) {
      if (const Result<void> ok = resolve(key, item); !ok) {
        return ok;
      }
    }
    if (value.kind != ConfigNode::Kind::scalar || value.text.find('$') == std::string::npos ||
        is_inert(key)) {
      return {};
    }
    const std::string text = values_.text(value.text, value.line);
    if (const ShellUnknown* const unknown = values_.unknown_in(text)) {
      return failure(fmt::format("{}: '{}' is '{}', and nothing in the file says what {} is; write its value",
                                 value.where(), key, shown_text(value.text), shown_text(unknown->text)));
    }
    if (values_.is_exhausted()) {
      return failure(fmt::format("{}: '{}' becomes too long a text", value.where(), key));
    }
    value.text = text;
    return {};
  }

  ShellValues values_;
};

/// "[384 384 97656250]", as recipes write lists, as a list.
void unfold_list(ConfigNode& value) {
  if (value.kind != ConfigNode::Kind::scalar || !value.text.starts_with('[') || !value.text.ends_with(']') ||
      value.text.find('*') != std::string::npos || value.text.find('+') != std::string::npos) {
    return;
  }
  std::string text = value.text.substr(1, value.text.size() - 2);
  std::replace(text.begin(), text.end(), ',', ' ');
  ConfigNode list = scalar_like(value, "");
  list.kind = ConfigNode::Kind::list;
  ShellValues words;
  for (ShellWord& word : words.words(text, value.line)) {
    list.items.push_back(scalar_like(value, std::move(word.text)));
  }
  value = std::move(list);
}

/// One letter for each layer of a stage, as pipeline_model_parallel_layout writes it.
std::string stage_letters(const ConfigNode& stage) {
  std::string letters;
  for (const ConfigNode& item : stage.items) {
    letters += item.text == "embedding" ? "E"
               : item.text == "decoder" ? "t"
               : item.text == "mtp"     ? "m"
               : item.text == "loss"    ? "L"
                                        : item.text;
  }
  return stage.kind == ConfigNode::Kind::list ? letters : stage.text;
}

/// A layout given as a list of stages becomes its text.
void write_layout_as_text(ConfigNode& map) {
  const ConfigNode* const layout = find(map, "pipeline_model_parallel_layout");
  if (layout == nullptr || layout->kind != ConfigNode::Kind::list) {
    return;
  }
  std::string text;
  for (std::size_t stage = 0; stage < layout->items.size(); ++stage) {
    text += (stage > 0 ? "|" : "") + stage_letters(layout->items[stage]);
  }
  set_argument(map, "pipeline_model_parallel_layout", scalar_like(*layout, std::move(text)));
}

/// What fields of a configuration object say by other values than arguments do.
void use_argument_values(ConfigNode& map) {
  const ConfigNode* const gated = find(map, "gated_linear_unit");
  if (gated != nullptr) {
    const ConfigNode value = *gated;
    remove_argument(map, "gated_linear_unit");
    set_argument(map, "swiglu", value);
  }
  const ConfigNode* const groups = find(map, "num_query_groups");
  if (groups != nullptr && !is_null_value(*groups) &&
      is_off(find(map, "multi_latent_attention") == nullptr ? scalar_like(map, "false")
                                                            : *find(map, "multi_latent_attention"))) {
    set_argument(map, "group_query_attention", scalar_like(*groups, "true"));
  }
  if (const ConfigNode* const backend = find(map, "attention_backend")) {
    const std::size_t dot = backend->text.rfind('.');
    set_argument(map, "attention_backend",
                 backend->kind == ConfigNode::Kind::scalar
                     ? scalar_like(*backend, backend->text.substr(dot == std::string::npos ? 0 : dot + 1))
                     : ConfigNode{});
  }
  const ConfigNode* const length = find(map, "seq_length");
  if (find(map, "max_position_embeddings") == nullptr && length != nullptr) {
    set_argument(map, "max_position_embeddings", *length);
  }
  if (const ConfigNode* const dtype = find(map, "main_grads_dtype");
      dtype != nullptr && dtype->kind == ConfigNode::Kind::map) {
    const ConfigNode* const name = find(*dtype, "_target_");
    const bool is_bf16 = name != nullptr && name->text == "torch.bfloat16";
    set_argument(map, "main_grads_dtype", scalar_like(*dtype, is_bf16 ? "bf16" : "fp32"));
  }
  write_layout_as_text(map);
  const ConfigNode* const scatters = find(map, "scatter_embedding_sequence_parallel");
  if (scatters != nullptr && !is_off(*scatters)) {
    remove_argument(map, "scatter_embedding_sequence_parallel");  // as always
  }
  for (const std::string& key : std::vector<std::string>(map.keys)) {
    if (is_one_of(key, k_bridge_inert)) {
      remove_argument(map, key);
    }
  }
}

/// Takes the keys of a section that say something; later sections win.
void take_section(const ConfigNode& document, std::string_view section, ConfigNode& map) {
  const ConfigNode* const found = map_at(document, section);
  if (found == nullptr) {
    return;
  }
  ConfigNode named = *found;
  use_todays_names(named);
  for (std::size_t index = 0; index < named.keys.size(); ++index) {
    if (!is_null_value(named.items[index])) {
      set_argument(map, named.keys[index], std::move(named.items[index]));
    }
  }
}

/// Of a section only the keys that can change messages.
void take_named(const ConfigNode& document, std::string_view section, std::string_view keys,
                ConfigNode& map) {
  const ConfigNode* const found = map_at(document, section);
  if (found == nullptr) {
    return;
  }
  ConfigNode only = empty_like(*found);
  for (std::size_t index = 0; index < found->keys.size(); ++index) {
    if (is_one_of(found->keys[index], keys)) {
      append(only, found->keys[index], found->items[index]);
    }
  }
  ConfigNode wrapped = empty_like(document);
  append(wrapped, std::string(section), std::move(only));
  take_section(wrapped, section, map);
}

/// mixed_precision: the name of a recipe ("bf16_mixed"), or its fields.
void take_precision(const ConfigNode& document, ConfigNode& map) {
  const ConfigNode* const precision = find(document, "mixed_precision");
  if (precision != nullptr && precision->kind == ConfigNode::Kind::scalar) {
    const std::string& name = precision->text;
    const bool is_fp16 = name.starts_with("fp16");
    set_argument(map, is_fp16 ? "fp16" : "bf16", scalar_like(*precision, "true"));
    set_argument(map, "accumulate_allreduce_grads_in_fp32",
                 scalar_like(*precision, is_fp16 ? "false" : "true"));
    if (name.find("fp8") != std::string::npos || name.find("fp4") != std::string::npos) {
      set_argument(map, "fp8_format", scalar_like(*precision, name));
    }
  }
  take_named(document, "mixed_precision",
             "bf16 fp16 fp8 fp4 fp8_param fp8_param_gather grad_reduce_in_fp32 loss_scale initial_loss_scale "
             "min_loss_scale loss_scale_window hysteresis",
             map);
  const ConfigNode* const in_fp32 = find(map, "accumulate_allreduce_grads_in_fp32");
  const ConfigNode* const bf16 = find(map, "bf16");
  if (in_fp32 != nullptr && is_off(*in_fp32) && bf16 != nullptr && !is_off(*bf16)) {
    set_argument(map, "grad_reduce_in_bf16", scalar_like(*in_fp32, "true"));
  }
}

/// comm_overlap decides over what the other sections say of overlap; what it leaves open follows from the
/// layout. Source: Megatron-Bridge training/comm_overlap.py:454-463.
void take_overlap(const ConfigNode& document, ConfigNode& map) {
  const ConfigNode* const overlap = map_at(document, "comm_overlap");
  if (overlap == nullptr) {
    return;
  }
  constexpr std::string_view bucket = "134217728";  // elements
  remove_argument(map, "no_overlap_p2p_communication");
  if (const ConfigNode* const size = find(map, "ddp_bucket_size"); size == nullptr) {
    set_argument(map, "ddp_bucket_size", scalar_like(*overlap, std::string(bucket)));
  }
  take_section(document, "comm_overlap", map);
}

Result<FlatArguments> bridge_arguments(const ConfigNode& document) {
  FlatArguments arguments;
  arguments.map = empty_like(document);
  std::string_view sections = k_bridge_sections;
  while (!sections.empty()) {
    const std::size_t end = std::min(sections.find(' '), sections.size());
    take_section(document, sections.substr(0, end), arguments.map);
    sections.remove_prefix(std::min(end + 1, sections.size()));
  }
  ConfigNode& map = arguments.map;
  take_named(document, "dataset",
             "sequence_length seq_length skip_getting_attention_mask_from_dataset create_attention_mask",
             map);
  take_named(document, "tokenizer", "tokenizer_type", map);
  take_named(document, "checkpoint", "use_checkpoint_args use_mp_args_from_checkpoint_args", map);
  take_named(
      document, "logger",
      "log_interval timing_log_level log_params_norm log_num_zeros_in_grad barrier_with_L1_time log_energy "
      "log_max_attention_logit log_timers_to_tensorboard",
      map);
  take_precision(document, map);
  take_overlap(document, map);
  const auto move = [&](std::string_view from, std::string_view to, bool turns) {
    if (const ConfigNode* const found = find(map, from)) {
      ConfigNode value = *found;
      if (turns) {
        value.text = is_off(value) ? "true" : "false";
      }
      remove_argument(map, from);
      if (find(map, to) == nullptr) {
        set_argument(map, to, std::move(value));
      }
    }
  };
  move("sequence_length", "seq_length", false);
  move("skip_getting_attention_mask_from_dataset", "no_create_attention_mask_in_dataloader", false);
  move("create_attention_mask", "no_create_attention_mask_in_dataloader", true);
  use_argument_values(map);
  for (std::size_t index = 0; index < document.keys.size(); ++index) {
    const bool is_section = is_one_of(document.keys[index], k_bridge_sections) ||
                            is_one_of(document.keys[index], k_bridge_other_sections);
    if (!is_section) {
      append(map, document.keys[index], document.items[index]);
    }
  }
  if (const ConfigNode* const peft = find(document, "peft"); peft != nullptr && !is_off(*peft)) {
    return failure(
        fmt::format("{}: 'peft' trains a part of the model, which has no rules here", peft->where()));
  }
  arguments.unmodelled.push_back(fmt::format(
      "Megatron-Bridge's own training loop ({}) is read as that of Megatron-LM", document.where()));
  return arguments;
}

Result<FlatArguments> plain_arguments(const ConfigNode& document) {
  FlatArguments arguments;
  arguments.map = document;
  for (const std::string_view section : {"language_model", "model_parallel"}) {
    if (map_at(document, section) != nullptr) {
      remove_argument(arguments.map, section);
      take_section(document, section, arguments.map);
      use_argument_values(arguments.map);
    }
  }
  use_todays_names(arguments.map);
  return arguments;
}

bool is_bridge(const ConfigNode& document) {
  return map_at(document, "model") != nullptr && has_argument_sections(document.keys);
}

}  // namespace

bool has_argument_sections(const std::vector<std::string>& keys) {
  const auto has = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const bool is_of_bridge = has("model") && (has("train") || has("ddp") || has("comm_overlap") ||
                                             has("mixed_precision") || has("rerun_state_machine"));
  return has("MODEL_ARGS") || has("ConfigContainer") || (has("language_model") && has("model_parallel")) ||
         is_of_bridge;
}

Result<FlatArguments> flat_arguments(const ConfigNode& whole) {
  if (whole.kind != ConfigNode::Kind::map) {
    return FlatArguments{whole, {}};
  }
  const ConfigNode* const container = map_at(whole, "ConfigContainer");
  const ConfigNode& document = container == nullptr ? whole : *container;
  const ConfigNode* const recipe = map_at(document, "MODEL_ARGS");
  Result<FlatArguments> arguments = recipe != nullptr     ? plain_arguments(*recipe)
                                    : is_bridge(document) ? bridge_arguments(document)
                                                          : plain_arguments(document);
  if (!arguments) {
    return arguments;
  }
  MapVariables variables(map_at(document, "ENV_VARS"));
  if (const Result<void> ok = variables.resolve(arguments->map); !ok) {
    return tl::unexpected(ok.error());
  }
  for (ConfigNode& value : arguments->map.items) {
    unfold_list(value);
  }
  return arguments;
}

}  // namespace commlens::megatron
