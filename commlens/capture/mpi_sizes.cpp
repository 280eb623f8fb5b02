#include "commlens/capture/mpi_sizes.hpp"

namespace commlens::capture {
namespace {

/// Both sizes as elements of one type: their own where they agree, else bytes.
void set_sizes(RecordedCall& call, const Halves& halves) {
  const auto& [sent, received] = halves;
  if (sent.elements.value == 0 || received.elements.value == 0 || sent.dtype == received.dtype) {
    call.dtype = sent.elements.value == 0 ? received.dtype : sent.dtype;
    call.input = sent.elements;
    call.output = received.elements;
    return;
  }
  call.dtype = DType::uint8;
  call.input = Elements{sent.bytes().value};
  call.output = Elements{received.bytes().value};
}

RankGroup* open(Description& out, HandleGroup* known) {
  if (known == nullptr) {
    return nullptr;
  }
  out.kind = known->group->is_within_job() ? Description::Kind::call : Description::Kind::outside;
  return out.kind == Description::Kind::call ? known->group : nullptr;
}

/// A tensor that goes from the root to all, or from all to the root. Between two groups one part sends, the
/// other receives, and count and type mean nothing to processes that do neither (MPI_PROC_NULL).
void describe_rooted(Session& session, Description& out, const RootedCall& call, PartOf tensor,
                     CommKind kind) {
  const RankGroup* const ranks = open_group(session, out, call.comm);
  if (ranks == nullptr) {
    return;
  }
  const Part here = part_of(*ranks, call.root);
  const bool is_idle = ranks->is_inter() && here == Part::outside;
  const Amount whole = is_idle ? Amount{} : session.amount(tensor.count, tensor.type);
  Halves halves{whole, whole};
  if (ranks->is_inter()) {
    const bool sends = here == (kind == CommKind::broadcast ? Part::root : Part::other);
    halves = {sends ? whole : Amount{}, sends ? Amount{} : whole};
  }
  describe_collective(out, *ranks, kind, halves);
  set_root(out, *ranks, call.root);
}

}  // namespace

std::int64_t received_bytes(const MPI_Status& status) {
  MPI_Count bytes = 0;
  COMMLENS_REAL(PMPI_Get_elements_x)(&status, handles().byte, &bytes);
  return bytes > 0 ? bytes : 0;
}

RankGroup* open_group(Session& session, Description& out, MPI_Comm comm) {
  return open(out, session.group_of(comm));
}

void describe_collective(Description& out, const RankGroup& ranks, CommKind kind, const Halves& halves) {
  out.call.kind = ranks.is_inter() ? CommKind::other : kind;
  out.call.group = ranks.group();
  set_sizes(out.call, halves);
}

void describe_barrier(Session& session, Description& out, MPI_Comm comm) {
  if (const RankGroup* const ranks = open_group(session, out, comm)) {
    describe_collective(out, *ranks, CommKind::barrier, {});
  }
}

void describe_tensor(Session& session, Description& out, CommKind kind, MPI_Comm comm, Amount tensor) {
  if (const RankGroup* const ranks = open_group(session, out, comm)) {
    describe_collective(out, *ranks, kind, {tensor, tensor});
  }
}

Part part_of(const RankGroup& ranks, int root) {
  if (ranks.is_inter()) {
    return root == MPI_ROOT ? Part::root : root == MPI_PROC_NULL ? Part::outside : Part::other;
  }
  return ranks.self() == root ? Part::root : Part::other;
}

void set_root(Description& out, const RankGroup& ranks, int root) {
  if (!ranks.is_inter() && root >= 0 && root < ranks.size()) {
    out.call.root = GroupRank{root};
  }
}

void describe_broadcast(Session& session, Description& out, const RootedCall& call, PartOf tensor) {
  describe_rooted(session, out, call, tensor, CommKind::broadcast);
}

void describe_reduce(Session& session, Description& out, const RootedCall& call, PartOf tensor) {
  describe_rooted(session, out, call, tensor, CommKind::reduce);
}

void describe_send(Session& session, Description& out, MPI_Comm comm, int peer, Amount message) {
  if (peer == MPI_PROC_NULL) {
    return;
  }
  if (RankGroup* const ranks = open_group(session, out, comm)) {
    out.call.kind = CommKind::send;
    out.call.dtype = message.dtype;
    out.call.input = message.elements;
    out.call.group = ranks->to(peer);
  }
}

void describe_receive(Session& session, Description& out, MPI_Comm comm, int source, Amount most) {
  if (source == MPI_PROC_NULL) {
    return;
  }
  if (RankGroup* const ranks = open_group(session, out, comm)) {
    out.call.kind = CommKind::recv;
    out.call.dtype = most.dtype;
    out.call.output = most.elements;
    out.call.group = ranks->from(source);
    out.source = ranks;
  }
}

void describe_partitioned_receive(Session& session, Description& out, MPI_Comm comm, int source,
                                  Amount message) {
  describe_receive(session, out, comm, source, message);
  out.source = nullptr;
}

void describe_probed(Session& session, Description& out, MPI_Comm comm, const MPI_Status& status) {
  describe_receive(session, out, comm, status.MPI_SOURCE, {DType::uint8, Elements{received_bytes(status)}});
}

void describe_synchronisation(Session& session, Description& out, MPI_Win window, int target) {
  if (target == MPI_PROC_NULL) {
    return;
  }
  if (RankGroup* const ranks = open(out, session.group_of_window(window))) {
    out.call.kind = CommKind::other;
    out.call.group = ranks->with(target);
  }
}

void describe_transfer(Session& session, Description& out, MPI_Win window, int target, const Halves& halves) {
  describe_synchronisation(session, out, window, target);
  set_sizes(out.call, halves);
  out.call.blocking = false;
}

void describe_window(Session& session, Description& out, MPI_Win window) {
  if (const RankGroup* const ranks = open(out, session.group_of_window(window))) {
    describe_collective(out, *ranks, CommKind::other, {});
  }
}

}  // namespace commlens::capture
