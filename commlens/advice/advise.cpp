#include "commlens/advice/advise.hpp"

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/frameworks/fitting.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/not_covered.hpp"

namespace commlens {
namespace {

/// Equations have no settings.
bool has_settings(const FrameworkRules& rules) {
  return rules.variations != nullptr || rules.advice.changes != nullptr;
}

}  // namespace

std::string advised_framework_names() {
  std::string names;
  for (const FrameworkRules& rules : frameworks()) {
    if (has_settings(rules)) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", rules.name);
    }
  }
  return names;
}

Result<Advice> advise(const Job& job, const Trace* trace, const AdviceOptions& options) {
  if (!has_settings(rules_of(job))) {
    const auto refused = not_covered(fmt::format(
        "the {} rules give volumes rather than calls, of which nothing can be advised", job.framework));
    return tl::unexpected(with_fitting_frameworks(refused.value(), job, {}));
  }
  Result<Study> study = Study::of(job, trace, options);
  if (!study) {
    return tl::unexpected(study.error());
  }
  for (const auto topic :
       {advise_memory, advise_lower_stage, advise_persistence, advise_buckets, advise_gradient_reduction,
        advise_accumulation, advise_larger_micro_batch, advise_tensor_ranks, advise_activations,
        advise_sequence_parallelism, advise_attention_mask, advise_bubble, advise_overlap, advise_choices}) {
    topic(*study);
  }
  return study->take();
}

}  // namespace commlens
