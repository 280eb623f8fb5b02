#pragma once
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// The files as GPT-NeoX merges them: a key in two files is a mistake that names both. Keys get underscores.
/// Source: gpt-neox megatron/neox_arguments/arguments.py, NeoXArgs.from_ymls.
Result<ConfigNode> merged_neox(const std::vector<ConfigNode>& files);

/// The job of merged GPT-NeoX arguments, defaults of commit 4bc66703 filled in. `padded_vocab` is the
/// vocabulary the run really had, 0 when it follows from the tokenizer. `version` is the commit, empty when
/// not known.
Result<Job> job_from_neox(const ConfigNode& arguments, std::int64_t padded_vocab, const std::string& version);

/// Whether a top-level key (with underscores) is one of GPT-NeoX's own.
bool is_neox_key(std::string_view key);

}  // namespace commlens
