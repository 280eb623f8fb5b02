#include "commlens/frameworks/deepspeed/behaviour.hpp"

#include <array>

#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {

using Bf16Optimizer = Behaviour::Bf16Optimizer;
using Flush = Behaviour::Flush;

// The newest release has the defaults; each older row is the next newer one with what was otherwise.

constexpr Behaviour k_0_19_8{.version = recorded_version("0.19.8")};

constexpr Behaviour k_0_19_7 = [] {
  Behaviour row = k_0_19_8;
  row.version = recorded_version("0.19.7");
  row.broadcasts_bytes = false;
  row.adds_spread_norms_again = true;
  row.has_dual_pipe = false;
  row.takes_elasticity = true;
  return row;
}();

constexpr Behaviour k_0_19_4 = [] {
  Behaviour row = k_0_19_7;
  row.version = {"0.19.4-0.19.6", "0.19.4", "0.19.6", "0.19.5 0.19.6"};
  row.has_norm_switch = false;
  row.takes_compression = true;
  return row;
}();

constexpr Behaviour k_0_19_3 = [] {
  Behaviour row = k_0_19_4;
  row.version = recorded_version("0.19.3");
  row.reduces_weight_first = false;
  row.has_unmanaged_accumulation = false;
  return row;
}();

constexpr Behaviour k_0_19_2 = [] {
  Behaviour row = k_0_19_3;
  row.version = recorded_version("0.19.2");
  row.gradient_clipping = 0.0;
  row.checks_bf16_overflow = false;
  row.releases_leftovers = false;
  row.shards_over_all = false;
  row.shards_experts = false;
  return row;
}();

constexpr Behaviour k_0_18_7 = [] {
  Behaviour row = k_0_19_2;
  row.version = {"0.18.7-0.19.1", "0.18.7", "0.19.1", "0.18.9"};
  row.has_auto_ep = false;
  row.has_coalescing = false;
  row.records_again = false;
  return row;
}();

constexpr Behaviour k_0_18_6 = [] {
  Behaviour row = k_0_18_7;
  row.version = recorded_version("0.18.6");
  row.has_gathered_check = false;
  return row;
}();

constexpr Behaviour k_0_18_5 = [] {
  Behaviour row = k_0_18_6;
  row.version = recorded_version("0.18.5");
  row.broadcasts_random_state = true;
  return row;
}();

constexpr Behaviour k_0_18_2 = [] {
  Behaviour row = k_0_18_5;
  row.version = {"0.18.2-0.18.4", "0.18.2", "0.18.4", "0.18.4"};
  row.bf16_optimizer = Bf16Optimizer::none;
  row.refuses_bf16_summed_in_fp32 = false;
  row.flushes_one_dtype = false;
  row.has_sequential_gather = false;
  return row;
}();

constexpr Behaviour k_0_18_0 = [] {
  Behaviour row = k_0_18_2;
  row.version = {"0.18.0-0.18.1", "0.18.0", "0.18.1", "0.18.1"};
  row.has_large_autocast = false;
  return row;
}();

constexpr Behaviour k_0_17_6 = [] {
  Behaviour row = k_0_18_0;
  row.version = recorded_version("0.17.6");
  row.stage1_sends_overflow_flag = false;
  row.has_leaf_modules = false;
  return row;
}();

constexpr Behaviour k_0_17_2 = [] {
  Behaviour row = k_0_17_6;
  row.version = {"0.17.2-0.17.5", "0.17.2", "0.17.5", "0.17.5"};
  row.bf16_optimizer = Bf16Optimizer::all;
  row.sums_bf16_in_fp32 = true;
  row.sends_trace_lengths = false;
  row.has_sanity_checks = false;
  return row;
}();

constexpr Behaviour k_0_17_1 = [] {
  Behaviour row = k_0_17_2;
  row.version = recorded_version("0.17.1");
  row.has_autocast = false;
  return row;
}();

constexpr Behaviour k_0_17_0 = [] {
  Behaviour row = k_0_17_1;
  row.version = recorded_version("0.17.0");
  row.stage1_sends_overflow_flag = true;
  row.has_barriers_of_data_ranks = true;
  row.has_bf16_overflow_check = false;
  return row;
}();

constexpr Behaviour k_0_16_8 = [] {
  Behaviour row = k_0_17_0;
  row.version = {"0.16.8-0.16.9", "0.16.8", "0.16.9", "0.16.9"};
  row.has_sequence_of_transformers = false;
  return row;
}();

constexpr Behaviour k_0_16_4 = [] {
  Behaviour row = k_0_16_8;
  row.version = {"0.16.4-0.16.7", "0.16.4", "0.16.7", ""};
  row.counts_from_step = true;
  return row;
}();

constexpr Behaviour k_0_16_0 = [] {
  Behaviour row = k_0_16_4;
  row.version = {"0.16.0-0.16.3", "0.16.0", "0.16.3", "0.16.0"};
  row.broadcasts_random_state = false;
  row.has_auto_tp = false;
  return row;
}();

constexpr Behaviour k_0_15_4 = [] {
  Behaviour row = k_0_16_0;
  row.version = recorded_version("0.15.4");
  row.counts_from_step = false;
  row.has_granularity = false;
  return row;
}();

constexpr Behaviour k_0_15_0 = [] {
  Behaviour row = k_0_15_4;
  row.version = {"0.15.0-0.15.3", "0.15.0", "0.15.3", "0.15.3"};
  row.checks_trace_at_forward = false;
  return row;
}();

constexpr Behaviour k_0_14_5 = [] {
  Behaviour row = k_0_15_0;
  row.version = recorded_version("0.14.5");
  row.describes_in_one_message = false;
  row.has_dynamic_shape = false;
  row.has_sequence_mesh = false;
  return row;
}();

constexpr Behaviour k_0_14_3 = [] {
  Behaviour row = k_0_14_5;
  row.version = {"0.14.3-0.14.4", "0.14.3", "0.14.4", "0.14.4"};
  row.flush_without_scatter = Flush::fill;
  row.drops_tokens_of_split_experts = false;
  return row;
}();

constexpr Behaviour k_0_14_1 = [] {
  Behaviour row = k_0_14_3;
  row.version = {"0.14.1-0.14.2", "0.14.1", "0.14.2", "0.14.2"};
  row.has_all_reduce_fetch = false;
  return row;
}();

constexpr Behaviour k_0_14_0 = [] {
  Behaviour row = k_0_14_1;
  row.version = recorded_version("0.14.0");
  row.flush_without_scatter = Flush::buffer;
  row.agrees_on_capacity_in_expert_group = false;
  row.has_additional_losses = false;
  return row;
}();

constexpr std::array k_behaviours = {k_0_14_0, k_0_14_1, k_0_14_3, k_0_14_5, k_0_15_0, k_0_15_4,
                                     k_0_16_0, k_0_16_4, k_0_16_8, k_0_17_0, k_0_17_1, k_0_17_2,
                                     k_0_17_6, k_0_18_0, k_0_18_2, k_0_18_5, k_0_18_6, k_0_18_7,
                                     k_0_19_2, k_0_19_3, k_0_19_4, k_0_19_7, k_0_19_8};
constexpr std::size_t k_newest = k_behaviours.size() - 1;

}  // namespace

const Behaviour& behaviour(const Job& job) {
  const bool is_own = job.framework == k_name;
  return behaviour_of(k_behaviours, is_own ? job.framework_version : options(job).release, k_newest);
}

std::vector<KnownVersion> known_versions() { return versions_of(k_behaviours); }

}  // namespace commlens::deepspeed
