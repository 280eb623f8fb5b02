#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// What NCCL_ALGO leaves of the algorithms for an operation, by our names; empty: all.
///   ring,tree                      these
///   ^nvls,nvlstree                 all but these
///   ring;allreduce:tree,ring       for the named operation (broadcast, reduce, allgather, reducescatter,
///                                  allreduce), otherwise for all; the last part that applies counts
/// Fails on names that are not known, and on CollNet, whose switches have no time model.
/// Source: NVIDIA/nccl src/graph/tuning.cc, parseList.
Result<std::vector<std::string>> algorithms_left(std::string_view text, CommKind op);

/// The same of NCCL_PROTO.
Result<std::vector<std::string>> protocols_left(std::string_view text, CommKind op);

}  // namespace commlens
