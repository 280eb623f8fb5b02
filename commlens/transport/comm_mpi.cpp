// The module libcommlens-mpi-*.so: compiled once per MPI, because their headers and libraries do not mix.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include "commlens/transport/mpi_module.hpp"

namespace commlens {
namespace {

constexpr int k_exit_status = 3;  // of a job that was aborted (docs: exit codes)
constexpr int k_message_tag = 0;

void check(int status, const char* function) {
  if (status == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw SystemError(fmt::format("{} failed: {}", function, text));
}

/// What decides whether the process finalises MPI when it exits; MPI exists once per process, and so does
/// this.
struct ProcessState {
  std::atomic<int> open = 0;         // communicators alive
  std::atomic<bool> broken = false;  // aborted, or an exception went through a communicator's owner
};

ProcessState& process_state() {
  static ProcessState state;
  return state;
}

bool is_finalised() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  return finalised != 0;
}

/// MPI_Finalize waits for all ranks. A process that leaves early must not wait for ranks that wait for it: it
/// exits without, which the launcher sees, and ends the job.
void leave_mpi() {
  if (!is_finalised() && !process_state().broken && process_state().open == 0) {
    MPI_Finalize();
  }
}

struct BFloat16 {
  static float to_float(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16U); }

  static std::uint16_t from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (value != value) {
      return static_cast<std::uint16_t>(bits >> 16U | 0x40U);  // stays a NaN without its low bits
    }
    return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >>
                                      16U);  // to nearest, ties to even
  }
};

struct Float16 {
  static float to_float(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7FFFU;
    // The product moves the exponent from a bias of 15 to one of 127, for subnormal numbers too.
    auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13U) * 0x1p112F);
    if (magnitude >= 0x7C00U) {
      bits |= 0x7F800000U;  // infinity or NaN
    }
    return std::bit_cast<float>(bits | (half & 0x8000U) << 16U);
  }

  static std::uint16_t from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
      return static_cast<std::uint16_t>(sign | 0x7E00U);
    }
    if (magnitude >= std::bit_cast<std::uint32_t>(0x1p16F)) {
      return static_cast<std::uint16_t>(sign | 0x7C00U);
    }
    if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14F)) {
      // Subnormal: the sum with 1/2 rounds to units of 2^-24, which are the low bits of the result.
      const float sum = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(
          sign | (std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F)));
    }
    const std::uint32_t rebiased = magnitude - (112U << 23U);
    return static_cast<std::uint16_t>(sign | (rebiased + 0xFFFU + (rebiased >> 13U & 1U)) >> 13U);
  }
};

/// An MPI_User_function. MPI combines pairs of messages, so each of its log2(ranks) to ranks - 1 sums is
/// rounded to two bytes; each is computed in fp32.
template <typename Format, ReduceOp Reduction>
void combine(void* input, void* inout, int* count, MPI_Datatype* /*type*/) {
  const auto* from = static_cast<const std::uint16_t*>(input);
  auto* into = static_cast<std::uint16_t*>(inout);
  for (int i = 0; i < *count; ++i) {
    const float left = Format::to_float(from[i]);
    const float right = Format::to_float(into[i]);
    into[i] = Format::from_float(Reduction == ReduceOp::sum ? left + right : std::max(left, right));
  }
}

/// What all communicators of the process share.
struct MpiJob {
  MPI_Group world = MPI_GROUP_NULL;
  std::int64_t rank = 0;
  Bytes piece{std::int64_t{1} << 30};  // most that one MPI call moves: its counts are int
  MPI_Op bf16_sum = MPI_OP_NULL;
  MPI_Op bf16_max = MPI_OP_NULL;
  MPI_Op fp16_sum = MPI_OP_NULL;
  MPI_Op fp16_max = MPI_OP_NULL;

