/* Four ranks meet in pairs {0,1} and {2,3} and then all together, 200 times; rank 2 works 10 ms longer before each. */
#define _GNU_SOURCE
#include <mpi.h>
#include <time.h>

static void pass_time(long microseconds) {
  const struct timespec time = {0, microseconds * 1000};
  nanosleep(&time, NULL);
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  double values[64] = {0};
  for (int step = 0; step < 200; ++step) {
    pass_time(rank == 2 ? 11000 : 1000);
    MPI_Allreduce(MPI_IN_PLACE, values, 64, MPI_DOUBLE, MPI_SUM, pair);
    pass_time(100);
    MPI_Allreduce(MPI_IN_PLACE, values, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
