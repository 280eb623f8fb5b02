// Command lines of torchtitan.
#include "commlens/frameworks/torchtitan/arguments.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"

namespace commlens::torchtitan {
namespace {

// Booleans of Trainer.Config 0.3.0, which take no value; those of a section by its name.
constexpr std::string_view k_flags =
    "training.enable_cpu_offload training.disable_cuda_graphs training.gc_debug "
    "parallelism.enable_fsdp_symm_mem parallelism.enable_sequence_parallel "
    "activation_checkpoint.preserve_rng_state activation_checkpoint.debug "
    "metrics.enable_tensorboard metrics.disable_color_printing metrics.save_for_all_ranks "
    "metrics.enable_wandb "
    "checkpoint.enable checkpoint.enable_first_step_checkpoint checkpoint.create_seed_checkpoint "
    "checkpoint.load_only checkpoint.last_save_model_only checkpoint.last_save_in_hf "
    "checkpoint.initial_load_model_only checkpoint.initial_load_in_hf "
    "checkpoint.initial_load_in_hf_quantized "
    "validator.enable compile.enable compile.enable_async_tensor_parallel "
    "debug.spmd_typechecking debug.deterministic debug.deterministic_warn_only "
    "debug.moe_force_load_balance debug.detect_anomaly debug.batch_invariant debug.print_config "
    "debug.enable_structured_logging "
    "profiler.enable_profiling profiler.enable_memory_snapshot "
    "dataloader.persistent_workers dataloader.pin_memory dataloader.infinite "
    "validator.dataloader.persistent_workers validator.dataloader.pin_memory validator.dataloader.infinite";

// Options with as many values as there are words up to the next option.
constexpr std::string_view k_lists =
    "override.imports parallelism.module_fqns_per_model_part "
    "activation_checkpoint.force_recompute_mm_shapes_by_fqns";

constexpr std::string_view k_recompute = "activation_checkpoint";

/// The name of an option, as Python has it.
std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// "parallelism.no_enable_x" is "parallelism.enable_x" switched off; empty for other names.
std::string switched_off(const std::string& name) {
  const std::size_t last = name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1;
  if (name.compare(last, 3, "no_") != 0) {
    return "";
  }
  std::string flag = name.substr(0, last) + name.substr(last + 3);
  return is_one_of(flag, k_flags) ? flag : "";
}

class Settings {
 public:
  Settings(std::string_view file, std::span<const ArgumentWord> words) : words_(words) {
    map_.kind = ConfigNode::Kind::map;
    map_.file = file;
    map_.line = 1;
  }

  Result<ConfigNode> all() {
    constexpr std::size_t most_words = 2'000;  // torchtitan has some hundred options
    if (words_.size() > most_words) {
      return failure(
          fmt::format("{}: more than {} words; no command line is that long", map_.file, most_words));
    }
    while (at_ < words_.size()) {
      const ArgumentWord& word = words_[at_++];
      const bool is_option = word.text.starts_with("--") && word.text.size() > 2;
      if (const Result<void> ok = is_option ? take_option(word) : take_choice(word); !ok) {
        return tl::unexpected(ok.error());
      }
    }
    return std::move(map_);
  }

 private:
  tl::unexpected<Error> mistake(const ArgumentWord& word, std::string_view reason) const {
    return failure(fmt::format("{}:{}: '{}' {}", map_.file, word.line, shown_text(word.text, 80), reason));
  }

  /// `activation-checkpoint:full`, once and at the end.
  Result<void> take_choice(const ArgumentWord& word) {
    const std::size_t colon = std::min(word.text.find(':'), word.text.size());
    if (colon == word.text.size() || with_underscores(word.text.substr(0, colon)) != k_recompute) {
      return mistake(word, "belongs to no option");
    }
    if (has_choice_) {
      return mistake(word, "is a second choice of recomputation; give one");
    }
    has_choice_ = true;
    set(fmt::format("{}.mode", k_recompute), scalar(word, with_underscores(word.text.substr(colon + 1))));
    return {};
  }

