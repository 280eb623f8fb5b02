#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "commlens/capture/nccl_events.hpp"

// What the descriptions of calls mean, whichever version of the interface they are of.
namespace commlens::capture::profiler {

/// v1 numbers functions and types, later versions name them.
inline std::optional<NcclFunction> function_of(std::uint8_t number) { return nccl_function(int{number}); }
inline std::optional<NcclFunction> function_of(const char* name) {
  return name == nullptr ? std::nullopt : nccl_function(std::string_view(name));
}
inline std::optional<DType> dtype_of(std::uint8_t number) { return nccl_dtype(int{number}); }
inline std::optional<DType> dtype_of(const char* name) {
  return name == nullptr ? std::nullopt : nccl_dtype(std::string_view(name));
}

template <typename Descr>
int root_or_peer(const Descr& call) {
  if constexpr (requires { call.root; }) {
    return call.root;
  } else if constexpr (requires { call.peer; }) {
    return call.peer;
  } else {
    return 0;
  }
}

template <typename Descr>
Reduction reduction_of([[maybe_unused]] const Descr& call) {
  if constexpr (requires { call.op; }) {
    return nccl_reduction(call.op);
  } else {
    return Reduction::unknown;
  }
}

/// v1 numbers algorithms and protocols in the order of ours, later versions name them.
template <typename Enum>
Enum numbered(std::uint8_t number, Enum last) {
  return number < static_cast<std::uint8_t>(last) ? static_cast<Enum>(number + 1) : Enum::unknown;
}
inline Algorithm algorithm_of(std::uint8_t number) { return numbered(number, Algorithm::pat); }
inline Algorithm algorithm_of(const char* name) {
  return name == nullptr ? Algorithm::unknown : algorithm_from(name).value_or(Algorithm::unknown);
}
inline Protocol protocol_of(std::uint8_t number) { return numbered(number, Protocol::simple); }
inline Protocol protocol_of(const char* name) {
  return name == nullptr ? Protocol::unknown : protocol_from(name).value_or(Protocol::unknown);
}

template <typename Descr>
NcclArguments arguments_of(const Descr& call, NcclFunction function, DType dtype) {
  NcclArguments arguments{.function = function,
                          .dtype = dtype,
                          .count = call.count,
                          .root_or_peer = root_or_peer(call),
                          .reduction = reduction_of(call)};
  if constexpr (requires { call.algorithm; }) {
    arguments.algorithm = algorithm_of(call.algorithm);
    arguments.protocol = protocol_of(call.protocol);
  }
  return arguments;
}

/// v1 and v2 say how many bytes pass through a rank: in all-gather and reduce-scatter, the whole (NCCL's
/// ncclFuncTrafficPerByte: the size of the communicator, times the bytes of one member).
template <typename Descr>
void learn_size(NcclComm& comm, const Descr& call, const CallSeen& seen) {
  if constexpr (requires { call.traffic_bytes; }) {
    const std::size_t bytes = seen.arguments.count * static_cast<std::size_t>(size_of(seen.arguments.dtype));
    const bool is_telling = seen.arguments.function == NcclFunction::all_gather ||
                            seen.arguments.function == NcclFunction::reduce_scatter;
    if (is_telling && bytes > 0 && call.traffic_bytes % bytes == 0) {
      comm.learn_size(static_cast<int>(std::min<std::size_t>(call.traffic_bytes / bytes, INT32_MAX)));
    }
  }
}

template <typename Descr>
bool is_captured(const Descr& call) {
  if constexpr (requires { call.is_captured; }) {
    return call.is_captured;
  } else {
    return false;
  }
}

/// A description of a call of the program; it comes once more when NCCL enqueues it.
template <typename Descr>
constexpr bool k_is_api = requires(Descr call) { call.is_captured; };

/// Whether NCCL reports the kernel of a call: not to the oldest versions, nor where copy engines carry it
/// out.
template <typename Descr, typename Event>
constexpr bool k_has_kernels = [] {
  if constexpr (requires(Event event) { event.ce_coll; }) {
    return !std::is_same_v<Descr, decltype(Event::ce_coll)>;
  } else {
    return requires(Event event) { event.kernel_channel; };
  }
}();

}  // namespace commlens::capture::profiler
