/* The calls of a program that knows nothing of commlens. In a file of its own: shim_program is linked with
 * it, shim_loader loads it as a private library, as Python does with PyTorch. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../capture/no_memory.h"
#include "ranks.h"

typedef struct {
  char internal[128];
} ncclUniqueId;
typedef void* Comm;
extern int stand_in_calls;
__attribute__((weak)) int stand_in_gpu_is_clean(void);
__attribute__((weak)) void stand_in_gpu_work(void* stream, int64_t ns);

/* NOLINTBEGIN(readability-identifier-naming): the names are NCCL's */
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void*);
int ncclCommInitRank(Comm*, int, ncclUniqueId, int);
int ncclCommInitRankConfig(Comm*, int, ncclUniqueId, int, void*);
int ncclCommInitAll(Comm*, int, const int*);
int ncclCommSplit(Comm, int, int, Comm*, void*);
int ncclCommDestroy(Comm);
int ncclCommAbort(Comm);
int ncclAllReduce(const void*, void*, size_t, int, int, Comm, void*);
int ncclBroadcast(const void*, void*, size_t, int, int, Comm, void*);
int ncclBcast(void*, size_t, int, int, Comm, void*);
int ncclReduce(const void*, void*, size_t, int, int, int, Comm, void*);
int ncclAllGather(const void*, void*, size_t, int, Comm, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, Comm, void*);
int ncclAlltoAll(const void*, void*, size_t, int, Comm, void*);
int ncclAllToAllv(const void*, const size_t[], const size_t[], void*, const size_t[], const size_t[], int,
                  Comm, void*);
int ncclScatter(const void*, void*, size_t, int, int, Comm, void*);
int ncclSend(const void*, size_t, int, int, Comm, void*);
int ncclRecv(void*, size_t, int, int, Comm, void*);
/* NOLINTEND(readability-identifier-naming) */

enum { i8 = 0, u8 = 1, i32 = 2, u64 = 5, f16 = 6, f32 = 7, f64 = 8, bf16 = 9, f8 = 10 };

static void want(int code, int wanted, const char* what) {
  if (code != wanted) {
    fprintf(stderr, "%s returned %d, not %d\n", what, code, wanted);
    exit(1);
  }
}
#define OK(CALL) want(CALL, 0, #CALL)

static void* const k_one = (void*)0x11;
static void* const k_two = (void*)0x22;
static void* const k_captured = (void*)0x77;

static void calls_of_four(int rank) {
  ncclUniqueId id;
  memset(&id, 7, sizeof id);
  Comm world = NULL;
  Comm half = NULL;
  OK(ncclCommInitRank(&world, 4, id, rank));
  OK(ncclCommSplit(world, rank % 2, 3 - rank, &half, NULL)); /* [2, 0] and [3, 1] */
  meet();

  OK(ncclAllReduce(NULL, NULL, 1000, f32, 0, world, k_one));
  OK(ncclAllGather(NULL, NULL, 16, f32, world, k_one));
  OK(ncclReduceScatter(NULL, NULL, 8, bf16, 4, world, k_one));
  OK(ncclBroadcast(NULL, NULL, 3, f64, 3, world, k_one));
  OK(ncclBcast(NULL, 4, f16, 2, world, k_one));
  OK(ncclReduce(NULL, NULL, 5, i32, 3, 1, world, k_one));
  OK(ncclAlltoAll(NULL, NULL, 6, f8, world, k_one));
  const size_t sent[] = {1, 2, 3, 4};
  const size_t received[] = {5, 6, 7, 8};
  OK(ncclAllToAllv(NULL, sent, sent, NULL, received, received, u8, world, k_one));
  OK(ncclScatter(NULL, NULL, 7, i8, 0, world, k_one));
  OK(ncclAllGather(NULL, NULL, 11, f32, half, k_two));

  /* A group in a group: one piece of work on each stream. */
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 21, u64, (rank + 1) % 4, world, k_one));
  OK(ncclGroupEnd());
  OK(ncclRecv(NULL, 21, u64, (rank + 3) % 4, world, k_one));
  OK(ncclAllReduce(NULL, NULL, 22, f32, 5, half, k_two));
  OK(ncclGroupEnd());

  OK(ncclGroupStart());
  OK(ncclAllReduce(NULL, NULL, 31, f32, 0, world, k_one));
  OK(ncclGroupSimulateEnd(NULL));
  want(ncclAllReduce(NULL, NULL, 999, f32, 0, world, k_one), 4, "a wrong call");
  OK(ncclAllReduce(NULL, NULL, 41, f32, 0, world, k_captured));

  OK(ncclCommAbort(half));
  want(ncclAllReduce(NULL, NULL, 51, f32, 0, half, k_two), 4, "a call of an aborted communicator");
  OK(ncclCommDestroy(world));
  meet();
}

