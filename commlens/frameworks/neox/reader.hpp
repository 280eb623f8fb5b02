#pragma once
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// The files as GPT-NeoX merges them: a key in two files is a mistake that names both. Keys get underscores.
/// Source: gpt-neox megatron/neox_arguments/arguments.py, NeoXArgs.from_ymls.
Result<ConfigNode> merged_neox(const std::vector<ConfigNode>& files);

/// The job of merged GPT-NeoX arguments, defaults of commit 4bc66703 filled in. `padded_vocab` is the
/// vocabulary the run really had, 0 when it follows from the tokenizer. `version` is the commit, empty when
/// not known.
Result<Job> job_from_neox(const ConfigNode& arguments, std::int64_t padded_vocab, const std::string& version);

namespace neox {
ConfigReader reader();
const TrainingKeys& training_keys();
/// What the section `options` of a case has of GPT-NeoX.
void read_case_options(MapReader& reader, Job& job);

/// Names of the built-in models: 19M 49M 125M 350M 760M 1.3B 2.7B 6.7B 13B 20B 175B.
std::span<const std::string_view> preset_names();
/// The config of that name (sequence 2048, micro-batch 4, one micro-batch, fp16, ZeRO-1); std::nullopt if
/// there is none. Source: gpt-neox configs/*.yml at commit 4bc66703.
std::optional<Job> preset(std::string_view name);
}  // namespace neox

/// Whether a top-level key (with underscores) is one of GPT-NeoX's own.
bool is_neox_key(std::string_view key);

}  // namespace commlens
