#include <filesystem>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"
#include "commlens/formats/otf2/api.hpp"

namespace commlens::formats::otf2 {

Result<const Otf2Api*> load_otf2() {
  constexpr const char* file = "libcommlens-otf2.so";
  const std::optional<std::filesystem::path> path = module_file(file);
  if (!path) {
    return failure(
        fmt::format("OTF2 cannot be read or written here: {} is not in {}; build commlens where "
                    "libopen-trace-format2-dev is installed, or name its directory in COMMLENS_MODULE_PATH",
                    file, searched_for_modules()));
  }
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = module == nullptr ? nullptr : dlsym(module, "commlens_otf2_api");
  if (entry == nullptr) {
    return failure(
        fmt::format("cannot load {}: {}; install OTF2 (libopen-trace-format2-10), or rebuild commlens",
                    path->string(), dlerror()));
  }
  return reinterpret_cast<Otf2ApiFunction>(entry)();
}

}  // namespace commlens::formats::otf2
