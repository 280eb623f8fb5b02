// What the rules of Megatron cover, and which of them were never measured.
#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/megatron/behaviour.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/settings.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens::megatron {
namespace {

Result<void> check_expert_ranks(const Job& job) {
  if (job.model.experts == 0) {
    return job.layout.ep > 1 ? failure("expert parallelism needs experts; add num-experts or use --ep 1")
                             : Result<void>{};
  }
  const bool is_part_of_data = !behaviour(job).has_expert_grid;
  if ((is_part_of_data && job.layout.dp % job.layout.ep != 0) || job.model.experts % job.layout.ep != 0) {
    return failure(fmt::format("ep {} must divide dp {} and the {} experts", job.layout.ep, job.layout.dp,
                               job.model.experts));
  }
  const Mesh mesh = job.layout.mesh();
  if (!is_part_of_data && mesh.find_view(k_expert_view) && !job.layout.has_default_order() &&
      mesh.size(Axis::edp) != job.layout.dp) {
    return failure(
        fmt::format("another order of ranks needs as many data ranks of experts ({}) as of the rest ({})",
                    mesh.size(Axis::edp), job.layout.dp));
  }
  const std::string& dispatcher = options(job).moe_dispatcher;
  if (dispatcher != "allgather" && dispatcher != "alltoall" && dispatcher != "flex") {
    return failure(
        fmt::format("moe-token-dispatcher-type '{}' is not one of allgather, alltoall, flex", dispatcher));
  }
  if (job.layout.tp > 1 && !job.layout.sequence_parallel) {
    return failure(
        "Megatron core needs sequence parallelism for experts with tensor parallelism; add --sp or use "
        "--tp 1");
  }
  return {};
}

struct NamedSetting {
  bool is_used;
  std::string_view argument;
  std::string_view shown = {};  // empty: as `argument`
};

/// The first of these settings that is used.
Result<void> check_unused(std::initializer_list<NamedSetting> settings, std::string_view why,
                          std::string_view instead = "leave it out") {
  for (const auto& [is_used, argument, shown] : settings) {
    if (is_used) {
      return failure(fmt::format("'{}' {}; {}", argument, why, instead));
    }
  }
  return {};
}

/// What 0.7 lacks or its rules do.
Result<void> check_oldest(const Job& job) {
  const Options& own = options(job);
  if (job.layout.cp > 1) {
    return failure(
        "the rules of Megatron core 0.7 do not cover context parallelism (--cp); use --cp 1, or take a newer "
        "release, such as --framework megatron@0.19.2");
  }
  if (const std::string_view part = job.model.newer_part(); !part.empty()) {
    return failure(fmt::format("the megatron rules of core 0.7 have no {}", part));
  }
  const std::int64_t chunks = job.layout.pp * job.layout.virtual_stages;
  if (job.model.layers % chunks != 0) {
    return failure(fmt::format("Megatron needs the {} layers to be divisible by pp x virtual stages = {}",
                               job.model.layers, chunks));
  }
  return check_unused({{own.overlap_param_gather, "overlap_param_gather"},
                       {own.overlaps_tp, "tp_comm_overlap"},
                       {own.pads_to_capacity, "moe_pad_expert_input_to_capacity"},
                       {own.expert_capacity > 0, "moe_expert_capacity_factor"},
                       {own.expert_tp > 0 && own.expert_tp != job.layout.tp, "expert_tensor_parallel_size"},
                       {!own.moe_layers.empty(), "moe_layer_freq"},
                       {own.shared_expert_hidden > 0, "moe_shared_expert_intermediate_size"},
                       {own.mtp_layers > 0, "mtp_num_layers"},
                       {!own.stage_layout.empty(), "pipeline_model_parallel_layout"},
                       {own.layers_of_first_stage > 0, "decoder_first_pipeline_num_layers"},
                       {own.layers_of_last_stage > 0, "decoder_last_pipeline_num_layers"},
                       {own.embedding_counts_as_layer, "account_for_embedding_in_pipeline_split"},
                       {own.loss_counts_as_layer, "account_for_loss_in_pipeline_split"},
                       {own.instances > 1, "num_distributed_optimizer_instances"},
                       {own.bucket_size > 0 && own.overlap_grad_reduce, "ddp_bucket_size"},
                       {own.is_megatron_fsdp, "use_megatron_fsdp"},
                       {own.is_torch_fsdp2, "use_torch_fsdp2"},
                       {own.is_muon, "optimizer muon"},
                       {own.cross_entropy != CrossEntropy::unfused, "cross_entropy_loss_fusion"}},
                      "has no rules here for Megatron core 0.7",
                      "leave it out, or take a newer release, such as --framework megatron@0.19.2");
}

/// Settings that came with a later release than the job's, or were sent otherwise before it.
Result<void> check_release(const Job& job) {
  const Options& own = options(job);
  const auto balances = [&](std::string_view kind) {
    return job.model.experts > 0 && std::count(own.balancing.begin(), own.balancing.end(), kind) > 0;
  };
  const bool recomputes = job.train.recompute == Recompute::selective;
  const bool has_latents = job.model.latent.is_used();
  const bool splits_latents = has_latents && own.is_transformer_engine && job.layout.tp > 1;
  const std::vector<std::string>& modules = own.recompute_modules;
  using Modules = std::vector<std::string>;
  const bool is_default = modules == Modules{"core_attn"} || modules == Modules{"core_attn", "moe"};
  const bool recomputes_shared = std::count(modules.begin(), modules.end(), "shared_experts") > 0;
  const NamedSetting settings[] = {
      {own.logs_params_norm, "log_params_norm"},
      {own.is_muon, "optimizer", "optimizer muon"},
      {own.is_megatron_fsdp, "use_megatron_fsdp"},
      {own.is_torch_fsdp2, "use_torch_fsdp2"},
      {balances("quantile_balancing"), "quantile_balancing",
       "moe_router_load_balancing_type quantile_balancing"},
      {own.moe_latent_hidden > 0, "moe_latent_size"},
      {own.has_shared_expert_gate, "moe_shared_expert_gate"},
      {own.scatters_by_all_to_all, "ddp_reduce_scatter_with_fp32_accumulation"},
      {job.model.kv_heads < job.layout.tp && !job.model.latent.is_used(), "num_query_groups"},
      {balances("global_aux_loss"), "global_aux_loss", "moe_router_load_balancing_type global_aux_loss"},
      {own.overlaps_expert_exchange, "overlap_moe_expert_parallel_comm"},
      {own.balancing.size() > 1, "moe_router_load_balancing_type"},
      {recomputes && recomputes_shared, "shared_experts", "recompute_modules shared_experts"},
      {splits_latents, "latent_attention_of_engine", "multi_latent_attention"},
      {!own.stage_layout.empty(), "pipeline_model_parallel_layout"},
      {own.mtp_layers > 0, "mtp_num_layers"},
      {own.mtp_layers > 0 && job.model.experts > 0, "mtp_of_experts", "mtp_num_layers"},
      {recomputes && !is_default, "recompute_modules"},
      {job.model.experts > 0 && own.moe_dispatcher == "flex", "flex", "moe_token_dispatcher_type flex"},
      {job.model.experts > 0 && own.router_dtype != DType::uint8, "moe_router_dtype"},
      {own.pads_buckets, "ddp_pad_buckets_for_high_nccl_busbw"},
      {own.cross_entropy == CrossEntropy::transformer_engine, "cross_entropy_fusion_impl"},
      {own.has_expert_bias, "moe_router_enable_expert_bias"},
      {balances("seq_aux_loss"), "seq_aux_loss", "moe_router_load_balancing_type seq_aux_loss"},
      {own.embedding_counts_as_layer, "account_for_embedding_in_pipeline_split"},
      {own.loss_counts_as_layer, "account_for_loss_in_pipeline_split"},
      {own.instances > 1, "num_distributed_optimizer_instances"},
      {own.overlap_param_gather, "overlap_param_gather"},
      {own.expert_tp > 0 && own.expert_tp != job.layout.tp, "expert_tensor_parallel_size"},
      {has_latents, "multi_latent_attention"},
      {!own.moe_layers.empty(), "moe_layer_freq"}};
  for (const auto& [is_used, argument, shown] : settings) {
    const std::string_view since = is_used ? release_that_brings(job, argument) : std::string_view();
    if (!since.empty()) {
      return failure(
          fmt::format("'{}' as it is set here has rules from Megatron core {} on, not in {}; leave it out, "
                      "or take a newer release with --framework",
                      shown.empty() ? argument : shown, since, behaviour(job).version.name));
    }
  }
  return {};
}

/// What Megatron itself refuses (training/arguments.py, core/transformer/transformer_config.py).
Result<void> check_arguments(const Job& job) {
  const Options& own = options(job);
  constexpr std::string_view modules =
      "core_attn moe_act layernorm mla_up_proj mlp moe shared_experts gdn_qkv csa_attn";
  for (const std::string& module : own.recompute_modules) {
    if (!is_one_of(module, modules)) {
      return failure(
          fmt::format("'{}' is none of the recompute_modules: {}", module.substr(0, 100), modules));
    }
  }
  for (const std::string& kind : own.cp_comm_types) {
    if (!is_one_of(kind, "p2p all_gather allgather a2a a2a+p2p")) {
      return failure(fmt::format("'{}' is none of the cp_comm_type: p2p, all_gather, a2a, a2a+p2p",
                                 kind.substr(0, 100)));
    }
  }
  if (own.overlap_param_gather && !own.is_core_loop && !own.is_megatron_fsdp) {
    if (job.train.zero_stage == 0) {
      return failure("overlap_param_gather needs the distributed optimizer; add use_distributed_optimizer");
    }
    if (!own.overlap_grad_reduce) {
      return failure("overlap_param_gather needs overlap_grad_reduce; add it");
    }
  }
  return {};
}

/// What the newer rules do not cover.
Result<void> check_newer(const Job& job) {
  const Options& own = options(job);
  if (const Result<void> ok = check_release(job); !ok) {
    return ok;
  }
  if (const Result<void> ok =
          check_unused({{own.gathers_with_step, "overlap_param_gather_with_optimizer_step"},
                        {own.mtp_detaches_heads, "mtp_detach_heads"},
                        {!own.hierarchical_cp.empty(), "hierarchical_context_parallel_sizes"},
                        {std::count(own.cp_comm_types.begin(), own.cp_comm_types.end(), "a2a+p2p") > 0,
                         "cp_comm_type a2a+p2p"},
                        {own.rerun_mode == "report_stats", "rerun_mode report_stats"}},
                       "has no rules here");
      !ok) {
    return ok;
  }
  if (const Result<void> ok = check_arguments(job); !ok) {
    return ok;
  }
  if (own.is_megatron_fsdp || own.is_torch_fsdp2) {
    const Sharding none = Sharding::no_shard;
    if (const Result<void> ok = check_unused(
            {{job.layout.pp > 1, "pipeline_model_parallel_size"},
             {job.model.experts > 0, "num_experts"},
             {own.mtp_layers > 0, "mtp_num_layers"},
             {own.instances > 1, "num_distributed_optimizer_instances"},
             {own.is_torch_fsdp2 && job.model.tied_embeddings, "tied embeddings"},
             {job.layout.tp > 1, "tensor_model_parallel_size"},
             {own.is_megatron_fsdp && own.sharding == none, "data_parallel_sharding_strategy no_shard"}},
            "has no rules here with FSDP");
        !ok) {
      return ok;
    }
  }
  if (own.is_muon && job.train.dtype == DType::fp32) {
    return failure("Muon fails in fp32, whose optimizer has no loss scale; use bf16");
  }
  if (job.layout.cp > 1 && !own.is_transformer_engine) {
    return failure(
        "context parallelism needs the attention of Transformer Engine; leave transformer-impl local out");
  }
  const std::int64_t data_ranks = job.layout.dp;
  const std::int64_t expert_ranks = job.layout.mesh().size(Axis::edp);
  const bool is_even = data_ranks % own.instances == 0 && expert_ranks % own.instances == 0;
  if (own.instances > 1 && (job.train.zero_stage == 0 || !is_even)) {
    return failure(fmt::format(
        "num-distributed-optimizer-instances {} needs the distributed optimizer and must divide dp {} "
        "and the {} data ranks of experts",
        own.instances, data_ranks, expert_ranks));
  }
  return stage_layouts(job).map([](const StageLayouts&) {});
}

/// Widths and counts that the model itself has no bounds for, and evaluations that would take hours to write.
Result<void> check_sizes(const Job& job) {
  constexpr std::int64_t widest = 1 << 24;
  constexpr std::int64_t most_layers = 1000;
  constexpr std::int64_t most_passes = 2'000'000;  // of layers
  const Options& own = options(job);
  const LatentAttention& latent = job.model.latent;
  const std::initializer_list<std::pair<std::string_view, std::int64_t>> widths = {
      {"moe_shared_expert_intermediate_size", own.shared_expert_hidden},
      {"moe_ffn_hidden_size", job.model.moe_hidden},
      {"moe_latent_size", own.moe_latent_hidden},
      {"kv_lora_rank", latent.kv_rank},
      {"q_lora_rank", latent.query_rank}};
  for (const auto& [name, width] : widths) {
    if (width > widest) {
      return failure(fmt::format("{} is {}; at most {} is supported", name, width, widest));
    }
  }
  for (const std::int64_t layers : {own.mtp_layers, own.layers_of_first_stage, own.layers_of_last_stage}) {
    if (layers > std::max(most_layers, job.model.layers)) {
      return failure(
          fmt::format("{} layers in mtp_num_layers, decoder_first_pipeline_num_layers or "
                      "decoder_last_pipeline_num_layers are "
                      "more than are supported",
                      layers));
    }
  }
  if (own.expert_capacity > static_cast<double>(widest)) {
    return failure("moe_expert_capacity_factor is larger than is supported");
  }
  const bool evaluates = own.eval_interval > 0 && own.eval_interval <= job.iterations;
  const std::int64_t of_one = std::max<std::int64_t>(job.train.micro_batches, 1) * job.model.layers;
  if (evaluates && own.eval_iterations > most_passes / of_one) {
    return failure(
        fmt::format("eval_iters {} of {} micro-batches each are more than can be written; use fewer",
                    own.eval_iterations, job.train.micro_batches));
  }
  return {};
}

Result<void> check_pipeline(const Job& job) {
  if (job.train.schedule == Schedule::gpipe) {
    return not_covered("Megatron core has no GPipe schedule; use --schedule 1f1b");
  }
  if (job.train.schedule == Schedule::interleaved && job.layout.virtual_stages == 1) {
    return failure("the interleaved schedule needs --virtual-stages > 1");
  }
  if (job.layout.virtual_stages == 1) {
    return {};
  }
  const Options& own = options(job);
  const std::int64_t stages = job.layout.pp;
  if (own.overlaps_p2p_at_ends && !own.overlaps_p2p) {
    return failure("overlap-p2p-communication-warmup-flush needs overlapped messages of stages");
  }
  const bool overlaps = own.overlaps_p2p && !behaviour(job).has_rules_of_its_own;
  const std::int64_t group = own.micro_batch_group > 0 ? own.micro_batch_group : stages;
  const std::int64_t rest = group > 0 ? job.train.micro_batches % group : 0;
  if (stages < (overlaps ? 2 : 3)) {
    return failure(
        fmt::format("the interleaved schedule needs pp > {} and micro-batches ({}) divisible by pp ({})",
                    overlaps ? 1 : 2, job.train.micro_batches, stages));
  }
  if (group < stages || group > job.train.micro_batches || (rest > 0 && rest < stages)) {
    return failure(
        fmt::format("the interleaved schedule needs pp > {} and micro-batches ({}) divisible by pp ({})",
                    overlaps ? 1 : 2, job.train.micro_batches, group));
  }
  return {};
}

}  // namespace

