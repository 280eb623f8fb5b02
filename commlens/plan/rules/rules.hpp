#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// The calls of one pipeline stage (all its data and tensor ranks issue the same): initialisation, then
/// iterations until they repeat.
struct StagePrograms {
  Program init;
  std::vector<Program> iterations;
};

/// One framework's rules.
struct RuleSet {
  Framework framework;
  std::string_view version;  // the version they were measured on
  std::vector<std::string_view>
      known_versions;  // as a file may write it; a longer text that starts so is the same
  /// Refuses, by name, what the rules do not cover.
  Result<void> (*check)(const Job& job);
  /// True when every rule this job uses was measured.
  bool (*is_verified)(const Job& job);
  /// Calls of `stages` (ascending pipeline stages); descriptions go to `tables`.
  Result<std::vector<StagePrograms>> (*write)(const Job& job, std::span<const std::int64_t> stages,
                                              Trace& tables);
};

/// The one list.
std::span<const RuleSet> rule_sets();
const RuleSet& rule_set(Framework framework);

namespace rules {
extern const RuleSet paper;
extern const RuleSet deepspeed;
extern const RuleSet neox;
extern const RuleSet megatron;
extern const RuleSet torch_ddp;
}  // namespace rules

}  // namespace commlens
