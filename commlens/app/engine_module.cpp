#include "commlens/app/engine_module.hpp"

#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"

namespace commlens {
namespace {

constexpr const char* k_file = "libcommlens-engine.so";
constexpr const char* k_entry = "commlens_engine_api";

}  // namespace

Result<const engine::EngineApi*> load_engine() {
  std::string places;
  for (const std::filesystem::path& folder : module_folders()) {
    const std::filesystem::path path = folder / k_file;
    places += (places.empty() ? "" : ", ") + folder.string();
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
                  k_file, places));
}

}  // namespace commlens
