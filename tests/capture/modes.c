/* Programs that end badly, or do what a recorder must survive: modes MODE [DIRECTORY]. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expected.h"
#include "no_memory.h"

static int n;
static int r;

/* Returns when every rank has left the barrier, so that the death of one keeps no other in it. */
static void meet_after_barrier(void) {
  for (int rank = 0; rank < n; ++rank) {
    char name[64];
    snprintf(name, sizeof name, "left-the-barrier-%d", rank);
    if (rank == r) {
      fclose(fopen(name, "w"));
    }
    while (access(name, F_OK) != 0) {
      usleep(1000);
    }
  }
}
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

/* A child that finalizes, as a library's exit handler may; the library itself may not survive that. */
static void fork_a_child_that_finalizes(void) {
  reduce(10, MPI_COMM_SELF);
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction standard = {0};
    for (int signal = 1; signal < 16; ++signal) {
      sigaction(signal, &standard, NULL);
    }
    alarm(20);
    MPI_Finalize();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  reduce(10, MPI_COMM_SELF);
}

/* For the library alone: a new communicator, whose call cannot be described, then calls that could be. */
static void run_out_of_memory(void) {
  MPI_Comm same;
  MPI_Request request;
  reduce(10, MPI_COMM_WORLD);
  MPI_Send_init(buffer, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
  MPI_Recv_init(buffer, 3, MPI_DOUBLE, r, 0, MPI_COMM_SELF, &request);
  MPI_Comm_dup(MPI_COMM_WORLD, &same);
  memory_is_out = 1;
  reduce(1, same);
  reduce(100, MPI_COMM_WORLD);
  memory_is_out = 0;
  MPI_Start(&request);
  MPI_Send(buffer, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD); /* no message */
  MPI_Send(buffer + 32, 3, MPI_DOUBLE, r, 0, MPI_COMM_SELF);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  MPI_Comm_free(&same);
}

/* Of two receives one is too short for its message, and the first wait has no place for its answer. */
static void wait_for_some_in_vain(void) {
  int room[16];
  int sent[16] = {0};
  int indices[2] = {0, 1};
  int ended = 2;
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Irecv(room, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]);
  MPI_Irecv(room + 8, 8, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[1]);
  MPI_Send(sent, 4, MPI_INT, 0, 1, MPI_COMM_SELF);
  MPI_Send(sent, 8, MPI_INT, 0, 2, MPI_COMM_SELF);
  if (MPI_Waitsome(2, requests, &ended, NULL, statuses) == MPI_SUCCESS) {
    puts("this MPI takes anything");
  }
  for (int all = 0; all < 2;) {
    MPI_Waitsome(2, requests, &ended, indices, statuses);
    if (ended == MPI_UNDEFINED) {
      break;
    }
    all += ended;
  }
}

/* More receives at a time than are followed: 2^18, and ten more. */
static void post_many(void) {
  enum { many = (1 << 18) + 10 };
  static char box;
  MPI_Request* requests = (MPI_Request*)malloc(many * sizeof *requests);
  for (int i = 0; i < many; ++i) {
    MPI_Irecv(&box, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, &requests[i]);
  }
  for (int i = 0; i < many; ++i) {
    MPI_Send(&box, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF);
  }
  MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
  free((void*)requests);
}

/* A process that this job does not have sends two messages, which are looked at before they are received. */
static void spawn_one(const char* program) {
  char name[4096];
  char* none[] = {(char*)"spawned", NULL};
  MPI_Comm child;
  MPI_Message message;
  MPI_Request request;
  int box[8];
  int flag = 0;
  snprintf(name, sizeof name, "%s", program);
  MPI_Comm_spawn(name, none, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
  MPI_Mprobe(0, 1, child, &message, MPI_STATUS_IGNORE);
  MPI_Mrecv(box, 8, MPI_INT, &message, MPI_STATUS_IGNORE);
  while (!flag) {
    MPI_Improbe(0, 2, child, &flag, &message, MPI_STATUS_IGNORE);
  }
  MPI_Imrecv(box, 8, MPI_INT, &message, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_disconnect(&child);
}
static void be_spawned(void) {
  MPI_Comm parent;
  const int box[8] = {0};
  MPI_Comm_get_parent(&parent);
  MPI_Send(box, 5, MPI_INT, 0, 1, parent);
  MPI_Send(box, 6, MPI_INT, 0, 2, parent);
  MPI_Comm_disconnect(&parent);
}

/* What the mode is about, between MPI_Init and MPI_Finalize. */
static void act(const char* mode, int level, char** arguments) {
  if (strcmp(mode, "threads") == 0 || strcmp(mode, "threads-by-environment") == 0) {
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
    meet_after_barrier();
    kill(getpid(), SIGKILL);
  } else if (strcmp(mode, "abort") == 0) {
    reduce(1000, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Abort(MPI_COMM_WORLD, 5);
  } else if (strcmp(mode, "abort-at-once") == 0) {
    MPI_Abort(MPI_COMM_WORLD, 5);
  } else if (strcmp(mode, "fork") == 0) {
    fork_a_child();
  } else if (strcmp(mode, "fork-and-finalize") == 0) {
    fork_a_child_that_finalizes();
  } else if (strcmp(mode, "no-memory") == 0) {
    run_out_of_memory();
  } else if (strcmp(mode, "waitsome") == 0) {
    wait_for_some_in_vain();
  } else if (strcmp(mode, "many-requests") == 0) {
    post_many();
  } else if (strcmp(mode, "wait") == 0) { /* opens a pipe, waits for another */
    reduce(10, MPI_COMM_WORLD);
    fclose(fopen(arguments[2], "w"));
    fclose(fopen(arguments[3], "r"));
    reduce(10, MPI_COMM_WORLD);
  } else if (strcmp(mode, "spawn") == 0) {
    spawn_one(arguments[0]);
  } else if (strcmp(mode, "spawned") == 0) {
    be_spawned();
  } else if (strcmp(mode, "many") == 0) {
    reduce(2000000, MPI_COMM_SELF);
    puts("made them all");
  } else if (strcmp(mode, "after-finalize") == 0) {
    reduce(10, MPI_COMM_WORLD);
  }
}

int main(int count, char** arguments) {
  const char* mode = arguments[1];
  if (strcmp(mode, "never") == 0) {
    puts("never called MPI");
    return 7;
  }
  int level = MPI_THREAD_SINGLE;
  const int is_threaded = strcmp(mode, "threads") == 0;
  if (strcmp(mode, "threads-by-environment") == 0) { /* which gives more than the program asks for */
    MPI_Init(&count, &arguments);
    MPI_Query_thread(&level);
  } else {
    MPI_Init_thread(&count, &arguments, is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  }
  say_world();
  if (count > 2 && strcmp(mode, "wait") != 0) {
    expect_into(arguments[2], r);
  }
  act(mode, level, arguments);
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
