/* Four ranks meet in pairs {0,1} and {2,3} and then, eight times in a row, all together; 24 steps of it. Rank 2 rests
   100 ms longer in each: much longer than a busy machine keeps a rank that has slept from running again. */
#define _GNU_SOURCE
#include <mpi.h>
#include <time.h>

static void rest(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  nanosleep(&time, NULL);
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  double values[64] = {0};
  for (int step = 0; step < 24; ++step) {
    rest(rank == 2 ? 101 : 1);
    MPI_Allreduce(MPI_IN_PLACE, values, 64, MPI_DOUBLE, MPI_SUM, pair);
    for (int meeting = 0; meeting < 8; ++meeting) {
      MPI_Allreduce(MPI_IN_PLACE, values, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
  }
  MPI_Finalize();
  return 0;
}
