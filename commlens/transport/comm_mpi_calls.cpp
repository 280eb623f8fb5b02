// Part of the module libcommlens-mpi-*.so.
#include "commlens/transport/comm_mpi_calls.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/reduce_kernels.hpp"

namespace commlens {
namespace {

constexpr int k_message_tag = 0;  // of send and recv
constexpr int k_part_tag = 1;     // of the parts of an all_to_all

/// An MPI_User_function. MPI combines pairs of messages, so each of its sums of two-byte floats is rounded.
template <DType Type, ReduceOp Reduction>
void combine_pairs(void* input, void* inout, int* count, MPI_Datatype* /*type*/) {
  const std::array<const std::byte*, 2> inputs{static_cast<const std::byte*>(input),
                                               static_cast<const std::byte*>(inout)};
  const std::array<std::byte*, 1> outputs{static_cast<std::byte*>(inout)};
  combine(Type, Reduction, inputs, outputs, {.count = *count});
}

/// Two-byte floats are sent as integers; MpiJob::op has their type.
MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::fp64:
      return MPI_DOUBLE;
    case DType::fp32:
      return MPI_FLOAT;
    case DType::fp16:
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int16:
      return MPI_INT16_T;
    case DType::int8:
      return MPI_INT8_T;
    case DType::fp8:
    case DType::boolean:
    case DType::uint8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

// Open MPI's nonblocking all_reduce in place reduces to one rank and broadcasts from it (coll/libnbc,
// nbc_iallreduce.c), which sends log2(n) messages of the whole from one rank. Out of place it takes a ring
// from this size and number of ranks on: 2(n-1)/n.
#if defined(OPEN_MPI)
constexpr bool k_copies_inputs = true;
// Its MPI_Reduce_scatter_block reduces to one rank and scatters from it; MPI_Reduce_scatter has a ring and
// recursive halving (coll/tuned, coll_tuned_decision_fixed.c).
constexpr bool k_has_block_algorithms = false;
#else
constexpr bool k_copies_inputs = false;
constexpr bool k_has_block_algorithms = true;
#endif
// MPICH 4.0 reads from MPI_IN_PLACE itself in a blocking MPI_Reduce whose root is not the first rank of its
// machine.
#if defined(MPICH_VERSION)
constexpr bool k_reduces_in_place = false;
#else
constexpr bool k_reduces_in_place = true;
#endif
constexpr int k_ring_ranks = 4;
constexpr Bytes k_ring_bytes{64 << 10};

/// Makes one call on a communicator as MPI calls of at most job.piece each. Every rank splits alike, because
/// sizes agree by the contract of CommCall.
class Issue {
 public:
  /// `work` null: blocking MPI calls; else nonblocking ones, added to it.
  Issue(const MpiJob& job, MPI_Comm comm, const CommCall& call, MpiWork* work)
      : job_(job),
        comm_(comm),
        call_(call),
        type_(mpi_type(call.dtype)),
        peer_(static_cast<int>(call.peer.value)),
        work_(work) {
    MPI_Comm_size(comm, &ranks_);
    MPI_Comm_rank(comm, &rank_);
  }

  void issue() {
    switch (call_.kind) {
      case CommKind::all_reduce:
        return all_reduce();
      case CommKind::all_gather:
        return all_gather();
      case CommKind::reduce_scatter:
        return reduce_scatter();
      case CommKind::all_to_all:
        return all_to_all();
      case CommKind::broadcast:
        if (rank_ == peer_ && !is_in_place()) {
          copy_own_part(in(0), out(0), call_.input * call_.dtype);
        }
        return broadcast(0, call_.output.value, peer_);
      case CommKind::reduce:
        return reduce(0, 0, call_.input.value, peer_);
      case CommKind::send:
        return send(0, call_.input.value, peer_, k_message_tag);
      case CommKind::recv:
        return recv(0, call_.output.value, peer_, k_message_tag);
      case CommKind::barrier:
        return make(
            "MPI_Barrier", [&] { return MPI_Barrier(comm_); },
            [&](MPI_Request* made) { return MPI_Ibarrier(comm_, made); });
      case CommKind::other:
        throw SystemError("a communicator cannot make a call of kind other");
    }
  }

 private:
  template <typename Blocking, typename Nonblocking>
  void make(const char* function, const Blocking& blocking, const Nonblocking& nonblocking) {
    if (work_ == nullptr) {
      mpi_check(blocking(), function);
    } else {
      mpi_check(nonblocking(&work_->add(function).request), function);
    }
  }

  const char* in(std::int64_t element) const {
    return static_cast<const char*>(call_.input_buffer) + (Elements{element} * call_.dtype).value;
  }
  char* out(std::int64_t element) const {
    return static_cast<char*>(call_.output_buffer) + (Elements{element} * call_.dtype).value;
  }
  bool is_in_place() const { return call_.input_buffer == call_.output_buffer; }
  bool fits(Elements count) const { return count * call_.dtype <= job_.piece; }

