// libcommlens-nccl.so: is loaded before NCCL or RCCL (LD_PRELOAD), under the names of nccl.h.
#include <cstddef>

#include "commlens/capture/nccl_export.hpp"
#include "commlens/capture/nccl_shim_calls.hpp"

// NOLINTBEGIN(readability-function-size,readability-identifier-naming): names and parameters are those of
// nccl.h (2.4 to 2.29) and rccl.h (ROCm 5 and 6)
using commlens::capture::call_real;
using commlens::capture::NcclFunction;
using commlens::capture::NcclId;
using commlens::capture::ShimComms;
using commlens::capture::ShimThread;

COMMLENS_NCCL_EXPORT int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op,
                                       void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({.function = NcclFunction::all_reduce,
             .count = count,
             .dtype = type,
             .reduction = op,
             .comm = comm,
             .stream = stream},
            [&] {
              return call_real(COMMLENS_NCCL_REAL(ncclAllReduce), from, to, count, type, op, comm, stream);
            });
}

COMMLENS_NCCL_EXPORT int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                                       void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::broadcast, count, type, root, -1, comm, stream}, [&] {
        return call_real(COMMLENS_NCCL_REAL(ncclBroadcast), from, to, count, type, root, comm, stream);
      });
}

COMMLENS_NCCL_EXPORT int ncclBcast(void* buffer, std::size_t count, int type, int root, void* comm,
                                   void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::broadcast, count, type, root, -1, comm, stream}, [&] {
        return call_real(COMMLENS_NCCL_REAL(ncclBcast), buffer, count, type, root, comm, stream);
      });
}

COMMLENS_NCCL_EXPORT int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root,
                                    void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::reduce, count, type, root, op, comm, stream}, [&] {
        return call_real(COMMLENS_NCCL_REAL(ncclReduce), from, to, count, type, op, root, comm, stream);
      });
}

COMMLENS_NCCL_EXPORT int ncclAllGather(const void* from, void* to, std::size_t sent, int type, void* comm,
                                       void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({.function = NcclFunction::all_gather,
             .count = sent,
             .dtype = type,
             .comm = comm,
             .stream = stream},
            [&] { return call_real(COMMLENS_NCCL_REAL(ncclAllGather), from, to, sent, type, comm, stream); });
}

COMMLENS_NCCL_EXPORT int ncclReduceScatter(const void* from, void* to, std::size_t received, int type, int op,
                                           void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({.function = NcclFunction::reduce_scatter,
             .count = received,
             .dtype = type,
             .reduction = op,
             .comm = comm,
             .stream = stream},
            [&] {
              return call_real(COMMLENS_NCCL_REAL(ncclReduceScatter), from, to, received, type, op, comm,
                               stream);
            });
}

// NCCL's name and RCCL's.
COMMLENS_NCCL_EXPORT int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, void* comm,
                                      void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({.function = NcclFunction::all_to_all,
             .count = count,
             .dtype = type,
             .comm = comm,
             .stream = stream},
            [&] { return call_real(COMMLENS_NCCL_REAL(ncclAlltoAll), from, to, count, type, comm, stream); });
}
COMMLENS_NCCL_EXPORT int ncclAllToAll(const void* from, void* to, std::size_t count, int type, void* comm,
                                      void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({.function = NcclFunction::all_to_all,
             .count = count,
             .dtype = type,
             .comm = comm,
             .stream = stream},
            [&] { return call_real(COMMLENS_NCCL_REAL(ncclAllToAll), from, to, count, type, comm, stream); });
}

COMMLENS_NCCL_EXPORT int ncclAllToAllv(const void* from, const std::size_t sent[],
                                       const std::size_t from_places[], void* to,
                                       const std::size_t received[], const std::size_t to_places[], int type,
                                       void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({.function = NcclFunction::all_to_all,
             .dtype = type,
             .comm = comm,
             .stream = stream,
             .sent = sent,
             .received = received},
            [&] {
              return call_real(COMMLENS_NCCL_REAL(ncclAllToAllv), from, sent, from_places, to, received,
                               to_places, type, comm, stream);
            });
}

COMMLENS_NCCL_EXPORT int ncclGather(const void* from, void* to, std::size_t count, int type, int root,
                                    void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::gather, count, type, root, -1, comm, stream}, [&] {
        return call_real(COMMLENS_NCCL_REAL(ncclGather), from, to, count, type, root, comm, stream);
      });
}

COMMLENS_NCCL_EXPORT int ncclScatter(const void* from, void* to, std::size_t count, int type, int root,
                                     void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::scatter, count, type, root, -1, comm, stream}, [&] {
        return call_real(COMMLENS_NCCL_REAL(ncclScatter), from, to, count, type, root, comm, stream);
      });
}

COMMLENS_NCCL_EXPORT int ncclSend(const void* from, std::size_t count, int type, int peer, void* comm,
                                  void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::send, count, type, peer, -1, comm, stream},
            [&] { return call_real(COMMLENS_NCCL_REAL(ncclSend), from, count, type, peer, comm, stream); });
}

