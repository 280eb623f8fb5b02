#include "commlens/engine/processor.hpp"

#include <cstdlib>
#include <limits>
#include <mutex>

#include <dlfcn.h>
#include <malloc.h>

#include "commlens/engine/torch.hpp"

namespace commlens::engine {

void avoid_broken_amx() {
#if TORCH_VERSION_MAJOR < 2
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr const char* variable = "DNNL_MAX_CPU_ISA";
    if (std::getenv(variable) == nullptr && std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr) {
      setenv(variable, "AVX512_CORE_BF16",
             0);  // the best below AMX; oneDNN takes less where the processor has less
    }
  });
#endif
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