/* A communicator made within a group, as several threads or devices of a process do. */
static void calls_of_one(void) {
  ncclUniqueId id;
  memset(&id, 9, sizeof id);
  Comm comms[2] = {NULL, NULL};
  OK(ncclGroupStart());
  OK(ncclCommInitRankConfig(&comms[0], 2, id, 0, NULL));
  OK(ncclCommInitRankConfig(&comms[1], 2, id, 1, NULL));
  OK(ncclGroupEnd());
  OK(ncclAllReduce(NULL, NULL, 61, f32, 0, comms[0], k_one));
  OK(ncclAllReduce(NULL, NULL, 61, f32, 0, comms[1], k_two));
  OK(ncclCommDestroy(comms[0]));
  OK(ncclCommDestroy(comms[1]));
}

static void calls_of_all_devices(void) {
  Comm all[3];
  const int devices[] = {2, 1, 0};
  OK(ncclCommInitAll(all, 3, devices));
  for (int rank = 0; rank < 3; ++rank) {
    OK(ncclAllReduce(NULL, NULL, 70 + (size_t)rank, f32, 0, all[rank], k_one));
  }
  Comm again[2]; /* devices 0 and 2: ranks 2 and 0 */
  const int two_devices[] = {0, 2};
  OK(ncclCommInitAll(again, 2, two_devices));
  OK(ncclAllReduce(NULL, NULL, 80, f32, 0, again[0], k_one));
  OK(ncclAllReduce(NULL, NULL, 81, f32, 0, again[1], k_one));
}

static Comm made_for(unsigned char number, int size, int rank) {
  ncclUniqueId id;
  memset(&id, number, sizeof id);
  Comm comm = NULL;
  OK(ncclCommInitRank(&comm, size, id, rank));
  return comm;
}

/* Threads that call while another one aborts their communicator. Says how many calls were good, and how many
 * not. */
enum { k_callers = 6, k_aborts = 300, k_calls_of_caller = 3000 };
static _Atomic Comm current_comm;
static atomic_long good_calls;
static atomic_long bad_calls;
static void* call_and_call(void* unused) {
  for (int i = 0; i < k_calls_of_caller; ++i) {
    atomic_fetch_add(
        ncclAllReduce(NULL, NULL, 7, f32, 0, current_comm, k_one) == 0 ? &good_calls : &bad_calls, 1);
  }
  return unused;
}
static void aborts_meanwhile(void) {
  pthread_t callers[k_callers];
  current_comm = made_for(1, 1, 0);
  for (int i = 0; i < k_callers; ++i) {
    pthread_create(&callers[i], NULL, call_and_call, NULL);
  }
  for (int i = 0; i < k_aborts; ++i) {
    Comm before = current_comm;
    current_comm = made_for((unsigned char)i, 1, 0);
    OK(ncclCommAbort(before));
    sched_yield();
  }
  for (int i = 0; i < k_callers; ++i) {
    pthread_join(callers[i], NULL);
  }
  printf("%ld good %ld bad\n", atomic_load(&good_calls), atomic_load(&bad_calls));
}

/* A child that ends as any program does; its calls and the end of its communicator are none of the
 * recording's. */
static void forks(void) {
  Comm comm = made_for(2, 1, 0);
  OK(ncclAllReduce(NULL, NULL, 11, f32, 0, comm, k_one));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    OK(ncclAllReduce(NULL, NULL, 12, f32, 0, comm, k_one));
    OK(ncclCommDestroy(comm));
    OK(ncclAllReduce(NULL, NULL, 13, f32, 0, made_for(3, 1, 0), k_one));
    exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  want(status, 0, "the child");
  OK(ncclAllReduce(NULL, NULL, 14, f32, 0, comm, k_one));
  OK(ncclCommDestroy(comm));
}

/* One new call for which there is no memory; a communicator for which there is none, and five calls after it.
 */
static void runs_out_of_memory(void) {
  Comm comm = made_for(4, 1, 0);
  OK(ncclAllReduce(NULL, NULL, 21, f32, 0, comm, k_one));
  memory_is_out = 1;
  OK(ncclAllReduce(NULL, NULL, 22, f32, 0, comm, k_one));
  OK(ncclAllReduce(NULL, NULL, 21, f32, 0, comm, k_one));
  Comm other = made_for(5, 1, 0);
  OK(ncclAllReduce(NULL, NULL, 23, f32, 0, other, k_one));
  memory_is_out = 0;
  for (int i = 0; i < 4; ++i) {
    OK(ncclAllReduce(NULL, NULL, 21, f32, 0, comm, k_one));
  }
}