Result<void> check(const Job& job) {
  if (job.layout.replicate > 1 || job.model.parallel_residual) {
    return not_covered("Megatron core has neither replicated model-parallel ranks nor a parallel residual");
  }
  if (job.train.zero_stage > 1) {
    return not_covered(
        fmt::format("Megatron core has no ZeRO-{}; use --zero 0, or 1 for its distributed optimizer",
                    job.train.zero_stage));
  }
  if (job.layout.sequence_parallel && job.model.sequence % job.layout.tp != 0) {
    return failure(fmt::format("sequence parallelism needs the sequence length {} to be divisible by tp {}",
                               job.model.sequence, job.layout.tp));
  }
  if (const Result<void> ok = behaviour(job).has_rules_of_its_own ? check_oldest(job) : check_newer(job);
      !ok) {
    return ok;
  }
  if (const Result<void> ok = check_sizes(job); !ok) {
    return ok;
  }
  if (const Result<void> ok = check_pipeline(job); !ok) {
    return ok;
  }
  return check_expert_ranks(job);
}

namespace {

using Reasons = std::vector<std::string>;

void add(Reasons& reasons, bool applies, const char* reason) {
  if (applies) {
    reasons.emplace_back(reason);
  }
}

Reasons unverified_of_oldest(const Job& job) {
  const bool experts = job.model.experts > 0;
  const Options& own = options(job);
  Reasons reasons;
  add(reasons, job.model.family != Family::gpt, "models other than gpt");
  add(reasons, job.train.dtype == DType::fp16, "fp16's overflow flag");
  add(reasons, job.train.recompute == Recompute::full && own.recompute_method == "block", "block recompute");
  add(reasons, experts && job.train.zero_stage > 0, "experts with the distributed optimizer");
  add(reasons, experts && job.layout.pp > 1, "experts in a pipeline");
  add(reasons, experts && job.layout.tp > 1 && own.moe_dispatcher == "allgather",
      "the allgather dispatcher with tensor ranks");
  add(reasons, own.overlap_grad_reduce, "overlap-grad-reduce");
  add(reasons, !job.layout.has_default_order(), "another order of ranks");
  add(reasons, own.logs_zeros, "log-num-zeros-in-grad");
  add(reasons, own.logs_params_norm, "log-params-norm");
  const auto is_used = [](double coefficient) { return coefficient != 0; };
  const std::vector<double>& balancing = own.balancing_coefficients;
  add(reasons, std::any_of(balancing.begin(), balancing.end(), is_used), "moe-aux-loss-coeff");
  add(reasons, own.has_z_loss, "moe-z-loss-coeff");
  add(reasons, own.handles_signals || own.exit_minutes > 0, "exit-signal-handler and exit-duration-in-mins");
  return reasons;
}

}  // namespace

