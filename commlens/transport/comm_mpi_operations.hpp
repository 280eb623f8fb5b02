#pragma once
#include <cstdint>

#include <mpi.h>

#include "commlens/base/dtype.hpp"
#include "commlens/base/units.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Divides sums by the number of ranks; of a type that can_average().
void average(DType type, void* sums, Elements count, std::int64_t ranks);

/// Two-byte floats are sent as integers; MpiOperations has their sums.
MPI_Datatype mpi_type(DType type);

/// The MPI_Op of each type and reduction.
class MpiOperations {
 public:
  /// Made after MPI has started; never freed, as MPI ends with the process.
  static MpiOperations made();

  /// Of an average the sum. Throws SystemError if the type cannot be reduced.
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

}  // namespace commlens
