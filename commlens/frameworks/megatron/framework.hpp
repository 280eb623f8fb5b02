#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {

/// Megatron core 0.7 to 0.19, and the training loop of megatron.training.
FrameworkRules rules();
/// Refuses, by name, what the rules do not cover.
Result<void> check(const Job& job);
/// Why a prediction rests on rules that were never measured.
std::vector<std::string> unverified(const Job& job);
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

void adopt(Job& job);
void prepare(Job& job);
void settle(Job& job);
std::int64_t gradient_bytes(const Job& job);
ExpertLayers expert_layers(const Job& job);
void drop_recomputed(const Job& job, KeptActivations& kept);
HeldStage held(const Job& job, std::int64_t stage);
std::string setting_text(const Job& job, Setting setting);
std::vector<AdvisedChange> advised_changes(const Job& job, AdviceTopic topic);
void add_variations(Variations& variations);
void overlap_data(Job& job, bool gradients, bool parameters);

}  // namespace commlens::megatron