std::vector<std::string> unverified(const Job& job) {
  if (behaviour(job).has_rules_of_its_own) {
    return unverified_of_oldest(job);
  }
  const Options& own = options(job);
  Reasons reasons;
  add(reasons, job.layout.cp > 1, "context parallelism");
  add(reasons, own.is_transformer_engine, "layers of Transformer Engine");
  add(reasons, own.overlaps_tp, "tp-comm-overlap");
  add(reasons, own.writes_timers && (own.timing_level > 0 || behaviour(job).gathers_timers),
      "log-timers-to-tensorboard");
  const bool is_gathered_to_save = own.overlap_param_gather && job.train.zero_stage > 0;
  add(reasons, is_gathered_to_save && own.save_interval > 0 && own.save_interval < job.iterations,
      "the gathers around a checkpoint, with overlap-param-gather");
  const FirstOverflows overflows = first_overflows(job);
  add(reasons, overflows.possible > overflows.sure && job.iterations > overflows.sure,
      "which of the first steps overflow in fp16");
  add(reasons, job.model.experts > 0 && own.moe_dispatcher == "flex", "the flex dispatcher");
  add(reasons, own.overlaps_expert_exchange && job.layout.pp > 1,
      "the order of overlap-moe-expert-parallel-comm in a pipeline");
  return reasons;
}

}  // namespace commlens::megatron
