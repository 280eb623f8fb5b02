#pragma once
#include <cstdint>
#include <memory>

#include <mpi.h>

#include "commlens/base/rank.hpp"
#include "commlens/base/units.hpp"
#include "commlens/transport/comm_mpi_operations.hpp"
#include "commlens/transport/comm_mpi_work.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

constexpr Bytes k_largest_piece{std::int64_t{1} << 30};

/// State shared by all MPI communicators of the process.
struct MpiJob {
  MPI_Group world = MPI_GROUP_NULL;
  Rank rank;
  Bytes piece = k_largest_piece;  // most that one MPI call moves: its counts are int
  MpiOperations operations;
  std::shared_ptr<MpiBuffers> buffers = std::make_shared<MpiBuffers>();
  std::shared_ptr<MpiProgress> progress;  // null: calls progress only inside MPI calls
};

/// Issues `call` on `comm` as nonblocking MPI calls of at most job.piece each. Every rank splits alike,
/// because sizes agree by the contract of CommCall. Both outlive the Work. Throws SystemError if the call is
/// not valid (call_check.hpp).
std::unique_ptr<Work> start_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call);

/// The same as blocking MPI calls: faster, and with the algorithms that a site has tuned. All ranks of a
/// collective call must use the same of the two ways.
void run_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call);

}  // namespace commlens
