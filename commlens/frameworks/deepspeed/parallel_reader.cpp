// The sections of a DeepSpeed JSON that split the model or the sequence.
#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/sections.hpp"
#include "commlens/frameworks/deepspeed/tensor_split.hpp"

namespace commlens::deepspeed {
namespace {

Result<void> read_spec(const ConfigNode& node, Job& job) {
  TensorSpec spec;
  MapReader reader(node, {job.warnings, job.unmodelled});
  reader.read("patterns", spec.patterns);
  reader.choose(
      "partition_type",
      {{"column", TensorSplit::column}, {"row", TensorSplit::row}, {"skip", TensorSplit::replicated}},
      spec.split);
  reader.read("gather_output", spec.gathers_output);
  reader.skip_unless_off("shape partition_dim model_types grad_allreduce");
  for (const std::string& pattern : spec.patterns) {
    if (const Result<void> ok = check_pattern(pattern); !ok) {
      reader.fail("patterns", ok.error().message);
    }
  }
  options(job).tensor_specs->push_back(spec);
  return reader.finish();
}

/// The specs of the job come before those of the preset, if these count at all. Source: deepspeed 0.19.8
/// runtime/tensor_parallel/config.py:121 get_partition_config_object.
Result<void> read_partition(const ConfigNode& section, const std::vector<TensorSpec>& of_preset, Job& job) {
  if (section.items.empty()) {
    return {};
  }
  MapReader reader(section, {job.warnings, job.unmodelled});
  bool has_preset = true;
  reader.read("use_default_specs", has_preset);
  reader.accept("strict_mode");
  std::vector<TensorSpec>& specs = options(job).tensor_specs.emplace();
  if (const ConfigNode* list = reader.node("layer_specs")) {
    for (const ConfigNode& spec : list->items) {
      if (const Result<void> ok = read_spec(spec, job); !ok) {
        return ok;
      }
    }
  }
  if (has_preset) {
    specs.insert(specs.end(), of_preset.begin(), of_preset.end());
  }
  return reader.finish();
}

std::vector<TensorSpec> read_preset(MapReader& reader, Job& job) {
  std::string name;
  reader.read("preset_model", name);
  if (name.empty()) {
    return {};
  }
  std::vector<TensorSpec> specs = preset_specs(name);
  if (specs.empty()) {
    reader.fail("preset_model",
                fmt::format("is '{}', whose linears no model here has; llama, qwen2 and mixtral have rules",
                            shown_text(name)));
  }
  options(job).tensor_specs = specs;
  return specs;
}

Result<void> read_tensor_parallel(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.map("tensor_parallel");
  if (section == nullptr) {
    return {};
  }
  MapReader reader(*section, {job.warnings, job.unmodelled});
  std::int64_t size = 0;
  reader.read("autotp_size", size, 0);
  reader.accept("tp_overlap_comm dtype enabled keep_module_on_host tp tp_grain_size tp_size");
  if (size > 1) {
    options(job).auto_tp = true;
    job.layout.tp = size;
  }
  const std::vector<TensorSpec> of_preset = read_preset(reader, job);
  if (const ConfigNode* partition = reader.map("partition_config")) {
    if (const Result<void> ok = read_partition(*partition, of_preset, job); !ok) {
      return ok;
    }
  }
  return reader.finish();
}

Result<void> read_expert_parallel(MapReader& settings, Job& job) {
  const ConfigNode* section = settings.map("expert_parallel");
  const ConfigNode* enabled = section == nullptr ? nullptr : find(*section, "enabled");
  if (enabled == nullptr || is_off(*enabled)) {
    return {};
  }
  MapReader reader(*section, {job.warnings, job.unmodelled});
  reader.accept("enabled");
  std::int64_t size = 1;
  reader.read("autoep_size", size);
  std::string preset = "mixtral";
  reader.read("preset_model", preset);
  if (preset != "mixtral") {
    reader.fail("preset_model",
                fmt::format("is '{}', whose experts have no rules here; mixtral's have", shown_text(preset)));
  }
  options(job).auto_ep = true;
  job.layout.ep = size;
  return reader.finish();
}

/// The engine makes a mesh of its own where both sizes are given; else the groups are those of a
/// model-parallel unit. Source: __init__.py:543 of 0.19.8.
void read_sequence(MapReader& settings, Job& job) {
  std::int64_t size = 1;
  settings.read("sequence_parallel_size", size);
  settings.read("data_parallel_size", options(job).mesh_data_ranks);
  if (size > 1) {
    job.layout.cp = size;
    options(job).sequence_groups =
        settings.has("data_parallel_size") ? SequenceGroups::mesh : SequenceGroups::mpu;
  }
}

}  // namespace

Result<void> read_parallel(MapReader& settings, Job& job) {
  for (const auto read : {read_tensor_parallel, read_expert_parallel}) {
    if (const Result<void> ok = read(settings, job); !ok) {
      return ok;
    }
  }
  read_sequence(settings, job);
  settings.read("use_data_before_expert_parallelism", options(job).has_data_before_experts);
  return {};
}

}  // namespace commlens::deepspeed
