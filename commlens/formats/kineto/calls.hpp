#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/kineto/events.hpp"

namespace commlens::formats::kineto {

/// The ranks of the groups that a trace names, each worked out once.
class KinetoGroups {
 public:
  explicit KinetoGroups(const KinetoJob& job) : job_(job) {}
  struct Group {
    std::vector<Rank>
        in_order;  // as the group has them, for roots; empty where the trace does not report them
    std::vector<Rank> ascending;  // the same; empty where a rank appears twice
  };
  /// Stays valid as long as this object.
  const Group& of(const KinetoMetadata& metadata);

 private:
  const KinetoJob& job_;
  std::map<std::string, Group, std::less<>> groups_;  // by what the metadata say of a group
};

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

/// What PyTorch calls it: "allreduce", "nccl:all_reduce", "c10d::allreduce_"; empty when it is not known.
std::string name_of_torch_call(const TorchCall& call);

/// Says what the calls of one rank are.
class TorchCallDescriber {
 public:
  /// Reasons for what could not be determined go to `provenance`.
  TorchCallDescriber(const KinetoJob& job, Rank rank, Provenance& provenance)
      : groups_(job), rank_(rank), provenance_(provenance) {}

  /// Fills in op, type, sizes, group, root or peer. `kernel` is the name of the kernel (empty: none).
  void describe(const TorchCall& call, std::string_view kernel, CallRecord& record);

 private:
  void put_sizes(const TorchCall& call, CommKind kind, CallRecord& record);
  void put_group(const TorchCall& call, CommKind kind, CallRecord& record);

  KinetoGroups groups_;
  Rank rank_;
  Provenance& provenance_;
};

/// Whether the first arguments of a c10d op are tensors of the collective, and not lists of them:
/// c10d::_allgather_base_, _reduce_scatter_base_ and alltoall_base_ take (output, input, …).
bool has_tensor_arguments(std::string_view op);

}  // namespace commlens::formats::kineto
