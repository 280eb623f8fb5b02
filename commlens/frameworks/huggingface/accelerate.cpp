#include "commlens/frameworks/huggingface/accelerate.hpp"

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/training_arguments.hpp"

namespace commlens::huggingface {
namespace {

constexpr std::string_view k_silent_of_launcher =
    "compute_environment debug downcast_bf16 dynamo_config enable_cpu_affinity gpu_ids machine_rank "
    "main_process_ip main_process_port main_training_function num_machines rdzv_backend same_network "
    "tpu_env tpu_use_cluster tpu_use_sudo use_cpu";

enum class Type : std::uint8_t { alone, data, fsdp };

Type read_type(MapReader& reader) {
  Type type = Type::alone;
  if (const ConfigNode* const node = reader.node("distributed_type");
      node != nullptr && (node->text == "DEEPSPEED" || node->text == "MEGATRON_LM")) {
    reader.fail("distributed_type",
                fmt::format("{} has rules of its own; leave this file out and use --framework {}", node->text,
                            node->text == "DEEPSPEED" ? "deepspeed" : "megatron"));
  }
  reader.choose("distributed_type",
                {{"NO", Type::alone},
                 {"false", Type::alone},  // NO of YAML 1.1
                 {"MULTI_GPU", Type::data},
                 {"MULTI_CPU", Type::data},
                 {"MULTI_XPU", Type::data},
                 {"FSDP", Type::fsdp}},
                type);
  return type;
}

Result<void> read_launched_fsdp(const ConfigNode* section, const ConfigNode& file, Job& job) {
  ConfigNode config = section == nullptr
                          ? ConfigNode{.kind = ConfigNode::Kind::map, .line = file.line, .file = file.file}
                          : without_prefix(*section, "fsdp_");
  const auto set_default = [&](const char* key, const char* value) {
    if (find(config, key) == nullptr) {
      append(config, key,
             {.kind = ConfigNode::Kind::scalar, .line = config.line, .file = config.file, .text = value});
    }
  };
  set_default("version", "1");
  // FullyShardedDataParallelPlugin.__post_init__; the launcher has no default of its own.
  const bool is_first = find(config, "version")->text == "1";
  set_default("state_dict_type", is_first ? "FULL_STATE_DICT" : "SHARDED_STATE_DICT");
  set_default("auto_wrap_policy", "NO_WRAP");
  set_default("cpu_ram_efficient_loading", "true");
  return read_fsdp_config(config, job);
}

}  // namespace

Result<void> read_accelerate(const ConfigNode& file, Job& job) {
  Options& own = options(job);
  MapReader reader(file, {job.warnings, job.unmodelled});
  own.is_launched = true;
  const Type type = read_type(reader);
  std::int64_t processes = 0;
  reader.read("num_processes", processes);
  reader.choose<std::optional<DType>>(
      "mixed_precision",
      {{"no", std::nullopt}, {"false", std::nullopt}, {"bf16", DType::bf16}, {"fp16", DType::fp16}},
      own.mixed_precision);
  reader.accept(k_silent_of_launcher);
  reader.skip_unless_off("fp8_config mpirun_config");
  const ConfigNode* const fsdp = reader.map("fsdp_config");
  if (type == Type::fsdp && !reader.failed()) {
    if (const Result<void> ok = read_launched_fsdp(fsdp, file, job); !ok) {
      return ok;
    }
  }
  if (const ConfigNode* const parallelism = reader.map("parallelism_config")) {
    if (const Result<void> ok = read_parallelism(*parallelism, job); !ok) {
      return ok;
    }
  }
  if (processes > 0 && job.layout.ranks == 0) {
    job.layout.ranks = processes;
  }
  return reader.finish();
}

ConfigReader accelerate_reader() {
  return {.name = "a file of accelerate config",
          .framework = k_name,
          .recognises =
              [](const ConfigFile& file) {
                return file.has("distributed_type") && (file.is_yaml() || file.is_json());
              },
          .add = read_accelerate};
}

}  // namespace commlens::huggingface
