#pragma once
#include <cstdint>
#include <vector>

#include "commlens/capture/mpi_session.hpp"

// What each call of mpi_calls.def asks for, in the terms of comm/volume.hpp. Arguments that mean nothing on
// this rank (a root's, elsewhere) are not read. All of them leave `out` as nothing when the communicator is
// none, or mark it as outside of the job.
namespace commlens::capture {

/// The two halves of a collective call: each `sent` and `received` is what this rank gives and gets in all.
struct Halves {
  Amount sent;
  Amount received;
};

/// Bytes that a completed receive brought.
std::int64_t received_bytes(const MPI_Status& status);

/// What a call says of one member's part: a count and a type …
struct PartOf {
  std::int64_t count;
  MPI_Datatype type;
};
inline PartOf part(std::int64_t count, MPI_Datatype type) { return {count, type}; }

/// … and of the parts of all its peers: the same for each …
struct EqualParts {
  std::int64_t count;
  MPI_Datatype type;

  Amount of(Session& session, std::int64_t /*peer*/) const { return session.amount(count, type); }
  Amount sum(Session& session, std::int64_t peers) const { return session.amount(count * peers, type); }
};
inline EqualParts equal(std::int64_t count, MPI_Datatype type) { return {count, type}; }

/// … or counts of one type, or counts of as many types (whose sum is in bytes). Read only where they are
/// used: on other ranks than the root they may point nowhere.
template <typename Count>
struct CountedParts {
  const Count* counts;
  MPI_Datatype type;

  Amount of(Session& session, std::int64_t peer) const { return session.amount(counts[peer], type); }
  Amount sum(Session& session, std::int64_t peers) const {
    std::int64_t all = 0;
    for (std::int64_t peer = 0; peer < peers; ++peer) {
      all += counts[peer];
    }
    return session.amount(all, type);
  }
};
template <typename Count>
CountedParts<Count> each(const Count* counts, MPI_Datatype type) {
  return {counts, type};
}
template <typename Count>
struct TypedParts {
  const Count* counts;
  const MPI_Datatype* types;

  Amount of(Session& session, std::int64_t peer) const { return session.amount(counts[peer], types[peer]); }
  Amount sum(Session& session, std::int64_t peers) const {
    Bytes all;
    for (std::int64_t peer = 0; peer < peers; ++peer) {
      all += of(session, peer).bytes();
    }
    return {DType::uint8, Elements{all.value}};
  }
};
template <typename Count>
TypedParts<Count> each(const Count* counts, const MPI_Datatype* types) {
  return {counts, types};
}

/// The ranks of a call; null, and `out` says why, if it cannot be recorded.
RankGroup* open_group(Session& session, Description& out, MPI_Comm comm);

/// A call of all members, its sizes already known. `kind` becomes `other` between two groups, where the
/// volumes of comm/volume.hpp do not hold.
void describe_collective(Description& out, const RankGroup& ranks, CommKind kind, const Halves& halves);

/// barrier; all_reduce, scan: one tensor in, one out.
void describe_barrier(Session& session, Description& out, MPI_Comm comm);
void describe_tensor(Session& session, Description& out, CommKind kind, MPI_Comm comm, Amount tensor);

/// What a rank is in a call with a root.
enum class Part : std::uint8_t { root, other, outside };
Part part_of(const RankGroup& ranks, int root);
/// Sets the root where the call is within one group.
void set_root(Description& out, const RankGroup& ranks, int root);

inline bool is_in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }

/// A call with a root, and one without: on which communicator, and whether this rank's own part is where it
/// belongs already.
struct RootedCall {
  MPI_Comm comm;
  int root;
  bool is_in_place = false;
};
struct AllCall {
  MPI_Comm comm;
  bool is_in_place;
};

/// broadcast, reduce.
void describe_broadcast(Session& session, Description& out, const RootedCall& call, PartOf tensor);
void describe_reduce(Session& session, Description& out, const RootedCall& call, PartOf tensor);

/// gather: what this rank gives, and at the root what all give. In place (at the root only), its own part is
/// where it belongs already.
template <typename Parts>
void describe_gather(Session& session, Description& out, const RootedCall& call, PartOf own,
                     const Parts& all) {
  const RankGroup* const ranks = open_group(session, out, call.comm);
  if (ranks == nullptr) {
    return;
  }
  Halves halves;
  const Part here = part_of(*ranks, call.root);
  if (here == Part::root) {
    halves.received = all.sum(session, ranks->peers());
    if (!ranks->is_inter()) {
      halves.sent = call.is_in_place ? all.of(session, ranks->self()) : session.amount(own.count, own.type);
    }
  } else if (here == Part::other) {
    halves.sent = session.amount(own.count, own.type);
  }
  describe_collective(out, *ranks, CommKind::other, halves);
  set_root(out, *ranks, call.root);
}

