#include "commlens/live/http/live_module.hpp"

#include <filesystem>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"

namespace commlens {

Result<void*> live_module_function(const char* name) {
  constexpr const char* file = "libcommlens-live.so";
  const std::optional<std::filesystem::path> path = module_file(file);
  if (!path) {
    return failure(
        fmt::format("nothing can be served here: {} is not in {}; build commlens where libmicrohttpd-dev "
                    "is installed, or name its directory in COMMLENS_MODULE_PATH",
                    file, searched_for_modules()));
  }
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return failure(
        fmt::format("cannot load {}: {}; install libmicrohttpd (libmicrohttpd12) and libcurl (libcurl4), or "
                    "rebuild commlens",
                    path->string(), dlerror()));
  }
  return dlsym(module, name);
}

}  // namespace commlens
