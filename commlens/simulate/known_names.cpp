#include "commlens/simulate/known_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "commlens/base/check.hpp"
#include "commlens/config/json_document.hpp"
#include "commlens/simulate/run_table.hpp"

namespace commlens {
namespace {

std::string text_of(const ConfigNode& map, std::string_view key) {
  const ConfigNode* const node = find(map, key);
  return node == nullptr ? "" : node->text;
}

double number_of(const ConfigNode& map, std::string_view key, double otherwise = 0) {
  const ConfigNode* const node = find(map, key);
  return node == nullptr ? otherwise : as_number(*node).value_or(otherwise);
}

bool flag_of(const ConfigNode& map, std::string_view key) { return text_of(map, key) == "true"; }

std::vector<std::string> texts_of(const ConfigNode& map, std::string_view key) {
  std::vector<std::string> texts;
  if (const ConfigNode* const node = find(map, key); node != nullptr) {
    for (const ConfigNode& item : node->items) {
      texts.push_back(item.text);
    }
  }
  return texts;
}

std::vector<std::string> words_of(const ConfigNode& map) {
  std::vector<std::string> words = texts_of(map, "words");
  std::transform(words.begin(), words.end(), words.begin(), in_lower_case);
  return words;
}

/// Values of coefficients by their keys.
CoefficientValues priors_of(const ConfigNode& map) {
  CoefficientValues values;
  if (const ConfigNode* const node = find(map, "priors"); node != nullptr) {
    for (const std::string& key : node->keys) {
      const std::optional<Coefficient> coefficient = coefficient_from(key);
      COMMLENS_CHECK(coefficient, "the built-in file names known coefficients");
      values.emplace_back(*coefficient, number_of(*node, key));
    }
  }
  return values;
}

Accelerator accelerator_of(const ConfigNode& node) {
  Accelerator result{text_of(node, "name"),
                     words_of(node),
                     number_of(node, "memory_below_gb"),
                     {},
                     priors_of(node),
                     text_of(node, "maker"),
                     texts_of(node, "alike"),
                     flag_of(node, "sustained_peak")};
  RunHardware& hardware = result.hardware;
  hardware.gpu = result.name;
  hardware.peak = number_of(node, "tflops") * 1e12;
  hardware.memory_bandwidth = number_of(node, "memory_gb_s") * 1e9;
  hardware.processors = number_of(node, "processors", 1);
  hardware.link = number_of(node, "link_gb_s") * 1e9;
  hardware.pair_link = number_of(node, "pair_link_gb_s") * 1e9;
  hardware.network = number_of(node, "network_gb_s") * 1e9;
  hardware.domain = static_cast<std::int64_t>(number_of(node, "domain", 8));
  hardware.node = static_cast<std::int64_t>(number_of(node, "node", 8));
  hardware.busy_share = number_of(node, "busy_share", 1);
  return result;
}

/// Names of kinds of data parallelism, in the order of the enumerators.
constexpr std::array<std::string_view, 5> k_kinds = {"replicated", "optimizer", "owners", "sharded",
                                                     "sharded_until_backward"};

/// All but owners, unless the framework names its kinds.
std::vector<DataParallelKind> searched_kinds(const ConfigNode& map) {
  const ConfigNode* const node = find(map, "searched");
  if (node == nullptr) {
    return {DataParallelKind::replicated, DataParallelKind::optimizer, DataParallelKind::sharded,
            DataParallelKind::sharded_until_backward};
  }
  std::vector<DataParallelKind> kinds;
  for (const ConfigNode& item : node->items) {
    const auto* const found = std::find(k_kinds.begin(), k_kinds.end(), item.text);
    COMMLENS_CHECK(found != k_kinds.end(), "the built-in file names known kinds");
    kinds.push_back(static_cast<DataParallelKind>(found - k_kinds.begin()));
  }
  return kinds;
}

RunFramework framework_of(const ConfigNode& node) {
  RunFramework result{text_of(node, "name"), words_of(node), std::nullopt,        {},
                      priors_of(node),       false,          searched_kinds(node)};
  if (text_of(node, "data_kind") == "owners") {
    result.data_kind = DataParallelKind::owners;
  }
  RunBehaviour& behaviour = result.behaviour;
  behaviour.stops_repeating_early = flag_of(node, "stops_repeating_early");
  behaviour.accumulation_bytes = number_of(node, "accumulation_bytes");
  behaviour.gradient_bytes = number_of(node, "gradient_bytes");
  behaviour.overlaps_gradients = flag_of(node, "overlaps_gradients");
  behaviour.overlaps_parameters = flag_of(node, "overlaps_parameters");
  behaviour.reduces_to_all = flag_of(node, "reduces_to_all");
  result.has_sharded_runs = flag_of(node, "sharded_runs");
  result.has_host_optimizer_of_shards = flag_of(node, "host_optimizer_of_shards");
  result.update_bytes = number_of(node, "update_bytes", result.update_bytes);
  return result;
}

std::string_view names_text() {
  for (const EmbeddedFile& file : built_in_training()) {
    if (file.stem() == "accelerators") {
      return file.text;
    }
  }
  return "";
}

KnownNames read_names() {
  const Result<ConfigNode> document = parse_json("accelerators.json", names_text());
  COMMLENS_CHECK(document, "the built-in file is valid");
  KnownNames names;
  for (const ConfigNode& node : find(*document, "accelerators")->items) {
    names.accelerators.push_back(accelerator_of(node));
  }
  for (const ConfigNode& node : find(*document, "frameworks")->items) {
    names.frameworks.push_back(framework_of(node));
  }
  for (const ConfigNode& node : find(*document, "models")->items) {
    names.models.push_back({words_of(node), flag_of(node, "latent_attention"),
                            static_cast<std::int64_t>(number_of(node, "shared_experts"))});
  }
  for (const ConfigNode& node : find(*document, "jobs")->items) {
    JobFramework& job = names.jobs.emplace_back();
    job.name = text_of(node, "framework");
    job.runs = texts_of(node, "runs");
    job.has_other_trainer = flag_of(node, "other_trainer");
    job.own = text_of(node, "own");
  }
  return names;
}

bool has_all(const std::string& text, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return text.find(word) != std::string::npos; });
}

