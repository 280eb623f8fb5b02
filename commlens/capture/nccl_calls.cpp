#include "commlens/capture/nccl_calls.hpp"

#include <array>
#include <utility>

namespace commlens::capture {
namespace {

struct NamedFunction {
  std::string_view profiler_name;
  std::string_view c_name;
};

// In the order of NcclFunction.
constexpr std::array<NamedFunction, 10> k_functions = {{{"AllReduce", "ncclAllReduce"},
                                                        {"Broadcast", "ncclBroadcast"},
                                                        {"Reduce", "ncclReduce"},
                                                        {"AllGather", "ncclAllGather"},
                                                        {"ReduceScatter", "ncclReduceScatter"},
                                                        {"AlltoAll", "ncclAlltoAll"},
                                                        {"Gather", "ncclGather"},
                                                        {"Scatter", "ncclScatter"},
                                                        {"Send", "ncclSend"},
                                                        {"Recv", "ncclRecv"}}};

constexpr std::array<std::pair<std::string_view, int>, 12> k_types = {{{"ncclInt8", 0},
                                                                       {"ncclUint8", 1},
                                                                       {"ncclInt32", 2},
                                                                       {"ncclUint32", 3},
                                                                       {"ncclInt64", 4},
                                                                       {"ncclUint64", 5},
                                                                       {"ncclFloat16", 6},
                                                                       {"ncclFloat32", 7},
                                                                       {"ncclFloat64", 8},
                                                                       {"ncclBfloat16", 9},
                                                                       {"ncclFloat8e4m3", 10},
                                                                       {"ncclFloat8e5m2", 11}}};
constexpr int k_uint8 = 1;

}  // namespace

std::optional<NcclFunction> nccl_function(std::string_view name) {
  for (std::size_t row = 0; row < k_functions.size(); ++row) {
    if (k_functions[row].profiler_name == name) {
      return static_cast<NcclFunction>(row);
    }
  }
  return std::nullopt;
}

std::optional<NcclFunction> nccl_function(int number) {
  switch (number) {
    case 0:
      return NcclFunction::broadcast;
    case 1:
      return NcclFunction::reduce;
    case 2:
      return NcclFunction::all_gather;
    case 3:
      return NcclFunction::reduce_scatter;
    case 4:
      return NcclFunction::all_reduce;
    case 6:
      return NcclFunction::send;
    case 7:
      return NcclFunction::recv;
    default:  // 5 is a kernel that sends and receives, never a call
      return std::nullopt;
  }
}

std::string_view name_of(NcclFunction function) {
  return k_functions.at(static_cast<std::size_t>(function)).c_name;
}

std::optional<DType> nccl_dtype(int type) {
  constexpr std::array<DType, 12> types = {DType::int8,  DType::uint8, DType::int32, DType::int32,
                                           DType::int64, DType::int64, DType::fp16,  DType::fp32,
                                           DType::fp64,  DType::bf16,  DType::fp8,   DType::fp8};
  if (type < 0 || static_cast<std::size_t>(type) >= types.size()) {
    return std::nullopt;
  }
  return types[static_cast<std::size_t>(type)];
}

std::optional<DType> nccl_dtype(std::string_view name) {
  for (const auto& [known, number] : k_types) {
    if (known == name) {
      return nccl_dtype(number);
    }
  }
  return name == "Unknown" ? nccl_dtype(k_uint8) : std::nullopt;
}

NcclSizes nccl_sizes(NcclFunction function, std::size_t count, std::int64_t members, bool is_root) {
  const Elements one{static_cast<std::int64_t>(count)};
  const Elements all{one.value * members};
  const Elements none{0};
  switch (function) {
    case NcclFunction::all_reduce:
      return {CommKind::all_reduce, one, one};
    case NcclFunction::broadcast:
      return {CommKind::broadcast, one, one};
    case NcclFunction::reduce:
      return {CommKind::reduce, one, one};
    case NcclFunction::all_gather:
      return {CommKind::all_gather, one, all};
    case NcclFunction::reduce_scatter:
      return {CommKind::reduce_scatter, all, one};
    case NcclFunction::all_to_all:
      return {CommKind::all_to_all, all, all};
    case NcclFunction::gather:
      return {CommKind::other, one, is_root ? all : none};
    case NcclFunction::scatter:
      return {CommKind::other, is_root ? all : none, one};
    case NcclFunction::send:
      return {CommKind::send, one, none};
    case NcclFunction::recv:
      return {CommKind::recv, none, one};
  }
  return {};
}

}  // namespace commlens::capture
