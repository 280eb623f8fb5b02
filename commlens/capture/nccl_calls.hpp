#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/comm/event.hpp"

// What the arguments of NCCL's and RCCL's functions mean, wherever they are seen.
namespace commlens::capture {

enum class NcclFunction : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
};

/// The function as the profiler interface names it ("AllReduce", v2 and later; src/collectives.cc,
/// ncclFuncToString), or numbers it (v1; src/include/nccl_common.h of 2.23, ncclFunc_t).
std::optional<NcclFunction> nccl_function(std::string_view name);
std::optional<NcclFunction> nccl_function(int number);
/// The name of the C function, "ncclAllReduce".
std::string_view name_of(NcclFunction function);

/// Our type for an ncclDataType_t (nccl.h of 2.4 to 2.29, rccl.h of ROCm 5 and 6): of the same kind and size,
/// for unsigned integers above 8 bits the signed one. Nothing for a number that neither library has.
std::optional<DType> nccl_dtype(int type);
/// The same for the name that the profiler interface gives it ("ncclFloat32"; src/collectives.cc,
/// ncclDatatypeToString). That function has no name for ncclUint8 and says "Unknown".
std::optional<DType> nccl_dtype(std::string_view name);

/// The buffers of one member of a call.
struct NcclSizes {
  CommKind kind = CommKind::other;
  Elements input;
  Elements output;
};
/// `count` as the function takes it: of one member for all-gather (sent), reduce-scatter (received),
/// all-to-all, gather and scatter (between two members). `is_root` matters to gather and scatter.
NcclSizes nccl_sizes(NcclFunction function, std::size_t count, std::int64_t members, bool is_root);

}  // namespace commlens::capture
