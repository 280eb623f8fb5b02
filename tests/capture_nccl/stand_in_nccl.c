/* Stands in for libnccl.so.2 (and librccl.so.1): the same functions, no communication. Counts what it is
 * asked for. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char internal[128];
} ncclUniqueId;
typedef struct Comm {
  int rank, size, device, is_aborted;
}* ncclComm_t;

/* What the GPU would do: 250 us of work in the stream (stand_in_cuda.c; absent where there is no GPU). */
__attribute__((weak)) void stand_in_gpu_work(void* stream, int64_t ns);

/* 777 elements: a kernel that never ends. */
static int64_t work_of(size_t count) { return count == 777 ? INT64_MAX / 8 : 250000; }

static int group_depth;
static void* queued[4096];
static int queued_count;
int stand_in_calls; /* for the program */

static int enqueue(size_t count, ncclComm_t comm, void* stream) {
  if (comm == NULL || comm->is_aborted || count == 999) {
    return 4; /* ncclInvalidArgument */
  }
  ++stand_in_calls;
  if (group_depth > 0) {
    queued[queued_count++ % 4096] = stream;
  } else if (stand_in_gpu_work) {
    stand_in_gpu_work(stream, work_of(count));
  }
  return 0;
}

/* NOLINTBEGIN(readability-identifier-naming,readability-function-size): as NCCL has them */
int ncclGroupStart(void) {
  ++group_depth;
  return 0;
}
int ncclGroupEnd(void) {
  if (--group_depth == 0) {
    for (int at = 0; at < queued_count; ++at) { /* one kernel for each stream, as NCCL makes of a group */
      int is_first = 1;
      for (int before = 0; before < at; ++before) {
        is_first &= queued[before] != queued[at];
      }
      if (is_first && stand_in_gpu_work) {
        stand_in_gpu_work(queued[at], 250000);
      }
    }
    queued_count = 0;
  }
  return 0;
}
int ncclGroupSimulateEnd(void* info) {
  (void)info;
  --group_depth;
  queued_count = 0;
  return 0;
}

int ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  (void)id;
  *comm = malloc(sizeof **comm);
  **comm = (struct Comm){.rank = rank, .size = size, .device = 0};
  return 0;
}
int ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, void* config) {
  (void)config;
  return ncclCommInitRank(comm, size, id, rank); /* through our own name, as a library may */
}
int ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  for (int rank = 0; rank < count; ++rank) {
    ncclUniqueId id = {{0}};
    ncclCommInitRank(&comms[rank], count, id, rank);
    comms[rank]->device = devices ? devices[rank] : rank;
  }
  return 0;
}
/* Colours are rank % 2, keys the rank turned round. */
int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, void* config) {
  (void)config;
  *made = NULL;
  if (color >= 0) {
    *made = malloc(sizeof **made);
    **made = (struct Comm){.rank = key / 2, .size = comm->size / 2, .device = comm->device};
  }
  return 0;
}
int ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->size;
  return 0;
}
int ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return 0;
}
int ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->device;
  return 0;
}
int ncclCommDestroy(ncclComm_t comm) {
  free(comm);
  return 0;
}
int ncclCommAbort(ncclComm_t comm) {
  comm->is_aborted = 1;
  return 0;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, ncclComm_t comm, void* stream) {
  (void)from, (void)to, (void)type, (void)op;
  return enqueue(count, comm, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, ncclComm_t comm,
                  void* stream) {
  (void)from, (void)to, (void)type, (void)root;
  return enqueue(count, comm, stream);
}
int ncclBcast(void* buffer, size_t count, int type, int root, ncclComm_t comm, void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
int ncclReduce(const void* from, void* to, size_t count, int type, int op, int root, ncclComm_t comm,
               void* stream) {
  (void)from, (void)to, (void)type, (void)op, (void)root;
  return enqueue(count, comm, stream);
}
int ncclAllGather(const void* from, void* to, size_t count, int type, ncclComm_t comm, void* stream) {
  (void)from, (void)to, (void)type;
  return enqueue(count, comm, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, ncclComm_t comm,
                      void* stream) {
  (void)from, (void)to, (void)type, (void)op;
  return enqueue(count, comm, stream);
}
int ncclSend(const void* from, size_t count, int type, int peer, ncclComm_t comm, void* stream) {
  (void)from, (void)type, (void)peer;
  return enqueue(count, comm, stream);
}
int ncclRecv(void* to, size_t count, int type, int peer, ncclComm_t comm, void* stream) {
  (void)to, (void)type, (void)peer;
  return enqueue(count, comm, stream);
}
/* As RCCL: of sends and receives, through their public names. */
int ncclAllToAll(const void* from, void* to, size_t count, int type, ncclComm_t comm, void* stream) {
  ncclGroupStart();
  for (int peer = 0; peer < comm->size; ++peer) {
    ncclSend(from, count, type, peer, comm, stream);
    ncclRecv(to, count, type, peer, comm, stream);
  }
  return ncclGroupEnd();
}
int ncclAlltoAll(const void* from, void* to, size_t count, int type, ncclComm_t comm, void* stream) {
  return ncclAllToAll(from, to, count, type, comm, stream);
}
int ncclAllToAllv(const void* from, const size_t sent[], const size_t from_places[], void* to,
                  const size_t received[], const size_t to_places[], int type, ncclComm_t comm,
                  void* stream) {
  (void)from_places, (void)to_places, (void)received;
  return ncclAllToAll(from, to, sent[0], type, comm, stream);
}
int ncclScatter(const void* from, void* to, size_t count, int type, int root, ncclComm_t comm, void* stream) {
  (void)from, (void)to, (void)type, (void)root;
  return enqueue(count, comm, stream);
}
/* No ncclGather: an older library. */
/* NOLINTEND(readability-identifier-naming,readability-function-size) */
