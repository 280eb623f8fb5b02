/* Four ranks; a step is an all_reduce of all, one of each pair {0,1} and {2,3}, an all_gather of the pairs
   and a broadcast to all, then a rest. Steps are marked.

     delays STEPS  */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

#include "commlens/capture/commlens.h"

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  double values[64] = {0};
  double gathered[128];
  const int steps = count > 1 ? atoi(arguments[1]) : 0;
  for (int step = 0; step < steps; ++step) {
    commlens_iteration(step);
    MPI_Allreduce(MPI_IN_PLACE, values, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, values, 64, MPI_DOUBLE, MPI_SUM, pair);
    MPI_Allgather(values, 64, MPI_DOUBLE, gathered, 64, MPI_DOUBLE, pair);
    MPI_Bcast(values, 64, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    const struct timespec rest = {0, 40000000};
    nanosleep(&rest, NULL);
  }
  MPI_Comm_free(&pair);
  MPI_Finalize();
  return 0;
}
