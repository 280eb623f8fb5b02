#pragma once
#include <cstdint>
#include <memory>

#include <mpi.h>

#include "commlens/base/dtype.hpp"
#include "commlens/base/rank.hpp"
#include "commlens/base/units.hpp"
#include "commlens/transport/comm_mpi_work.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// The MPI_Op of each type and reduction.
class MpiOperations {
 public:
  /// Made after MPI has started; never freed, as MPI ends with the process.
  static MpiOperations made();

  /// Throws SystemError if the type cannot be reduced.
  MPI_Op op(DType type, ReduceOp reduction) const;

 private:
  struct Pair {
    MPI_Op sum = MPI_SUM;
    MPI_Op max = MPI_MAX;
  };
  template <DType Type>
  static Pair own();
  const Pair& of(DType type) const;

  Pair plain_;
  Pair fp16_;
  Pair bf16_;
  Pair int16_;  // Open MPI 4.1 saturates sums of small integers; other transports wrap around
  Pair int8_;
  Pair uint8_;
};

/// State shared by all MPI communicators of the process.
struct MpiJob {
  MPI_Group world = MPI_GROUP_NULL;
  Rank rank;
  Bytes piece{std::int64_t{1} << 30};  // most that one MPI call moves: its counts are int
  MpiOperations operations;
  std::shared_ptr<MpiBuffers> buffers = std::make_shared<MpiBuffers>();
  std::shared_ptr<MpiProgress> progress;  // null: calls progress only inside MPI calls
};

/// Issues `call` on `comm` as nonblocking MPI calls of at most job.piece each. Every rank splits alike,
/// because sizes agree by the contract of CommCall. Both outlive the Work.
std::unique_ptr<Work> start_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call);

/// The same as blocking MPI calls: faster, and with the algorithms that a site has tuned. All ranks of a
/// collective call must use the same of the two ways.
void run_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call);

}  // namespace commlens
