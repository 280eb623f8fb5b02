#pragma once
#include <string>
#include <vector>

#include "commlens/app/command_help.hpp"

namespace commlens {

/// Scripts by which a shell completes command lines, made of the definitions of its verbs.
std::string bash_completion(const std::vector<VerbHelp>& verbs);
std::string zsh_completion(const std::vector<VerbHelp>& verbs);

}  // namespace commlens
