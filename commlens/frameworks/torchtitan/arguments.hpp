#pragma once
#include <span>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/argument_words.hpp"
#include "commlens/config/tree.hpp"

namespace commlens::torchtitan {

/// The command line of torchtitan 0.3.0 as a map: `module`, `config`, and a map for each section, `training`
/// with `local_batch_size` and so on. It is understood as tyro takes it there (tried out): both
/// `--training.local-batch-size 2` and `--training.local_batch_size=2`, flags `--checkpoint.enable` and
/// `--parallelism.no-enable-sequence-parallel` without a value, the later of two equal options; and last one
/// of `activation-checkpoint:none`, `:selective`, `:full` and `:memory-budget` with options of its own, which
/// becomes `activation_checkpoint.mode`. Options that torchtitan 0.3.0 does not have are left to who reads
/// the map. `file` names the source in errors.
Result<ConfigNode> settings_of_arguments(std::string_view file, std::span<const ArgumentWord> words);

}  // namespace commlens::torchtitan
