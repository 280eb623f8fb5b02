#include "commlens/frameworks/megatron/behaviour.hpp"

#include <array>

namespace commlens::megatron {
namespace {

using EmptyPackings = Behaviour::EmptyPackings;
using IdleMetrics = Behaviour::IdleMetrics;
using AveragedMetrics = Behaviour::AveragedMetrics;

// The newest release has the defaults; each older row is the next newer one with what was otherwise.

constexpr Behaviour k_0_19{.version = {"0.19", "0.19.0", "0.19", "0.19.2"}};

constexpr Behaviour k_0_18 = [] {
  Behaviour row = k_0_19;
  row.version = {"0.18", "0.18.0", "0.18", "0.18.2"};
  row.asks_for_mtp_norm = false;
  row.measures_mtp_accuracy = false;
  row.averaged_metrics = AveragedMetrics::data;
  row.has_parameter_norm = false;
  row.has_sharded_parameters = false;
  return row;
}();

constexpr Behaviour k_0_17 = [] {
  Behaviour row = k_0_18;
  row.version = {"0.17", "0.17.0", "0.17", "0.17.1"};
  row.mask_is_last = false;
  row.empty_packings = EmptyPackings::one;
  row.averaged_metrics = AveragedMetrics::data_unless_in;
  return row;
}();

constexpr Behaviour k_0_16 = [] {
  Behaviour row = k_0_17;
  row.version = {"0.16", "0.16.0", "0.16", "0.16.1"};
  row.empty_packings = EmptyPackings::two;
  row.counts_zeros_as_integers = false;
  return row;
}();

constexpr Behaviour k_0_15 = [] {
  Behaviour row = k_0_16;
  row.version = {"0.15", "0.15.0", "0.15", "0.15.3"};
  row.empty_packings = EmptyPackings::none;
  row.stamps_start = false;
  row.gathers_timers = true;
  row.mtp_batch_is_whole = false;
  row.averaged_metrics = AveragedMetrics::data_and_context;
  return row;
}();

constexpr Behaviour k_0_14 = [] {
  Behaviour row = k_0_15;
  row.version = {"0.14", "0.14.0", "0.14", "0.14.0"};
  row.every_chunk_takes_batches = true;
  return row;
}();

constexpr Behaviour k_0_13 = [] {
  Behaviour row = k_0_14;
  row.version = {"0.13", "0.13.0", "0.13", "0.13.1"};
  row.gathers_optimizer_keys = false;
  row.reruns_by_default = false;
  row.averaged_metrics = AveragedMetrics::none;
  return row;
}();

constexpr Behaviour k_0_12_1 = [] {
  Behaviour row = k_0_13;
  row.version = {"0.12.1-0.12.3", "0.12.1", "0.12.3", "0.12.3"};
  row.every_chunk_takes_batches = false;
  row.reports_loss_once = false;
  row.counts_tokens_with_cp = false;
  row.counts_zeros_always = true;
  return row;
}();

constexpr Behaviour k_0_12_0 = [] {
  Behaviour row = k_0_12_1;
  row.version = recorded_version("0.12.0");
  row.exchanges_probabilities = false;
  return row;
}();

constexpr Behaviour k_0_11 = [] {
  Behaviour row = k_0_12_0;
  row.version = {"0.11", "0.11.0", "0.11", "0.11.0"};
  row.takes_one_norm = false;
  row.counts_zeros_always = false;
  row.sums_without_gradients = true;
  row.idle_metrics = IdleMetrics::none;
  row.has_mtp = false;
  row.has_bucket_padding = false;
  return row;
}();

constexpr Behaviour k_0_10 = [] {
  Behaviour row = k_0_11;
  row.version = {"0.10", "0.10.0", "0.10", "0.10.0"};
  row.agrees_on_step = false;
  row.sums_without_coefficient = true;
  row.idle_metrics = IdleMetrics::stages_and_tokens;
  return row;
}();

constexpr Behaviour k_0_9 = [] {
  Behaviour row = k_0_10;
  row.version = {"0.9", "0.9.0", "0.9", "0.9.0"};
  row.has_expert_grid = false;
  row.gathers_expert_map = false;
  row.has_overlapped_gathers = false;
  row.has_instances = false;
  return row;
}();

/// Beside the tag its branch and the package.
constexpr Behaviour k_0_7 = [] {
  Behaviour row = k_0_9;
  row.version = {"core_v0.7.0", "core_v0.7.0", "core_v0.7.0", "core_v0.7.0 core_r0.7.0 0.7.0"};
  row.has_rules_of_its_own = true;
  return row;
}();

constexpr std::array k_behaviours = {k_0_7,  k_0_9,  k_0_10, k_0_11, k_0_12_0, k_0_12_1, k_0_13,
                                     k_0_14, k_0_15, k_0_16, k_0_17, k_0_18,   k_0_19};

}  // namespace

const Behaviour& behaviour(const Job& job) { return behaviour_of(k_behaviours, job.framework_version); }

std::vector<KnownVersion> known_versions() { return versions_of(k_behaviours); }

}  // namespace commlens::megatron