  /// Calls body(offset, count) for the pieces of `elements`; once for 0.
  template <typename Body>
  void for_pieces(std::int64_t elements, const Body& body) const {
    const std::int64_t most = std::max<std::int64_t>(1, job_.piece.value / size_of(call_.dtype));
    std::int64_t offset = 0;
    do {
      const std::int64_t count = std::min(most, elements - offset);
      body(offset, static_cast<int>(count));
      offset += count;
    } while (offset < elements);
  }

  /// The input of an all_reduce in place: the output itself, or a copy where MPI is better with one.
  const char* input_in_place() {
    const Bytes bytes = call_.input * call_.dtype;
    if (!k_copies_inputs || work_ == nullptr || ranks_ < k_ring_ranks || bytes < k_ring_bytes) {
      return nullptr;
    }
    char* const copy = work_->keep(*job_.buffers, static_cast<std::size_t>(bytes.value));
    copy_own_part(in(0), copy, bytes);
    return copy;
  }

  void all_reduce() {
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    const char* const input = is_in_place() ? input_in_place() : in(0);
    for_pieces(call_.input.value, [&](std::int64_t offset, int count) {
      const void* from = input == nullptr ? MPI_IN_PLACE : input + (Elements{offset} * call_.dtype).value;
      make(
          "MPI_Allreduce", [&] { return MPI_Allreduce(from, out(offset), count, type_, op, comm_); },
          [&](MPI_Request* made) {
            return MPI_Iallreduce(from, out(offset), count, type_, op, comm_, made);
          });
    });
  }

  /// `elements` from `from` of the input to `to` of the root's output.
  void reduce(std::int64_t from, std::int64_t to, std::int64_t elements, int root) {
    if (work_ == nullptr && !k_reduces_in_place && rank_ == root && is_in_place()) {
      MpiBuffers::Memory copy =
          job_.buffers->take(static_cast<std::size_t>((Elements{elements} * call_.dtype).value));
      copy_own_part(in(from), copy.data(), Elements{elements} * call_.dtype);
      reduce_from(copy.data(), to, elements, root);
      job_.buffers->give_back(std::move(copy));
      return;
    }
    reduce_from(rank_ == root && is_in_place() ? nullptr : in(from), to, elements, root);
  }

  /// From `input`; null: in place.
  void reduce_from(const char* input, std::int64_t to, std::int64_t elements, int root) {
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    for_pieces(elements, [&](std::int64_t offset, int count) {
      const void* source = input == nullptr ? MPI_IN_PLACE : input + (Elements{offset} * call_.dtype).value;
      void* destination = rank_ == root ? out(to + offset) : nullptr;
      make(
          "MPI_Reduce", [&] { return MPI_Reduce(source, destination, count, type_, op, root, comm_); },
          [&](MPI_Request* made) {
            return MPI_Ireduce(source, destination, count, type_, op, root, comm_, made);
          });
    });
  }

  void reduce_scatter() {
    const std::int64_t shard = call_.output.value;
    if (!fits(call_.input)) {  // MPI_Reduce_scatter_block takes the whole only, and counts it in int
      for (int root = 0; root < ranks_; ++root) {
        reduce(root * shard, 0, shard, root);
      }
      return;
    }
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    const auto count = static_cast<int>(shard);
    make(
        "MPI_Reduce_scatter_block",
        [&] {
          if (!k_has_block_algorithms) {
            const std::vector<int> counts(static_cast<std::size_t>(ranks_), count);
            return MPI_Reduce_scatter(in(0), out(0), counts.data(), type_, op, comm_);
          }
          return MPI_Reduce_scatter_block(in(0), out(0), count, type_, op, comm_);
        },
        [&](MPI_Request* made) {
          return MPI_Ireduce_scatter_block(in(0), out(0), count, type_, op, comm_, made);
        });
  }

