/* Programs that end badly, or do what a recorder must survive: modes MODE [FOLDER]. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expected.h"

static int n;
static int r;
static char world[256];
static double buffer[64];

static void say_world(void) {
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  for (int i = 0; i < n; ++i) {
    sprintf(world + strlen(world), "%s%d", i == 0 ? "" : ",", i);
  }
}

static void reduce(int times, MPI_Comm comm) {
  for (int i = 0; i < times; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, 8, MPI_DOUBLE, MPI_SUM, comm);
  }
}

/* Four threads, each with a communicator of its own: 500 reductions, 500 messages to itself, and 10 communicators that
 * come and go. */
static MPI_Comm comms[4];
static int numbers[4] = {0, 1, 2, 3};
static void* work(void* argument) {
  const int thread = *(const int*)argument;
  double box[8];
  double sent[8] = {0};
  double sum[8];
  for (int i = 0; i < 500; ++i) {
    MPI_Request requests[2];
    MPI_Allreduce(sent, sum, 1 + thread, MPI_DOUBLE, MPI_SUM, comms[thread]);
    MPI_Irecv(box, 8, MPI_DOUBLE, MPI_ANY_SOURCE, thread, comms[thread], &requests[0]);
    MPI_Isend(sent, 5 + thread % 2, MPI_DOUBLE, r, thread, comms[thread], &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (i % 50 == 0) {
      MPI_Comm same;
      MPI_Comm_dup(comms[thread], &same);
      MPI_Bcast(box, 2, MPI_DOUBLE, 0, same);
      MPI_Comm_free(&same);
    }
  }
  return NULL;
}
static void threads(void) {
  pthread_t running[4];
  for (long i = 0; i < 4; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  }
  for (int i = 0; i < 4; ++i) {
    pthread_create(&running[i], NULL, work, &numbers[i]);
  }
  char self[64];
  sprintf(self, "%d,%d", r, r);
  for (int i = 0; i < 4; ++i) {
    pthread_join(running[i], NULL);
    for (int j = 0; j < 500; ++j) {
      expect("MPI_Allreduce", "all_reduce", "fp64", 1 + i, 1 + i, world, -1);
      expect("MPI_Irecv", "recv", "fp64", 0, 5 + i % 2, self, -1);
      expect("MPI_Isend", "send", "fp64", 5 + i % 2, 0, self, -1);
      if (j % 50 == 0) {
        expect("MPI_Bcast", "broadcast", "fp64", 2, 2, world, 0);
      }
    }
  }
}

static void fork_a_child(void) {
  reduce(10, MPI_COMM_SELF);
  const pid_t child = fork();
  if (child == 0) { /* what it does leaves no trace */
    reduce(5, MPI_COMM_SELF);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  reduce(10, MPI_COMM_SELF);
  if (status != 0) {
    printf("the child ended with %d\n", status);
    MPI_Abort(MPI_COMM_WORLD, 9);
  }
}

int main(int count, char** arguments) {
  const char* mode = arguments[1];
  if (strcmp(mode, "never") == 0) {
    puts("never called MPI");
    return 7;
  }
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&count, &arguments, strcmp(mode, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  say_world();
  if (count > 2) {
    expect_into(arguments[2], r);
  }
  if (strcmp(mode, "threads") == 0) {
    if (level != MPI_THREAD_MULTIPLE) {
      puts("this MPI has no MPI_THREAD_MULTIPLE");
      MPI_Abort(MPI_COMM_WORLD, 9);
    }
    threads();
  } else if (strcmp(mode, "kill-one") == 0) {
    reduce(1000, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (r == n - 1) {
      kill(getpid(), SIGKILL);
    }
    reduce(1, MPI_COMM_WORLD); /* never complete */
  } else if (strcmp(mode, "kill-all") == 0) {
    reduce(1000, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    kill(getpid(), SIGKILL);
  } else if (strcmp(mode, "abort") == 0) {
    reduce(1000, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Abort(MPI_COMM_WORLD, 5);
  } else if (strcmp(mode, "fork") == 0) {
    fork_a_child();
  } else if (strcmp(mode, "many") == 0) {
    reduce(2000000, MPI_COMM_SELF);
    puts("made them all");
  } else if (strcmp(mode, "after-finalize") == 0) {
    reduce(10, MPI_COMM_WORLD);
  }
  if (expected_file != NULL) {
    expect_end();
  }
  MPI_Finalize();
  if (strcmp(mode, "after-finalize") == 0) {
    int is_finalized = 0;
    MPI_Finalized(&is_finalized);
    printf("finalized %d\n", is_finalized);
  }
  return 0;
}
