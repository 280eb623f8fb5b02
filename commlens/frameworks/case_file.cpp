#include "commlens/frameworks/case_file.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

/// The name of the case: its file, or its directory if the file has the usual name.
std::string case_name(const ConfigNode& document) {
  const std::filesystem::path path(document.file);
  return path.stem() == "case" && path.has_parent_path() ? path.parent_path().filename().string()
                                                         : path.stem().string();
}

void set_family(ModelConfig& model, Family family) {
  const bool is_llama = family == Family::llama;
  model.family = family;
  model.gated_mlp = is_llama;
  model.linear_bias = model.qkv_bias = model.norm_bias = !is_llama;
  model.positions = is_llama ? Positions::rotary : Positions::learned;
}

Result<void> read_model(const ConfigNode& section, Job& job) {
  ModelConfig& model = job.model;
  MapReader reader(section, {job.warnings, job.unmodelled});
  Family family = Family::gpt;
  reader.choose("family", {{"gpt", Family::gpt}, {"llama", Family::llama}}, family);
  set_family(model, family);
  reader.read("name", model.name);
  reader.require("layers", model.layers);
  reader.require("hidden", model.hidden);
  reader.require("heads", model.heads);
  reader.require("sequence", model.sequence);
  reader.require("vocab", model.raw_vocab);
  model.vocab = model.raw_vocab;
  reader.read("kv_heads", model.kv_heads);
  reader.read("head_dim", model.head_dim);
  reader.read("ffn_hidden", model.ffn_hidden);
  reader.read("max_positions", model.max_positions);
  reader.choose("positions",
                {{"learned", Positions::learned}, {"rotary", Positions::rotary}, {"none", Positions::none}},
                model.positions);
  reader.read("tied_embeddings", model.tied_embeddings);
  reader.read("parallel_residual", model.parallel_residual);
  reader.read("experts", model.experts, 0);
  reader.read("top_k", model.top_k, 0);
  bool has_batch_norm = false;
  reader.choose("buffers", {{"batch_norm", true}, {"none", false}}, has_batch_norm);
  model.has_batch_norm = has_batch_norm;
  reader.read("frozen", model.frozen);
  reader.read("unused", model.unused);
  reader.read("fp32_patterns", model.fp32_patterns);
  if (family == Family::llama && model.ffn_hidden == 0) {
    reader.fail("family", "is llama, which needs ffn_hidden beside it");
  }
  return reader.finish();
}

Result<void> read_layout(const ConfigNode& section, Job& job) {
  ParallelLayout& layout = job.layout;
  MapReader reader(section, {job.warnings, job.unmodelled});
  reader.read("pipeline", layout.pp);
  reader.read("tensor", layout.tp);
  reader.read("replicate", layout.replicate);
  reader.read("data", layout.dp);
  reader.read("context", layout.cp);
  reader.read("expert", layout.ep);
  reader.read("sequence_parallel", layout.sequence_parallel);
  reader.read("virtual_stages", layout.virtual_stages);
  reader.read("order", layout.order);
  for (const FrameworkRules& rules : frameworks()) {
    if (rules.case_file.read_layout != nullptr) {
      rules.case_file.read_layout(reader, job);
    }
  }
  return reader.finish();
}

/// What all frameworks have, and what each reads of its own.
Result<void> read_options(const ConfigNode& section, Job& job) {
  MapReader reader(section, {job.warnings, job.unmodelled});
  for (const FrameworkRules& rules : frameworks()) {
    if (rules.case_file.read_options != nullptr) {
      rules.case_file.read_options(reader, job);
    }
  }
  reader.read("replicated_tensor_parallel", job.layout.replicated_tp);
  reader.choose("recompute",
                {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}},
                job.train.recompute);
  reader.choose(
      "schedule",
      {{"gpipe", Schedule::gpipe}, {"1f1b", Schedule::one_f_one_b}, {"interleaved", Schedule::interleaved}},
      job.train.schedule);
  reader.choose<std::optional<Attention>>(
      "attention", {{"flash", Attention::flash}, {"eager", Attention::eager}}, job.train.attention);
  bool checkpoints = job.train.recompute == Recompute::full;
  reader.read("checkpoint_activations", checkpoints);
  if (checkpoints) {
    set_recompute(job, Recompute::full);
  }
  reader.read("partition_activations", job.train.partition_activations);
  return reader.finish();
}