  static void copy_own_part(const char* from, char* to, Bytes bytes) {
    if (bytes.value > 0) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes.value));
    }
  }

  // Where the whole of an all-gather or all-to-all does not fit one MPI call, its parts move one by one. A
  // datatype with gaps would keep one call per piece, but MPICH 4.0 misplaces parts that are more than 2 GiB
  // apart.

  void all_gather() {
    const std::int64_t shard = call_.input.value;
    if (fits(call_.output)) {
      const int count = static_cast<int>(shard);
      return make(
          "MPI_Allgather", [&] { return MPI_Allgather(in(0), count, type_, out(0), count, type_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Iallgather(in(0), count, type_, out(0), count, type_, comm_, made);
          });
    }
    copy_own_part(in(0), out(rank_ * shard), call_.input * call_.dtype);
    for (int root = 0; root < ranks_; ++root) {
      broadcast(root * shard, shard, root);
    }
  }

  void all_to_all() {
    const std::int64_t part = call_.input.value / ranks_;
    if (fits(call_.input)) {
      const int count = static_cast<int>(part);
      return make(
          "MPI_Alltoall", [&] { return MPI_Alltoall(in(0), count, type_, out(0), count, type_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Ialltoall(in(0), count, type_, out(0), count, type_, comm_, made);
          });
    }
    MpiWork messages(nullptr);  // all at once, or ranks would wait for each other
    MpiWork* const whole = work_;
    work_ = whole == nullptr ? &messages : whole;
    copy_own_part(in(rank_ * part), out(rank_ * part), Elements{part} * call_.dtype);
    for (int distance = 1; distance < ranks_; ++distance) {
      const int source = (rank_ - distance + ranks_) % ranks_;
      const int destination = (rank_ + distance) % ranks_;
      recv(source * part, part, source, k_part_tag);
      send(destination * part, part, destination, k_part_tag);
    }
    work_ = whole;
    messages.wait();
  }

  /// `elements` from `first` of the output, which at the root holds them.
  void broadcast(std::int64_t first, std::int64_t elements, int root) {
    for_pieces(elements, [&](std::int64_t offset, int count) {
      make(
          "MPI_Bcast", [&] { return MPI_Bcast(out(first + offset), count, type_, root, comm_); },
          [&](MPI_Request* made) {
            return MPI_Ibcast(out(first + offset), count, type_, root, comm_, made);
          });
    });
  }

  void send(std::int64_t first, std::int64_t elements, int to, int tag) {
    for_pieces(elements, [&](std::int64_t offset, int count) {
      make(
          "MPI_Send", [&] { return MPI_Send(in(first + offset), count, type_, to, tag, comm_); },
          [&](MPI_Request* made) {
            return MPI_Isend(in(first + offset), count, type_, to, tag, comm_, made);
          });
    });
  }

  void recv(std::int64_t first, std::int64_t elements, int from, int tag) {
    for_pieces(elements, [&](std::int64_t offset, int count) {
      const auto bytes = static_cast<int>((Elements{count} * call_.dtype).value);
      char* const to = out(first + offset);
      if (work_ == nullptr) {
        MPI_Status status{};
        mpi_check(MPI_Recv(to, count, type_, from, tag, comm_, &status), "MPI_Recv");
        check_received(status, bytes);
        return;
      }
      MpiWork::Pending& pending = work_->add("MPI_Recv");
      pending.received_bytes = bytes;
      mpi_check(MPI_Irecv(to, count, type_, from, tag, comm_, &pending.request), pending.function);
    });
  }

  const MpiJob& job_;
  MPI_Comm comm_;
  const CommCall& call_;
  MPI_Datatype type_;
  int peer_;
  MpiWork* work_;
  int ranks_ = 1;
  int rank_ = 0;
};

}  // namespace

template <DType Type>
MpiOperations::Pair MpiOperations::own() {
  Pair pair;
  mpi_check(MPI_Op_create(&combine_pairs<Type, ReduceOp::sum>, 1, &pair.sum), "MPI_Op_create");
  mpi_check(MPI_Op_create(&combine_pairs<Type, ReduceOp::max>, 1, &pair.max), "MPI_Op_create");
  return pair;
}

MpiOperations MpiOperations::made() {
  MpiOperations operations;
  operations.fp16_ = own<DType::fp16>();
  operations.bf16_ = own<DType::bf16>();
  operations.int16_ = own<DType::int16>();
  operations.int8_ = own<DType::int8>();
  operations.uint8_ = own<DType::uint8>();
  return operations;
}

MPI_Op MpiOperations::op(DType type, ReduceOp reduction) const {
  if (!can_combine(type)) {
    throw SystemError(fmt::format("MPI cannot add or compare {}", name_of(type)));
  }
  return reduction == ReduceOp::sum ? of(type).sum : of(type).max;
}

const MpiOperations::Pair& MpiOperations::of(DType type) const {
  switch (type) {
    case DType::fp16:
      return fp16_;
    case DType::bf16:
      return bf16_;
    case DType::int16:
      return int16_;
    case DType::int8:
      return int8_;
    case DType::uint8:
      return uint8_;
    case DType::fp64:
    case DType::fp32:
    case DType::fp8:
    case DType::boolean:
    case DType::int64:
    case DType::int32:
      break;
  }
  return plain_;
}

std::unique_ptr<Work> start_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call) {
  auto work = std::make_unique<MpiWork>(job.progress.get());
  Issue(job, comm, call, work.get()).issue();
  work->issued();
  return work;
}

void run_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call) {
  Issue(job, comm, call, nullptr).issue();
}

}  // namespace commlens
