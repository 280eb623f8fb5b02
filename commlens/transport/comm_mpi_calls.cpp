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

/// The two-byte floats travel as integers; MpiJob::op knows what they are.
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
    case DType::uint8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

class MpiWork final : public Work {
 public:
  MpiWork() = default;
  MpiWork(const MpiWork&) = delete;
  MpiWork& operator=(const MpiWork&) = delete;
  ~MpiWork() override = default;

  void wait() override {
    for (Pending& pending : pending_) {
      MPI_Status status{};
      mpi_check(MPI_Wait(&pending.request, &status), pending.function);
      if (pending.received_bytes >= 0) {
        check_received(pending, status);
      }
    }
    pending_.clear();
  }

  struct Pending {
    MPI_Request request = MPI_REQUEST_NULL;
    const char* function = "";
    int received_bytes = -1;  // recv: the size that the message must have
  };
  Pending& add(const char* function) { return pending_.emplace_back(Pending{.function = function}); }

 private:
  static void check_received(const Pending& pending, const MPI_Status& status) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != pending.received_bytes) {
      throw SystemError(
          fmt::format("a message has {} bytes where its receiver expects {}", bytes, pending.received_bytes));
    }
  }

  std::vector<Pending> pending_;
};

/// Makes one call on a communicator as nonblocking MPI calls of at most job.piece each. Every rank splits
/// alike, because sizes agree by the contract of CommCall.
class Issue {
 public:
  Issue(const MpiJob& job, MPI_Comm comm, const CommCall& call)
      : job_(job),
        comm_(comm),
        call_(call),
        type_(mpi_type(call.dtype)),
        peer_(static_cast<int>(call.peer.value)) {
    MPI_Comm_size(comm, &ranks_);
    MPI_Comm_rank(comm, &rank_);
  }

  std::unique_ptr<MpiWork> issue() {
    switch (call_.kind) {
      case CommKind::all_reduce:
        all_reduce();
        break;
      case CommKind::all_gather:
        all_gather();
        break;
      case CommKind::reduce_scatter:
        reduce_scatter();
        break;
      case CommKind::all_to_all:
        all_to_all();
        break;
      case CommKind::broadcast:
        if (rank_ == peer_ && !is_in_place()) {
          copy_own_part(in(0), out(0), call_.input * call_.dtype);
        }
        broadcast(0, call_.output.value, peer_);
        break;
      case CommKind::reduce:
        reduce(0, 0, call_.input.value, peer_);
        break;
      case CommKind::send:
        send(0, call_.input.value, peer_, k_message_tag);
        break;
      case CommKind::recv:
        recv(0, call_.output.value, peer_, k_message_tag);
        break;
      case CommKind::barrier:
        request("MPI_Ibarrier", [&](MPI_Request* out) { return MPI_Ibarrier(comm_, out); });
        break;
      case CommKind::other:
        throw SystemError("a communicator cannot make a call of kind other");
    }
    return std::move(work_);
  }