constexpr std::int64_t k_absent = 0;  // a batch size that the case leaves to a section

Result<Job> job_from_arguments(MapReader& reader, const CaseRules& rules, const ConfigNode& arguments,
                               const std::string& version) {
  std::vector<std::string_view> others = {"model",         "layout",    "micro_batch",
                                          "micro_batches", "precision", "options"};
  for (const FrameworkRules& each : frameworks()) {
    if (!each.case_file.is_own_section) {
      others.insert(others.end(), each.case_file.sections.begin(), each.case_file.sections.end());
    }
  }
  for (const std::string_view key : others) {
    reader.refuse(key, fmt::format("must not be beside the {} map, which has all settings", rules.arguments));
  }
  std::int64_t padded_vocab = 0;
  reader.read("padded_vocab", padded_vocab);
  if (reader.failed()) {
    return tl::unexpected(reader.finish().error());
  }
  ConfigNode map = arguments;
  use_underscores(map);
  Result<Job> job = rules.read_arguments(map, padded_vocab, version);
  if (job && rules.read_beside_arguments != nullptr) {
    rules.read_beside_arguments(reader, *job);
  }
  return job;
}

/// "neox or megatron": the maps of arguments that a case may have.
std::string argument_maps() {
  std::vector<std::string_view> names;
  for (const FrameworkRules& rules : frameworks()) {
    if (!rules.case_file.arguments.empty()) {
      names.push_back(rules.case_file.arguments);
    }
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

/// Reads the sections of the frameworks; `described` becomes the one of the last.
Result<void> read_sections(MapReader& reader, Job& job, std::string_view& described) {
  for (const FrameworkRules& rules : frameworks()) {
    const CaseRules& own = rules.case_file;
    for (const std::string_view name : own.is_own_section ? std::vector<std::string_view>() : own.sections) {
      const ConfigNode* const section = reader.map(name);
      if (section == nullptr) {
        continue;
      }
      if (const Result<void> ok = own.read_section(name, *section, job); !ok) {
        return ok;
      }
      described = rules.name;
    }
  }
  return {};
}

/// The sections that frameworks share, and those of each.
Result<std::string_view> read_all_sections(MapReader& reader, Job& job) {
  std::string_view described;
  const ConfigNode* const layout = reader.map("layout");
  Result<void> ok = layout == nullptr ? Result<void>{} : read_layout(*layout, job);
  if (ok) {
    ok = read_sections(reader, job, described);
  }
  const ConfigNode* const options = reader.map("options");
  if (ok && options != nullptr) {
    ok = read_options(*options, job);
  }
  return ok ? Result<std::string_view>(described) : tl::unexpected(ok.error());
}

Result<Job> job_from_sections(MapReader& reader, const ConfigNode& document, const FrameworkRules& rules,
                              const std::string& version) {
  Job job;
  job.model.name = case_name(document);
  reader.choose("precision", {{"fp32", DType::fp32}, {"fp16", DType::fp16}, {"bf16", DType::bf16}},
                job.train.dtype);
  job.train.micro_batch = job.train.micro_batches = k_absent;
  reader.read("micro_batch", job.train.micro_batch);
  reader.read("micro_batches", job.train.micro_batches);
  const ConfigNode* model = reader.map("model");
  if (!reader.failed() && model == nullptr) {
    reader.fail_at(document, fmt::format("'model' is missing (or a {} map)", argument_maps()));
  }
  if (reader.failed() || model == nullptr) {
    return tl::unexpected(reader.finish().error());
  }
  if (const Result<void> ok = read_model(*model, job); !ok) {
    return tl::unexpected(ok.error());
  }
  job.framework = rules.name;
  const bool adopts_sections = rules.case_file.adopts_sections;
  if (!adopts_sections && rules.settings.adopt != nullptr) {
    rules.settings.adopt(job);
  }
  const Result<std::string_view> described = read_all_sections(reader, job);
  if (!described) {
    return tl::unexpected(described.error());
  }
  job.train.micro_batch = std::max<std::int64_t>(job.train.micro_batch, 1);
  job.train.micro_batches = std::max<std::int64_t>(job.train.micro_batches, 1);
  job.framework_version = version;
  if (adopts_sections && !described->empty()) {
    job.framework = *described;  // its settings are carried over
  }
  return job;
}

/// The framework whose map of arguments the case has; null if it has none.
const FrameworkRules* rules_of_arguments(MapReader& reader) {
  const FrameworkRules* found = nullptr;
  for (const FrameworkRules& rules : frameworks()) {
    const std::string_view key = rules.case_file.arguments;
    if (key.empty() || reader.map(key) == nullptr) {
      continue;
    }
    if (found != nullptr) {
      reader.fail(found->case_file.arguments, fmt::format("and '{}' cannot both be in a case", key));
    }
    found = &rules;
  }
  return found;
}

/// The sections that only cases of their framework have; an error where another framework's is there.
Result<std::vector<std::pair<std::string_view, const ConfigNode*>>> own_sections(
    MapReader& reader, const FrameworkRules& chosen) {
  std::vector<std::pair<std::string_view, const ConfigNode*>> own;
  for (const FrameworkRules& rules : frameworks()) {
    if (!rules.case_file.is_own_section) {
      continue;
    }
    for (const std::string_view name : rules.case_file.sections) {
      const ConfigNode* const section = reader.map(name);
      if (section != nullptr && rules.case_file.read_section != chosen.case_file.read_section) {
        reader.fail(name, fmt::format("has settings of the {} rules alone; set 'framework: {}'", rules.name,
                                      rules.name));
        return tl::unexpected(reader.finish().error());
      }
      if (section != nullptr && &rules == &chosen) {
        own.emplace_back(name, section);
      }
    }
  }
  return own;
}

bool recognises(const ConfigFile& file) {
  const auto& all = frameworks();
  const bool has_arguments = std::any_of(all.begin(), all.end(), [&](const FrameworkRules& rules) {
    return !rules.case_file.arguments.empty() && file.has(rules.case_file.arguments);
  });
  return file.has("framework") && (file.has("ranks") || file.has("model") || has_arguments || file.is_yaml());
}

}  // namespace

Result<Job> job_from_case(const ConfigNode& document) {
  Job notes;  // of the outermost keys, before the job is there
  MapReader reader(document, {notes.warnings, notes.unmodelled});
  std::string name;
  std::string version;
  reader.read("framework", name);
  reader.read("framework_version", version);
  if (!reader.failed() && name.empty()) {
    reader.fail_at(document, "'framework' is missing: " + framework_names(" or "));
  }
  const Result<const FrameworkRules*> framework = framework_named(shown_text(name));
  if (!reader.failed() && !framework) {
    reader.fail_at(*reader.node("framework"), framework.error().message);
  }
  const FrameworkRules* const described = rules_of_arguments(reader);
  std::int64_t ranks = 0;
  std::int64_t iterations = 3;
  reader.read("ranks", ranks);
  reader.read("iterations", iterations);
  if (reader.failed()) {
    return tl::unexpected(reader.finish().error());
  }
  const auto own = own_sections(reader, **framework);
  if (!own) {
    return tl::unexpected(own.error());
  }
  const auto read_job = (*framework)->case_file.read_job;
  Result<Job> job = read_job != nullptr ? read_job(reader, version)
                    : described == nullptr
                        ? job_from_sections(reader, document, **framework, version)
                        : job_from_arguments(reader, described->case_file,
                                             *reader.map(described->case_file.arguments), version);
  if (!job) {
    return job;
  }
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  Job result = with_framework(std::move(*job), (*framework)->name);
  for (const auto& [key, section] : *own) {
    if (const Result<void> ok = (*framework)->case_file.read_section(key, *section, result); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  result.framework_version = version.empty() ? result.framework_version : version;
  result.layout.ranks = ranks;
  result.iterations = iterations;
  result.model.name = described != nullptr ? case_name(document) : result.model.name;
  result.warnings.insert(result.warnings.begin(), notes.warnings.begin(), notes.warnings.end());
  result.unmodelled.insert(result.unmodelled.begin(), notes.unmodelled.begin(), notes.unmodelled.end());
  return result;
}

const ConfigReader& case_reader() {
  static const ConfigReader reader{
      .name = k_case_file, .recognises = recognises, .read = [](const std::vector<ConfigNode>& files) {
        return job_from_case(files[0]);
      }};
  return reader;
}

}  // namespace commlens