  MPI_Op op(DType type, ReduceOp reduction) const {
    const bool sum = reduction == ReduceOp::sum;
    switch (type) {
      case DType::bf16:
        return sum ? bf16_sum : bf16_max;
      case DType::fp16:
        return sum ? fp16_sum : fp16_max;
      case DType::fp8:
        throw SystemError("MPI cannot add or compare fp8");
      default:
        return sum ? MPI_SUM : MPI_MAX;
    }
  }
};

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
      check(MPI_Wait(&pending.request, &status), pending.function);
      if (pending.received_bytes >= 0) {
        check_received(pending, status);
      }
    }
    pending_.clear();
    for (MPI_Datatype& type : types_) {
      MPI_Type_free(&type);
    }
    types_.clear();
  }

  struct Pending {
    MPI_Request request = MPI_REQUEST_NULL;
    const char* function = "";
    int received_bytes = -1;  // recv: the size that the message must have
  };
  Pending& add(const char* function) { return pending_.emplace_back(Pending{.function = function}); }

  /// A type for this work alone, freed when it is complete.
  void keep(MPI_Datatype type) { types_.push_back(type); }

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
  std::vector<MPI_Datatype> types_;
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
        broadcast();
        break;
      case CommKind::reduce:
        reduce(0, 0, call_.input.value, peer_);
        break;
      case CommKind::send:
        send();
        break;
      case CommKind::recv:
        recv();
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
    check(call(&pending.request), function);
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

  /// Calls body(offset, count) for the pieces of `elements`, of which `copies` move in one MPI call; once for
  /// 0.
  template <typename Body>
  void for_pieces(std::int64_t elements, std::int64_t copies, const Body& body) const {
    const std::int64_t most = std::max<std::int64_t>(1, job_.piece.value / size_of(call_.dtype) / copies);
    std::int64_t offset = 0;
    do {
      const std::int64_t count = std::min(most, elements - offset);
      body(offset, static_cast<int>(count));
      offset += count;
    } while (offset < elements);
  }

  void all_reduce() {
    const MPI_Op op = job_.op(call_.dtype, call_.reduction);
    for_pieces(call_.input.value, 1, [&](std::int64_t offset, int count) {
      const void* from = is_in_place() ? MPI_IN_PLACE : in(offset);
      request("MPI_Iallreduce", [&](MPI_Request* made) {
        return MPI_Iallreduce(from, out(offset), count, type_, op, comm_, made);
      });
    });
  }

  /// `elements` from `from` of the input to `to` of the root's output.
  void reduce(std::int64_t from, std::int64_t to, std::int64_t elements, int root) {
    const MPI_Op op = job_.op(call_.dtype, call_.reduction);
    for_pieces(elements, 1, [&](std::int64_t offset, int count) {
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
    const MPI_Op op = job_.op(call_.dtype, call_.reduction);
    request("MPI_Ireduce_scatter_block", [&](MPI_Request* made) {
      return MPI_Ireduce_scatter_block(in(0), out(0), static_cast<int>(shard), type_, op, comm_, made);
    });
  }

  /// `count` elements of a part, one part after the other, as an element of which there is one per rank.
  MPI_Datatype strided(int count, std::int64_t part) {
    MPI_Datatype contiguous = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(count, type_, &contiguous), "MPI_Type_contiguous");
    MPI_Datatype resized = MPI_DATATYPE_NULL;
    const auto extent = static_cast<MPI_Aint>((Elements{part} * call_.dtype).value);
    check(MPI_Type_create_resized(contiguous, 0, extent, &resized), "MPI_Type_create_resized");
    MPI_Type_free(&contiguous);
    check(MPI_Type_commit(&resized), "MPI_Type_commit");
    work_->keep(resized);
    return resized;
  }

  void all_gather() {
    const std::int64_t shard = call_.input.value;
    for_pieces(shard, ranks_, [&](std::int64_t offset, int count) {
      const bool whole = count == shard;
      MPI_Datatype to_type = whole ? type_ : strided(count, shard);
      request("MPI_Iallgather", [&](MPI_Request* made) {
        return MPI_Iallgather(in(offset), count, type_, out(offset), whole ? count : 1, to_type, comm_, made);
      });
    });
  }

  void all_to_all() {
    const std::int64_t part = call_.input.value / ranks_;
    for_pieces(part, ranks_, [&](std::int64_t offset, int count) {
      const bool whole = count == part;
      MPI_Datatype part_type = whole ? type_ : strided(count, part);
      const int parts = whole ? count : 1;
      request("MPI_Ialltoall", [&](MPI_Request* made) {
        return MPI_Ialltoall(in(offset), parts, part_type, out(offset), parts, part_type, comm_, made);
      });
    });
  }

  void broadcast() {
    const Bytes bytes = call_.input * call_.dtype;
    if (rank_ == peer_ && !is_in_place() && bytes.value > 0) {
      std::memcpy(call_.output_buffer, call_.input_buffer, static_cast<std::size_t>(bytes.value));
    }
    for_pieces(call_.output.value, 1, [&](std::int64_t offset, int count) {
      request("MPI_Ibcast",
              [&](MPI_Request* made) { return MPI_Ibcast(out(offset), count, type_, peer_, comm_, made); });
    });
  }

  void send() {
    for_pieces(call_.input.value, 1, [&](std::int64_t offset, int count) {
      request("MPI_Isend", [&](MPI_Request* made) {
        return MPI_Isend(in(offset), count, type_, peer_, k_message_tag, comm_, made);
      });
    });
  }

  void recv() {
    for_pieces(call_.output.value, 1, [&](std::int64_t offset, int count) {
      MpiWork::Pending& pending = request("MPI_Irecv", [&](MPI_Request* made) {
        return MPI_Irecv(out(offset), count, type_, peer_, k_message_tag, comm_, made);
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

class MpiCommunicator final : public Communicator {
 public:
  /// Takes `comm`.
  MpiCommunicator(std::shared_ptr<const MpiJob> job, MPI_Comm comm) : job_(std::move(job)), comm_(comm) {
    ++process_state().open;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    int ranks = 0;
    int rank = 0;
    check(MPI_Comm_size(comm_, &ranks), "MPI_Comm_size");
    check(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
    rank_ = GroupRank{rank};
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Comm_group(comm_, &group), "MPI_Comm_group");
    std::vector<int> here(static_cast<std::size_t>(ranks));
    std::iota(here.begin(), here.end(), 0);
    std::vector<int> global(here.size());
    check(MPI_Group_translate_ranks(group, ranks, here.data(), job_->world, global.data()),
          "MPI_Group_translate_ranks");
    MPI_Group_free(&group);
    for (const int member : global) {
      members_.push_back(Rank{member});
    }
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) {
      process_state().broken = true;
    } else if (!process_state().broken && !is_finalised()) {
      MPI_Comm_free(&comm_);
    }
    --process_state().open;
  }

  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return rank_; }

  std::unique_ptr<Work> start(const CommCall& call) override { return Issue(*job_, comm_, call).issue(); }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    constexpr std::int64_t k_most = std::numeric_limits<int>::max();
    if (color > k_most || key > k_most || key < -k_most) {
      throw SystemError(
          fmt::format("MPI cannot split by color {} and key {}: they must fit 32 bits", color, key));
    }
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : static_cast<int>(color), static_cast<int>(key),
                         &part),
          "MPI_Comm_split");
    if (part == MPI_COMM_NULL) {
      return nullptr;
    }
    return std::make_unique<MpiCommunicator>(job_, part);
  }

  void abort(std::string_view reason) override {
    process_state().broken = true;
    fmt::print(stderr, "commlens: rank {}: {}\n", job_->rank, reason);
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, k_exit_status);
    std::_Exit(k_exit_status);  // where MPI_Abort comes back
  }

 private:
  std::shared_ptr<const MpiJob> job_;
  MPI_Comm comm_;
  GroupRank rank_;
  std::vector<Rank> members_;
};