/// scatter: what this rank gets, and at the root what all get.
template <typename Parts>
void describe_scatter(Session& session, Description& out, const RootedCall& call, const Parts& all,
                      PartOf own) {
  const RankGroup* const ranks = open_group(session, out, call.comm);
  if (ranks == nullptr) {
    return;
  }
  Halves halves;
  const Part here = part_of(*ranks, call.root);
  if (here == Part::root) {
    halves.sent = all.sum(session, ranks->peers());
    if (!ranks->is_inter()) {
      halves.received =
          call.is_in_place ? all.of(session, ranks->self()) : session.amount(own.count, own.type);
    }
  } else if (here == Part::other) {
    halves.received = session.amount(own.count, own.type);
  }
  describe_collective(out, *ranks, CommKind::other, halves);
  set_root(out, *ranks, call.root);
}

template <typename Parts>
void describe_all_gather(Session& session, Description& out, const AllCall& call, PartOf own,
                         const Parts& all) {
  if (const RankGroup* const ranks = open_group(session, out, call.comm)) {
    const Amount sent =
        call.is_in_place ? all.of(session, ranks->self()) : session.amount(own.count, own.type);
    describe_collective(out, *ranks, CommKind::all_gather, {sent, all.sum(session, ranks->peers())});
  }
}

template <typename Sent, typename Received>
void describe_all_to_all(Session& session, Description& out, const AllCall& call, const Sent& sent,
                         const Received& received) {
  if (const RankGroup* const ranks = open_group(session, out, call.comm)) {
    const Amount all = received.sum(session, ranks->peers());
    const Amount given = call.is_in_place ? all : sent.sum(session, ranks->peers());
    describe_collective(out, *ranks, CommKind::all_to_all, {given, all});
  }
}

/// reduce_scatter: the parts are those of the members of this rank's own group.
template <typename Parts>
void describe_reduce_scatter(Session& session, Description& out, MPI_Comm comm, const Parts& parts) {
  if (const RankGroup* const ranks = open_group(session, out, comm)) {
    describe_collective(out, *ranks, CommKind::reduce_scatter,
                        {parts.sum(session, ranks->size()), parts.of(session, ranks->self())});
  }
}

/// What goes to, or comes from, the neighbours that are there; what is beyond an edge is not.
inline Amount sum_of(Session& session, PartOf part_of_each, const std::vector<bool>& /*neighbours*/) {
  return session.amount(part_of_each.count, part_of_each.type);  // one part, given to all of them
}
template <typename Parts>
Amount sum_of(Session& session, const Parts& parts, const std::vector<bool>& neighbours) {
  Bytes all;
  DType dtype = DType::uint8;
  for (std::size_t neighbour = 0; neighbour < neighbours.size(); ++neighbour) {
    if (neighbours[neighbour]) {
      const Amount amount = parts.of(session, static_cast<std::int64_t>(neighbour));
      dtype = all == Bytes{} || dtype == amount.dtype ? amount.dtype : DType::uint8;
      all += amount.bytes();
    }
  }
  return {dtype, Elements{all.value / size_of(dtype)}};
}
template <typename Sent, typename Received>
void describe_neighbours(Session& session, Description& out, MPI_Comm comm, const Sent& sent,
                         const Received& received) {
  if (const RankGroup* const ranks = open_group(session, out, comm)) {
    const Neighbours& neighbours = session.neighbours(comm);
    describe_collective(out, *ranks, CommKind::other,
                        {sum_of(session, sent, neighbours.out), sum_of(session, received, neighbours.in)});
  }
}

/// Point to point. A receive is what it may become at most.
void describe_send(Session& session, Description& out, MPI_Comm comm, int peer, Amount message);
void describe_receive(Session& session, Description& out, MPI_Comm comm, int source, Amount most);
/// Its size is known: MPI_Precv_init says how much comes, and the status of its end is empty.
void describe_partitioned_receive(Session& session, Description& out, MPI_Comm comm, int source,
                                  Amount message);
/// A message that a probe took out of the queue.
void describe_probed(Session& session, Description& out, MPI_Comm comm, const MPI_Status& status);

/// The reduction of a call that has been described.
inline void set_reduction(Description& out, MPI_Op op) { out.call.reduction = reduction_of(op); }

/// One-sided: between this process and `target`. A transfer is complete at the next synchronisation; that of
/// a window's processes or with one of them blocks.
void describe_transfer(Session& session, Description& out, MPI_Win window, int target, const Halves& halves);
void describe_synchronisation(Session& session, Description& out, MPI_Win window, int target);
void describe_window(Session& session, Description& out, MPI_Win window);

}  // namespace commlens::capture
