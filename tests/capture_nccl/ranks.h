/* Processes that stand for the ranks of a job, and a barrier that they share. */
#ifndef RANKS_H
#define RANKS_H
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t* ranks_barrier;

/* NOLINTNEXTLINE(modernize-redundant-void-arg): C, too */
static inline void meet(void) { pthread_barrier_wait(ranks_barrier); }

/* Starts `ranks` processes, which torchrun's variables number; returns in each of them. The parent waits and
 * ends. */
static inline int start_ranks(int ranks) {
  /* NOLINTNEXTLINE(modernize-use-nullptr): C, too */
  ranks_barrier = (pthread_barrier_t*)mmap(NULL, sizeof *ranks_barrier, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(ranks_barrier, &shared, (unsigned)ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() == 0) {
      char text[16];
      snprintf(text, sizeof text, "%d", rank);
      setenv("RANK", text, 1);
      snprintf(text, sizeof text, "%d", ranks);
      setenv("WORLD_SIZE", text, 1);
      return rank;
    }
  }
  int failed = 0;
  int status = 0;
  while (wait(&status) > 0) {
    failed |= status != 0;
  }
  _exit(failed);
}
#endif