  Result<void> take_option(const ArgumentWord& word) {
    const std::size_t equals = std::min(word.text.find('='), word.text.size());
    const bool has_value = equals < word.text.size();
    std::string name = with_underscores(word.text.substr(2, equals - 2));
    const bool is_of_choice = name.starts_with(fmt::format("{}.", k_recompute));
    const bool is_of_manager = name == "module" || name == "config";  // which takes them wherever they are
    if (has_choice_ != is_of_choice && !is_of_manager) {
      return mistake(word, has_choice_ ? "stands behind the choice of recomputation; torchtitan takes it "
                                         "before that"
                                       : "stands before activation-checkpoint:MODE; torchtitan takes it "
                                         "behind that");
    }
    const std::string off = switched_off(name);
    if (!off.empty() || is_one_of(name, k_flags)) {
      return take_flag(word, off.empty() ? name : off, off.empty());
    }
    if (has_value) {
      set(name, scalar(word, word.text.substr(equals + 1)));
      return {};
    }
    if (is_one_of(name, k_lists)) {
      set(name, list(word));
      return {};
    }
    if (!next_is_value()) {
      return mistake(word, "needs a value");
    }
    set(name, scalar(word, words_[at_++].text));
    return {};
  }

  Result<void> take_flag(const ArgumentWord& word, const std::string& name, bool is_on) {
    const bool has_value = word.text.find('=') != std::string::npos || next_is_value();
    if (has_value) {
      return mistake(word,
                     fmt::format("takes no value; write --{0} or --{1}no_{2}", name,
                                 name.substr(0, name.rfind('.') + 1), name.substr(name.rfind('.') + 1)));
    }
    set(name, scalar(word, is_on ? "true" : "false"));
    return {};
  }

  bool next_is_value() const {
    if (at_ >= words_.size() || words_[at_].text.starts_with("--")) {
      return false;
    }
    const std::string& text = words_[at_].text;
    const std::size_t colon = text.find(':');
    return colon == std::string::npos || with_underscores(text.substr(0, colon)) != k_recompute;
  }

  ConfigNode scalar(const ArgumentWord& word, std::string text) const {
    ConfigNode node;
    node.kind = ConfigNode::Kind::scalar;
    node.file = map_.file;
    node.line = word.line;
    node.text = std::move(text);
    return node;
  }

  ConfigNode list(const ArgumentWord& option) {
    ConfigNode node = scalar(option, "");
    node.kind = ConfigNode::Kind::list;
    while (next_is_value()) {
      node.items.push_back(scalar(words_[at_], words_[at_].text));
      ++at_;
    }
    return node;
  }

  /// Puts a value at "section.key", or at "section.part.key": the later one counts.
  void set(std::string_view name, ConfigNode value) {
    constexpr int deepest = 8;
    ConfigNode* map = &map_;
    for (int depth = 0; depth < deepest && name.find('.') != std::string_view::npos; ++depth) {
      const std::size_t dot = name.find('.');
      map = &section_of(*map, std::string(name.substr(0, dot)), value.line);
      name.remove_prefix(dot + 1);
    }
    const auto known = std::find(map->keys.begin(), map->keys.end(), name);
    if (known == map->keys.end()) {
      append(*map, std::string(name), std::move(value));
    } else {
      map->items[static_cast<std::size_t>(known - map->keys.begin())] = std::move(value);
    }
  }

  ConfigNode& section_of(ConfigNode& map, const std::string& name, int line) const {
    const auto known = std::find(map.keys.begin(), map.keys.end(), name);
    if (known == map.keys.end()) {
      ConfigNode section;
      section.kind = ConfigNode::Kind::map;
      section.file = map_.file;
      section.line = line;
      append(map, name, std::move(section));
      return map.items.back();
    }
    ConfigNode& found = map.items[static_cast<std::size_t>(known - map.keys.begin())];
    if (found.kind != ConfigNode::Kind::map) {  // `--loss x --loss.y z`: the reader names what is wrong
      found.kind = ConfigNode::Kind::map;
      found.text.clear();
    }
    return found;
  }

  std::span<const ArgumentWord> words_;
  std::size_t at_ = 0;
  bool has_choice_ = false;
  ConfigNode map_;
};

}  // namespace

Result<ConfigNode> settings_of_arguments(std::string_view file, std::span<const ArgumentWord> words) {
  return Settings(file, words).all();
}

}  // namespace commlens::torchtitan
