#pragma once
#include <functional>
#include <string>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens::deepspeed {

/// DeepSpeed itself: a script that calls deepspeed.initialize, or its PipelineModule.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

/// Refuses, by name, what DeepSpeed refuses and what its rules do not cover.
Result<void> check(const Job& job);
/// The same for the engine's own jobs, beside `check`.
Result<void> check_plain(const Job& job);
/// Settings of a job that its release decides.
void settle(Job& job);

/// What clients that run on this engine share with it.
Bytes bucket(const Job& job);
Result<void> set_bucket(Job& job, Bytes bucket);
MemoryEstimate memory_of_stage(const Job& job, std::int64_t index);
Bytes memory_buffers(const Job& job, const HeldStage& stage, std::int64_t module);
std::int64_t most_kept(const Job& job);
std::string setting_text(const Job& job, Setting setting);
std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic);
void add_variations(Variations& variations);
/// Without what a client sets itself. `partition_method`: where a job's pipeline partition method is.
void add_engine_variations(Variations& variations, const std::function<std::string&(Job&)>& partition_method);

}  // namespace commlens::deepspeed