/* Waits until the other end of a pipe is open, too. */
static void meet_at(const char* path, const char* mode) {
  FILE* const end = fopen(path, mode);
  if (end == NULL) {
    perror(path);
    exit(1);
  }
  fclose(end);
}

/* One of two ranks. Given two pipes, it opens the first when it has made its call, and waits for the second.
 */
static void calls_of_a_pair(int count, char** arguments) {
  const char* const rank = getenv("RANK");
  if (rank == NULL) {
    fprintf(stderr, "RANK is not set\n");
    exit(1);
  }
  Comm comm = made_for(6, 2, atoi(rank));
  OK(ncclAllReduce(NULL, NULL, 31, f32, 0, comm, k_one));
  if (count > 3) {
    meet_at(arguments[2], "w");
    meet_at(arguments[3], "r");
    OK(ncclAllReduce(NULL, NULL, 32, f32, 0, comm, k_one));
  }
}

/* All-reduces of four ranks of which the second never ends: `kernel`; because rank 2 does not call: `absent`;
 * because its stream is busy with something else: `behind`. Rank 0 opens the first pipe then, and waits for
 * the second. */
static void calls_that_hang(const char* kind, char** pipes) {
  const int rank = start_ranks(4);
  Comm comm = made_for(7, 4, rank);
  meet();
  OK(ncclAllReduce(NULL, NULL, 1000, f32, 0, comm, k_one));
  if (rank == 2 && strcmp(kind, "behind") == 0) {
    stand_in_gpu_work(k_one, INT64_MAX / 8);
  }
  if (rank != 2 || strcmp(kind, "absent") != 0) {
    OK(ncclAllReduce(NULL, NULL, 777, f32, 0, comm, k_one));
  }
  meet();
  if (rank == 0) {
    meet_at(pipes[0], "w");
    meet_at(pipes[1], "r");
  }
  meet();
}

static int threads_of_this(void) {
  DIR* const all = opendir("/proc/self/task");
  int count = 0;
  for (const struct dirent* entry = readdir(all); entry != NULL; entry = readdir(all)) {
    count += entry->d_name[0] != '.';
  }
  closedir(all);
  return count;
}

/* A call that the GPU carries out while the program computes; then a long time without any. A signal of the
 * process meanwhile is the program's. */
static void computes(char** pipes) {
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGUSR1);
  Comm comm = made_for(8, 1, 0);
  const int threads = threads_of_this();
  OK(ncclAllReduce(NULL, NULL, 91, f32, 0, comm, k_one));
  sigprocmask(SIG_BLOCK, &usual, NULL);
  kill(getpid(), SIGUSR1);
  meet_at(pipes[0], "w");
  meet_at(pipes[1], "r");
  sigset_t pending;
  sigpending(&pending);
  want(sigismember(&pending, SIGUSR1), 1, "a signal that the program has not taken");
  const struct timespec pause = {0, 50000000};
  for (int look = 0; look < 2400 && threads_of_this() > threads; ++look) {
    nanosleep(&pause, NULL);
  }
  want(threads_of_this(), threads, "counting threads when nothing is under way");
  OK(ncclAllReduce(NULL, NULL, 92, f32, 0, comm, k_one));
  want(threads_of_this(), threads + 1, "counting threads when something is under way");
}

int run_calls(int count, char** arguments) {
  const char* const scenario = count > 1 ? arguments[1] : "four";
  if (strcmp(scenario, "group") == 0) {
    calls_of_one();
  } else if (strcmp(scenario, "devices") == 0) {
    calls_of_all_devices();
  } else if (strcmp(scenario, "aborts") == 0) {
    aborts_meanwhile();
  } else if (strcmp(scenario, "forks") == 0) {
    forks();
  } else if (strcmp(scenario, "no-memory") == 0) {
    runs_out_of_memory();
  } else if (strcmp(scenario, "hangs") == 0 && count == 5) {
    calls_that_hang(arguments[2], arguments + 3);
  } else if (strcmp(scenario, "computes") == 0 && count == 4) {
    computes(arguments + 2);
  } else if (strcmp(scenario, "pair") == 0) {
    calls_of_a_pair(count, arguments);
  } else {
    calls_of_four(start_ranks(4));
  }
  if (stand_in_gpu_is_clean && !stand_in_gpu_is_clean()) {
    fprintf(stderr, "the GPU is not as it was\n");
    exit(1);
  }
  exit(0);
}