/// The program loads this module for itself alone; Open MPI's plug-ins look for its library among the symbols
/// of all.
void show_library_to_its_plugins() {
  Dl_info library{};
  // NOLINTNEXTLINE(bugprone-casting-through-void,*-reinterpret-cast): dladdr takes functions so
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &library) != 0) {
    dlopen(library.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
}

MPI_Op made_op(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  check(MPI_Op_create(function, 1, &op), "MPI_Op_create");
  return op;
}

/// COMMLENS_MPI_PIECE (bytes, as rank 0 has it) instead of 1 GiB: for tests, and for networks that cannot
/// move that.
Bytes piece_size(Bytes otherwise) {
  std::int64_t bytes = otherwise.value;
  if (const char* text = std::getenv("COMMLENS_MPI_PIECE"); text != nullptr) {
    if (const Result<Bytes> given = parse_bytes(text); given && given->value > 0) {
      bytes = std::min(otherwise, *given).value;
    }
  }
  check(MPI_Bcast(&bytes, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return Bytes{bytes};
}

std::shared_ptr<const MpiJob> joined_job() {
  auto job = std::make_shared<MpiJob>();
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  job->rank = rank;
  check(MPI_Comm_group(MPI_COMM_WORLD, &job->world), "MPI_Comm_group");
  job->piece = piece_size(job->piece);
  job->bf16_sum = made_op(&combine<BFloat16, ReduceOp::sum>);
  job->bf16_max = made_op(&combine<BFloat16, ReduceOp::max>);
  job->fp16_sum = made_op(&combine<Float16, ReduceOp::sum>);
  job->fp16_max = made_op(&combine<Float16, ReduceOp::max>);
  return job;
}

Result<std::unique_ptr<Communicator>> open_world(const MpiLaunch& launch) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  int threads = MPI_THREAD_SERIALIZED;
  if (initialised == 0) {
    show_library_to_its_plugins();
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::atexit(&leave_mpi);
  }
  if (threads < MPI_THREAD_SERIALIZED) {
    return failure("this MPI library cannot be used from several threads; use one built with thread support");
  }
  int ranks = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  if (launch.ranks > 1 && ranks == 1) {
    return failure(
        fmt::format("the launcher started {} ranks, but MPI sees one: the launcher belongs to another MPI "
                    "than the module; choose the other module or the other mpirun",
                    launch.ranks));
  }
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(joined_job(), comm);
}

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_open_mpi(
    const commlens::MpiLaunch& launch, commlens::Result<std::unique_ptr<commlens::Communicator>>& world) {
  world = commlens::open_world(launch);
}
