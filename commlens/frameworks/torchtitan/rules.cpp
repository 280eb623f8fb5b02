// The rule set of torchtitan (docs/frameworks/torchtitan.md).
#include "commlens/frameworks/torchtitan/framework.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/reader.hpp"
#include "commlens/frameworks/torchtitan/settings.hpp"

namespace commlens::torchtitan {
namespace {

Result<void> check(const Job& /*job*/) {
  return failure("torchtitan: its configurations are read, but it has no rules yet");
}

}  // namespace

FrameworkRules rules() {
  return {
      .name = k_name,
      .engine = k_name,
      .versions = {recorded_version("0.3.0")},
      .base = "",
      .check = check,
      .unverified = [](const Job&) { return std::vector<std::string>(); },
      .write = [](const Job& job, std::span<const std::int64_t>,
                  Plan&) -> Result<std::vector<StagePrograms>> { return tl::unexpected(check(job).error()); },
      .takes_newer_models = true,
      .settings = {.adopt = adopt,
                   .settle = settle,
                   .has_sequence_parallelism = [](const Job&) { return true; },
                   .set_sequence_parallelism = set_sequence_parallelism,
                   .sharding_text = sharding_text},
      .case_file = {.read_job = read_case}};
}

}  // namespace commlens::torchtitan
