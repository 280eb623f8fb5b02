#pragma once
#include <vector>

#include "commlens/app/command_help.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// The verbs of a program that its help shows, with the options that theirs shows, in that order.
std::vector<VerbHelp> verb_helps(const CLI::App& program);

}  // namespace commlens
