// The equations of arXiv 2408.10197 as calls, so that they can be compared with a log per axis and
// collective. Source: docs/rules.md#paper.
#include "commlens/frameworks/paper/framework.hpp"
#include "commlens/frameworks/paper/program.hpp"

namespace commlens::paper {
namespace {

Result<std::vector<StagePrograms>> write(const Job& job, std::span<const std::int64_t> stages, Plan& plan) {
  return write_equations(job, {}, stages, plan);
}

std::vector<std::string> unverified(const Job&) { return {}; }

}  // namespace

FrameworkRules rules() {
  return {.name = "paper",
          .engine = "paper",
          .versions = {},
          .base = "arXiv 2408.10197",
          .check = check_equations,
          .unverified = unverified,
          .write = write,
          .causes = causes()};
}

}  // namespace commlens::paper
