#include "commlens/formats/io/nccl_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace commlens::formats {
namespace {

using Buffer = NcclFunction::Buffer;

constexpr std::array<NcclFunction, 14> k_nccl_functions = {
    {{"AllReduce", CommKind::all_reduce, Buffer::count, Buffer::count},
     {"AllGather", CommKind::all_gather, Buffer::count, Buffer::count_per_rank},
     {"ReduceScatter", CommKind::reduce_scatter, Buffer::count_per_rank, Buffer::count},
     {"Broadcast", CommKind::broadcast, Buffer::count, Buffer::count},
     {"Bcast", CommKind::broadcast, Buffer::count, Buffer::count},
     {"Reduce", CommKind::reduce, Buffer::count, Buffer::count},
     {"Send", CommKind::send, Buffer::count, Buffer::none},
     {"Recv", CommKind::recv, Buffer::none, Buffer::count},
     {"AlltoAll", CommKind::all_to_all, Buffer::count_per_rank, Buffer::count_per_rank},
     {"AllToAll", CommKind::all_to_all, Buffer::count_per_rank, Buffer::count_per_rank},
     {"Alltoall", CommKind::all_to_all, Buffer::count_per_rank, Buffer::count_per_rank},
     {"Gather", CommKind::other, Buffer::count, Buffer::none},
     {"Scatter", CommKind::other, Buffer::none, Buffer::count},
     {"AllGatherV", CommKind::other, Buffer::count, Buffer::none}}};

constexpr std::array<DType, 12> k_nccl_dtypes = {DType::int8,  DType::uint8, DType::int32, DType::int32,
                                                 DType::int64, DType::int64, DType::fp16,  DType::fp32,
                                                 DType::fp64,  DType::bf16,  DType::fp8,   DType::fp8};

constexpr std::array<std::pair<std::string_view, int>, 35> k_nccl_dtype_names = {
    {{"ncclInt8", 0},    {"ncclChar", 0},     {"int8", 0},         {"char", 0},
     {"ncclUint8", 1},   {"uint8", 1},        {"ncclInt32", 2},    {"ncclInt", 2},
     {"int32", 2},       {"int", 2},          {"ncclUint32", 3},   {"uint32", 3},
     {"ncclInt64", 4},   {"int64", 4},        {"ncclUint64", 5},   {"uint64", 5},
     {"ncclFloat16", 6}, {"ncclHalf", 6},     {"half", 6},         {"ncclFloat32", 7},
     {"ncclFloat", 7},   {"float", 7},        {"ncclFloat64", 8},  {"ncclDouble", 8},
     {"double", 8},      {"ncclBfloat16", 9}, {"bfloat16", 9},     {"ncclFloat8e4m3", 10},
     {"f8e4m3", 10},     {"fp8_e4m3", 10},    {"ncclFp8E4M3", 10}, {"ncclFloat8e5m2", 11},
     {"f8e5m2", 11},     {"fp8_e5m2", 11},    {"ncclFp8E5M2", 11}}};

/// Elements times bytes of one; nothing beyond 1 PiB.
std::optional<std::int64_t> nccl_bytes(Buffer buffer, std::int64_t count, std::int64_t ranks,
                                       std::int64_t element) {
  constexpr std::int64_t largest = std::int64_t{1} << 50;
  const std::int64_t times = buffer == Buffer::none ? 0 : buffer == Buffer::count ? 1 : ranks;
  if (count < 0 || ranks < 1 || ranks > k_max_ranks ||
      count > largest / element / std::max<std::int64_t>(times, 1)) {
    return std::nullopt;
  }
  return count * times * element;
}

}  // namespace

const NcclFunction* nccl_function(std::string_view name) {
  const auto* const found = std::find_if(k_nccl_functions.begin(), k_nccl_functions.end(),
                                         [&](const NcclFunction& known) { return known.name == name; });
  return found == k_nccl_functions.end() ? nullptr : found;
}

std::optional<DType> nccl_dtype(std::int64_t number) {
  if (number < 0 || number >= static_cast<std::int64_t>(k_nccl_dtypes.size())) {
    return std::nullopt;
  }
  return k_nccl_dtypes.at(static_cast<std::size_t>(number));
}

std::optional<DType> nccl_dtype(std::string_view name) {
  const auto* const found = std::find_if(k_nccl_dtype_names.begin(), k_nccl_dtype_names.end(),
                                         [&](const auto& known) { return known.first == name; });
  return found == k_nccl_dtype_names.end() ? std::nullopt : nccl_dtype(std::int64_t{found->second});
}

std::optional<NcclBuffers> nccl_buffers(const NcclFunction& function, DType dtype, std::int64_t count,
                                        std::int64_t ranks) {
  const auto input = nccl_bytes(function.input, count, ranks, size_of(dtype));
  const auto output = nccl_bytes(function.output, count, ranks, size_of(dtype));
  return input && output ? std::optional(NcclBuffers{*input, *output}) : std::nullopt;
}

}  // namespace commlens::formats
