#pragma once
#include <string>
#include <vector>

#include "commlens/app/command_help.hpp"

namespace commlens {

/// The manual page (section 1, man(7)) of the program, which lists its verbs.
std::string program_manual(const std::vector<VerbHelp>& verbs);

/// That of a verb: commlens-VERB(1).
std::string verb_manual(const VerbHelp& verb);

}  // namespace commlens
