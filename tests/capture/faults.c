/* Four ranks meet in pairs {0,1} and {2,3} and all together, in a ring of messages, and by two communicators of the
   same ranks; in the tenth step one of them, or all, make a mistake, of which the job never recovers.

     faults pause|stop|kill|finish|deadlock|count|kind|send|circle|any
     faults well    ends without one

   When it is made, the file "faulty" appears.  */
#define _GNU_SOURCE
#include <mpi.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { k_bad_rank = 2, k_bad_step = 9, k_values = 16384 };

static double values[2 * k_values];
static int rank;
static int ranks;

static void rest_for_ever(void) {
  for (;;) {
    pause();
  }
}

static void meet(MPI_Comm comm, int count) {
  MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, comm);
}

/* To the next rank, and from the one before. */
static void pass_on(int leaves_out_send) {
  MPI_Request sent = MPI_REQUEST_NULL;
  if (!leaves_out_send) {
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &sent);
  }
  int got = 0;
  MPI_Recv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/* Rank 0 serves whoever asks. */
static void ask(int forgets) {
  int got = 0;
  if (rank == 0) {
    for (int asked = 1; asked < ranks; ++asked) {
      MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (forgets) {
    rest_for_ever();
  } else {
    MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
}

static void say_so(void) { close(open("faulty", O_CREAT | O_WRONLY, 0666)); }

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* const fault = count > 1 ? arguments[1] : "";
  const int is_well = strcmp(fault, "well") == 0;
  MPI_Comm pair;
  MPI_Comm other;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  for (int step = 0; !is_well || step < 2 * k_bad_step; ++step) {
    const int is_now = step == k_bad_step && !is_well;
    const int is_bad = is_now && rank == k_bad_rank;
    if (is_bad) {
      say_so();
    }
    if (is_bad && strcmp(fault, "pause") == 0) {
      rest_for_ever();
    } else if (is_bad && strcmp(fault, "stop") == 0) {
      raise(SIGSTOP);
    } else if (is_bad && strcmp(fault, "kill") == 0) {
      raise(SIGKILL);
    } else if (is_bad && strcmp(fault, "finish") == 0) {
      break;
    }
    meet(pair, 64);
    if (is_bad && strcmp(fault, "kind") == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
    } else {
      meet(MPI_COMM_WORLD, is_bad && strcmp(fault, "count") == 0 ? 2 * k_values : k_values);
    }
    pass_on(is_bad && (strcmp(fault, "circle") == 0 || strcmp(fault, "send") == 0));
    if (is_bad && strcmp(fault, "send") == 0) {
      rest_for_ever();
    }
    if (strcmp(fault, "any") == 0) {
      ask(is_bad);
    }
    const int is_swapped = is_now && rank % 2 == 1 && strcmp(fault, "deadlock") == 0;
    meet(is_swapped ? other : MPI_COMM_WORLD, k_values);
    meet(is_swapped ? MPI_COMM_WORLD : other, k_values);
  }
  MPI_Finalize();
  return 0;
}
