#include "commlens/transport/mpi_world.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"
#include "commlens/transport/mpi_module.hpp"

namespace commlens {
namespace {

/// A variable that a launcher sets, and the module of its MPI (empty: any).
struct LauncherVariable {
  const char* name;
  std::string_view library;
};
/// Variables with the number of started ranks, the most reliable first. Slurm starts ranks of either MPI.
constexpr std::array<LauncherVariable, 3> k_sizes{
    {{"OMPI_COMM_WORLD_SIZE", "openmpi"}, {"PMI_SIZE", "mpich"}, {"SLURM_STEP_NUM_TASKS", ""}}};
/// Variables that identify the MPI of the launcher. PMIX_RANK is last because Open MPI's launcher sets it
/// too.
constexpr std::array<LauncherVariable, 4> k_marks{{{"OMPI_COMM_WORLD_SIZE", "openmpi"},
                                                   {"PMI_SIZE", "mpich"},
                                                   {"PMI_RANK", "mpich"},
                                                   {"PMIX_RANK", "openmpi"}}};

std::int64_t launched_ranks() {
  for (const LauncherVariable& variable : k_sizes) {
    const char* text = std::getenv(variable.name);
    if (text == nullptr) {
      continue;
    }
    std::int64_t ranks = 0;
    std::from_chars(text, text + std::strlen(text), ranks);
    return ranks;
  }
  return 0;
}

std::optional<std::string> library_of_launcher() {
  for (const LauncherVariable& variable : k_marks) {
    if (std::getenv(variable.name) != nullptr) {
      return std::string(variable.library);
    }
  }
  return std::nullopt;
}

Result<MpiModuleEntry*> loaded_module(const std::string& library) {
  const std::string file = fmt::format("libcommlens-mpi-{}.so", library);
  const std::optional<std::filesystem::path> path = module_file(file);
  if (!path) {
    return failure(
        fmt::format("{} is missing in {}; install the package commlens-{}, build commlens where its headers "
                    "are installed, "
                    "or name its directory in COMMLENS_MODULE_PATH",
                    file, searched_for_modules(), library));
  }
  void* const handle = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: MPI cannot start twice
  void* const entry = handle == nullptr ? nullptr : dlsym(handle, k_mpi_module_entry);
  if (entry == nullptr) {
    return failure(
        fmt::format("cannot load {}: {}; install the MPI it was built for", path->string(), dlerror()));
  }
  return reinterpret_cast<MpiModuleEntry*>(entry);
}

/// Opens the world by the module of `library`, or of the launcher; sets `library` to its name.
Result<std::unique_ptr<Communicator>> opened_world(std::string& library, MpiLaunch launch) {
  if (!library.empty() && library != "openmpi" && library != "mpich") {
    return failure(fmt::format("there is no MPI module '{}'; openmpi and mpich are supported", library));
  }
  const std::optional<std::string> launcher = library_of_launcher();
  launch.ranks = launched_ranks();
  if (!launcher && launch.ranks == 0) {
    return failure("no MPI launcher started this process; start it with: mpirun -n N commlens ...");
  }
  library = library.empty() ? launcher.value_or("openmpi") : library;
  const Result<MpiModuleEntry*> open = loaded_module(library);
  if (!open) {
    return tl::unexpected(open.error());
  }
  Result<std::unique_ptr<Communicator>> world = failure("the MPI module did not answer");
  (*open)(launch, world);
  return world;
}

}  // namespace

Result<std::unique_ptr<Communicator>> open_mpi_world(const std::string& library, bool progress) {
  std::string chosen = library;
  return opened_world(chosen, MpiLaunch{.progress = progress});
}

Result<TunableMpiWorld> open_tunable_mpi_world(const std::string& library) {
  TunableMpiWorld tunable{.world = nullptr, .library = library, .version = {}};
  Result<std::unique_ptr<Communicator>> world = opened_world(
      tunable.library, MpiLaunch{.chooses_algorithms = true, .library_version = &tunable.version});
  if (!world) {
    return tl::unexpected(world.error());
  }
  tunable.world = std::move(*world);
  return tunable;
}

}  // namespace commlens
