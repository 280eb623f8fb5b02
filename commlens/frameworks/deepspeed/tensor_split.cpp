#include "commlens/frameworks/deepspeed/tensor_split.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

namespace commlens::deepspeed {
namespace {

struct FreePattern {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Pattern = std::unique_ptr<pcre2_code, FreePattern>;

PCRE2_SPTR code_units(const std::string& text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());  // NOLINT(*-reinterpret-cast): what PCRE2 takes
}

Pattern compiled(const std::string& pattern) {
  int error = 0;
  std::size_t at = 0;
  return Pattern(pcre2_compile(code_units(pattern), pattern.size(), PCRE2_ANCHORED, &error, &at, nullptr));
}

/// As Python's re.match: from the beginning of the name. A pattern that takes too long matches nothing.
bool matches(const std::string& pattern, const std::string& name) {
  constexpr std::uint32_t most_steps = 100'000;
  const Pattern code = compiled(pattern);
  if (!code) {
    return false;
  }
  const std::unique_ptr<pcre2_match_data, FreePattern> match(
      pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreePattern> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), most_steps);
  return pcre2_match(code.get(), code_units(name), name.size(), 0, 0, match.get(), context.get()) >= 0;
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

}  // namespace

Result<void> check_pattern(const std::string& pattern) {
  constexpr std::size_t longest = 200;
  if (pattern.size() > longest || !compiled(pattern)) {
    return failure(fmt::format("'{}' is not a regular expression of up to {} characters",
                               pattern.substr(0, longest), longest));
  }
  return {};
}

TensorSplit tensor_split(const Job& job, const std::string& name) {
  if (!options(job).auto_tp) {
    return TensorSplit::replicated;
  }
  for (const TensorSpec& spec : options(job).tensor_specs) {
    const bool is_named = std::any_of(spec.patterns.begin(), spec.patterns.end(),
                                      [&](const std::string& pattern) { return matches(pattern, name); });
    if (is_named) {
      return spec.is_column ? TensorSplit::column : TensorSplit::row;
    }
  }
  return options(job).tensor_specs.empty() ? usual_split(name) : TensorSplit::replicated;
}

}  // namespace commlens::deepspeed
