/* Ways in which programs exchange messages, each of which a schedule made of the recording must get through as
 * the program did: exchanges MODE. Any number of ranks from 2 on. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { steps = 5, most = 1 << 15 };

static int n;
static int r;
static char sent[most];
static char received[4][most];

static int left(void) { return (r + n - 1) % n; }
static int right(void) { return (r + 1) % n; }

/* Sizes that do not repeat at once: one byte, none, several pages. */
static int size_of_step(int step) { return (step * 7919 + 1) % most * (step % 3 != 1); }

/* Everyone posts a receive, then sends, then waits: what NPB's CG and BT do. */
static void ring(void) {
  for (int step = 0; step < steps; ++step) {
    MPI_Request request;
    MPI_Irecv(received[0], most, MPI_CHAR, left(), step, MPI_COMM_WORLD, &request);
    MPI_Send(sent, size_of_step(step), MPI_CHAR, right(), step, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

/* Two neighbours at once: LAMMPS, MG. */
static void halo(void) {
  for (int step = 0; step < steps; ++step) {
    MPI_Request requests[2];
    MPI_Irecv(received[0], most, MPI_CHAR, left(), 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(received[1], most, MPI_CHAR, right(), 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(sent, 100 + step, MPI_CHAR, right(), 0, MPI_COMM_WORLD);
    MPI_Send(sent, 200 + step, MPI_CHAR, left(), 0, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, received[0], 8, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
}

static void shift(void) {
  for (int step = 0; step < steps; ++step) {
    MPI_Sendrecv(sent, 64 << step, MPI_CHAR, right(), 0, received[0], most, MPI_CHAR, left(), 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(sent, 1 << step, MPI_INT, left(), 0, received[0], most / 4, MPI_INT, right(), 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  }
}

/* Two messages of one size cross on the way; the receiver answers the first before the second is sent, and has
 * posted their receives the other way round. Only tags tell which is which. */
static void crossing(void) {
  const int peer = r ^ 1;
  if (peer >= n) {
    return;
  }
  for (int step = 0; step < steps; ++step) {
    if (r % 2 == 0) {
      MPI_Send(sent, 512, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
      MPI_Recv(received[0], most, MPI_CHAR, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(sent, 512, MPI_CHAR, peer, 2, MPI_COMM_WORLD);
    } else {
      MPI_Request second;
      MPI_Request first;
      MPI_Irecv(received[0], most, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &second);
      MPI_Irecv(received[1], most, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &first);
      MPI_Wait(&first, MPI_STATUS_IGNORE);
      MPI_Send(sent, 8, MPI_CHAR, peer, 3, MPI_COMM_WORLD);
      MPI_Wait(&second, MPI_STATUS_IGNORE);
    }
  }
}

/* Messages of two sizes, received in the other order. */
static void swapped(void) {
  const int peer = r ^ 1;
  if (peer >= n) {
    return;
  }
  for (int step = 0; step < steps; ++step) {
    MPI_Request requests[4];
    MPI_Isend(sent, 1000, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 10, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(received[0], most, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(received[1], most, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }
}

/* Each stage receives, works and passes on; the next message is asked for before the last one is sent. */
static void pipeline(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  for (int step = 0; step < steps; ++step) {
    if (r > 0) {
      if (step == 0) {
        MPI_Irecv(received[0], most, MPI_CHAR, left(), 0, MPI_COMM_WORLD, &request);
      }
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (step + 1 < steps) {
        MPI_Irecv(received[(step + 1) % 2], most, MPI_CHAR, left(), 0, MPI_COMM_WORLD, &request);
      }
    }
    if (r + 1 < n) {
      MPI_Ssend(sent, 4096, MPI_CHAR, right(), 0, MPI_COMM_WORLD);
    }
  }
}

static void persistent(void) {
  MPI_Request requests[3];
  MPI_Recv_init(received[0], most, MPI_CHAR, left(), 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(sent, 777, MPI_CHAR, right(), 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Recv_init(received[1], most, MPI_CHAR, right(), 0, MPI_COMM_WORLD, &requests[2]);
  for (int step = 0; step < steps; ++step) {
    MPI_Startall(3, requests);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Send(sent, 77, MPI_CHAR, left(), 0, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < 3; ++i) {
    MPI_Request_free(&requests[i]);
  }
}

/* Rank 0 answers whoever comes first. */
static void master(void) {
  if (r == 0) {
    for (int job = 0; job < (n - 1) * steps; ++job) {
      MPI_Status status;
      MPI_Recv(received[0], most, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      MPI_Send(sent, 100, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD);
    }
  } else {
    for (int step = 0; step < steps; ++step) {
      MPI_Send(sent, 10 * r, MPI_CHAR, 0, step, MPI_COMM_WORLD);
      MPI_Recv(received[0], most, MPI_CHAR, 0, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
}

/* A collective is under way while a message decides whether another rank joins it. */
static void overlap(void) {
  for (int step = 0; step < steps; ++step) {
    MPI_Request request;
    if (r > 0) {
      MPI_Recv(received[1], most, MPI_CHAR, r - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Iallreduce(MPI_IN_PLACE, received[0], 64, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    if (r + 1 < n) {
      MPI_Send(sent, 32, MPI_CHAR, r + 1, 0, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

/* Two collectives at a time on two communicators, issued and waited for in orders of each rank's own. */
static void two_at_a_time(void) {
  MPI_Comm comms[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -r, &comms[1]); /* the ranks in reverse */
  for (int step = 0; step < steps; ++step) {
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i) {
      const int which = (i + r) % 2;
      if (which == 0) {
        MPI_Iallreduce(MPI_IN_PLACE, received[0], 16, MPI_DOUBLE, MPI_MAX, comms[0], &requests[0]);
      } else {
        MPI_Ibcast(received[1], 333, MPI_CHAR, 1, comms[1], &requests[1]);
      }
    }
    MPI_Wait(&requests[(r + step) % 2], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[(r + step + 1) % 2], MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&comms[0]);
  MPI_Comm_free(&comms[1]);
}

/* Several collectives at a time on one communicator. */
static void in_a_row(void) {
  MPI_Request requests[3];
  for (int step = 0; step < steps; ++step) {
    MPI_Iallreduce(MPI_IN_PLACE, received[0], 16, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(received[1], 333, MPI_CHAR, n - 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  }
}

/* Rows and columns, the columns with their ranks in reverse. */
static void grid(void) {
  MPI_Comm row;
  MPI_Comm column;
  MPI_Comm_split(MPI_COMM_WORLD, r / 2, r, &row);
  MPI_Comm_split(MPI_COMM_WORLD, r % 2, -r, &column);
  int rows;
  MPI_Comm_size(column, &rows);
  for (int step = 0; step < steps; ++step) {
    MPI_Bcast(received[0], 500, MPI_CHAR, 0, row);
    MPI_Reduce(sent, received[1], 500, MPI_CHAR, MPI_MAX, rows - 1, column);
    MPI_Allgather(sent, 8, MPI_CHAR, received[2], 8, MPI_CHAR, column);
    MPI_Reduce_scatter_block(sent, received[3], 8, MPI_DOUBLE, MPI_MAX, row);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Comm_free(&row);
  MPI_Comm_free(&column);
}

static MPI_Comm of_thread[2];
static int numbers[2] = {0, 1};
static void* work(void* argument) {
  const int thread = *(const int*)argument;
  char* const box = received[thread];
  for (int step = 0; step < steps; ++step) {
    MPI_Request request;
    MPI_Irecv(box, most, MPI_CHAR, left(), 0, of_thread[thread], &request);
    MPI_Send(sent, 100 + thread, MPI_CHAR, right(), 0, of_thread[thread]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  return NULL;
}
/* Two threads, each with a communicator of its own. */
static void threads(void) {
  pthread_t running[2];
  for (int i = 0; i < 2; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[i]);
  }
  for (int i = 0; i < 2; ++i) {
    pthread_create(&running[i], NULL, work, &numbers[i]);
  }
  for (int i = 0; i < 2; ++i) {
    pthread_join(running[i], NULL);
  }
}

/* One-sided calls both ways, to higher and to lower ranks. */
static void one_sided(void) {
  MPI_Win window;
  MPI_Win_create(received[0], most, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  for (int step = 0; step < steps; ++step) {
    MPI_Win_fence(0, window);
    MPI_Put(sent, 16, MPI_CHAR, left(), 0, 16, MPI_CHAR, window);
    MPI_Get(received[1], 8, MPI_DOUBLE, right(), 1024, 8, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
  }
  MPI_Win_free(&window);
}

/* Collectives with a root, each rank's turn, between messages. */
static void rooted(void) {
  for (int step = 0; step < steps; ++step) {
    const int root = step % n;
    MPI_Bcast(received[0], 64, MPI_CHAR, root, MPI_COMM_WORLD);
    MPI_Request request;
    MPI_Irecv(received[1], most, MPI_CHAR, left(), 0, MPI_COMM_WORLD, &request);
    MPI_Send(sent, 10, MPI_CHAR, right(), 0, MPI_COMM_WORLD);
    MPI_Reduce(sent, received[2], 64, MPI_CHAR, MPI_MAX, root, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static const struct {
  const char* name;
  void (*run)(void);
} modes[] = {{"ring", ring},           {"halo", halo},           {"shift", shift},
             {"crossing", crossing},   {"swapped", swapped},     {"pipeline", pipeline},
             {"persistent", persistent}, {"master", master},     {"overlap", overlap},
             {"two-at-a-time", two_at_a_time}, {"in-a-row", in_a_row}, {"grid", grid},
             {"threads", threads},     {"one-sided", one_sided}, {"rooted", rooted}};

int main(int count, char** arguments) {
  int provided;
  const char* mode = count > 1 ? arguments[1] : "";
  MPI_Init_thread(&count, &arguments, strcmp(mode, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  int found = 0;
  for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); ++i) {
    if (strcmp(mode, modes[i].name) == 0) {
      modes[i].run();
      found = 1;
    }
  }
  if (!found) {
    fprintf(stderr, "no mode %s\n", mode);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
