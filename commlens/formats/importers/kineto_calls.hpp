#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/formats/importers/call_builder.hpp"
#include "commlens/formats/importers/kineto_events.hpp"

namespace commlens {

/// What the CPU ops around a launch say of a collective. Several nest: `record_param_comms`, then the
/// annotation "nccl:all_reduce"; around both the op "c10d::allreduce_".
struct TorchCall {
  const KinetoMetadata* metadata = nullptr;
  std::string annotation;              // "nccl:all_reduce"; empty: none
  std::vector<std::int64_t> elements;  // of its tensors: what this rank sends
  std::string type;                    // of the first
  std::string op;                      // "c10d::alltoall_base_"; empty: none
  std::vector<std::int64_t>
      op_elements;  // of its arguments: for the ops on single tensors, output then input
};

/// What PyTorch calls it: "allreduce", "nccl:all_reduce", "c10d::allreduce_"; empty when nothing tells.
std::string name_of_torch_call(const TorchCall& call);

/// Fills in what a call is: op, type, sizes, group, root or peer. `rank` is whose call it is, `kernel` the
/// name of the kernel (empty: none). Reasons for what could not be told go to `provenance`.
void describe_torch_call(const TorchCall& call, std::string_view kernel, const KinetoJob& job, Rank rank,
                         CallRecord& record, Provenance& provenance);

/// Whether the first arguments of a c10d op are tensors of the collective, and not lists of them:
/// c10d::_allgather_base_, _reduce_scatter_base_ and alltoall_base_ take (output, input, …).
bool has_tensor_arguments(std::string_view op);

/// Global ranks in the order of the group, as far as the trace tells them.
std::vector<Rank> ranks_of_group(const KinetoMetadata& metadata, const KinetoJob& job);

}  // namespace commlens
