#include "commlens/frameworks/megatron/core_reader.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/config/tree.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"

namespace commlens::megatron {
namespace {

void read_switched_off(MapReader& arguments, std::string_view key, bool& value) {
  bool is_off = !value;
  arguments.read(key, is_off);
  value = !is_off;
}

/// A list, or a single text.
void read_texts(MapReader& arguments, std::string_view key, std::vector<std::string>& values) {
  const ConfigNode* const node = arguments.node(key);
  if (node != nullptr && node->kind == ConfigNode::Kind::scalar) {
    values = {node->text};
  } else if (node != nullptr) {
    arguments.read(key, values);
  }
}

void read_numbers(MapReader& arguments, std::string_view key, std::vector<double>& values) {
  const ConfigNode* const node = arguments.node(key);
  if (node == nullptr) {
    return;
  }
  const std::vector<ConfigNode> single = {*node};
  values.clear();
  for (const ConfigNode& item : node->kind == ConfigNode::Kind::list ? node->items : single) {
    const Result<double> number = as_number(item);
    if (!number) {
      return arguments.fail(key, number.error().message);
    }
    values.push_back(*number);
  }
}

/// "([0]*3+[1]*58)": lists with repeats, added up; nothing for other text.
std::vector<bool> layer_pattern(std::string text) {
  std::erase_if(text, [](char letter) { return letter == ' ' || letter == '(' || letter == ')'; });
  std::vector<bool> pattern;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find(']', at);
    if (text[at] != '[' || end == std::string::npos) {
      return {};
    }
    std::vector<bool> part;
    for (std::size_t i = at + 1; i < end; ++i) {
      if (text[i] == '0' || text[i] == '1') {
        part.push_back(text[i] == '1');
      } else if (text[i] != ',') {
        return {};
      }
    }
    std::int64_t times = 1;
    at = end + 1;
    if (at < text.size() && text[at] == '*') {
      const auto number = std::from_chars(text.data() + at + 1, text.data() + text.size(), times);
      at = static_cast<std::size_t>(number.ptr - text.data());
    }
    constexpr std::int64_t most = 10'000;
    if (times < 0 || times > most) {
      return {};
    }
    for (std::int64_t i = 0; i < times; ++i) {
      pattern.insert(pattern.end(), part.begin(), part.end());
    }
    if (at < text.size() && text[at] != '+') {
      return {};
    }
    at += at < text.size() ? 1 : 0;
  }
  return pattern;
}

void read_layer_pattern(MapReader& arguments, Job& job) {
  const ConfigNode* const node = arguments.node("moe_layer_freq");
  if (node == nullptr || job.model.experts == 0) {
    return;
  }
  Options& own = options(job);
  if (node->kind == ConfigNode::Kind::list) {
    for (const ConfigNode& item : node->items) {
      own.moe_layers.push_back(item.text == "1");
    }
  } else if (const Result<std::int64_t> every = as_integer(*node); every && *every > 0) {
    for (std::int64_t layer = 0; *every > 1 && layer < job.model.layers; ++layer) {
      own.moe_layers.push_back(layer % *every == 0);
    }
  } else {
    own.moe_layers = layer_pattern(node->text);
    if (own.moe_layers.empty()) {
      arguments.fail("moe_layer_freq", "must be a number or a list of 0 and 1, such as ([0]*3+[1]*58)");
    }
  }
  if (!own.moe_layers.empty() && std::ssize(own.moe_layers) != job.model.layers) {
    arguments.fail("moe_layer_freq",
                   fmt::format("has {} layers, the model {}", own.moe_layers.size(), job.model.layers));
  }
  const auto first = std::find(own.moe_layers.begin(), own.moe_layers.end(), true);
  job.model.dense_layers = first - own.moe_layers.begin();
}

void read_model_parts(MapReader& arguments, Job& job) {
  ModelConfig& model = job.model;
  Options& own = options(job);
  arguments.read("qk_layernorm", model.qk_norm);
  arguments.read("mtp_num_layers", own.mtp_layers, 0);
  arguments.read("mtp_detach_heads", own.mtp_detaches_heads);
  bool is_latent = false;
  arguments.read("multi_latent_attention", is_latent);
  LatentAttention latent{.kv_rank = 32, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  arguments.read("q_lora_rank", latent.query_rank, 0);
  arguments.read("kv_lora_rank", latent.kv_rank);
  arguments.read("qk_head_dim", latent.nope_dim);
  arguments.read("qk_pos_emb_head_dim", latent.rope_dim);
  arguments.read("v_head_dim", latent.value_dim);
  model.latent = is_latent ? latent : LatentAttention{};
  arguments.read("moe_ffn_hidden_size", model.moe_hidden);
  arguments.read("moe_latent_size", own.moe_latent_hidden);
  arguments.read("moe_shared_expert_intermediate_size", own.shared_expert_hidden, 0);
  if (model.experts > 0 && own.shared_expert_hidden > 0) {
    const std::int64_t hidden = model.expert_hidden() > 0 ? model.expert_hidden() : 4 * model.hidden;
    model.shared_experts = std::max<std::int64_t>(own.shared_expert_hidden / hidden, 1);
  }
  read_layer_pattern(arguments, job);
  bool is_fused = false;
  CrossEntropy kind = CrossEntropy::native;
  arguments.read("cross_entropy_loss_fusion", is_fused);
  arguments.choose("cross_entropy_fusion_impl",
                   {{"native", CrossEntropy::native}, {"te", CrossEntropy::transformer_engine}}, kind);
  own.cross_entropy = is_fused ? kind : CrossEntropy::unfused;
  std::string layers = "transformer_engine";
  arguments.read("transformer_impl", layers);
  own.is_transformer_engine = layers != "local";
}

void read_virtual_stages(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("num_virtual_stages_per_pipeline_rank", job.layout.virtual_stages);
  arguments.read("pipeline_model_parallel_layout", own.stage_layout);
  if (!own.stage_layout.empty()) {
    const std::int64_t parts = parts_of_layout(own.stage_layout);
    if (parts % job.layout.pp != 0) {
      return arguments.fail(
          "pipeline_model_parallel_layout",
          fmt::format("has {} parts, which are not divisible by {} stages", parts, job.layout.pp));
    }
    job.layout.virtual_stages = parts / job.layout.pp;
  }
  if (job.layout.virtual_stages > 1) {
    job.train.schedule = Schedule::interleaved;
  }
}

void read_pipeline(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("expert_tensor_parallel_size", own.expert_tp);
  arguments.read("num_distributed_optimizer_instances", own.instances);
  arguments.read("decoder_first_pipeline_num_layers", own.layers_of_first_stage);
  arguments.read("decoder_last_pipeline_num_layers", own.layers_of_last_stage);
  arguments.read("account_for_embedding_in_pipeline_split", own.embedding_counts_as_layer);
  arguments.read("account_for_loss_in_pipeline_split", own.loss_counts_as_layer);
  arguments.read("microbatch_group_size_per_virtual_pipeline_stage", own.micro_batch_group);
  read_switched_off(arguments, "no_overlap_p2p_communication", own.overlaps_p2p);
  arguments.read("overlap_p2p_communication_warmup_flush", own.overlaps_p2p_at_ends);
  arguments.read("overlap_moe_expert_parallel_comm", own.overlaps_expert_exchange);
  read_texts(arguments, "cp_comm_type", own.cp_comm_types);
  arguments.read("hierarchical_context_parallel_sizes", own.hierarchical_cp, 1);
  arguments.read("tp_comm_overlap", own.overlaps_tp);
  read_virtual_stages(arguments, job);
}

void read_gradients(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("grad_reduce_in_bf16", own.gradients_in_bf16);
  std::string main_gradients = "fp32";
  arguments.read("main_grads_dtype", main_gradients);
  own.gradients_in_bf16 |= main_gradients == "bf16";
  arguments.read("align_grad_reduce", own.aligns_grad_reduce);
  read_switched_off(arguments, "no_align_grad_reduce", own.aligns_grad_reduce);
  arguments.read("overlap_param_gather", own.overlap_param_gather);
  read_switched_off(arguments, "no_align_param_gather", own.aligns_param_gather);
  arguments.read("overlap_param_gather_with_optimizer_step", own.gathers_with_step);
  arguments.read("ddp_bucket_size", own.bucket_size, 0);
  arguments.read("ddp_num_buckets", own.buckets, 0);
  arguments.read("ddp_pad_buckets_for_high_nccl_busbw", own.pads_buckets);
  arguments.read("ddp_average_in_collective", own.averages_in_collective);
  arguments.read("ddp_reduce_scatter_with_fp32_accumulation", own.scatters_by_all_to_all);
  arguments.read("data_parallel_random_init", own.broadcasts_parameters);
  arguments.read("calculate_per_token_loss", own.counts_tokens);
  std::string optimizer;
  arguments.read("optimizer", optimizer);
  own.is_muon = optimizer == "muon" || optimizer == "dist_muon";
  read_switched_off(arguments, "no_use_layer_wise_param_layout", own.has_layer_wise_layout);
  arguments.read("use_megatron_fsdp", own.is_megatron_fsdp);
  arguments.read("use_custom_fsdp", own.is_megatron_fsdp);
  arguments.read("use_torch_fsdp2", own.is_torch_fsdp2);
  arguments.choose("data_parallel_sharding_strategy",
                   {{"no_shard", Sharding::no_shard},
                    {"optim", Sharding::optim},
                    {"optim_grads", Sharding::optim_grads},
                    {"optim_grads_params", Sharding::optim_grads_params}},
                   own.sharding);
  if (job.train.recompute == Recompute::selective) {
    read_texts(arguments, "recompute_modules", own.recompute_modules);
  }
}

void read_experts(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("moe_flex_dispatcher_backend", own.flex_backend);
  read_texts(arguments, "moe_router_load_balancing_type", own.balancing);
  if (own.balancing.empty()) {
    arguments.fail("moe_router_load_balancing_type", "must name a type; none switches it off");
  }
  read_numbers(arguments, "moe_aux_loss_coeff", own.balancing_coefficients);
  arguments.read("moe_z_loss_coeff", own.z_loss_coefficient);
  arguments.read("moe_router_enable_expert_bias", own.has_expert_bias);
  arguments.choose("moe_router_dtype", {{"fp32", DType::fp32}, {"fp64", DType::fp64}}, own.router_dtype);
  arguments.read("moe_expert_capacity_factor", own.expert_capacity);
  arguments.read("moe_pad_expert_input_to_capacity", own.pads_to_capacity);
  arguments.read("moe_shared_expert_gate", own.has_shared_expert_gate);
  arguments.read("moe_shared_expert_overlap", own.overlaps_shared_expert);
}

void read_loop(MapReader& arguments, Job& job) {
  Options& own = options(job);
  read_switched_off(arguments, "no_create_attention_mask_in_dataloader", own.has_attention_mask);
  arguments.read("rerun_mode", own.rerun_mode);
  arguments.read("log_interval", own.log_interval);
  std::int64_t level = own.timing_level;
  arguments.read("timing_log_level", level, 0);
  own.timing_level = static_cast<int>(std::min<std::int64_t>(level, 2));
  read_switched_off(arguments, "no_barrier_with_level_1_timing", own.barriers_at_level1);
  arguments.read("log_params_norm", own.logs_params_norm);
  arguments.read("log_num_zeros_in_grad", own.logs_zeros);
  arguments.read("exit_signal_handler", own.handles_signals);
  arguments.read("exit_duration_in_mins", own.exit_minutes);
  arguments.read("eval_interval", own.eval_interval, 0);
  arguments.read("eval_iters", own.eval_iterations, 0);
}

}  // namespace

void read_core_arguments(MapReader& arguments, Job& job) {
  read_model_parts(arguments, job);
  read_pipeline(arguments, job);
  read_gradients(arguments, job);
  read_experts(arguments, job);
  read_loop(arguments, job);
  // Of recordings without a network.
  arguments.accept(
      "fake_process_group disable_gloo_process_groups ckpt_format rope_type "
      "moe_router_score_function");
}

void read_case_keys(MapReader& document, Job& job) {
  document.choose("driver", {{"core", true}, {"pretrain", false}}, options(job).is_core_loop);
  document.accept("recorded_ranks");
}

}  // namespace commlens::megatron
