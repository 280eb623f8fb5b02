#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/comm/event.hpp"
#include "commlens/formats/io/torch_groups.hpp"

namespace commlens::formats::pytorch_et {

/// Bytes of the tensors of one side of a call.
struct TensorsOfCall {
  std::int64_t bytes = 0;
  bool are_given = false;  // there was one, perhaps an empty one
};

/// A record_param_comms node: what a process group was asked for.
struct TorchEtCall {
  std::int64_t id = 0;  // ascends in issue order
  std::string name;     // "allreduce"
  DType dtype = DType::uint8;
  TensorsOfCall input;
  TensorsOfCall output;
  std::optional<std::int64_t>
      rank;              // this rank's place in the group; of rooted and paired calls, the other's
  std::string group;     // PyTorch's name for the group, or its address
  StridedGroup members;  // as far as the call itself has it
};

/// A node of an execution trace that says something about communication.
struct TorchEtNode {
  enum class Kind : std::uint8_t { other, call, groups, step, unreadable };
  Kind kind = Kind::other;
  TorchEtCall call;       // of a call
  std::string groups;     // of groups: their list, JSON
  std::int64_t id = 0;    // of a step
  std::int64_t step = 0;  // "ProfilerStep#4"
};

/// Reads one node, a JSON object of any schema version.
TorchEtNode read_torch_et_node(std::string_view json);

/// Whether a node's text can be one that says something about communication; quick.
bool may_be_communication(std::string_view json);

}  // namespace commlens::formats::pytorch_et
