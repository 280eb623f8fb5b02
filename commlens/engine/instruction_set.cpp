#include "commlens/engine/instruction_set.hpp"

#include <cstdlib>
#include <mutex>

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

}  // namespace commlens::engine
