#include "commlens/frameworks/megatron/behaviour.hpp"

#include <array>

#include "commlens/config/map_reader.hpp"

namespace commlens::megatron {
namespace {

using EmptyPackings = Behaviour::EmptyPackings;
using IdleMetrics = Behaviour::IdleMetrics;
using AveragedMetrics = Behaviour::AveragedMetrics;

// The newest release has the defaults; each older row is the next newer one with what was otherwise.

constexpr Behaviour older(Behaviour newer, KnownVersion version, std::string_view brings = "") {
  newer.version = version;
  newer.brings = brings;
  return newer;
}

constexpr Behaviour k_0_19{
    .version = {"0.19", "0.19.0", "0.19", "0.19.2 core_v0.19.2"},
    .brings = "log_params_norm optimizer use_megatron_fsdp use_torch_fsdp2 quantile_balancing"};

constexpr Behaviour k_0_18 = [] {
  Behaviour row = older(k_0_19, {"0.18", "0.18.0", "0.18", "0.18.2 core_v0.18.2"});
  row.asks_for_mtp_norm = false;
  row.measures_mtp_accuracy = false;
  row.averaged_metrics = AveragedMetrics::data;
  row.averages_z_loss = false;
  return row;
}();

constexpr Behaviour k_0_17 = [] {
  Behaviour row = older(k_0_18, {"0.17", "0.17.0", "0.17", "0.17.1 core_v0.17.1"});
  row.mask_is_last = false;
  row.empty_packings = EmptyPackings::one;
  row.averaged_metrics = AveragedMetrics::data_unless_in;
  return row;
}();

constexpr Behaviour k_0_16 = [] {
  Behaviour row = older(k_0_17, {"0.16", "0.16.0", "0.16", "0.16.1 core_v0.16.1"},
                        "moe_latent_size moe_shared_expert_gate "
                        "ddp_reduce_scatter_with_fp32_accumulation num_query_groups");
  row.empty_packings = EmptyPackings::two;
  row.counts_idle_mtp_metrics = false;
  row.counts_zeros_as_integers = false;
  return row;
}();

constexpr Behaviour k_0_15 = [] {
  Behaviour row = older(k_0_16, {"0.15", "0.15.0", "0.15", "0.15.3 core_v0.15.3"}, "global_aux_loss");
  row.empty_packings = EmptyPackings::none;
  row.stamps_start = false;
  row.gathers_timers = true;
  row.logs_first_iteration = false;
  row.mtp_batch_is_whole = false;
  row.averaged_metrics = AveragedMetrics::all_over_data_and_context;
  return row;
}();

constexpr Behaviour k_0_14 = [] {
  Behaviour row = older(k_0_15, {"0.14", "0.14.0", "0.14", "0.14.0 core_v0.14.0"},
                        "overlap_moe_expert_parallel_comm latent_attention_of_engine "
                        "moe_router_load_balancing_type shared_experts");
  row.every_chunk_takes_batches = true;
  row.shared_experts = Behaviour::SharedExperts::between;
  return row;
}();

constexpr Behaviour k_0_13 = [] {
  Behaviour row = older(k_0_14, {"0.13", "0.13.0", "0.13", "0.13.1 core_v0.13.1"},
                        "pipeline_model_parallel_layout mtp_of_experts");
  row.gathers_optimizer_keys = false;
  row.reruns_by_default = false;
  row.averaged_metrics = AveragedMetrics::none;
  row.has_one_balance = true;
  row.keeps_type_of_scores = true;
  return row;
}();

constexpr Behaviour k_0_12_1 = [] {
  Behaviour row = older(k_0_13, {"0.12.1-0.12.3", "0.12.1", "0.12.3", "0.12.3 core_v0.12.3"});
  row.every_chunk_takes_batches = false;
  row.shared_experts = Behaviour::SharedExperts::behind;
  row.reports_loss_once = false;
  row.counts_tokens_with_cp = false;
  row.counts_zeros_always = true;
  return row;
}();

constexpr Behaviour k_0_12_0 = [] {
  Behaviour row = older(k_0_12_1, {"0.12.0", "0.12.0", "0.12.0", "0.12.0 core_v0.12.0"},
                        "mtp_num_layers recompute_modules flex moe_router_dtype "
                        "ddp_pad_buckets_for_high_nccl_busbw cross_entropy_fusion_impl");
  row.exchanges_probabilities = false;
  return row;
}();

constexpr Behaviour k_0_11 = [] {
  Behaviour row = older(k_0_12_0, {"0.11", "0.11.0", "0.11", "0.11.0 core_v0.11.0"},
                        "num_virtual_stages_per_pipeline_rank multi_latent_attention "
                        "moe_router_enable_expert_bias seq_aux_loss "
                        "account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split");
  row.takes_one_norm = false;
  row.counts_zeros_always = false;
  row.sums_without_gradients = true;
  row.keeps_type_of_scores = false;
  row.idle_metrics = IdleMetrics::none;
  return row;
}();

constexpr Behaviour k_0_10 = [] {
  Behaviour row = older(k_0_11, {"0.10", "0.10.0", "0.10", "0.10.0 core_v0.10.0"},
                        "num_distributed_optimizer_instances overlap_param_gather "
                        "expert_tensor_parallel_size moe_layer_freq");
  row.agrees_on_step = false;
  row.sums_without_coefficient = true;
  row.idle_metrics = IdleMetrics::stages_and_tokens;
  return row;
}();

constexpr Behaviour k_0_9 = [] {
  Behaviour row = older(k_0_10, {"0.9", "0.9.0", "0.9", "0.9.0 core_v0.9.0"});
  row.has_expert_grid = false;
  row.gathers_expert_map = false;
  return row;
}();

/// Beside the tag its branch and the package.
constexpr Behaviour k_0_7 = [] {
  Behaviour row =
      older(k_0_9, {"core_v0.7.0", "core_v0.7.0", "core_v0.7.0", "core_v0.7.0 core_r0.7.0 0.7.0"});
  row.has_rules_of_its_own = true;
  return row;
}();

constexpr std::array k_behaviours = {k_0_7,  k_0_9,  k_0_10, k_0_11, k_0_12_0, k_0_12_1, k_0_13,
                                     k_0_14, k_0_15, k_0_16, k_0_17, k_0_18,   k_0_19};

constexpr std::size_t k_newest = k_behaviours.size() - 1;

}  // namespace

const Behaviour& behaviour(const Job& job) {
  return behaviour_of(k_behaviours, job.framework_version, k_newest);
}

std::vector<KnownVersion> known_versions() { return versions_of(k_behaviours); }

std::string_view release_that_brings(const Job& job, std::string_view setting) {
  const std::size_t own = choose_version(known_versions(), k_newest, job.framework_version).index;
  for (std::size_t newer = own + 1; newer < k_behaviours.size(); ++newer) {
    if (is_one_of(setting, k_behaviours.at(newer).brings)) {
      return k_behaviours.at(newer).version.name;
    }
  }
  return {};
}

}  // namespace commlens::megatron
