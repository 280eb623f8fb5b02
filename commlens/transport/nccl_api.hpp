#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// ncclUniqueId: made by one rank, sent to the others by this library, passed by value.
struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

/// ncclDataType_t, the values used for reductions; other data are moved as uint8.
enum class NcclType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  fp16 = 6,
  fp32 = 7,
  fp64 = 8,
  bf16 = 9
};
/// ncclRedOp_t; avg since version 2.10.
enum class NcclReduction : int { sum = 0, max = 2, avg = 4 };
constexpr int k_nccl_version_of_avg = 21000;

/// ncclComm_t, cudaStream_t, cudaEvent_t (or their HIP twins); a null NcclStream is the legacy default
/// stream.
using NcclComm = void*;
using NcclStream = void*;
using NcclEvent = void*;

/// Values of the C interfaces below, the same for both vendors.
constexpr int k_gpu_success = 0;
constexpr int k_gpu_not_ready = 600;            // cudaErrorNotReady, hipErrorNotReady
constexpr unsigned k_stream_non_blocking = 1;   // cudaStreamNonBlocking, hipStreamNonBlocking
constexpr unsigned k_event_without_timing = 2;  // cudaEventDisableTiming, hipEventDisableTiming
constexpr int k_nccl_success = 0;
constexpr int k_nccl_in_progress = 7;

/// The functions we use of NCCL and the CUDA runtime, or of RCCL and HIP, which have the same shape. All
/// return 0 or an error code. Source: nccl.h of NCCL 2.7 to 2.27, cuda_runtime_api.h of CUDA 11 and 12,
/// hip_runtime_api.h of ROCm 5 and 6.
struct NcclApi {
  std::string name;  // "NCCL 2.19.3"
  int version = 0;   // 21903

  int (*get_unique_id)(NcclUniqueId* id) = nullptr;
  int (*comm_init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank) = nullptr;
  int (*comm_destroy)(NcclComm comm) = nullptr;
  int (*comm_abort)(NcclComm comm) = nullptr;
  int (*comm_get_async_error)(NcclComm comm, int* error) = nullptr;
  const char* (*get_error_string)(int error) = nullptr;
  int (*all_reduce)(const void* from, void* to, std::size_t count, NcclType type, NcclReduction op,
                    NcclComm comm, NcclStream stream) = nullptr;
  int (*reduce_scatter)(const void* from, void* to, std::size_t received, NcclType type, NcclReduction op,
                        NcclComm comm, NcclStream stream) = nullptr;
  int (*reduce)(const void* from, void* to, std::size_t count, NcclType type, NcclReduction op, int root,
                NcclComm comm, NcclStream stream) = nullptr;
  int (*all_gather)(const void* from, void* to, std::size_t sent, NcclType type, NcclComm comm,
                    NcclStream stream) = nullptr;
  int (*broadcast)(const void* from, void* to, std::size_t count, NcclType type, int root, NcclComm comm,
                   NcclStream stream) = nullptr;
  int (*send)(const void* from, std::size_t count, NcclType type, int peer, NcclComm comm,
              NcclStream stream) = nullptr;
  int (*recv)(void* to, std::size_t count, NcclType type, int peer, NcclComm comm,
              NcclStream stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;

  int (*set_device)(int device) = nullptr;
  int (*get_device_count)(int* count) = nullptr;
  const char* (*gpu_error_string)(int error) = nullptr;
  int (*allocate)(void** memory, std::size_t bytes) = nullptr;
  int (*free)(void* memory) = nullptr;
  int (*stream_create)(NcclStream* stream, unsigned flags) = nullptr;
  int (*stream_destroy)(NcclStream stream) = nullptr;
  int (*stream_wait_event)(NcclStream stream, NcclEvent event, unsigned flags) = nullptr;
  int (*event_create)(NcclEvent* event, unsigned flags) = nullptr;
  int (*event_destroy)(NcclEvent event) = nullptr;
  int (*event_record)(NcclEvent event, NcclStream stream) = nullptr;
  int (*event_query)(NcclEvent event) = nullptr;
};

/// A library of collectives and a GPU run time, each under the file names to try, in this order; functions of
/// the second start with `prefix`.
struct GpuVendor {
  std::string_view name;
  std::span<const char* const> collectives;
  std::span<const char* const> runtimes;
  std::string_view prefix;
};

/// The table of the first vendor whose two libraries can be loaded. Fails, naming the missing library or
/// function of each.
Result<NcclApi> load_nccl(std::span<const GpuVendor> vendors);

/// load_nccl of libnccl.so.2 with libcudart and librccl.so.1 with libamdhip64, once per process; the table
/// lives as long as the process.
Result<const NcclApi*> loaded_nccl();

}  // namespace commlens
