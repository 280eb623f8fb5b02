#pragma once
#include <array>
#include <string_view>

#include "commlens/capture/nccl_symbols.hpp"

namespace commlens::capture {

/// ncclResult_t (nccl.h).
constexpr int k_nccl_success = 0;
constexpr int k_nccl_invalid_usage = 5;
constexpr int k_nccl_in_progress = 7;  // of communicators that do not block
constexpr bool is_good(int code) { return code == k_nccl_success || code == k_nccl_in_progress; }

/// A function of the NCCL or RCCL that the program has loaded; null when that does not have it.
inline void* nccl_symbol(const char* name) {
  constexpr std::array<std::string_view, 2> libraries = {"libnccl.so", "librccl.so"};
  return loaded_symbol(name, libraries);
}

/// Calls the library's function `name`, looked up once per place of use.
template <typename... Arguments>
int call_real(void* function, Arguments... arguments) {
  return function == nullptr ? k_nccl_invalid_usage
                             : reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

}  // namespace commlens::capture

#define COMMLENS_NCCL_REAL(NAME)                                         \
  ([] {                                                                  \
    static void* const function = commlens::capture::nccl_symbol(#NAME); \
    return function;                                                     \
  }())
