#pragma once
#include <filesystem>
#include <vector>

namespace commlens {

/// Where the modules that a verb loads at run time (libcommlens-*.so) are looked for, in this order: the
/// directory that COMMLENS_MODULE_PATH names, the program's own, ../lib/commlens from there; for programs
/// that use libcommlens.so, its own directory, commlens/ in it, and ../commlens, for libraries in
/// lib/x86_64-linux-gnu.
std::vector<std::filesystem::path> module_folders();

}  // namespace commlens
