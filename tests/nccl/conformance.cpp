// One rank of an MPI job that runs the checks of every transport over NCCL or RCCL: nccl_conformance. Each
// rank takes the GPU of its number on its node, modulo the number of GPUs: where there are fewer GPUs than
// ranks, NCCL 2.31 or later needs NCCL_MULTI_RANK_GPU_ENABLE=1. Exit 0: all of it passed; 77: no MPI, NCCL or
// GPU, nothing was checked; else failed.
#include <array>
#include <cstdio>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/mpi_world.hpp"
#include "commlens/transport/nccl_api.hpp"
#include "commlens/transport/nccl_world.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr int k_skipped = 77;
constexpr int k_to_device = 1;  // cudaMemcpyHostToDevice, hipMemcpyHostToDevice
constexpr int k_to_host = 2;

using Copy = int (*)(void* to, const void* from, std::size_t bytes, int direction);

/// The copying function of the run time that loaded_nccl() has loaded; null if there is none.
Copy copy_function() {
  constexpr std::array k_runtimes{"libcudart.so",      "libcudart.so.13", "libcudart.so.12",
                                  "libcudart.so.11.0", "libamdhip64.so",  "libamdhip64.so.6",
                                  "libamdhip64.so.5"};
  for (const char* file : k_runtimes) {
    if (void* library = dlopen(file, RTLD_NOW | RTLD_NOLOAD); library != nullptr) {
      const std::string_view name = file;
      const char* symbol = name.starts_with("libcudart") ? "cudaMemcpy" : "hipMemcpy";
      return reinterpret_cast<Copy>(dlsym(library, symbol));
    }
  }
  return nullptr;
}

void checked(const NcclApi& api, int error, const char* what) {
  if (error != k_gpu_success) {
    throw conformance::Failure(fmt::format("{} failed: {}", what, api.gpu_error_string(error)));
  }
}

conformance::Target device_memory(const NcclApi& api, Copy copy) {
  conformance::Target target;
  target.allocate = [&api](std::size_t bytes) {
    void* memory = nullptr;
    checked(api, api.allocate(&memory, bytes), "allocating device memory");
    return memory;
  };
  target.release = [&api](void* memory) { api.free(memory); };
  target.write = [&api, copy](void* to, const void* from, std::size_t bytes) {
    checked(api, copy(to, from, bytes, k_to_device), "copying to the device");
  };
  target.read = [&api, copy](void* to, const void* from, std::size_t bytes) {
    checked(api, copy(to, from, bytes, k_to_host), "copying from the device");
  };
  std::erase(target.combined, DType::int16);  // NCCL has no such type
  target.divides_sums = false;
  return target;
}

int run_cases(Communicator& world, const conformance::Target& memory, std::string_view library) {
  int passed = 0;
  for (const conformance::Case& one : conformance::k_cases) {
    if (world.size() < one.ranks) {
      continue;
    }
    try {
      one.check(world, memory);
    } catch (const std::exception& error) {
      // One failure ends the job: the other ranks may wait in a call that this one does not make.
      world.abort(fmt::format("{}: {}", one.name, error.what()));
    }
    ++passed;
  }
  if (world.rank() == GroupRank{0}) {
    fmt::print("{} of {} checks passed on {} ranks over {}\n", passed, conformance::k_cases.size(),
               world.size(), library);
  }
  return 0;
}

}  // namespace

int main() {
  auto control = open_mpi_world("", false);
  if (!control) {
    fmt::print(stderr, "skipped: {}\n", control.error().message);
    return k_skipped;
  }
  const Result<const NcclApi*> api = loaded_nccl();
  int devices = 0;
  if (!api || (*api)->get_device_count(&devices) != k_gpu_success || devices == 0) {
    fmt::print(stderr, "skipped: {}\n", api ? "no GPU" : api.error().message);
    return k_skipped;
  }
  const Copy copy = copy_function();
  if (copy == nullptr) {
    fmt::print(stderr, "the GPU run time of {} has no function that copies\n", (*api)->name);
    return 1;
  }
  const int device = static_cast<int>((*control)->rank().value) % devices;
  auto world = open_nccl_world(**control, device);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 1;
  }
  return run_cases(**world, device_memory(**api, copy), (*api)->name);
}
