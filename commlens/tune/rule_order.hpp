#pragma once
#include <string>
#include <vector>

#include "commlens/tune/rules.hpp"

namespace commlens::tune {

/// By kind, ranks, then message. Aborts where two rules are for the same message.
std::vector<Rule> in_order(std::vector<Rule> rules);

/// "all_reduce of 64 KiB over 4 ranks".
std::string subject_of(const Rule& rule);

/// Lines of a comment, each after "# ", none longer than 200 characters.
std::string comment_of(const RuleOrigin& origin, const std::string& what);

}  // namespace commlens::tune
