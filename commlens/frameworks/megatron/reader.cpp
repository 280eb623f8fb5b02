#include "commlens/frameworks/megatron/reader.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/top_level_keys.hpp"
#include "commlens/frameworks/megatron/argument_lists.hpp"
#include "commlens/frameworks/megatron/map_forms.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader_parts.hpp"
#include "commlens/frameworks/megatron/script_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

// Arguments of Megatron-LM alone, by which a file is recognised.
constexpr std::string_view k_own_keys =
    "accumulate_allreduce_grads_in_fp32 expert_model_parallel_size global_batch_size micro_batch_size "
    "pipeline_model_parallel_size position_embedding_type tensor_model_parallel_size "
    "untie_embeddings_and_output_weights use_distributed_optimizer";

/// Arguments as a shell has them, a script that gives them to a program, or the same settings as a document.
Result<ConfigNode> parse(const std::string& name, const std::string& content) {
  if (is_shell_script(name, content)) {
    return megatron::parse_launch_script(name, content);
  }
  if (starts_with_argument(content)) {
    return parse_megatron_arguments(name, content);
  }
  return parse_document(name, content);
}

/// A file of arguments belongs to Megatron's script, unlike the map in a case file.
Result<Job> job_from_script(const ConfigNode& arguments) {
  return job_from_megatron(arguments, 0).map([&](Job job) {
    megatron::options(job).is_script = true;
    job.model.name = std::filesystem::path(arguments.file).stem().string();
    return job;
  });
}

/// What a script's reader had to say, and what a form of map leaves open.
void take_notes(megatron::FlatArguments& arguments, Job& job) {
  for (const std::string& open : arguments.unmodelled) {
    job.warnings.push_back(open + ", unverified");
    job.unmodelled.push_back(open);
  }
  const auto found = std::find(arguments.map.keys.begin(), arguments.map.keys.end(), megatron::k_notes_key);
  if (found == arguments.map.keys.end()) {
    return;
  }
  const auto item = arguments.map.items.begin() + (found - arguments.map.keys.begin());
  for (const ConfigNode& note : item->items) {
    job.warnings.push_back(note.text);
  }
  arguments.map.keys.erase(found);
  arguments.map.items.erase(item);
}

/// The arguments that no part of the reader takes.
void read_others(MapReader& arguments, Job& job, const ConfigNode& map) {
  for (const megatron::RefusedArgument& refused : megatron::refused_arguments()) {
    if (const ConfigNode* const node = arguments.node(refused.name); node != nullptr && !is_off(*node)) {
      arguments.fail(refused.name, refused.reason);
    }
  }
  arguments.skip_unless_off(megatron::unmodelled_arguments());
  for (const megatron::NeutralArgument& one : megatron::neutral_arguments()) {
    const ConfigNode* const node = arguments.node(one.name);
    if (node != nullptr && !is_off(*node) && node->text != one.neutral) {
      arguments.skip(one.name);
    }
  }
  arguments.accept(megatron::inert_arguments());
  accept_known_keys(arguments, map, megatron::training_keys(), job.recipe);
}

}  // namespace

bool is_megatron_key(std::string_view key) {
  key.remove_prefix(key.starts_with("__") ? 2 : 0);  // hyphens of an argument
  return is_one_of(key, k_own_keys);
}

Result<Job> job_from_megatron(const ConfigNode& document, std::int64_t padded_vocab) {
  Result<megatron::FlatArguments> arguments = megatron::flat_arguments(document);
  if (!arguments) {
    return tl::unexpected(arguments.error());
  }
  Job job;
  job.framework = megatron::k_name;
  job.model.name = "megatron";
  take_notes(*arguments, job);
  MapReader reader(arguments->map, {job.warnings, job.unmodelled});
  megatron::read_model(reader, job, padded_vocab);
  megatron::read_newer_model(reader, job);
  megatron::read_layout(reader, job);
  megatron::read_precision(reader, job);
  megatron::read_gradients(reader, job);
  megatron::read_recompute(reader, job);
  megatron::read_experts(reader, job);
  megatron::read_loop(reader, job);
  megatron::read_recipe(reader, job);
  read_others(reader, job, arguments->map);
  if (const Result<void> ok = reader.finish(); !ok) {
    return tl::unexpected(ok.error());
  }
  return job;
}

ConfigReader megatron::reader() {
  return {.name = "Megatron arguments",
          .framework = k_name,
          .recognises =
              [](const ConfigFile& file) {
                return file.is_arguments || file.is_script || file.has_any(is_megatron_key) ||
                       has_argument_sections(file.keys);
              },
          .parse = parse,
          .read = [](const std::vector<ConfigNode>& files) { return job_from_script(files[0]); }};
}

}  // namespace commlens
