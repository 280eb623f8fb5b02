// Configurations of torchtitan 0.3.0: cases and files of arguments.
#include "commlens/frameworks/torchtitan/reader.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/frameworks/torchtitan/arguments.hpp"
#include "commlens/frameworks/torchtitan/model_reader.hpp"
#include "commlens/frameworks/torchtitan/registry.hpp"
#include "commlens/frameworks/torchtitan/trainer_config.hpp"

namespace commlens::torchtitan {
namespace {

/// What describes one job: maps of settings, the later ones winning over the earlier, and perhaps a model.
struct Sources {
  std::vector<const ConfigNode*> settings;
  const ConfigNode* model = nullptr;
  const ConfigNode* origin = nullptr;  // of `module` and `config`, for errors
};

struct Names {
  std::string module;
  std::string config;
  std::string where;
};

std::string text_at(const ConfigNode& map, std::string_view key) {
  const ConfigNode* const value = find(map, key);
  return value != nullptr && value->kind == ConfigNode::Kind::scalar ? value->text : "";
}

/// "torchtitan.models.llama3" is the module llama3.
std::string short_module(std::string name) {
  constexpr std::string_view package = "torchtitan.models.";
  return name.starts_with(package) ? name.substr(package.size()) : name;
}

Result<Names> names_of(const Sources& sources) {
  Names names{.module = {}, .config = {}, .where = sources.origin->where()};
  for (const ConfigNode* const map : sources.settings) {
    for (const auto& [key, name] : {std::pair("module", &names.module), std::pair("config", &names.config)}) {
      const ConfigNode* const value = find(*map, key);
      if (value != nullptr && value->kind == ConfigNode::Kind::scalar) {
        *name = value->text;
        names.where = value->where();
      }
    }
  }
  names.module = short_module(std::move(names.module));
  for (const auto& [key, name] : {std::pair("module", &names.module), std::pair("config", &names.config)}) {
    if (name->empty()) {
      return failure(fmt::format("{}: '{}' is missing, for instance llama3{}", names.where, key,
                                 key == std::string_view("config") ? "_8b" : ""));
    }
  }
  return names;
}

/// Whether a model map describes a model by itself.
bool is_whole(const ConfigNode* model) {
  return model != nullptr && find(*model, "layers") != nullptr && find(*model, "hidden") != nullptr;
}

/// The function of config_registry.py; null for an unknown one beside a whole model, whose settings are then
/// the defaults.
Result<const Recipe*> recipe_of(const Names& names, const Sources& sources, Job& notes) {
  const Result<const Recipe*> recipe = recipe_named(names.module, names.config);
  if (recipe && !(*recipe)->not_modelled.empty()) {
    return failure(fmt::format("{}: the configuration {} has {}, for which there are no rules", names.where,
                               names.config, (*recipe)->not_modelled));
  }
  if (recipe || !is_whole(sources.model)) {
    return recipe ? recipe : failure(fmt::format("{}: {}", names.where, recipe.error().message));
  }
  notes.warnings.push_back(
      fmt::format("{}: torchtitan 0.3.0 comes without the configuration {} of {}: what the case does not say "
                  "is as in its dataclasses",
                  names.where, shown_text(names.config), shown_text(names.module)));
  notes.unmodelled.push_back(fmt::format("configuration {} ({})", shown_text(names.config), names.where));
  return nullptr;
}

/// The model that the map names by `flavor`, else that of the configuration; the map's keys win.
Result<TitanModel> model_of(const Names& names, const Recipe* recipe, const Sources& sources, Job& notes) {
  TitanModel model;
  const std::string named = sources.model == nullptr ? "" : text_at(*sources.model, "flavor");
  if (recipe != nullptr) {
    const Result<const Flavour*> flavour =
        flavour_named(recipe->module, named.empty() ? recipe->flavour : named);
    if (!flavour && !is_whole(sources.model)) {
      return failure(fmt::format("{}: {}", sources.model->where(), flavour.error().message));
    }
    if (flavour) {
      Result<TitanModel> known = titan_model(**flavour, recipe->sequence, names.where);
      if (!known) {
        return known;
      }
      model = *std::move(known);
      model.dispatcher = recipe->dispatcher;
    }
  }
  if (model.flavour.empty()) {
    model.flavour = named;
    model.config.name = named.empty() ? names.module : fmt::format("{} {}", names.module, named);
  }
  if (sources.model != nullptr) {
    if (const Result<void> ok = read_model(*sources.model, model, {notes.warnings, notes.unmodelled}); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  return model;
}

Result<TrainerConfig> config_from(const Names& names, const Recipe* recipe, const Sources& sources,
                                  Job& notes) {
  TrainerConfig config = recipe == nullptr ? TrainerConfig{} : config_of(*recipe);
  config.module = names.module;
  config.config = names.config;
  for (const ConfigNode* const map : sources.settings) {
    MapReader reader(*map, {notes.warnings, notes.unmodelled});
    reader.accept("module config args");
    if (const Result<void> ok = read_sections(reader, config, {notes.warnings, notes.unmodelled}); !ok) {
      return tl::unexpected(ok.error());
    }
    if (const Result<void> ok = reader.finish(); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  const ConfigNode* const sequence = sources.model == nullptr ? nullptr : find(*sources.model, "sequence");
  if (sequence != nullptr) {
    const std::int64_t of_model = as_integer(*sequence).value_or(config.sequence);
    if (config.has_sequence && of_model != config.sequence) {
      return failure(
          fmt::format("{}: the model's sequence {} is not the training.seq_len {}; give one of them",
                      sequence->where(), of_model, config.sequence));
    }
    config.sequence = of_model;
  }
  return config;
}

Result<Job> job_from(const Sources& sources) {
  Job notes;
  const Result<Names> names = names_of(sources);
  if (!names) {
    return tl::unexpected(names.error());
  }
  const Result<const Recipe*> recipe = recipe_of(*names, sources, notes);
  if (!recipe) {
    return tl::unexpected(recipe.error());
  }
  const Result<TitanModel> model = model_of(*names, *recipe, sources, notes);
  if (!model) {
    return tl::unexpected(model.error());
  }
  const Result<TrainerConfig> config = config_from(*names, *recipe, sources, notes);
  if (!config) {
    return tl::unexpected(config.error());
  }
  Result<Job> job = job_of(*config, model->config, sources.origin->where());
  if (!job) {
    return job;
  }
  apply(*model, options(*job));
  job->warnings.insert(job->warnings.begin(), notes.warnings.begin(), notes.warnings.end());
  job->unmodelled.insert(job->unmodelled.begin(), notes.unmodelled.begin(), notes.unmodelled.end());
  return job;
}

/// The settings of the list `args` of a case.
Result<ConfigNode> arguments_of(const ConfigNode& map) {
  std::vector<ArgumentWord> words;
  const ConfigNode* const args = find(map, "args");
  if (args != nullptr && args->kind != ConfigNode::Kind::list && args->kind != ConfigNode::Kind::null) {
    return failure(fmt::format("{}: 'args' must be a list, as [--training.seq_len, 4096]", args->where()));
  }
  if (args != nullptr) {
    for (const ConfigNode& item : args->items) {
      if (item.kind != ConfigNode::Kind::scalar) {
        return failure(fmt::format("{}: 'args' must have words", item.where()));
      }
      words.push_back({item.text, item.line});
    }
  }
  return settings_of_arguments(map.file, words);
}

Result<ConfigNode> parse(const std::string& name, const std::string& content) {
  const Result<std::vector<ArgumentWord>> words = argument_words(name, content);
  return words ? settings_of_arguments(name, *words) : tl::unexpected(words.error());
}

bool recognises(const ConfigFile& file) {
  return file.is_arguments && file.has("module") && file.has("config");
}

}  // namespace

Result<Job> read_case(MapReader& document, const std::string& /*version*/) {
  const ConfigNode* const settings = document.map("torchtitan");
  const ConfigNode* const model = document.map("model");
  std::string torch_version;
  document.read("torch_version", torch_version);
  document.accept("ranks_recorded recorded_ranks");
  for (const std::string_view key : {"layout", "micro_batch", "micro_batches", "precision", "options"}) {
    document.refuse(key, "must not be beside the torchtitan map, which has all settings");
  }
  if (document.failed()) {
    return tl::unexpected(document.finish().error());
  }
  if (settings == nullptr) {
    return failure(fmt::format("{}: the map 'torchtitan' is missing, with module, config and args",
                               document.where("framework")));
  }
  const Result<ConfigNode> arguments = arguments_of(*settings);
  if (!arguments) {
    return tl::unexpected(arguments.error());
  }
  Result<Job> job = job_from({.settings = {&*arguments, settings}, .model = model, .origin = settings});
  if (job) {
    options(*job).torch_version = torch_version;
  }
  return job;
}

Result<Job> job_of_arguments(const ConfigNode& settings) {
  return job_from({.settings = {&settings}, .origin = &settings});
}

ConfigReader argument_reader() {
  return {.name = "torchtitan arguments",
          .framework = k_name,
          .recognises = recognises,
          .parse = parse,
          .read = [](const std::vector<ConfigNode>& files) { return job_of_arguments(files[0]); }};
}

}  // namespace commlens::torchtitan
