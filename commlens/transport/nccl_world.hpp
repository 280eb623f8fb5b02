#pragma once
#include <memory>

#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

struct NcclApi;

/// A communicator over NCCL or RCCL with the ranks of `control` (threads or MPI), which distributes the
/// unique id. Loads libnccl.so.2 and libcudart.so, or librccl.so.1 and libamdhip64.so, at run time; fails,
/// naming the missing library or function. `device` is this rank's GPU. Buffers are device memory; calls are
/// ordered with the default stream. `control` outlives it.
Result<std::unique_ptr<Communicator>> open_nccl_world(Communicator& control, int device);

/// The same over these functions, which outlive it, without asking whether they can be used.
std::unique_ptr<Communicator> nccl_communicator(const NcclApi& api, Communicator& control, int device);

}  // namespace commlens
