// Part of the module libcommlens-mpi-*.so.
#include "commlens/transport/comm_mpi_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/call_check.hpp"

namespace commlens {
namespace {

constexpr int k_message_tag = 0;  // of send and recv
constexpr int k_part_tag = 1;     // of the parts of an all_to_all, gather or scatter

// Open MPI's nonblocking all_reduce in place reduces to one rank and broadcasts from it (coll/libnbc,
// nbc_iallreduce.c), which sends log2(n) messages of the whole from one rank. Out of place it takes a ring
// from this size and number of ranks on: 2(n-1)/n.
#if defined(OPEN_MPI)
constexpr bool k_copies_inputs = true;
// Its block variant reduces to one rank and scatters; MPI_Reduce_scatter has a ring (coll/tuned, *_fixed.c).
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
    throw_fault_of(call_, GroupRank{rank_}, ranks_);
    issue_valid();
    const bool has_result = call_.kind != CommKind::reduce || rank_ == peer_;
    if (call_.reduction != ReduceOp::avg || !is_reducing(call_.kind) || !has_result) {
      return;
    }
    if (work_ == nullptr) {
      average(call_.dtype, call_.output_buffer, call_.output, ranks_);
    } else {
      work_->average_when_complete(call_.dtype, call_.output_buffer, call_.output, ranks_);
    }
  }

