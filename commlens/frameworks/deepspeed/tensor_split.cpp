#include "commlens/frameworks/deepspeed/tensor_split.hpp"

#include <algorithm>
#include <array>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "commlens/frameworks/deepspeed/model_tree.hpp"

namespace commlens::deepspeed {
namespace {

struct FreePattern {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using CompiledPattern = std::unique_ptr<pcre2_code, FreePattern>;

PCRE2_SPTR code_units(const std::string& text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());  // NOLINT(*-reinterpret-cast): what PCRE2 takes
}

CompiledPattern compiled(const std::string& pattern) {
  int error = 0;
  std::size_t at = 0;
  return CompiledPattern(
      pcre2_compile(code_units(pattern), pattern.size(), PCRE2_ANCHORED, &error, &at, nullptr));
}

constexpr std::array<std::pair<std::string_view, TensorSplit>, 7> k_of_llama = {
    {{".q_proj.weight", TensorSplit::column},
     {".k_proj.weight", TensorSplit::column},
     {".v_proj.weight", TensorSplit::column},
     {".gate_proj.weight", TensorSplit::column},
     {".up_proj.weight", TensorSplit::column},
     {".o_proj.weight", TensorSplit::row},
     {".down_proj.weight", TensorSplit::row}}};

TensorSplit usual_split(const std::string& name) {
  for (const auto& [end, split] : k_of_llama) {
    if (name.ends_with(end)) {
      return split;
    }
  }
  return TensorSplit::replicated;
}

using Linears = std::vector<const ModelModule*>;

bool gives_all(const ModelModule& linear) {
  return linear.split == TensorSplit::replicated || linear.gathers_output;
}

bool gives_part(const ModelModule& linear) {
  return linear.split == TensorSplit::column && !linear.gathers_output;
}

/// Linears and the one that takes what they give; null: a loss does, or an addition.
Result<void> check_pair(const Linears& first, const ModelModule* last) {
  const auto all = [&](bool (*gives)(const ModelModule&)) {
    return std::all_of(first.begin(), first.end(), [&](const ModelModule* linear) { return gives(*linear); });
  };
  const bool fits = last == nullptr                   ? all(gives_all)
                    : last->split == TensorSplit::row ? all(gives_part)
                                                      : all(gives_all) && gives_all(*last);
  if (fits) {
    return {};
  }
  const ModelModule& named = last == nullptr ? *first.back() : *last;
  return failure(fmt::format(
      "AutoTP: the split of {} does not fit what is before and behind it, so that DeepSpeed fails; let "
      "layer_specs split as column what a row linear takes, and nothing else without gather_output",
      named.name));
}

/// Linears of one module in the order of their calls: each run up to one that ends it.
Result<void> check_children(const ModelTree& tree, const ModelModule& around) {
  const bool has_low_rank = around.class_name == "LoraLinear";
  Linears first;
  for (const std::size_t row : around.children) {
    const ModelModule& linear = tree.modules[row];
    if (!linear.is_linear) {
      continue;
    }
    const bool is_last = !has_low_rank && (linear.leaf == Leaf::proj || linear.leaf == Leaf::fc2);
    if (!is_last) {
      first.push_back(&linear);
      continue;
    }
    if (const Result<void> ok = check_pair(first, &linear); !ok) {
      return ok;
    }
    first.clear();
  }
  return first.empty() ? Result<void>{} : check_pair(first, nullptr);
}

bool cuts_heads(const ModelModule& module) {
  return (module.leaf == Leaf::qkv || module.leaf == Leaf::proj) && module.split != TensorSplit::replicated;
}

}  // namespace

Result<void> check_pattern(const std::string& pattern) {
  constexpr std::size_t longest = 200;
  if (pattern.size() > longest || !compiled(pattern)) {
    return failure(fmt::format("'{}' is not a regular expression of up to {} characters",
                               pattern.substr(0, longest), longest));
  }
  return {};
}

std::vector<TensorSpec> preset_specs(std::string_view model) {
  std::vector<TensorSpec> attention = {{{R"(.*\.self_attn\.o_proj\.weight$)"}, TensorSplit::row},
                                       {{R"(.*\.self_attn\.[qkv]_proj\.weight$)"}, TensorSplit::column}};
  if (model == "mixtral") {
    return attention;  // its experts are modules of their own, which no tree here has
  }
  if (model != "llama" && model != "qwen2") {
    return {};
  }
  attention.push_back({{R"(.*\.mlp\.down_proj\.weight$)"}, TensorSplit::row});
  attention.push_back({{R"(.*\.mlp\.(up|gate)_proj\.weight$)"}, TensorSplit::column});
  return attention;
}

struct TensorSplits::Pattern {
  std::string text;
  CompiledPattern code;
};

TensorSplits::TensorSplits(const Job& job) : own_(options(job)) {
  if (!own_.auto_tp || !own_.tensor_specs) {
    return;
  }
  for (const TensorSpec& spec : *own_.tensor_specs) {
    std::vector<Pattern>& patterns = patterns_.emplace_back();
    for (const std::string& text : spec.patterns) {
      patterns.push_back({text, compiled(text)});
    }
  }
}

TensorSplits::~TensorSplits() = default;

/// As Python's re.match: from the beginning of the name.
bool TensorSplits::matches(const Pattern& pattern, const std::string& name) {
  constexpr std::uint32_t most_steps = 100'000;
  if (!pattern.code || !too_slow_.empty()) {
    return false;
  }
  const std::unique_ptr<pcre2_match_data, FreePattern> match(
      pcre2_match_data_create_from_pattern(pattern.code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreePattern> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), most_steps);
  const int found =
      pcre2_match(pattern.code.get(), code_units(name), name.size(), 0, 0, match.get(), context.get());
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
    too_slow_ = pattern.text;
  }
  return found >= 0;
}