/// By its name, or as one of several of its name ("torch-fsdp" of "torch").
bool is_job_of(const JobFramework& job, std::string_view framework) {
  return framework == job.name || framework.starts_with(job.name + "-");
}

}  // namespace

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

const KnownNames& known_names() {
  static const KnownNames names = read_names();
  return names;
}

const Accelerator* find_accelerator(std::string_view name, double memory_gb) {
  const std::string lower = in_lower_case(name);
  for (const Accelerator& entry : known_names().accelerators) {
    const bool has_memory =
        entry.memory_below_gb == 0 || (memory_gb > 0 && memory_gb < entry.memory_below_gb);
    if (has_memory && has_all(lower, entry.words)) {
      return &entry;
    }
  }
  return nullptr;
}

const Accelerator* accelerator_named(std::string_view name) {
  const std::vector<Accelerator>& all = known_names().accelerators;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Accelerator& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const RunFramework& find_framework(std::string_view name) {
  const std::string lower = in_lower_case(name);
  for (const RunFramework& entry : known_names().frameworks) {
    if (has_all(lower, entry.words)) {
      return entry;
    }
  }
  return known_names().frameworks.back();
}

std::vector<const RunFramework*> frameworks_of_job(std::string_view framework) {
  std::vector<const RunFramework*> found;
  for (const JobFramework& job : known_names().jobs) {
    if (is_job_of(job, framework)) {
      for (const std::string& name : job.runs) {
        found.push_back(&find_framework(name));
      }
    }
  }
  return found.empty() ? std::vector<const RunFramework*>{&find_framework(framework)} : found;
}

const RunFramework* own_framework(std::string_view framework) {
  for (const JobFramework& job : known_names().jobs) {
    if (job.name == framework && !job.own.empty()) {
      return &find_framework(job.own);
    }
  }
  return nullptr;
}

bool has_other_trainer(std::string_view framework) {
  const std::vector<JobFramework>& jobs = known_names().jobs;
  return std::any_of(jobs.begin(), jobs.end(), [&](const JobFramework& job) {
    return is_job_of(job, framework) && job.has_other_trainer;
  });
}

const KnownModel* find_model(std::string_view name) {
  const std::string lower = in_lower_case(name);
  for (const KnownModel& entry : known_names().models) {
    if (has_all(lower, entry.words)) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace commlens