 private:
  void issue_valid() {
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
        return call_.other == OtherCall::gather ? gather() : scatter();
    }
  }

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

  /// Elements of a buffer.
  struct Part {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  /// The part of `rank`; `equal` is the size of each if there is no table of sizes.
  static Part part_of(std::span<const Elements> parts, std::int64_t equal, int rank) {
    if (parts.empty()) {
      return {rank * equal, equal};
    }
    Part part;
    for (int before = 0; before < rank; ++before) {
      part.first += parts[static_cast<std::size_t>(before)].value;
    }
    part.count = parts[static_cast<std::size_t>(rank)].value;
    return part;
  }

  /// Counts as MPI takes them, which live until the call is complete.
  const int* counts_of(std::span<const Elements> parts) {
    std::vector<int> counts;
    for (const Elements part : parts) {
      counts.push_back(static_cast<int>(part.value));
    }
    return kept(std::move(counts));
  }
  const int* places_of(std::span<const Elements> parts) {
    std::vector<int> places;
    int place = 0;
    for (const Elements part : parts) {
      places.push_back(place);
      place += static_cast<int>(part.value);
    }
    return kept(std::move(places));
  }
  const int* kept(std::vector<int> numbers) {
    return work_ == nullptr ? numbers_.emplace_back(std::move(numbers)).data()
                            : work_->keep(std::move(numbers));
  }

  /// Messages of one collective call: all at once, or ranks would wait for each other.
  template <typename Body>
  void at_once(const Body& body) {
    MpiWork messages(nullptr);
    MpiWork* const whole = work_;
    work_ = whole == nullptr ? &messages : whole;
    body();
    work_ = whole;
    messages.wait();
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
    if (!fits(call_.input)) {  // MPI takes the whole only, and counts it in int
      for (int root = 0; root < ranks_; ++root) {
        const Part part = part_of(call_.input_parts, call_.output.value, root);
        reduce(part.first, 0, part.count, root);
      }
      return;
    }
    const auto op = job_.operations.op(call_.dtype, call_.reduction);
    if (!call_.input_parts.empty()) {
      const int* const counts = counts_of(call_.input_parts);
      return make(
          "MPI_Reduce_scatter", [&] { return MPI_Reduce_scatter(in(0), out(0), counts, type_, op, comm_); },
          [&](MPI_Request* made) {
            return MPI_Ireduce_scatter(in(0), out(0), counts, type_, op, comm_, made);
          });
    }
    const auto count = static_cast<int>(call_.output.value);
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
    if (!fits(call_.output)) {
      copy_own_part(in(0), out(part_of(call_.output_parts, shard, rank_).first), call_.input * call_.dtype);
      for (int root = 0; root < ranks_; ++root) {
        const Part part = part_of(call_.output_parts, shard, root);
        broadcast(part.first, part.count, root);
      }
      return;
    }
    const int count = static_cast<int>(shard);
    if (!call_.output_parts.empty()) {
      const int* const counts = counts_of(call_.output_parts);
      const int* const places = places_of(call_.output_parts);
      return make(
          "MPI_Allgatherv",
          [&] { return MPI_Allgatherv(in(0), count, type_, out(0), counts, places, type_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Iallgatherv(in(0), count, type_, out(0), counts, places, type_, comm_, made);
          });
    }
    make(
        "MPI_Allgather", [&] { return MPI_Allgather(in(0), count, type_, out(0), count, type_, comm_); },
        [&](MPI_Request* made) {
          return MPI_Iallgather(in(0), count, type_, out(0), count, type_, comm_, made);
        });
  }

  void all_to_all() {
    if (has_parts(call_)) {
      return all_to_all_of_unequal_parts();
    }
    if (!fits(call_.input)) {
      return all_to_all_by_messages();
    }
    const int count = static_cast<int>(call_.input.value / ranks_);
    make(
        "MPI_Alltoall", [&] { return MPI_Alltoall(in(0), count, type_, out(0), count, type_, comm_); },
        [&](MPI_Request* made) {
          return MPI_Ialltoall(in(0), count, type_, out(0), count, type_, comm_, made);
        });
  }

  /// Each rank knows its own sizes only, and all must make the same MPI call. So it is not the size that
  /// decides, but whether smaller pieces were asked for.
  void all_to_all_of_unequal_parts() {
    if (job_.piece < k_largest_piece) {
      return all_to_all_by_messages();
    }
    constexpr Bytes k_counted{std::numeric_limits<int>::max()};
    if (std::max(call_.input, call_.output) * call_.dtype > k_counted) {
      throw SystemError(
          fmt::format("{}: MPI counts up to 2 GiB of a rank's parts in one call; with "
                      "COMMLENS_MPI_PIECE=512MiB they are moved one by one",
                      to_text(call_)));
    }
    const int* const sent = counts_of(call_.input_parts);
    const int* const from = places_of(call_.input_parts);
    const int* const received = counts_of(call_.output_parts);
    const int* const to = places_of(call_.output_parts);
    make(
        "MPI_Alltoallv",
        [&] { return MPI_Alltoallv(in(0), sent, from, type_, out(0), received, to, type_, comm_); },
        [&](MPI_Request* made) {
          return MPI_Ialltoallv(in(0), sent, from, type_, out(0), received, to, type_, comm_, made);
        });
  }

  void all_to_all_by_messages() {
    const auto sent = [&](int rank) { return part_of(call_.input_parts, call_.input.value / ranks_, rank); };
    const auto received = [&](int rank) {
      return part_of(call_.output_parts, call_.output.value / ranks_, rank);
    };
    at_once([&] {
      copy_own_part(in(sent(rank_).first), out(received(rank_).first),
                    Elements{sent(rank_).count} * call_.dtype);
      for (int distance = 1; distance < ranks_; ++distance) {
        const int source = (rank_ - distance + ranks_) % ranks_;
        const int destination = (rank_ + distance) % ranks_;
        recv(received(source).first, received(source).count, source, k_part_tag);
        send(sent(destination).first, sent(destination).count, destination, k_part_tag);
      }
    });
  }

  /// The whole, which is at the root alone, as all ranks know it.
  Elements whole_of(std::span<const Elements> parts, std::int64_t equal) const {
    const Part last = part_of(parts, equal, ranks_ - 1);
    return {last.first + last.count};
  }

  void gather() {
    const std::int64_t part = call_.input.value;
    const std::span<const Elements> parts = call_.output_parts;
    const bool is_one_call = fits(whole_of(parts, part));
    const int count = is_one_call ? static_cast<int>(part) : 0;
    if (is_one_call && !parts.empty()) {
      const auto [counts, places] = std::pair(counts_of(parts), places_of(parts));
      return make(
          "MPI_Gatherv",
          [&] { return MPI_Gatherv(in(0), count, type_, out(0), counts, places, type_, peer_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Igatherv(in(0), count, type_, out(0), counts, places, type_, peer_, comm_, made);
          });
    }
    if (is_one_call) {
      return make(
          "MPI_Gather", [&] { return MPI_Gather(in(0), count, type_, out(0), count, type_, peer_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Igather(in(0), count, type_, out(0), count, type_, peer_, comm_, made);
          });
    }
    at_once([&] {
      if (rank_ != peer_) {
        return send(0, part, peer_, k_part_tag);
      }
      copy_own_part(in(0), out(part_of(parts, part, rank_).first), Elements{part} * call_.dtype);
      for (int source = 0; source < ranks_; ++source) {
        if (source != rank_) {
          const Part of_source = part_of(parts, part, source);
          recv(of_source.first, of_source.count, source, k_part_tag);
        }
      }
    });
  }

  void scatter() {
    const std::int64_t part = call_.output.value;
    const std::span<const Elements> parts = call_.input_parts;
    const bool is_one_call = fits(whole_of(parts, part));
    const int count = is_one_call ? static_cast<int>(part) : 0;
    if (is_one_call && !parts.empty()) {
      const auto [counts, places] = std::pair(counts_of(parts), places_of(parts));
      return make(
          "MPI_Scatterv",
          [&] { return MPI_Scatterv(in(0), counts, places, type_, out(0), count, type_, peer_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Iscatterv(in(0), counts, places, type_, out(0), count, type_, peer_, comm_, made);
          });
    }
    if (is_one_call) {
      return make(
          "MPI_Scatter", [&] { return MPI_Scatter(in(0), count, type_, out(0), count, type_, peer_, comm_); },
          [&](MPI_Request* made) {
            return MPI_Iscatter(in(0), count, type_, out(0), count, type_, peer_, comm_, made);
          });
    }
    at_once([&] {
      if (rank_ != peer_) {
        return recv(0, part, peer_, k_part_tag);
      }
      copy_own_part(in(part_of(parts, part, rank_).first), out(0), Elements{part} * call_.dtype);
      for (int destination = 0; destination < ranks_; ++destination) {
        if (destination != rank_) {
          const Part of_destination = part_of(parts, part, destination);
          send(of_destination.first, of_destination.count, destination, k_part_tag);
        }
      }
    });
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
  std::vector<std::vector<int>> numbers_;  // of blocking calls; nonblocking ones keep theirs in work_
};

}  // namespace

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
