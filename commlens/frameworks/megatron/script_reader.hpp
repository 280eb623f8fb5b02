#pragma once
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/config/tree.hpp"

namespace commlens::megatron {

/// Keys of what a script says besides its arguments: the ranks that it starts, and notes for people.
inline constexpr std::string_view k_ranks_key = "world_size";
inline constexpr std::string_view k_notes_key = "(notes)";

/// The arguments that a launch script gives to its training program, as parse_megatron_arguments has them,
/// with the ranks that torchrun, srun or mpirun start if the script says so. Nothing is executed
/// (read_shell_script). What is known only when the script runs is refused by name, unless its argument
/// changes no message.
Result<ConfigNode> parse_launch_script(std::string_view file, std::string_view content);

}  // namespace commlens::megatron
