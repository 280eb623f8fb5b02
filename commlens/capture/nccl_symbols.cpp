#include "commlens/capture/nccl_symbols.hpp"

#include <array>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <link.h>

namespace commlens::capture {
namespace {

struct Search {
  std::span<const std::string_view> libraries;
  std::vector<std::string> paths;
};

int add_library(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string_view path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const std::string_view library : search.libraries) {
    if (file.starts_with(library)) {
      search.paths.emplace_back(path);
    }
  }
  return 0;
}

}  // namespace

void* loaded_symbol(const char* name, std::span<const std::string_view> libraries) {
  if (void* const found = dlsym(RTLD_NEXT, name); found != nullptr) {
    return found;
  }
  Search search{libraries, {}};
  dl_iterate_phdr(&add_library, &search);
  for (const std::string& path : search.paths) {
    void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

int current_device() {
  constexpr std::array<std::string_view, 1> cuda = {"libcuda.so"};
  constexpr std::array<std::string_view, 1> hip = {"libamdhip64.so"};
  using GetDevice = int(int* device);
  static auto* const of_cuda = reinterpret_cast<GetDevice*>(loaded_symbol("cuCtxGetDevice", cuda));
  static auto* const of_hip =
      of_cuda != nullptr ? nullptr : reinterpret_cast<GetDevice*>(loaded_symbol("hipGetDevice", hip));
  int device = -1;
  GetDevice* const get = of_cuda != nullptr ? of_cuda : of_hip;
  return get != nullptr && get(&device) == 0 ? device : -1;
}

}  // namespace commlens::capture
