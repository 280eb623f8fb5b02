#pragma once
#include <string>
#include <vector>

#include "commlens/comm/event.hpp"

namespace commlens {

/// Algorithm and protocol that calls of `kind` can be made with, as "tree/simple": those that every NCCL
/// since 2.7 has. Whether a machine can use one, NCCL says when a call is made.
std::vector<std::string> nccl_algorithms(CommKind kind);

/// NCCL_ALGO and NCCL_PROTO for the communicators that are made during its lifetime: NCCL reads them then.
/// For all threads of the process: a scope waits until those of another algorithm are over, so that a rank
/// that goes on to the next algorithm does not take part in the one that others are still in, and groups of
/// ranks take turns. The last scope restores what was there. A thread has one at a time, or several of one
/// algorithm.
class NcclAlgorithmScope {
 public:
  explicit NcclAlgorithmScope(const std::string& algorithm);
  NcclAlgorithmScope(const NcclAlgorithmScope&) = delete;
  NcclAlgorithmScope& operator=(const NcclAlgorithmScope&) = delete;
  ~NcclAlgorithmScope();
};

}  // namespace commlens