const TensorSpec* TensorSplits::spec_of(const std::string& name) {
  for (std::size_t spec = 0; spec < patterns_.size(); ++spec) {
    const auto is_match = [&](const Pattern& pattern) { return matches(pattern, name); };
    if (std::any_of(patterns_[spec].begin(), patterns_[spec].end(), is_match)) {
      return &own_.tensor_specs->at(spec);
    }
  }
  return nullptr;
}

TensorSplit TensorSplits::of(const std::string& name) {
  if (!own_.auto_tp) {
    return TensorSplit::replicated;
  }
  if (!own_.tensor_specs) {
    return usual_split(name);
  }
  const TensorSpec* spec = spec_of(name);
  return spec == nullptr ? TensorSplit::replicated : spec->split;
}

bool TensorSplits::gathers(const std::string& name) {
  const TensorSpec* spec = spec_of(name);
  return spec != nullptr && spec->gathers_output && spec->split == TensorSplit::column;
}

Result<void> check_patterns(const Job& job, const std::vector<std::string>& weights) {
  TensorSplits splits(job);
  for (const std::string& weight : weights) {
    static_cast<void>(splits.of(weight));
    if (!splits.too_slow().empty()) {
      return failure(
          fmt::format("tensor_parallel.partition_config: the pattern '{}' takes too long on '{}'; write one "
                      "that does not repeat a repetition",
                      splits.too_slow(), weight));
    }
  }
  return {};
}

Result<void> check_splits(const Job& job) {
  const ModelTree tree = model_tree(job);
  std::vector<std::string> weights;
  for (const ModelModule& module : tree.modules) {
    if (module.is_linear) {
      weights.push_back(module.name + ".weight");
    }
  }
  if (const Result<void> ok = check_patterns(job, weights); !ok) {
    return ok;
  }
  if (job.model.family == Family::gpt && std::any_of(tree.modules.begin(), tree.modules.end(), cuts_heads)) {
    return failure(
        "AutoTP splits a linear of attention, but the blocks of family gpt view its output as all heads and "
        "fail; let layer_specs name fc1 and fc2 alone, or use family llama");
  }
  for (const ModelModule& module : tree.modules) {
    if (const Result<void> ok = check_children(tree, module); !ok) {
      return ok;
    }
  }
  return {};
}

}  // namespace commlens::deepspeed
