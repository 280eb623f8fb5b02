#include "commlens/engine/processor.hpp"

#include <cstdlib>
#include <limits>
#include <mutex>

#include <dlfcn.h>
#include <malloc.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "commlens/engine/torch.hpp"

namespace commlens::engine {

namespace {

/// Whether one leaf of CPUID reports AMX tiles and another one does not.
bool hides_amx_tiles() {
#ifdef __x86_64__
  constexpr unsigned k_features = 7;
  constexpr unsigned k_has_tiles = 1U << 24;  // in edx
  constexpr unsigned k_tiles = 0x1D;          // eax: the largest palette
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  const bool has_tiles = __get_cpuid_count(k_features, 0, &a, &b, &c, &d) != 0 && (d & k_has_tiles) != 0;
  return has_tiles && (__get_cpuid_count(k_tiles, 0, &a, &b, &c, &d) == 0 || a == 0);
#else
  return false;
#endif
}

}  // namespace

void avoid_broken_amx() {
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr const char* variable = "DNNL_MAX_CPU_ISA";
    if (hides_amx_tiles() && std::getenv(variable) == nullptr &&
        std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr) {
      setenv(variable, "AVX512_CORE_BF16",
             0);  // the best below AMX; oneDNN takes less where the processor has less
    }
  });
}

void use_threads(std::int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  // By name: LibTorch may come with another BLAS.
  if (void* const symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); symbol != nullptr) {
    reinterpret_cast<void (*)(int)>(symbol)(static_cast<int>(threads));
  }
}

void keep_freed_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    mallopt(M_MMAP_MAX, 0);  // a block of its own mapping is unmapped when it is freed
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  });
}

}  // namespace commlens::engine
