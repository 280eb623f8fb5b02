#include "commlens/frameworks/read_config.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/config/json_document.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/config/toml_document.hpp"
#include "commlens/config/top_level_keys.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/case_file.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/neox/options.hpp"
#include "commlens/frameworks/neox/reader.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

/// The files of one command line, sorted by what they hold.
struct Files {
  std::optional<Job> preset;
  std::vector<ConfigNode> neox;
  std::vector<ConfigNode> deepspeed;
  std::vector<ConfigNode> alone;  // kinds that describe a whole job
  ConfigKind alone_kind = ConfigKind::not_a_config;
};

bool is_json_file(const std::filesystem::path& path) { return path.extension() == ".json"; }

bool is_toml_file(const std::filesystem::path& path) { return path.extension() == ".toml"; }

/// What a person writes: YAML, or the same settings as TOML.
bool is_yaml_file(const std::filesystem::path& path) {
  return path.extension() == ".yml" || path.extension() == ".yaml" || is_toml_file(path);
}

bool has_any(const std::vector<std::string>& keys, bool (*is_wanted)(std::string_view)) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return is_wanted(key); });
}

bool has(const std::vector<std::string>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Which keys only GPT-NeoX has, so that they outweigh DeepSpeed keys beside them.
bool is_only_neox(std::string_view key) { return is_neox_key(key) && !is_deepspeed_key(key); }

std::vector<std::string> keys_of(const std::filesystem::path& path, std::string_view content) {
  if (!is_toml_file(path)) {
    return top_level_keys(content);
  }
  Result<ConfigNode> document = parse_toml(path.string(), content);
  if (!document) {
    return {};
  }
  use_underscores(*document);
  return std::move(document->keys);
}

Result<ConfigNode> parse(const std::string& name, const std::string& content, ConfigKind kind) {
  if (kind == ConfigKind::megatron_args && starts_with_argument(content)) {
    return parse_megatron_arguments(name, content);
  }
  if (is_json_file(name)) {
    return parse_json(name, content);
  }
  Result<ConfigNode> document = is_toml_file(name) ? parse_toml(name, content) : parse_yaml(name, content);
  if (document && kind == ConfigKind::megatron_args) {
    use_underscores(*document);
  }
  return document;
}

tl::unexpected<Error> unknown_name(const std::string& name) {
  const std::string meant = nearest(name, preset_names());
  return failure(fmt::format("'{}' is neither a file nor a built-in model ({}){}", name.substr(0, 100),
                             fmt::join(preset_names(), " "),
                             meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
}

Result<void> add(const std::string& name, Files& files) {
  std::error_code status;
  const bool exists = std::filesystem::exists(name, status);
  if (const std::optional<Job> job = preset(name);
      job && (!exists || std::filesystem::is_directory(name, status))) {
    if (files.preset) {
      return failure(fmt::format("{}: one built-in model is enough", name));
    }
    files.preset = job;
    return {};
  }
  if (!exists) {
    return unknown_name(name);
  }
  const Result<std::string> content = read_text_file(name, k_config_size_limit);
  if (!content) {
    return tl::unexpected(content.error());
  }
  const ConfigKind kind = sniff_config(name, *content);
  Result<ConfigNode> document = parse(name, *content, kind);
  if (!document) {
    return tl::unexpected(document.error());
  }
  if (kind == ConfigKind::not_a_config || document->kind != ConfigNode::Kind::map) {
    return failure(fmt::format(
        "{}: no configuration: expected a GPT-NeoX yml, a DeepSpeed JSON, a Hugging Face config.json, "
        "Megatron arguments or a case file with 'framework' (YAML, or TOML in a file named *.toml)",
        name));
  }
  if (kind == ConfigKind::neox_yaml) {
    files.neox.push_back(std::move(*document));
  } else if (kind == ConfigKind::deepspeed_json) {
    files.deepspeed.push_back(std::move(*document));
  } else {
    files.alone.push_back(std::move(*document));
    files.alone_kind = kind;
  }
  return {};
}

/// Says which files do not belong together.
Result<void> check_combination(const Files& files) {
  const std::size_t jobs = (files.preset ? 1U : 0U) + (files.neox.empty() ? 0U : 1U) + files.alone.size();
  if (jobs > 1) {
    return failure(
        "these files describe more than one job; give one built-in model, the GPT-NeoX files of one job, "
        "or one other file");
  }
  if (files.deepspeed.size() > 1) {
    return failure(fmt::format("{}: a job has one DeepSpeed JSON, {} is one already", files.deepspeed[1].file,
                               files.deepspeed[0].file));
  }
  if (jobs == 0) {
    return files.deepspeed.empty()
               ? failure("no configuration: give a built-in model such as 1.3B, or a file")
               : failure(fmt::format(
                     "{}: a DeepSpeed JSON holds no model; name a built-in model or a Hugging Face "
                     "config.json beside it",
                     files.deepspeed[0].file));
  }
  const bool takes_deepspeed = files.alone.empty() || files.alone_kind == ConfigKind::hf_json;
  if (!files.deepspeed.empty() && !takes_deepspeed) {
    return failure(fmt::format("{}: a DeepSpeed JSON does not go with {}", files.deepspeed[0].file,
                               files.alone[0].file));
  }
  return {};
}

/// A file of arguments belongs to Megatron's script, unlike the map in a case file.
Result<Job> job_from_megatron_file(const ConfigNode& arguments) {
  return job_from_megatron(arguments, 0).map([&](Job job) {
    megatron::options(job).is_script = true;
    job.model.name = std::filesystem::path(arguments.file).stem().string();
    return job;
  });
}

Result<Job> job_alone(const Files& files) {
  const ConfigNode& document = files.alone[0];
  switch (files.alone_kind) {
    case ConfigKind::hf_json:
      return job_from_hf(document);
    case ConfigKind::megatron_args:
      return job_from_megatron_file(document);
    case ConfigKind::case_yaml:
    case ConfigKind::neox_yaml:
    case ConfigKind::deepspeed_json:
    case ConfigKind::not_a_config:
      break;
  }
  return job_from_case(document);
}

Result<Job> job_of(Files& files) {
  if (!files.neox.empty()) {
    files.neox.insert(files.neox.end(), files.deepspeed.begin(), files.deepspeed.end());
    const Result<ConfigNode> all = merged_neox(files.neox);
    return all ? job_from_neox(*all, 0, "") : tl::unexpected(all.error());
  }
  Result<Job> job = files.preset ? Result<Job>(*files.preset) : job_alone(files);
  if (!job || files.deepspeed.empty()) {
    return job;
  }
  if (const Result<void> ok = read_deepspeed(files.deepspeed[0], *job); !ok) {
    return tl::unexpected(ok.error());
  }
  return files.preset ? job : with_framework(std::move(*job), deepspeed::k_name);
}

}  // namespace

ConfigKind sniff_config(const std::filesystem::path& path, std::string_view content) {
  if (starts_with_argument(content)) {
    return ConfigKind::megatron_args;
  }
  const std::vector<std::string> keys = keys_of(path, content);
  if (has(keys, "framework") && (has(keys, "ranks") || has(keys, "model") || has(keys, "neox") ||
                                 has(keys, "megatron") || is_yaml_file(path))) {
    return ConfigKind::case_yaml;
  }
  if (has(keys, "model_type") || has(keys, "architectures")) {
    return ConfigKind::hf_json;
  }
  if (has_any(keys, is_megatron_key)) {
    return ConfigKind::megatron_args;
  }
  if (has(keys, "num_layers") || (is_yaml_file(path) && has_any(keys, is_only_neox))) {
    return ConfigKind::neox_yaml;
  }
  if (has_any(keys, is_deepspeed_key) && (is_json_file(path) || is_yaml_file(path))) {
    return is_json_file(path) ? ConfigKind::deepspeed_json : ConfigKind::neox_yaml;
  }
  return is_yaml_file(path) && keys.empty() ? ConfigKind::neox_yaml : ConfigKind::not_a_config;
}

std::string config_kinds_text(std::string_view preset) {
  return fmt::format(
      "A preset ({}), GPT-NeoX yml files, a Hugging Face config.json, Megatron arguments or a case file",
      preset);
}

Result<Job> read_config(const std::vector<std::string>& config, std::string_view framework) {
  Files files;
  for (const std::string& name : config) {
    if (const Result<void> ok = add(name, files); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  if (const Result<void> ok = check_combination(files); !ok) {
    return tl::unexpected(ok.error());
  }
  Result<Job> job = job_of(files);
  if (!job || framework.empty()) {
    return job;
  }
  const Result<const FrameworkRules*> chosen = framework_named(framework);
  if (!chosen) {
    return tl::unexpected(chosen.error());
  }
  return with_framework(std::move(*job), (*chosen)->name);
}

}  // namespace commlens
