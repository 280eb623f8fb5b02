#pragma once
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/argument_words.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/frameworks/training_keys.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// A file of `--name value` arguments as a map (keys with underscores): shell quotes, `#` comments and a
/// backslash at a line's end are understood; a name without a value is true.
Result<ConfigNode> parse_megatron_arguments(std::string_view file, std::string_view content);

/// The same of words that are split already.
Result<ConfigNode> megatron_arguments(std::string_view file, const std::vector<ArgumentWord>& words);

/// The job of Megatron-LM arguments, in any of the forms of flat_arguments. Its micro-batches follow from the
/// global batch once dp is known. `padded_vocab` is the vocabulary the run really had, 0 when it follows from
/// vocab_size.
Result<Job> job_from_megatron(const ConfigNode& arguments, std::int64_t padded_vocab);

namespace megatron {
ConfigReader reader();
const TrainingKeys& training_keys();
}  // namespace megatron

/// Whether a key (with underscores) is an argument that only Megatron has.
bool is_megatron_key(std::string_view key);

}  // namespace commlens
