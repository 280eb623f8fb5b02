#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// Fails when the loader cannot be determined of a library at this place: it takes a colon or a semicolon for
/// the end of a name. The path otherwise.
Result<std::filesystem::path> preloadable(std::filesystem::path library);

/// The variables, "NAME=value", by which the loader loads `library` into every process that gets them, before
/// what this process's LD_PRELOAD names. Another recorder of MPI that stands there goes: one command has one.
std::vector<std::string> preload_variables(const std::filesystem::path& library);

/// The words of a command as one would type them in a shell, those with spaces and the like in quotes.
std::string as_typed(const std::vector<std::string>& words);

}  // namespace commlens
