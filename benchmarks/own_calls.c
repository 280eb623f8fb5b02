/* All_reduces of 8 doubles on the communicator of this rank alone, one after the other:
 *   own_calls COUNTER CALLS
 * COUNTER: a file of three 64-bit integers, which is mapped: the job counts its calls in the first one, and
 * ends after CALLS of them, or when the second one is not 0; the third one is its process. It makes no system
 * call between its calls. For followed_job.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const int file = count == 3 ? open(arguments[1], O_RDWR) : -1;
  volatile int64_t* const shared =
      mmap(NULL, 3 * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) {
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
  }
  shared[2] = getpid();
  const int64_t calls = atoll(arguments[2]);
  static double values[8];
  static double sums[8];
  for (int64_t made = 0; made < calls && shared[1] == 0;) {
    MPI_Allreduce(values, sums, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    shared[0] = ++made;
  }
  MPI_Finalize();
  return 0;
}
