/* Heat in a rod that is cut into one piece per rank: each step exchanges the cells at the cuts and adds up what changed.
 *   mpicc -I. examples/record/heat.c -o heat -ldl
 *   commlens record -- mpirun -n 4 ./heat
 * It says where its steps begin; where nobody records, that does nothing. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

#include "commlens/capture/commlens.h"

enum { cells = 1024, steps = 10 };

int main(int count, char** arguments) {
  double rod[cells + 2] = {0}; /* with a cell of each neighbour */
  double next[cells + 2] = {0};
  double heat = 0;
  int rank = 0;
  int ranks = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int left = rank == 0 ? MPI_PROC_NULL : rank - 1;
  const int right = rank == ranks - 1 ? MPI_PROC_NULL : rank + 1;
  if (rank == 0) {
    heat = 100; /* at the left end of the rod */
  }
  MPI_Bcast(&heat, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    rod[0] = heat;
  }
  double changed = 0;
  for (int step = 0; step < steps; ++step) {
    commlens_iteration(step);
    MPI_Request requests[4];
    MPI_Irecv(&rod[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&rod[cells + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&rod[1], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&rod[cells], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    double own = 0;
    for (int cell = 1; cell <= cells; ++cell) {
      next[cell] = rod[cell] + 0.25 * (rod[cell - 1] - 2 * rod[cell] + rod[cell + 1]);
      own += fabs(next[cell] - rod[cell]);
    }
    for (int cell = 1; cell <= cells; ++cell) {
      rod[cell] = next[cell];
    }
    MPI_Allreduce(&own, &changed, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0) {
    printf("changed by %g in the last step\n", changed);
  }
  MPI_Finalize();
  return 0;
}
