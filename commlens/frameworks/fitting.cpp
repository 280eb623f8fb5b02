#include "commlens/frameworks/fitting.hpp"

#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/not_covered.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens {

std::vector<std::string_view> fitting_frameworks(const Job& job, const Overrides& flags) {
  std::vector<std::string_view> names;
  for (const FrameworkRules& rules : frameworks()) {
    Overrides others = flags;
    others.framework = std::string(rules.name);
    const bool fits =
        !rules.versions.empty() && with_overrides(job, others)
                                       .and_then([](Job changed) { return validated(std::move(changed)); })
                                       .and_then([](const Job& valid) { return make_plan(valid, Rank{0}); })
                                       .has_value();
    if (fits) {
      names.push_back(rules.name);
    }
  }
  return names;
}

Error with_fitting_frameworks(Error error, const Job& job, const Overrides& flags) {
  if (!error.message.ends_with(k_covered_elsewhere)) {
    return error;
  }
  error = of_these_rules(std::move(error));
  std::vector<std::string_view> names = fitting_frameworks(job, flags);
  if (!names.empty()) {
    const bool has_remedy = error.message.find("; ") != std::string::npos;
    error.message +=
        fmt::format("{}--framework {}", has_remedy ? ", or " : "; use ", listed_names(std::move(names)));
  }
  return error;
}

Error of_these_rules(Error error) {
  if (error.message.ends_with(k_covered_elsewhere)) {
    error.message.resize(error.message.size() - k_covered_elsewhere.size());
  }
  return error;
}

std::string listed_names(std::vector<std::string_view> names) {
  const std::string_view last = names.back();
  names.pop_back();
  return names.empty() ? std::string(last) : fmt::format("{} or {}", fmt::join(names, ", "), last);
}

}  // namespace commlens