 private:
  template <typename Call>
  MpiWork::Pending& request(const char* function, const Call& call) {
    MpiWork::Pending& pending = work_->add(function);
    mpi_check(call(&pending.request), function);
    return pending;
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

  void all_reduce() {
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    for_pieces(call_.input.value, [&](std::int64_t offset, int count) {
      const void* from = is_in_place() ? MPI_IN_PLACE : in(offset);
      request("MPI_Iallreduce", [&](MPI_Request* made) {
        return MPI_Iallreduce(from, out(offset), count, type_, op, comm_, made);
      });
    });
  }

  /// `elements` from `from` of the input to `to` of the root's output.
  void reduce(std::int64_t from, std::int64_t to, std::int64_t elements, int root) {
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    for_pieces(elements, [&](std::int64_t offset, int count) {
      const void* source = rank_ == root && is_in_place() ? MPI_IN_PLACE : in(from + offset);
      void* destination = rank_ == root ? out(to + offset) : nullptr;
      request("MPI_Ireduce", [&](MPI_Request* made) {
        return MPI_Ireduce(source, destination, count, type_, op, root, comm_, made);
      });
    });
  }

  void reduce_scatter() {
    const std::int64_t shard = call_.output.value;
    if (!fits(call_.input)) {  // MPI_Ireduce_scatter_block takes the whole only, and counts it in int
      for (int root = 0; root < ranks_; ++root) {
        reduce(root * shard, 0, shard, root);
      }
      return;
    }
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    request("MPI_Ireduce_scatter_block", [&](MPI_Request* made) {
      return MPI_Ireduce_scatter_block(in(0), out(0), static_cast<int>(shard), type_, op, comm_, made);
    });
  }

  void copy_own_part(const char* from, char* to, Bytes bytes) const {
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
      request("MPI_Iallgather", [&](MPI_Request* made) {
        const int count = static_cast<int>(shard);
        return MPI_Iallgather(in(0), count, type_, out(0), count, type_, comm_, made);
      });
      return;
    }
    copy_own_part(in(0), out(rank_ * shard), call_.input * call_.dtype);
    for (int root = 0; root < ranks_; ++root) {
      broadcast(root * shard, shard, root);
    }
  }

  void all_to_all() {
    const std::int64_t part = call_.input.value / ranks_;
    if (fits(call_.input)) {
      request("MPI_Ialltoall", [&](MPI_Request* made) {
        const int count = static_cast<int>(part);
        return MPI_Ialltoall(in(0), count, type_, out(0), count, type_, comm_, made);
      });
      return;
    }
    copy_own_part(in(rank_ * part), out(rank_ * part), Elements{part} * call_.dtype);
    for (int distance = 1; distance < ranks_; ++distance) {
      const int source = (rank_ - distance + ranks_) % ranks_;
      const int destination = (rank_ + distance) % ranks_;
      recv(source * part, part, source, k_part_tag);
      send(destination * part, part, destination, k_part_tag);
    }
  }

  /// `elements` from `first` of the output, which at the root holds them.
  void broadcast(std::int64_t first, std::int64_t elements, int root) {
    for_pieces(elements, [&](std::int64_t offset, int count) {
      request("MPI_Ibcast", [&](MPI_Request* made) {
        return MPI_Ibcast(out(first + offset), count, type_, root, comm_, made);
      });
    });
  }

  void send(std::int64_t first, std::int64_t elements, int to, int tag) {
    for_pieces(elements, [&](std::int64_t offset, int count) {
      request("MPI_Isend", [&](MPI_Request* made) {
        return MPI_Isend(in(first + offset), count, type_, to, tag, comm_, made);
      });
    });
  }

  void recv(std::int64_t first, std::int64_t elements, int from, int tag) {
    for_pieces(elements, [&](std::int64_t offset, int count) {
      MpiWork::Pending& pending = request("MPI_Irecv", [&](MPI_Request* made) {
        return MPI_Irecv(out(first + offset), count, type_, from, tag, comm_, made);
      });
      pending.received_bytes = static_cast<int>((Elements{count} * call_.dtype).value);
    });
  }

  const MpiJob& job_;
  MPI_Comm comm_;
  const CommCall& call_;
  MPI_Datatype type_;
  int peer_;
  int ranks_ = 1;
  int rank_ = 0;
  std::unique_ptr<MpiWork> work_ = std::make_unique<MpiWork>();
};

}  // namespace

void mpi_check(int status, const char* function) {
  if (status == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw SystemError(fmt::format("{} failed: {}", function, text));
}

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
    case DType::int64:
    case DType::int32:
      break;
  }
  return plain_;
}

std::unique_ptr<Work> start_mpi_call(const MpiJob& job, MPI_Comm comm, const CommCall& call) {
  return Issue(job, comm, call).issue();
}

}  // namespace commlens
