// The section zero_optimization of a DeepSpeed JSON.
#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/sections.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::string_view k_zero_keys =
    "allgather_bucket_size allgather_partitions cpu_offload_use_pin_memory elastic_checkpoint "
    "gather_16bit_weights_on_model_save ignore_unused_parameters "
    "load_from_fp32_weights log_trace_cache_warnings override_module_apply pin_memory "
    "pipeline_loading_checkpoint stage3_gather_16bit_weights_on_model_save "
    "stage3_gather_fp16_weights_on_model_save fast_sharding_for_leaf_module";

// What can change messages and has no rules: skipped, unless switched off.
constexpr std::string_view k_skipped_zero_keys =
    "cpu_offload_params zenflow save_muon_momentum_buffer_in_memory";

/// Where a section puts what it is about. Source of the keys: runtime/zero/offload_config.py of 0.19.8.
enum class Device : std::uint8_t { none, cpu, nvme };

Device device_of(MapReader& zero, std::string_view section, Job& job) {
  Device device = Device::none;
  if (const ConfigNode* map = zero.map(section)) {
    MapReader reader(*map, {job.warnings, job.unmodelled});
    reader.choose("device", {{"none", Device::none}, {"cpu", Device::cpu}, {"nvme", Device::nvme}}, device);
    reader.accept(
        "nvme_path buffer_count buffer_size max_in_cpu pin_memory pipeline_read pipeline_write fast_init "
        "ratio super_offload cpuadam_cores_perc");
    zero.pass_on(reader.finish());
  }
  return device;
}

void read_offload(MapReader& zero, Job& job) {
  Options& own = options(job);
  bool optimizer = false;
  bool parameters = false;
  zero.read("cpu_offload", optimizer);
  zero.read("cpu_offload_param", parameters);
  const Device of_parameters = device_of(zero, "offload_param", job);
  own.offloads_optimizer = device_of(zero, "offload_optimizer", job) != Device::none || optimizer;
  own.offloads_parameters = of_parameters != Device::none || parameters;
  own.keeps_parameters_on_nvme = of_parameters == Device::nvme;
}

/// A size that DeepSpeed takes under two names.
void read_size(MapReader& zero, std::string_view key, std::int64_t& value) {
  zero.read(key, value, 0);
  zero.read(fmt::format("stage3_{}", key), value, 0);
}

void read_switch(MapReader& zero, std::string_view key, bool& value) {
  zero.read(key, value);
  zero.read(fmt::format("stage3_{}", key), value);
}

/// A name, or a list of names.
void read_names(MapReader& reader, std::string_view key, std::vector<std::string>& names) {
  const ConfigNode* node = reader.node(key);
  if (node != nullptr && node->kind == ConfigNode::Kind::scalar) {
    reader.read(key, names.emplace_back());
  } else {
    reader.read(key, names);
  }
}

Result<void> read_leaf_modules(MapReader& zero, Job& job) {
  const ConfigNode* section = zero.map("leaf_module");
  if (section == nullptr) {
    return {};
  }
  LeafModules& leaves = options(job).leaf_modules;
  MapReader reader(*section, {job.warnings, job.unmodelled});
  read_names(reader, "classes", leaves.classes);
  read_names(reader, "names", leaves.names);
  read_names(reader, "name_suffixes", leaves.suffixes);
  return reader.finish();
}

void read_stage3(MapReader& zero, Job& job) {
  Options& own = options(job);
  read_size(zero, "prefetch_bucket_size", own.prefetch_bucket_size);
  read_size(zero, "param_persistence_threshold", job.train.persistence_threshold);
  read_size(zero, "model_persistence_threshold", own.model_persistence_threshold);
  read_size(zero, "max_live_parameters", own.max_live_parameters);
  read_size(zero, "max_reuse_distance", own.max_reuse_distance);
  read_size(zero, "module_granularity_threshold", own.granularity);
  read_switch(zero, "use_all_reduce_for_fetch_params", own.all_reduce_fetch);
  read_switch(zero, "allgather_sequential", own.sequential_gather);
  zero.read("sub_group_size", own.sub_group_size);
  zero.read("memory_efficient_linear", own.memory_efficient_linear);
  zero.read("enable_sanity_checks", own.has_sanity_checks);
  zero.read("zero_hpz_partition_size", job.train.hpz);
  zero.read("zero_quantized_weights", job.train.quantized_weights);
  zero.read("zero_quantized_gradients", job.train.quantized_gradients);
  zero.read("zero_quantized_nontrainable_weights", own.quantizes_nontrainable);
}

/// MiCS and LoCo, and the first version of stage 1.
void read_removed(MapReader& zero, Options& own) {
  for (const char* key : {"mics_hierarchical_params_gather", "mics_shard_size", "zeropp_loco_param"}) {
    note_removed(zero, key, own);
  }
  zero.refuse_true("legacy_stage1", "is refused by DeepSpeed since 0.5.9; leave it out");
}

}  // namespace

void note_removed(MapReader& reader, const char* key, Options& own) {
  const ConfigNode* node = reader.node(key);
  if (node == nullptr || node->kind == ConfigNode::Kind::null) {
    return;
  }
  const ConfigNode* enabled = node->kind == ConfigNode::Kind::map ? find(*node, "enabled") : node;
  const bool is_none = node->kind == ConfigNode::Kind::scalar && node->text == "-1";  // of mics_shard_size
  own.removed_keys.push_back({key, node->where(), !is_none && (enabled == nullptr || !is_off(*enabled))});
}

Result<void> read_zero(const ConfigNode& section, Job& job) {
  Options& own = options(job);
  MapReader zero(section, {job.warnings, job.unmodelled});
  std::int64_t stage = 0;
  zero.read("stage", stage, 0);
  if (stage > 3) {
    zero.fail("stage", fmt::format("is {}; ZeRO has stages 0 to 3", stage));
    return zero.finish();
  }
  job.train.zero_stage = static_cast<int>(stage);
  own.overlap_comm = stage == 3;
  zero.read("overlap_comm", own.overlap_comm);
  zero.read("reduce_bucket_size", own.reduce_bucket_size);
  zero.read("reduce_scatter", own.reduce_scatter);
  zero.read("use_multi_rank_bucket_allreduce", own.use_multi_rank_bucket_allreduce);
  zero.read("contiguous_gradients", own.contiguous_gradients);
  zero.read("round_robin_gradients", own.round_robin_gradients);
  zero.read("compute_grad_norm", own.computes_norm);
  zero.read("parameter_alignment", own.aligns_parameters);
  read_stage3(zero, job);
  read_offload(zero, job);
  read_removed(zero, own);
  zero.skip_unless_off(k_skipped_zero_keys);
  zero.accept(k_zero_keys);
  const Result<void> leaves = read_leaf_modules(zero, job);
  return leaves ? zero.finish() : leaves;
}

}  // namespace commlens::deepspeed
