#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace commlens {

/// Directories that are searched, in this order, for the modules that a verb loads at run time
/// (libcommlens-*.so): the one in COMMLENS_MODULE_PATH; the program's own; ../lib/commlens relative to it;
/// for programs that use libcommlens.so also the library's directory, commlens/ in it, and ../commlens (for
/// libraries in lib/x86_64-linux-gnu).
std::vector<std::filesystem::path> module_directories();

/// The module in the file `name`, from the first of these directories that has it; std::nullopt if none has.
std::optional<std::filesystem::path> module_file(const std::string& name);

/// These directories separated by commas, for the message about a missing module.
std::string searched_for_modules();

}  // namespace commlens