COMMLENS_NCCL_EXPORT int ncclRecv(void* to, std::size_t count, int type, int peer, void* comm, void* stream) {
  return ShimThread::of_this()
      .from(__builtin_return_address(0))
      .call({NcclFunction::recv, count, type, peer, -1, comm, stream},
            [&] { return call_real(COMMLENS_NCCL_REAL(ncclRecv), to, count, type, peer, comm, stream); });
}

COMMLENS_NCCL_EXPORT int ncclGroupStart() {
  return ShimThread::of_this().start_group([] { return call_real(COMMLENS_NCCL_REAL(ncclGroupStart)); });
}

COMMLENS_NCCL_EXPORT int ncclGroupEnd() {
  return ShimThread::of_this().end_group([] { return call_real(COMMLENS_NCCL_REAL(ncclGroupEnd)); }, true);
}

COMMLENS_NCCL_EXPORT int ncclGroupSimulateEnd(void* info) {
  return ShimThread::of_this().end_group(
      [&] { return call_real(COMMLENS_NCCL_REAL(ncclGroupSimulateEnd), info); }, false);
}

COMMLENS_NCCL_EXPORT int ncclCommInitRank(void** comm, int size, NcclId id, int rank) {
  ShimThread& thread = ShimThread::of_this();
  const int code =
      thread.apart([&] { return call_real(COMMLENS_NCCL_REAL(ncclCommInitRank), comm, size, id, rank); });
  if (commlens::capture::is_good(code)) {
    thread.made({.comm = comm, .id = id, .rank = rank, .size = size});
  }
  return code;
}

COMMLENS_NCCL_EXPORT int ncclCommInitRankConfig(void** comm, int size, NcclId id, int rank, void* config) {
  ShimThread& thread = ShimThread::of_this();
  const int code = thread.apart(
      [&] { return call_real(COMMLENS_NCCL_REAL(ncclCommInitRankConfig), comm, size, id, rank, config); });
  if (commlens::capture::is_good(code)) {
    thread.made({.comm = comm, .id = id, .rank = rank, .size = size});
  }
  return code;
}

COMMLENS_NCCL_EXPORT int ncclCommInitRankScalable(void** comm, int size, int rank, int ids, NcclId* id,
                                                  void* config) {
  ShimThread& thread = ShimThread::of_this();
  const int code = thread.apart([&] {
    return call_real(COMMLENS_NCCL_REAL(ncclCommInitRankScalable), comm, size, rank, ids, id, config);
  });
  if (commlens::capture::is_good(code) && id != nullptr) {
    thread.made({.comm = comm, .id = *id, .rank = rank, .size = size});
  }
  return code;
}

COMMLENS_NCCL_EXPORT int ncclCommInitAll(void** comms, int count, const int* devices) {
  const int code = ShimThread::of_this().apart(
      [&] { return call_real(COMMLENS_NCCL_REAL(ncclCommInitAll), comms, count, devices); });
  if (commlens::capture::is_good(code)) {
    ShimComms::of_process().made_all(comms, count);
  }
  return code;
}

COMMLENS_NCCL_EXPORT int ncclCommSplit(void* comm, int color, int key, void** made, void* config) {
  ShimThread& thread = ShimThread::of_this();
  const std::uint64_t split = ShimComms::of_process().next_split(comm, color);
  const int code = thread.apart(
      [&] { return call_real(COMMLENS_NCCL_REAL(ncclCommSplit), comm, color, key, made, config); });
  if (commlens::capture::is_good(code) && color >= 0) {  // NCCL_SPLIT_NOCOLOR is -1
    thread.made({.comm = made, .split = split});
  }
  return code;
}

COMMLENS_NCCL_EXPORT int ncclCommShrink(void* comm, int* excluded, int count, void** made, void* config,
                                        int flags) {
  ShimThread& thread = ShimThread::of_this();
  const std::uint64_t split = ShimComms::of_process().next_split(comm, -2);
  const int code = thread.apart([&] {
    return call_real(COMMLENS_NCCL_REAL(ncclCommShrink), comm, excluded, count, made, config, flags);
  });
  if (commlens::capture::is_good(code)) {
    thread.made({.comm = made, .split = split});
  }
  return code;
}

COMMLENS_NCCL_EXPORT int ncclCommFinalize(void* comm) {
  commlens::capture::look_at_pending(commlens::capture::k_all_pending);
  return ShimThread::of_this().apart([&] { return call_real(COMMLENS_NCCL_REAL(ncclCommFinalize), comm); });
}

// The handle may be given to another communicator as soon as it is given back.
COMMLENS_NCCL_EXPORT int ncclCommDestroy(void* comm) {
  commlens::capture::look_at_pending(commlens::capture::k_all_pending);
  ShimComms::of_process().gone(comm);
  return ShimThread::of_this().apart([&] { return call_real(COMMLENS_NCCL_REAL(ncclCommDestroy), comm); });
}

COMMLENS_NCCL_EXPORT int ncclCommAbort(void* comm) {
  commlens::capture::look_at_pending(commlens::capture::k_all_pending);
  ShimComms::of_process().gone(comm);
  return ShimThread::of_this().apart([&] { return call_real(COMMLENS_NCCL_REAL(ncclCommAbort), comm); });
}
// NOLINTEND(readability-function-size,readability-identifier-naming)
