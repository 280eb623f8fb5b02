#pragma once
#include <span>
#include <string>
#include <vector>

#include "commlens/frameworks/frameworks.hpp"

namespace commlens::huggingface {

/// The Trainer of transformers on accelerate, and models split by their tp_plan.
FrameworkRules rules();
/// What its rules mean (rule_book).
std::span<const RuleRow> causes();

/// A case file of `framework: hf` (docs/formats/case.md).
Result<Job> read_case(MapReader& document, const std::string& version);
/// Settings of PyTorch's modules that follow from those of the Trainer.
void settle(Job& job);
void adopt(Job& job);
/// Fills in the Trainer's batch where neither a file nor a flag has one, and says which sequence was taken.
void prepare(Job& job);
MemoryRules memory_rules();
AdviceTexts advice_texts();
void add_variations(Variations& variations);
/// Refuses, by name, what has no rules.
Result<void> check_job(const Job& job);
std::vector<std::string> never_recorded(const Job& job);
/// "Mixtral": the class of its layers is MixtralDecoderLayer.
std::string layer_class(const Job& job);

}  // namespace commlens::huggingface
