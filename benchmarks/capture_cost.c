/* What recording an MPI call costs: each call is made through the capture library and without it, in turns of
 * one run, on the communicator of this rank alone, where the call itself is cheapest. Run it as commlens
 * record -- build/release/benchmarks/capture_cost_openmpi Prints medians over the pairs, in ns per call, and
 * the 5 % and 95 % quantiles of the pairs' differences; then the median over all pairs of blocking calls
 * together. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef OPEN_MPI
#define MPI_LIBRARY "libmpi.so.40"
#else
#define MPI_LIBRARY "libmpich.so.12"
#endif

enum { pairs = 2000, calls = 100, most_kinds = 8 };

static double buffer[64];
static double other[64];

typedef int Allreduce(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int Bcast(void*, int, MPI_Datatype, int, MPI_Comm);
typedef int Reduce(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
typedef int Allgather(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
typedef int Barrier(MPI_Comm);
typedef int Sendrecv(const void*, int, MPI_Datatype, int, int, void*, int, MPI_Datatype, int, int, MPI_Comm,
                     MPI_Status*);
typedef int Isend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
typedef int Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
typedef int Waitall(int, MPI_Request*, MPI_Status*);

static struct {
  Allreduce* allreduce;
  Bcast* bcast;
  Reduce* reduce;
  Allgather* allgather;
  Barrier* barrier;
  Sendrecv* sendrecv;
  Isend* isend;
  Irecv* irecv;
  Waitall* waitall;
} recorded, bare, *now;

static void allreduce(void) { now->allreduce(buffer, other, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF); }
static void bcast(void) { now->bcast(buffer, 8, MPI_DOUBLE, 0, MPI_COMM_SELF); }
static void reduce(void) { now->reduce(buffer, other, 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_SELF); }
static void allgather(void) { now->allgather(buffer, 8, MPI_DOUBLE, other, 8, MPI_DOUBLE, MPI_COMM_SELF); }
static void barrier(void) { now->barrier(MPI_COMM_SELF); }
static void sendrecv(void) {
  now->sendrecv(buffer, 8, MPI_DOUBLE, 0, 0, other, 8, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}
static void non_blocking(void) {
  MPI_Request requests[2];
  now->irecv(other, 8, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[0]);
  now->isend(buffer, 8, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[1]);
  now->waitall(2, requests, MPI_STATUSES_IGNORE);
}

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static double time_of(void (*call)(void)) {
  const double start = now_ns();
  for (int i = 0; i < calls; ++i) {
    call();
  }
  return (now_ns() - start) / calls;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}
static double quantile(double* values, int count, double q) {
  qsort(values, (size_t)count, sizeof values[0], ascending);
  return values[(int)(q * (count - 1))];
}

static double blocking[most_kinds * pairs];
static int blocking_count;

/* `messages`: records per call; a cost is per record. */
static void measure(const char* name, void (*call)(void), int messages, int is_blocking) {
  static double with[pairs];
  static double without[pairs];
  static double difference[pairs];
  for (int i = 0; i < pairs; ++i) { /* who goes first alternates */
    for (int turn = 0; turn < 2; ++turn) {
      now = turn == i % 2 ? &recorded : &bare;
      (now == &recorded ? with : without)[i] = time_of(call);
    }
    difference[i] = (with[i] - without[i]) / messages;
    if (is_blocking) {
      blocking[blocking_count++] = difference[i];
    }
  }
  printf("%-32s bare %6.0f  recorded %6.0f  cost per recorded call %5.1f  (%.1f to %.1f)\n", name,
         quantile(without, pairs, 0.5), quantile(with, pairs, 0.5), quantile(difference, pairs, 0.5),
         quantile(difference, pairs, 0.05), quantile(difference, pairs, 0.95));
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  void* library = dlopen(MPI_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
#define FIND(field, name)                               \
  *(void**)&bare.field = dlsym(library, "PMPI_" #name); \
  *(void**)&recorded.field = dlsym(RTLD_DEFAULT, "MPI_" #name)
  FIND(allreduce, Allreduce);
  FIND(bcast, Bcast);
  FIND(reduce, Reduce);
  FIND(allgather, Allgather);
  FIND(barrier, Barrier);
  FIND(sendrecv, Sendrecv);
  FIND(isend, Isend);
  FIND(irecv, Irecv);
  FIND(waitall, Waitall);
  measure("MPI_Allreduce", allreduce, 1, 1);
  measure("MPI_Bcast", bcast, 1, 1);
  measure("MPI_Reduce", reduce, 1, 1);
  measure("MPI_Allgather", allgather, 1, 1);
  measure("MPI_Barrier", barrier, 1, 1);
  measure("MPI_Sendrecv (2 messages)", sendrecv, 2, 1);
  printf("%-32s %.1f\n", "blocking calls, all pairs", quantile(blocking, blocking_count, 0.5));
  measure("MPI_Irecv + MPI_Isend + Waitall", non_blocking, 2, 0);
  MPI_Finalize();
  return 0;
}
