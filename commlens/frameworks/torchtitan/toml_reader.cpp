// TOML files of torchtitan 0.1 and 0.2. Source: torchtitan 0.2.2 torchtitan/config/job_config.py,
// torchtitan/models/*/__init__.py.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/frameworks/torchtitan/model_reader.hpp"
#include "commlens/frameworks/torchtitan/reader.hpp"
#include "commlens/frameworks/torchtitan/trainer_config.hpp"

namespace commlens::torchtitan {
namespace {

constexpr std::string_view k_version = "0.2.2";

// What 0.3.0 has elsewhere or no more; what of it matters is read before.
constexpr std::string_view k_sections_of_0_2 =
    "experimental fault_tolerance job memory_estimation model profiling quantize validation";
constexpr std::pair<std::string_view, std::string_view> k_keys_of_0_2[] = {
    {"training", "dataset dataset_path dataloader deterministic seed compile"},
    {"parallelism",
     "disable_loss_parallel enable_async_tensor_parallel pipeline_parallel_expert_parallel_overlap "
     "context_parallel_rotate_method expert_tensor_parallel_degree expert_parallel_comm_backend"},
    {"activation_checkpoint",
     "selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns early_stop memory_budget "
     "visualize_memory_budget_pareto"},
    {"checkpoint", "enable_ft_dataloader_checkpoints model_weights_only"}};

/// The value at "section.key", null where there is none.
const ConfigNode* at(const ConfigNode& document, std::string_view section, std::string_view key) {
  const ConfigNode* const map = find(document, section);
  return map == nullptr || map->kind != ConfigNode::Kind::map ? nullptr : find(*map, key);
}

bool is_on(const ConfigNode& document, std::string_view section, std::string_view key) {
  const ConfigNode* const value = at(document, section, key);
  return value != nullptr && !is_off(*value);
}

std::string text_at(const ConfigNode& document, std::string_view section, std::string_view key,
                    std::string_view otherwise) {
  const ConfigNode* const value = at(document, section, key);
  return value != nullptr && value->kind == ConfigNode::Kind::scalar ? value->text : std::string(otherwise);
}

void note(std::string_view name, const std::string& where, Job& notes) {
  notes.warnings.push_back(fmt::format("{}: '{}' has no rules here; it is skipped, unverified", where, name));
  notes.unmodelled.push_back(fmt::format("'{}' ({}) has no rules", name, where));
}

/// Refuses what would change messages in a way that has no rules.
Result<void> refuse_without_rules(const ConfigNode& document) {
  constexpr std::array refused = {
      std::pair("model", "converters"), std::pair("parallelism", "enable_async_tensor_parallel"),
      std::pair("fault_tolerance", "enable"), std::pair("memory_estimation", "enable"),
      std::pair("validation", "enable")};
  for (const auto& [section, key] : refused) {
    if (is_on(document, section, key)) {
      return failure(fmt::format("{}: '{}.{}' has no rules here; leave it out",
                                 at(document, section, key)->where(), section, key));
    }
  }
  const std::string tensor = text_at(document, "parallelism", "expert_tensor_parallel_degree", "1");
  if (tensor != "1") {
    return failure(fmt::format("{}: 'expert_tensor_parallel_degree' is {}; there are rules for 1 alone",
                               at(document, "parallelism", "expert_tensor_parallel_degree")->where(),
                               shown_text(tensor)));
  }
  return {};
}

/// Notes what has no rules and may change messages.
void note_unmodelled(const ConfigNode& document, Job& notes) {
  constexpr std::array noted = {
      std::pair("parallelism", "disable_loss_parallel"), std::pair("experimental", "custom_import"),
      std::pair("experimental", "custom_args_module"), std::pair("job", "custom_config_module"),
      std::pair("optimizer", "early_step_in_backward")};
  for (const auto& [section, key] : noted) {
    if (is_on(document, section, key)) {
      note(fmt::format("{}.{}", section, key), at(document, section, key)->where(), notes);
    }
  }
  if (text_at(document, "parallelism", "context_parallel_rotate_method", "allgather") != "allgather") {
    note("parallelism.context_parallel_rotate_method",
         at(document, "parallelism", "context_parallel_rotate_method")->where(), notes);
  }
  const bool is_selective = text_at(document, "activation_checkpoint", "mode", "selective") == "selective";
  const std::string which = text_at(document, "activation_checkpoint", "selective_ac_option", "2");
  if (is_selective && which != "op") {  // every n-th layer, which is then recomputed as a whole
    const ConfigNode* const section = find(document, "activation_checkpoint");
    const bool is_given = at(document, "activation_checkpoint", "selective_ac_option") != nullptr;
    note(fmt::format("activation_checkpoint.selective_ac_option = {}", shown_text(which)),
         (section == nullptr ? document : *section).where() +
             (is_given ? "" : ", which leaves it to torchtitan's default"),
         notes);
  }
}

/// The document as 0.3.0 would have it, without what it has no more.
ConfigNode as_of_0_3(ConfigNode document) {
  const auto erase = [](ConfigNode& map, std::string_view words) {
    for (std::size_t i = map.keys.size(); i-- > 0;) {
      if (is_one_of(map.keys[i], words)) {
        map.keys.erase(map.keys.begin() + static_cast<std::ptrdiff_t>(i));
        map.items.erase(map.items.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  };
  erase(document, k_sections_of_0_2);
  for (std::size_t i = 0; i < document.keys.size(); ++i) {
    ConfigNode& section = document.items[i];
    for (const auto& [name, keys] : k_keys_of_0_2) {
      if (document.keys[i] == name) {
        erase(section, keys);
      }
    }
    for (std::string& key : section.keys) {  // names of 0.1
      key = key == "batch_size" ? "local_batch_size" : key == "enable_checkpoint" ? "enable" : key;
    }
  }
  return document;
}

Result<Dispatcher> dispatcher_of(const ConfigNode& document) {
  const std::string name = text_at(document, "parallelism", "expert_parallel_comm_backend", "standard");
  for (const auto& [known, dispatcher] :
       {std::pair("standard", Dispatcher::all_to_all), std::pair("deepep", Dispatcher::deepep),
        std::pair("hybridep", Dispatcher::hybridep)}) {
    if (name == known) {
      return dispatcher;
    }
  }
  return failure(
      fmt::format("{}: 'expert_parallel_comm_backend' is '{}'; choose from standard, deepep, "
                  "hybridep",
                  at(document, "parallelism", "expert_parallel_comm_backend")->where(), shown_text(name)));
}

/// Flavours of 0.2 name their attention too, which sends nothing.
std::string without_attention(std::string flavour) {
  for (const std::string_view kernel : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"}) {
    if (flavour.ends_with(kernel)) {
      flavour.resize(flavour.size() - kernel.size());
    }
  }
  return flavour;
}

Result<TitanModel> toml_model(const ConfigNode& document) {
  const ConfigNode* const section = find(document, "model");
  const std::string module = text_at(document, "model", "name", "llama3");
  const std::string name = text_at(document, "model", "flavor", "debugmodel");
  const Result<const Flavour*> flavour = flavour_named(module, without_attention(name));
  if (!flavour) {
    return failure(fmt::format("{}: {}", section->where(), flavour.error().message));
  }
  Result<TitanModel> model = titan_model(**flavour, TrainerConfig{}.sequence, section->where());
  if (model) {
    const Result<Dispatcher> dispatcher = dispatcher_of(document);
    if (!dispatcher) {
      return tl::unexpected(dispatcher.error());
    }
    model->dispatcher = *dispatcher;
    model->fuses_qkv = false;
  }
  return model;
}

Result<Job> read_toml(const std::vector<ConfigNode>& files) {
  const ConfigNode& document = files[0];
  if (const Result<void> ok = refuse_without_rules(document); !ok) {
    return tl::unexpected(ok.error());
  }
  const Result<TitanModel> model = toml_model(document);
  if (!model) {
    return tl::unexpected(model.error());
  }
  Job notes;
  note_unmodelled(document, notes);
  TrainerConfig config;
  config.module = text_at(document, "model", "name", "llama3");
  config.loss_chunks = 0;  // chunks came with 0.3
  config.has_cuda_graphs = false;
  const ConfigNode settings = as_of_0_3(document);
  MapReader reader(settings, {notes.warnings, notes.unmodelled});
  if (const Result<void> ok = read_sections(reader, config, {notes.warnings, notes.unmodelled}); !ok) {
    return tl::unexpected(ok.error());
  }
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  Result<Job> job = job_of(config, model->config, document.where());
  if (!job) {
    return job;
  }
  apply(*model, options(*job));
  job->framework_version = k_version;
  job->warnings.insert(job->warnings.begin(), notes.warnings.begin(), notes.warnings.end());
  job->unmodelled.insert(job->unmodelled.begin(), notes.unmodelled.begin(), notes.unmodelled.end());
  return job;
}

bool recognises_toml(const ConfigFile& file) {
  return file.is_toml() && file.has("model") && file.has("training") &&
         (file.has("parallelism") || file.has("job") || file.has("activation_checkpoint"));
}

}  // namespace

ConfigReader toml_reader() {
  return {.name = "a torchtitan TOML file",
          .framework = k_name,
          .recognises = recognises_toml,
          .read = read_toml};
}

}  // namespace commlens::torchtitan
