#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"
#include "commlens/formats/otf2/api.hpp"

namespace commlens::formats::otf2 {

Result<const Otf2Api*> load_otf2() {
  constexpr const char* file = "libcommlens-otf2.so";
  std::string places;
  for (const std::filesystem::path& directory : module_directories()) {
    const std::filesystem::path path = directory / file;
    places += (places.empty() ? "" : ", ") + directory.string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
      continue;
    }
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const entry = module == nullptr ? nullptr : dlsym(module, "commlens_otf2_api");
    if (entry == nullptr) {
      return failure(
          fmt::format("cannot load {}: {}; install OTF2 (libopen-trace-format2-10), or build "
                      "commlens anew",
                      path.string(), dlerror()));
    }
    return reinterpret_cast<Otf2ApiFunction>(entry)();
  }
  return failure(
      fmt::format("this build cannot read or write OTF2: {} is not in {}; build commlens where "
                  "libopen-trace-format2-dev is installed, or name its directory in COMMLENS_MODULE_PATH",
                  file, places));
}

}  // namespace commlens::formats::otf2
