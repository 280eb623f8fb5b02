#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/plan/rules/local_parameters.hpp"

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
  /// Versions the rules were measured on, the default first, as a file may write them (`is_same_version`).
  /// Empty for equations, which have no versions.
  std::vector<std::string_view> versions;
  std::string_view base;  // what the framework ran on: " on deepspeed 0.14.0"
  /// Refuses, by name, what the rules do not cover.
  Result<void> (*check)(const Job& job);
  /// Why the prediction rests on rules that were never measured; empty when all were.
  std::vector<std::string> (*unverified)(const Job& job);
  /// Calls of `stages` (ascending pipeline stages); descriptions go to `tables`.
  Result<std::vector<StagePrograms>> (*write)(const Job& job, std::span<const std::int64_t> stages,
                                              Trace& tables);
  /// Which part of the model each pipeline stage holds; null for rule sets without stages of their own.
  Result<std::vector<StagePart>> (*parts)(const Job& job) = nullptr;
};

/// The one list.
std::span<const RuleSet> rule_sets();
const RuleSet& rule_set(Framework framework);

namespace rules {
extern const RuleSet k_paper;
extern const RuleSet k_deepspeed;
extern const RuleSet k_neox;
extern const RuleSet k_megatron;
extern const RuleSet k_torch_ddp;
extern const RuleSet k_commlens;
}  // namespace rules

}  // namespace commlens
