/* Makes most of the calls that MPI has and states what each of them moves: calls DIRECTORY. At least two ranks. */
#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#include <string.h>

#include "expected.h"

static int n;
static int r;
static char world[256];

/* "0,1,2": `count` ranks from `first`, every `step`-th. */
static const char* ranks(int first, int step, int count) {
  static char text[4][256];
  static int at;
  char* out = text[at = (at + 1) % 4];
  out[0] = '\0';
  for (int i = 0; i < count; ++i) {
    sprintf(out + strlen(out), "%s%d", i == 0 ? "" : ",", first + i * step);
  }
  return out;
}
static const char* pair(int from, int to) {
  static char text[4][64];
  static int at;
  char* out = text[at = (at + 1) % 4];
  sprintf(out, "%d,%d", from, to);
  return out;
}

static double real[4096];
static double more[4096];
static int whole[4096];
static int others[4096];

static void collectives(void) {
  MPI_Bcast(real, 100, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  expect("MPI_Bcast", "broadcast", "fp64", 100, 100, world, 1);
  MPI_Reduce(whole, others, 7, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  expect("MPI_Reduce", "reduce", "int32", 7, 7, world, 0);
  MPI_Allreduce(MPI_IN_PLACE, real, 33, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  expect("MPI_Allreduce", "all_reduce", "fp32", 33, 33, world, -1);
  MPI_Allreduce(whole, others, 5, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  expect("MPI_Allreduce", "all_reduce", "int32", 5, 5, ranks(r, 1, 1), -1);
  MPI_Allgather(real, 3, MPI_DOUBLE, more, 3, MPI_DOUBLE, MPI_COMM_WORLD);
  expect("MPI_Allgather", "all_gather", "fp64", 3, 3L * n, world, -1);
  MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, more, 2, MPI_DOUBLE, MPI_COMM_WORLD);
  expect("MPI_Allgather", "all_gather", "fp64", 2, 2L * n, world, -1);
  MPI_Alltoall(whole, 4, MPI_INT, others, 4, MPI_INT, MPI_COMM_WORLD);
  expect("MPI_Alltoall", "all_to_all", "int32", 4L * n, 4L * n, world, -1);
  MPI_Reduce_scatter_block(real, more, 6, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect("MPI_Reduce_scatter_block", "reduce_scatter", "fp64", 6L * n, 6, world, -1);
  MPI_Scan(real, more, 9, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
  expect("MPI_Scan", "other", "fp64", 9, 9, world, -1);
  MPI_Exscan(real, more, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect("MPI_Exscan", "other", "fp64", 8, 8, world, -1);
  MPI_Barrier(MPI_COMM_WORLD);
  expect("MPI_Barrier", "barrier", "uint8", 0, 0, world, -1);
}

/* What means something at the root only points nowhere elsewhere. */
static void rooted(void) {
  const int root = n - 1;
  int counts[64];
  int places[64];
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    counts[i] = i + 1; /* rank i: i + 1 elements */
    places[i] = sum;
    sum += counts[i];
  }
  const int is_root = r == root;
  int* at_root = is_root ? counts : NULL;
  MPI_Gather(whole, 5, MPI_INT, is_root ? others : NULL, is_root ? 5 : -7, is_root ? MPI_INT : MPI_DATATYPE_NULL, root,
             MPI_COMM_WORLD);
  expect("MPI_Gather", "other", "int32", 5, is_root ? 5L * n : 0, world, root);
  MPI_Gather(is_root ? MPI_IN_PLACE : whole, is_root ? -7 : 5, is_root ? MPI_DATATYPE_NULL : MPI_INT, others, 5, MPI_INT,
             root, MPI_COMM_WORLD);
  expect("MPI_Gather", "other", "int32", 5, is_root ? 5L * n : 0, world, root);
  MPI_Gatherv(real, r + 1, MPI_DOUBLE, more, at_root, is_root ? places : NULL, MPI_DOUBLE, root, MPI_COMM_WORLD);
  expect("MPI_Gatherv", "other", "fp64", r + 1, is_root ? sum : 0, world, root);
  MPI_Scatter(is_root ? real : NULL, is_root ? 2 : -7, is_root ? MPI_DOUBLE : MPI_DATATYPE_NULL, more, 2, MPI_DOUBLE, root,
              MPI_COMM_WORLD);
  expect("MPI_Scatter", "other", "fp64", is_root ? 2L * n : 0, 2, world, root);
  MPI_Scatterv(real, at_root, is_root ? places : NULL, MPI_DOUBLE, is_root ? MPI_IN_PLACE : (void*)more, r + 1, MPI_DOUBLE,
               root, MPI_COMM_WORLD);
  expect("MPI_Scatterv", "other", "fp64", is_root ? sum : 0, r + 1, world, root);
  MPI_Allgatherv(real, r + 1, MPI_DOUBLE, more, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
  expect("MPI_Allgatherv", "all_gather", "fp64", r + 1, sum, world, -1);
  MPI_Reduce_scatter(real, more, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect("MPI_Reduce_scatter", "reduce_scatter", "fp64", sum, r + 1, world, -1);
}

static void all_to_alls(void) {
  int sent[64];
  int received[64];
  int sent_places[64];
  int received_places[64];
  MPI_Datatype types[64];
  long all_sent = 0;
  long all_received = 0;
  for (int i = 0; i < n; ++i) {
    sent[i] = r + i;     /* from r to i: r + i elements */
    received[i] = i + r; /* the same seen from i */
    sent_places[i] = 16 * i;
    received_places[i] = 16 * i;
    types[i] = MPI_DOUBLE;
    all_sent += sent[i];
    all_received += received[i];
  }
  MPI_Alltoallv(whole, sent, sent_places, MPI_INT, others, received, received_places, MPI_INT, MPI_COMM_WORLD);
  expect("MPI_Alltoallv", "all_to_all", "int32", all_sent, all_received, world, -1);
  for (int i = 0; i < n; ++i) { /* in bytes */
    sent_places[i] = 128 * i;
    received_places[i] = 128 * i;
  }
  MPI_Alltoallw(real, sent, sent_places, types, more, received, received_places, types, MPI_COMM_WORLD);
  expect("MPI_Alltoallw", "all_to_all", "uint8", 8 * all_sent, 8 * all_received, world, -1);
}

static void non_blocking_collectives(void) {
  MPI_Request request;
  int flag = 0;
  MPI_Iallreduce(real, more, 12, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect("MPI_Iallreduce", "all_reduce", "fp64", 12, 12, world, -1);
  MPI_Ibcast(real, 13, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
  while (!flag) {
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  }
  expect("MPI_Ibcast", "broadcast", "fp64", 13, 13, world, 0);
  MPI_Request both[2];
  MPI_Ibarrier(MPI_COMM_WORLD, &both[0]);
  MPI_Iallgather(real, 2, MPI_DOUBLE, more, 2, MPI_DOUBLE, MPI_COMM_WORLD, &both[1]);
  flag = 0;
  while (!flag) {
    MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE);
  }
  expect("MPI_Ibarrier", "barrier", "uint8", 0, 0, world, -1);
  expect("MPI_Iallgather", "all_gather", "fp64", 2, 2L * n, world, -1);
}

static void blocking_messages(void) {
  const int next = (r + 1) % n;
  const int before = (r + n - 1) % n;
  MPI_Status status;
  MPI_Sendrecv(real, 10, MPI_DOUBLE, next, 1, more, 50, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &status);
  expect("MPI_Sendrecv", "send", "fp64", 10, 0, pair(r, next), -1);
  expect("MPI_Sendrecv", "recv", "fp64", 0, 10, pair(before, r), -1); /* 10 came, 50 would have fitted */
  MPI_Sendrecv_replace(whole, 11, MPI_INT, next, 2, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect("MPI_Sendrecv_replace", "send", "int32", 11, 0, pair(r, next), -1);
  expect("MPI_Sendrecv_replace", "recv", "int32", 0, 11, pair(before, r), -1);
  MPI_Datatype grid; /* 3 blocks of 4 doubles: 96 bytes */
  MPI_Type_vector(3, 4, 8, MPI_DOUBLE, &grid);
  MPI_Type_commit(&grid);
  if (r == 0) {
    MPI_Send(real, 2, grid, 1, 3, MPI_COMM_WORLD);
    expect("MPI_Send", "send", "uint8", 192, 0, pair(0, 1), -1);
    MPI_Ssend(real, 0, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD);
    expect("MPI_Ssend", "send", "fp64", 0, 0, pair(0, 1), -1);
  } else if (r == 1) {
    MPI_Recv(more, 4096, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect("MPI_Recv", "recv", "fp64", 0, 24, pair(0, 1), -1); /* whence and how much its status said */
    MPI_Recv(more, 1, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD, &status);
    expect("MPI_Recv", "recv", "fp64", 0, 0, pair(0, 1), -1);
  }
  MPI_Type_free(&grid);
  MPI_Send(real, 10, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD); /* no message */
  MPI_Recv(real, 10, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 gets messages from all others, in whatever order they come. */
static void non_blocking_messages(void) {
  MPI_Request requests[64];
  int indices[64];
  int done = 0;
  if (r != 0) {
    MPI_Isend(real, r, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(whole, 2, MPI_INT, 0, 8, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect("MPI_Isend", "send", "fp64", r, 0, pair(r, 0), -1);
    expect("MPI_Issend", "send", "int32", 2, 0, pair(r, 0), -1);
    return;
  }
  for (int i = 1; i < n; ++i) {
    MPI_Irecv(more + 64 * i, 64, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[i - 1]);
    expect("MPI_Irecv", "recv", "fp64", 0, i, pair(i, 0), -1); /* from each other rank once */
  }
  while (done < n - 1) {
    int ended = 0;
    MPI_Waitsome(n - 1, requests, &ended, indices, MPI_STATUSES_IGNORE);
    done += ended;
  }
  for (int i = 1; i < n; ++i) {
    MPI_Irecv(others + 64 * i, 64, MPI_INT, i, 8, MPI_COMM_WORLD, &requests[i - 1]);
    expect("MPI_Irecv", "recv", "int32", 0, 2, pair(i, 0), -1);
  }
  for (int i = 1; i < n; ++i) {
    MPI_Waitany(n - 1, requests, indices, MPI_STATUS_IGNORE);
  }
}

static void persistent_messages(void) {
  if (r > 1) {
    return;
  }
  MPI_Request request;
  if (r == 0) {
    MPI_Send_init(real, 21, MPI_DOUBLE, 1, 9, MPI_COMM_WORLD, &request);
  } else {
    MPI_Recv_init(more, 30, MPI_DOUBLE, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &request);
  }
  for (int i = 0; i < 3; ++i) {
    if (i < 2) {
      MPI_Start(&request);
    } else {
      MPI_Startall(1, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (r == 0) {
      expect("MPI_Send_init", "send", "fp64", 21, 0, pair(0, 1), -1);
    } else {
      expect("MPI_Recv_init", "recv", "fp64", 0, 21, pair(0, 1), -1);
    }
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE); /* inactive: nothing */
  MPI_Request_free(&request);
}

static void probed_messages(void) {
  MPI_Status status;
  MPI_Message message;
  MPI_Request request;
  if (r == 0) {
    MPI_Send(whole, 14, MPI_INT, 1, 10, MPI_COMM_WORLD);
    MPI_Send(whole, 15, MPI_INT, 1, 11, MPI_COMM_WORLD);
    expect("MPI_Send", "send", "int32", 14, 0, pair(0, 1), -1);
    expect("MPI_Send", "send", "int32", 15, 0, pair(0, 1), -1);
  } else if (r == 1) {
    MPI_Mprobe(MPI_ANY_SOURCE, 10, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(others, 64, MPI_INT, &message, MPI_STATUS_IGNORE);
    expect("MPI_Mrecv", "recv", "int32", 0, 14, pair(0, 1), -1);
    int flag = 0;
    while (!flag) {
      MPI_Improbe(0, 11, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    }
    MPI_Imrecv(others, 64, MPI_INT, &message, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect("MPI_Imrecv", "recv", "int32", 0, 15, pair(0, 1), -1);
  }
}

/* A receive that is taken back and a send to nobody: counted, not recorded as messages. */
static void failures(void) {
  MPI_Request request;
  MPI_Irecv(whole, 1, MPI_INT, r, 99, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Send(whole, 1, MPI_INT, n + 5, 0, MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void communicators(void) {
  MPI_Comm part;
  MPI_Comm same;
  MPI_Comm_split(MPI_COMM_WORLD, r % 2, r, &part);
  const char* mine = ranks(r % 2, 2, (n - r % 2 + 1) / 2);
  MPI_Allreduce(real, more, 40, MPI_DOUBLE, MPI_SUM, part);
  expect("MPI_Allreduce", "all_reduce", "fp64", 40, 40, mine, -1);
  MPI_Comm_dup(MPI_COMM_WORLD, &same);
  MPI_Bcast(real, 41, MPI_DOUBLE, 0, same);
  expect("MPI_Bcast", "broadcast", "fp64", 41, 41, world, 0);
  MPI_Comm_free(&same);
  MPI_Comm_free(&part);
  /* Handles are used again, for other members: all ranks, and all ranks backwards. */
  for (int i = 0; i < 20; ++i) {
    const int is_backwards = i % 2;
    MPI_Comm_split(MPI_COMM_WORLD, 0, is_backwards ? n - r : r, &part);
    MPI_Bcast(real, 42, MPI_DOUBLE, 0, part);
    expect("MPI_Bcast", "broadcast", "fp64", 42, 42, is_backwards ? ranks(n - 1, -1, n) : world, 0);
    MPI_Comm_free(&part);
  }
}

/* Even ranks and odd ranks, two groups. */
static void inter_communicators(void) {
  MPI_Comm own;
  MPI_Comm inter;
  MPI_Comm_split(MPI_COMM_WORLD, r % 2, r, &own);
  MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - r % 2, 77, &inter);
  int others_count = 0;
  MPI_Comm_remote_size(inter, &others_count);
  const int is_even = r % 2 == 0;
  const int root = !is_even ? 0 : r == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Bcast(real, 50, MPI_DOUBLE, root, inter); /* rank 0 to the odd ones */
  if (is_even && r != 0) {
    expect("MPI_Bcast", "other", "uint8", 0, 0, world, -1); /* not a part of it: nothing moves, of no type */
  } else {
    expect("MPI_Bcast", "other", "fp64", is_even ? 50 : 0, is_even ? 0 : 50, world, -1);
  }
  /* Who stands by says no sizes and types that mean anything. */
  const int is_by = is_even && r != 0;
  const int count = is_by ? -7 : 3;
  MPI_Datatype type = is_by ? MPI_DATATYPE_NULL : MPI_INT;
  MPI_Reduce(whole, others, 3, MPI_INT, MPI_SUM, root, inter); /* the odd ones' to rank 0; Open MPI looks at these */
  MPI_Gather(whole, count, type, others, count, type, root, inter);
  MPI_Scatter(whole, count, type, others, count, type, root, inter);
  if (is_by) {
    expect("MPI_Reduce", "other", "uint8", 0, 0, world, -1);
    expect("MPI_Gather", "other", "uint8", 0, 0, world, -1);
    expect("MPI_Scatter", "other", "uint8", 0, 0, world, -1);
  } else {
    const long all = 3L * others_count;
    expect("MPI_Reduce", "other", "int32", is_even ? 0 : 3, is_even ? 3 : 0, world, -1);
    expect("MPI_Gather", "other", "int32", is_even ? 0 : 3, is_even ? all : 0, world, -1);
    expect("MPI_Scatter", "other", "int32", is_even ? all : 0, is_even ? 0 : 3, world, -1);
  }
  MPI_Allgather(whole, 6, MPI_INT, others, 6, MPI_INT, inter);
  expect("MPI_Allgather", "other", "int32", 6, 6L * others_count, world, -1);
  if (r < 2) { /* position 0 of each group to position 0 of the other */
    if (is_even) {
      MPI_Send(whole, 8, MPI_INT, 0, 1, inter);
      expect("MPI_Send", "send", "int32", 8, 0, pair(0, 1), -1);
    } else {
      MPI_Recv(whole, 8, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
      expect("MPI_Recv", "recv", "int32", 0, 8, pair(0, 1), -1);
    }
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&own);
}

/* A line of ranks that is not closed: the ends have one neighbour. */
static void neighbours(void) {
  MPI_Comm line;
  const int is_closed = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &is_closed, 0, &line);
  const long real_neighbours = (r > 0) + (r + 1 < n);
  MPI_Neighbor_alltoall(whole, 3, MPI_INT, others, 3, MPI_INT, line);
  expect("MPI_Neighbor_alltoall", "other", "int32", 3 * real_neighbours, 3 * real_neighbours, world, -1);
  MPI_Comm_free(&line);
  MPI_Comm ring; /* each sends to the next */
  const int next = (r + 1) % n;
  const int before = (r + n - 1) % n;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &ring);
  MPI_Neighbor_allgather(real, 5, MPI_DOUBLE, more, 5, MPI_DOUBLE, ring);
  expect("MPI_Neighbor_allgather", "other", "fp64", 5, 5, world, -1);
  MPI_Comm_free(&ring);
}

static void one_sided(void) {
  MPI_Win window;
  const int next = (r + 1) % n;
  MPI_Win_create(more, sizeof more, sizeof more[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(real, 16, MPI_DOUBLE, next, 0, 16, MPI_DOUBLE, window);
  MPI_Win_fence(0, window);
  MPI_Get(real, 17, MPI_DOUBLE, next, 0, 17, MPI_DOUBLE, window);
  MPI_Win_fence(0, window);
  MPI_Accumulate(real, 18, MPI_DOUBLE, r, 0, 18, MPI_DOUBLE, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < 4; ++i) {
    expect("MPI_Win_fence", "other", "uint8", 0, 0, world, -1);
  }
  expect("MPI_Put", "other", "fp64", 16, 0, pair(r, next), -1);
  expect("MPI_Get", "other", "fp64", 0, 17, pair(r, next), -1);
  expect("MPI_Accumulate", "other", "fp64", 18, 0, ranks(r, 1, 1), -1); /* on itself */
  MPI_Win_free(&window);
}

/* What only one of the libraries has. */
static void calls_of_mpi_4(void) {
  MPI_Request request;
#if defined(OPEN_MPI) && defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
  MPIX_Allreduce_init(real, more, 60, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  const char* name = "MPIX_Allreduce_init";
#elif MPI_VERSION >= 4
  MPI_Allreduce_init(real, more, 60, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  const char* name = "MPI_Allreduce_init";
#else
  const char* name = NULL;
#endif
  for (int i = 0; name != NULL && i < 2; ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(name, "all_reduce", "fp64", 60, 60, world, -1);
  }
  if (name != NULL) {
    MPI_Request_free(&request);
  }
#if MPI_VERSION >= 4
  MPI_Bcast_c(real, 61, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  expect("MPI_Bcast_c", "broadcast", "fp64", 61, 61, world, 0);
#endif
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  expect_into(arguments[1], r);
  snprintf(world, sizeof world, "%s", ranks(0, 1, n));
  collectives();
  rooted();
  all_to_alls();
  non_blocking_collectives();
  blocking_messages();
  non_blocking_messages();
  persistent_messages();
  probed_messages();
  failures();
  communicators();
  inter_communicators();
  neighbours();
  one_sided();
  calls_of_mpi_4();
  expect_end();
  MPI_Finalize();
  return 0;
}
