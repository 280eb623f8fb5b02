#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/formats/io/call_builder.hpp"

namespace commlens::formats {

/// A function of NCCL's API: what it is, and how many times its `count` each buffer of a rank holds.
struct NcclFunction {
  enum class Buffer : std::uint8_t { none, count, count_per_rank };
  std::string_view name;  // "AllReduce"
  CommKind kind = CommKind::other;
  Buffer input = Buffer::none;
  Buffer output = Buffer::none;
};

/// The function that NCCL, RCCL and their profilers call "AllReduce", "Broadcast", "AlltoAll", …; null when
/// we do not know it. Gather and Scatter are `other`; of their buffers the one that every rank has is given.
/// Source: nccl.h (meaning of each count), collectives.cc (names).
const NcclFunction* nccl_function(std::string_view name);

/// ncclDataType_t by its number (nccl.h: 0 int8 … 11 fp8 e5m2); unsigned types become the signed one of their
/// size, both fp8 types one. std::nullopt if there is none of that number.
std::optional<DType> nccl_dtype(std::int64_t number);

/// The same by the enumerator ("ncclFloat32") or the name that nccl-tests prints ("float", "bfloat16").
std::optional<DType> nccl_dtype(std::string_view name);

/// Bytes of a rank's buffers, both at most 1 PiB.
struct NcclBuffers {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

/// std::nullopt if a buffer would be impossible; `count` elements, `ranks` in the group.
std::optional<NcclBuffers> nccl_buffers(const NcclFunction& function, DType dtype, std::int64_t count,
                                        std::int64_t ranks);

/// Reason in Provenance::skipped of ranks (not calls) that got a number of ours.
constexpr std::string_view k_numbered_rank = "rank not reported, numbered by file or process";

}  // namespace commlens::formats
