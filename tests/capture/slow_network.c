/* To be preloaded, so that it lies below the recorder: each collective of delays.c takes 50 ms on all members
 * before it begins, which is long beside what a busy machine adds. With SLOWER_PAIRS in the environment an
 * all_reduce of two ranks takes 15 ms more, and nothing else does: 30 % of that call, and 6 % of a step. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum { k_usual = 50, k_more = 15 };

static void take(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  nanosleep(&time, NULL);
}

static long more_in(MPI_Comm comm) {
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  return ranks == 2 && getenv("SLOWER_PAIRS") != NULL ? k_more : 0;
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  take(k_usual + more_in(comm));
  return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Allgather(const void* from, int sent, MPI_Datatype of_sent, void* to, int received,
                  MPI_Datatype of_received, MPI_Comm comm) {
  take(k_usual);
  return PMPI_Allgather(from, sent, of_sent, to, received, of_received, comm);
}

int MPI_Bcast(void* values, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  take(k_usual);
  return PMPI_Bcast(values, count, type, root, comm);
}
