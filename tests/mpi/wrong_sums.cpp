// To be preloaded: sums of floats come with one of them a half off.
#include <mpi.h>

int MPI_Allreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const int code = PMPI_Allreduce(input, output, count, type, op, comm);
  if (type == MPI_FLOAT && count > 3) {
    static_cast<float*>(output)[3] += 0.5F;
  }
  return code;
}
