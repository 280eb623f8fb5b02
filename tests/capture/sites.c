/* Calls from known lines, which call_sites_test.cpp names: sites. Two ranks. */
#include <mpi.h>

static double box[64];

static void sum_twice(void) {
  MPI_Allreduce(MPI_IN_PLACE, box, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, box, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void exchange(int rank) {
  MPI_Request requests[2];
  MPI_Irecv(box, 64, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(box + 32, 16, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

int main(int count, char** arguments) {
  int rank = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int step = 0; step < 5; ++step) {
    sum_twice();
    exchange(rank);
  }
  MPI_Finalize();
  return 0;
}
