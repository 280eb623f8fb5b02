// The equations of arXiv 2408.10197 as calls, so that they can be compared with a log per axis and
// collective. Source: rules/paper.md §4a.
#include "commlens/plan/rules/paper_program.hpp"

namespace commlens::paper {
namespace {

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages,
                                         Trace& tables) {
  return write_equations(job, {}, stages, tables);
}

std::vector<std::string> unverified(const Job&) { return {}; }

}  // namespace
}  // namespace commlens::paper

namespace commlens::rules {
const RuleSet k_paper{Framework::paper,
                      {},
                      "arXiv 2408.10197",
                      &commlens::paper::check_equations,
                      &commlens::paper::unverified,
                      &commlens::paper::write};
}  // namespace commlens::rules
