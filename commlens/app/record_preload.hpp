#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// Returns the path, or fails if LD_PRELOAD cannot express it: the loader ends a name at a colon or a
/// semicolon.
Result<std::filesystem::path> preloadable(std::filesystem::path library);

/// The variables, "NAME=value", with which the loader loads `library` into every process that inherits them,
/// before the libraries in this process's LD_PRELOAD. Another MPI recorder in LD_PRELOAD is removed: a
/// command has one recorder.
std::vector<std::string> preload_variables(const std::filesystem::path& library);

/// The words of a command as typed in a shell, quoted where needed.
std::string as_typed(const std::vector<std::string>& words);

}  // namespace commlens
