/* The calls that calls.c does not make: modes of sending, other ways for requests to end, all non-blocking
 * collectives, neighbours, one-sided calls with locks and with groups: more_calls DIRECTORY. At least two ranks.
 */
#include <mpi.h>
#include <string.h>

#include "expected.h"

static int n;
static int r;
static int next;
static int before;
static char world[256];
static char to_next[64];
static char from_before[64];

static double real[4096];
static double more[4096];
static int whole[4096];
static int others[4096];

static void send_modes(void) {
  MPI_Request requests[2];
  static char room[4096 + 4 * MPI_BSEND_OVERHEAD];
  MPI_Buffer_attach(room, sizeof room);
  MPI_Bsend(whole, 3, MPI_INT, next, 1, MPI_COMM_WORLD);
  expect("MPI_Bsend", "send", "int32", 3, 0, to_next, -1);
  MPI_Recv(others, 9, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect("MPI_Recv", "recv", "int32", 0, 3, from_before, -1);
  MPI_Ibsend(whole, 4, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(others, 9, MPI_INT, before, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  expect("MPI_Ibsend", "send", "int32", 4, 0, to_next, -1);
  expect("MPI_Irecv", "recv", "int32", 0, 4, from_before, -1);
  void* given_back = NULL;
  int size = 0;
  MPI_Buffer_detach((void*)&given_back, &size);
  for (int i = 0; i < 2; ++i) { /* a ready send needs its receive to be there */
    MPI_Irecv(others, 9, MPI_INT, before, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (i == 0) {
      MPI_Rsend(whole, 5, MPI_INT, next, 3, MPI_COMM_WORLD);
      requests[1] = MPI_REQUEST_NULL;
    } else {
      MPI_Irsend(whole, 5, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect("MPI_Irecv", "recv", "int32", 0, 5, from_before, -1);
    expect("MPI_Barrier", "barrier", "uint8", 0, 0, world, -1);
    expect(i == 0 ? "MPI_Rsend" : "MPI_Irsend", "send", "int32", 5, 0, to_next, -1);
  }
  MPI_Ssend_init(whole, 6, MPI_INT, next, 4, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(others, 9, MPI_INT, before, 4, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 2; ++i) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect("MPI_Ssend_init", "send", "int32", 6, 0, to_next, -1);
    expect("MPI_Recv_init", "recv", "int32", 0, 6, from_before, -1);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

/* A message to the next rank, received by `requests[0]`, which the caller ends. */
static void post(MPI_Request requests[2], int count) {
  MPI_Irecv(more, 64, MPI_DOUBLE, before, 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(real, count, MPI_DOUBLE, next, 5, MPI_COMM_WORLD, &requests[1]);
  expect("MPI_Irecv", "recv", "fp64", 0, count, from_before, -1);
  expect("MPI_Isend", "send", "fp64", count, 0, to_next, -1);
}

static void ends_of_requests(void) {
  MPI_Request requests[2];
  int flag = 0;
  int index = 0;
  int indices[2];
  post(requests, 10);
  for (int ended = 0; ended < 2; ended += flag) {
    MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
  }
  post(requests, 11);
  for (int ended = 0, now = 0; ended < 2; ended += now) {
    MPI_Testsome(2, requests, &now, indices, MPI_STATUSES_IGNORE);
  }
  post(requests, 12);
  for (flag = 0; !flag;) { /* complete, and still there */
    MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  post(requests, 13);
  MPI_Request_free(&requests[1]); /* the send ends by itself */
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  expect("MPI_Barrier", "barrier", "uint8", 0, 0, world, -1);
}

static void wait_for(MPI_Request* request) { MPI_Wait(request, MPI_STATUS_IGNORE); }

static void non_blocking_collectives(void) {
  MPI_Request request;
  int counts[64];
  int places[64];
  int bytes[64];
  MPI_Datatype types[64];
  for (int i = 0; i < n; ++i) {
    counts[i] = 2;
    places[i] = 4 * i;
    bytes[i] = 32 * i;
    types[i] = MPI_DOUBLE;
  }
  MPI_Igather(whole, 2, MPI_INT, others, 2, MPI_INT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Igather", "other", "int32", 2, r == 0 ? 2L * n : 0, world, 0);
  MPI_Igatherv(whole, 2, MPI_INT, others, counts, places, MPI_INT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Igatherv", "other", "int32", 2, r == 0 ? 2L * n : 0, world, 0);
  MPI_Iscatter(whole, 2, MPI_INT, others, 2, MPI_INT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Iscatter", "other", "int32", r == 0 ? 2L * n : 0, 2, world, 0);
  MPI_Iscatterv(whole, counts, places, MPI_INT, others, 2, MPI_INT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Iscatterv", "other", "int32", r == 0 ? 2L * n : 0, 2, world, 0);
  MPI_Iallgatherv(real, 2, MPI_DOUBLE, more, counts, places, MPI_DOUBLE, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Iallgatherv", "all_gather", "fp64", 2, 2L * n, world, -1);
  MPI_Ialltoall(real, 3, MPI_DOUBLE, more, 3, MPI_DOUBLE, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Ialltoall", "all_to_all", "fp64", 3L * n, 3L * n, world, -1);
  MPI_Ialltoallv(real, counts, places, MPI_DOUBLE, more, counts, places, MPI_DOUBLE, MPI_COMM_WORLD,
                 &request);
  wait_for(&request);
  expect("MPI_Ialltoallv", "all_to_all", "fp64", 2L * n, 2L * n, world, -1);
  MPI_Ialltoallw(real, counts, bytes, types, more, counts, bytes, types, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Ialltoallw", "all_to_all", "uint8", 16L * n, 16L * n, world, -1);
  MPI_Ireduce(real, more, 7, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Ireduce", "reduce", "fp64", 7, 7, world, 1);
  MPI_Ireduce_scatter_block(real, more, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Ireduce_scatter_block", "reduce_scatter", "fp64", 4L * n, 4, world, -1);
  MPI_Ireduce_scatter(real, more, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Ireduce_scatter", "reduce_scatter", "fp64", 2L * n, 2, world, -1);
  MPI_Iscan(real, more, 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Iscan", "other", "fp64", 5, 5, world, -1);
  MPI_Iexscan(real, more, 6, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
  expect("MPI_Iexscan", "other", "fp64", 6, 6, world, -1);
}

/* A ring: each rank has two neighbours, which are one and the same on two ranks. */
static void neighbours(void) {
  MPI_Comm ring;
  const int is_closed = 1;
  MPI_Request request;
  const int counts[2] = {2, 3};
  const int places[2] = {0, 8};
  const MPI_Aint bytes[2] = {0, 64};
  const MPI_Datatype types[2] = {MPI_DOUBLE, MPI_DOUBLE};
  const int same[2] = {3, 3};
  MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &is_closed, 0, &ring);
  MPI_Ineighbor_allgather(real, 4, MPI_DOUBLE, more, 4, MPI_DOUBLE, ring, &request);
  wait_for(&request);
  expect("MPI_Ineighbor_allgather", "other", "fp64", 4, 8, world, -1);
  MPI_Ineighbor_alltoall(real, 4, MPI_DOUBLE, more, 4, MPI_DOUBLE, ring, &request);
  wait_for(&request);
  expect("MPI_Ineighbor_alltoall", "other", "fp64", 8, 8, world, -1);
  MPI_Neighbor_allgatherv(real, 3, MPI_DOUBLE, more, same, places, MPI_DOUBLE, ring);
  expect("MPI_Neighbor_allgatherv", "other", "fp64", 3, 6, world, -1);
  const int mirrored[2] = {3, 2}; /* the left neighbour sends what it has for its right one */
  MPI_Neighbor_alltoallv(real, counts, places, MPI_DOUBLE, more, mirrored, places, MPI_DOUBLE, ring);
  expect("MPI_Neighbor_alltoallv", "other", "fp64", 5, 5, world, -1);
  MPI_Neighbor_alltoallw(real, counts, bytes, types, more, mirrored, bytes, types, ring);
  expect("MPI_Neighbor_alltoallw", "other", "fp64", 5, 5, world, -1);
  MPI_Comm_free(&ring);
}

static void one_sided_with_locks(MPI_Win window) {
  MPI_Request request;
  double swapped = 0;
  MPI_Win_lock_all(0, window);
  MPI_Rput(real, 2, MPI_DOUBLE, next, 0, 2, MPI_DOUBLE, window, &request);
  wait_for(&request);
  MPI_Win_flush(next, window);
  MPI_Rget(real, 3, MPI_DOUBLE, next, 0, 3, MPI_DOUBLE, window, &request);
  wait_for(&request);
  MPI_Raccumulate(real, 4, MPI_DOUBLE, next, 0, 4, MPI_DOUBLE, MPI_SUM, window, &request);
  wait_for(&request);
  MPI_Win_flush_all(window);
  MPI_Rget_accumulate(real, 5, MPI_DOUBLE, more, 5, MPI_DOUBLE, next, 0, 5, MPI_DOUBLE, MPI_SUM, window,
                      &request);
  wait_for(&request);
  MPI_Win_flush_local(next, window);
  MPI_Win_flush_local_all(window);
  MPI_Win_unlock_all(window);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
  MPI_Get_accumulate(real, 6, MPI_DOUBLE, more, 6, MPI_DOUBLE, next, 0, 6, MPI_DOUBLE, MPI_REPLACE, window);
  MPI_Win_unlock(next, window);
  MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
  MPI_Fetch_and_op(real, &swapped, MPI_DOUBLE, next, 0, MPI_SUM, window);
  MPI_Fetch_and_op(NULL, &swapped, MPI_DOUBLE, next, 0, MPI_NO_OP, window);  /* an atomic read */
  MPI_Win_unlock(next, window);
  expect("MPI_Rput", "other", "fp64", 2, 0, to_next, -1);
  expect("MPI_Rget", "other", "fp64", 0, 3, to_next, -1);
  expect("MPI_Raccumulate", "other", "fp64", 4, 0, to_next, -1);
  expect("MPI_Rget_accumulate", "other", "fp64", 5, 5, to_next, -1);
  expect("MPI_Get_accumulate", "other", "fp64", 6, 6, to_next, -1);
  expect("MPI_Fetch_and_op", "other", "fp64", 1, 1, to_next, -1);
  expect("MPI_Fetch_and_op", "other", "fp64", 0, 1, to_next, -1);
  const char* with_all[] = {"MPI_Win_lock_all", "MPI_Win_flush_all", "MPI_Win_flush_local_all",
                            "MPI_Win_unlock_all"};
  const char* with_next[] = {"MPI_Win_flush", "MPI_Win_flush_local", "MPI_Win_lock",
                             "MPI_Win_lock",  "MPI_Win_unlock",      "MPI_Win_unlock"};
  for (int i = 0; i < 4; ++i) {
    expect(with_all[i], "other", "uint8", 0, 0, world, -1);
  }
  for (int i = 0; i < 6; ++i) {
    expect(with_next[i], "other", "uint8", 0, 0, to_next, -1);
  }
}

/* Post, start, complete, wait: on the ring, with long integers for the comparison. */
static void one_sided_with_groups(void) {
  static long long cells[16];
  MPI_Win window;
  MPI_Group all;
  MPI_Group origin;
  MPI_Group target;
  long long wanted = 1;
  long long compared = 0;
  long long found = 0;
  MPI_Win_create(cells, sizeof cells, sizeof cells[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &before, &origin);
  MPI_Group_incl(all, 1, &next, &target);
  MPI_Win_post(origin, 0, window);
  MPI_Win_start(target, 0, window);
  MPI_Compare_and_swap(&wanted, &compared, &found, MPI_LONG_LONG, next, 0, window);
  MPI_Win_complete(window);
  MPI_Win_wait(window);
  expect("MPI_Compare_and_swap", "other", "int64", 2, 1, to_next, -1);
  const char* with_all[] = {"MPI_Win_post", "MPI_Win_start", "MPI_Win_complete", "MPI_Win_wait"};
  for (int i = 0; i < 4; ++i) {
    expect(with_all[i], "other", "uint8", 0, 0, world, -1);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
  MPI_Win_free(&window);
}

/* Exchanges that complete later and messages in parts, where the library has them. */
static void calls_of_mpi_4(void) {
#if MPI_VERSION >= 4
  MPI_Request requests[2];
  MPI_Isendrecv(real, 8, MPI_DOUBLE, next, 7, more, 20, MPI_DOUBLE, before, 7, MPI_COMM_WORLD, &requests[0]);
  wait_for(&requests[0]);
  expect("MPI_Isendrecv", "send", "fp64", 8, 0, to_next, -1);
#ifndef MPICH_VERSION /* it does not tell what came */
  expect("MPI_Isendrecv", "recv", "fp64", 0, 8, from_before, -1);
#endif
  MPI_Psend_init(real, 2, 5, MPI_DOUBLE, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[0]); /* 2 parts of 5 */
  MPI_Precv_init(more, 2, 5, MPI_DOUBLE, before, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int i = 0; i < 2; ++i) {
    MPI_Startall(2, requests);
    MPI_Pready(0, requests[0]);
    MPI_Pready(1, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect("MPI_Psend_init", "send", "fp64", 10, 0, to_next, -1);
    expect("MPI_Precv_init", "recv", "fp64", 0, 10, from_before, -1);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  MPI_Send_c(real, 9, MPI_DOUBLE, MPI_PROC_NULL, 8, MPI_COMM_WORLD); /* no message */
  MPI_Gather_c(whole, 2, MPI_INT, others, 2, MPI_INT, 0, MPI_COMM_WORLD);
  expect("MPI_Gather_c", "other", "int32", 2, r == 0 ? 2L * n : 0, world, 0);
#endif
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  next = (r + 1) % n;
  before = (r + n - 1) % n;
  for (int i = 0; i < n; ++i) {
    sprintf(world + strlen(world), "%s%d", i == 0 ? "" : ",", i);
  }
  sprintf(to_next, "%d,%d", r, next);
  sprintf(from_before, "%d,%d", before, r);
  expect_into(arguments[1], r);
  send_modes();
  ends_of_requests();
  non_blocking_collectives();
  neighbours();
  MPI_Win window;
  MPI_Win_create(more, sizeof more, sizeof more[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  one_sided_with_locks(window);
  MPI_Barrier(MPI_COMM_WORLD);
  expect("MPI_Barrier", "barrier", "uint8", 0, 0, world, -1);
  MPI_Win_free(&window);
  one_sided_with_groups();
  calls_of_mpi_4();
  expect_end();
  MPI_Finalize();
  return 0;
}
