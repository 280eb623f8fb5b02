#pragma once
#include <filesystem>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// Puts the members that are known by now into the groups of a rank's calls: `ops`, rows of its tables.
void resolve_strangers(const std::filesystem::path& directory, Trace& tables, std::vector<OpId>& ops);

}  // namespace commlens
