#include "commlens/cli/engine_module.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace commlens {
namespace {

constexpr const char* k_file = "libcommlens-engine.so";
constexpr const char* k_entry = "commlens_engine_api";

/// Where modules are looked for, in this order.
std::vector<std::string> module_folders() {
  std::vector<std::string> folders;
  if (const char* given = std::getenv("COMMLENS_MODULE_PATH"); given != nullptr && *given != '\0') {
    folders.emplace_back(given);
  }
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) {
    const std::filesystem::path folder = program.parent_path();
    folders.push_back(folder.string());
    folders.push_back((folder.parent_path() / "lib" / "commlens").string());
  }
  return folders;
}

}  // namespace

Result<const engine::EngineApi*> load_engine() {
  const std::vector<std::string> folders = module_folders();
  for (const std::string& folder : folders) {
    const std::filesystem::path path = std::filesystem::path(folder) / k_file;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
      continue;
    }
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: LibTorch keeps threads
    void* const entry = module == nullptr ? nullptr : dlsym(module, k_entry);
    if (entry == nullptr) {
      return failure(fmt::format("cannot load the trainer {}: {}; install LibTorch, or build commlens anew",
                                 path.string(), dlerror()));
    }
    return reinterpret_cast<engine::EngineApiFunction>(entry)();
  }
  return failure(
      fmt::format("this build has no trainer: {} is not in {}; build commlens where LibTorch is installed "
                  "(preset release), or name its folder in COMMLENS_MODULE_PATH",
                  k_file, fmt::join(folders, ", ")));
}

}  // namespace commlens
