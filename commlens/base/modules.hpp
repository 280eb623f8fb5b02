#pragma once
#include <filesystem>
#include <vector>

namespace commlens {

/// Where the modules that a verb loads at run time (libcommlens-*.so) are looked for, in this order: the
/// folder that COMMLENS_MODULE_PATH names, the program's own, ../lib/commlens from there.
std::vector<std::filesystem::path> module_folders();

}  // namespace commlens
