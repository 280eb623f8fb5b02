#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/comm/event.hpp"

namespace commlens::formats {

/// How PyTorch's names for collectives map to ours. `kind` other: a call we keep under its own name.
struct TorchCollective {
  CommKind kind = CommKind::other;
  bool moves_data = true;  // false: "wait", "init" and the like, which are no calls
};

/// "allreduce", "_allgather_base", "all_to_allv", "reduce_scatter_tensor_coalesced", "nccl:all_reduce",
/// "c10d::alltoall_base_", …
TorchCollective torch_collective(std::string_view name);

/// Names of c10 ("Float", "BFloat16"), of C++ ("float", "c10::Half", "signed char"); absent when unknown.
std::optional<DType> torch_dtype(std::string_view name);

/// Whether a GPU kernel of that name communicates: NCCL's and RCCL's, MSCCL's, and the all_reduce kernels of
/// symmetric memory, vLLM, TensorRT-LLM and FlashInfer.
bool is_communication_kernel(std::string_view name);

/// The collective in the name of a communication kernel; `other` for NCCL's SendRecv (which carries
/// all_to_all, send and recv alike) and Generic.
CommKind kind_of_kernel(std::string_view name);

/// Short form of a kernel's name, for people: without return type, namespaces, templates and arguments.
std::string_view short_kernel_name(std::string_view name);

}  // namespace commlens::formats
