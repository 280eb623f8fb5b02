#include "commlens/app/engine_module.hpp"

#include <filesystem>
#include <optional>
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
  const std::optional<std::filesystem::path> path = module_file(k_file);
  if (!path) {
    return failure(fmt::format(
        "the trainer is missing: {} is not in {}; install the package commlens-train, build commlens "
        "where LibTorch is installed (preset release), or name its directory in COMMLENS_MODULE_PATH",
        k_file, searched_for_modules()));
  }
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: LibTorch keeps threads
  void* const entry = module == nullptr ? nullptr : dlsym(module, k_entry);
  if (entry == nullptr) {
    return failure(
        fmt::format("cannot load the trainer {}: {}; install LibTorch (package libtorch1.13), or "
                    "rebuild commlens",
                    path->string(), dlerror()));
  }
  return reinterpret_cast<engine::EngineApiFunction>(entry)();
}

}  // namespace commlens
