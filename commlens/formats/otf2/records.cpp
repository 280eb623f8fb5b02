#include "commlens/formats/otf2/records.hpp"

#include <algorithm>
#include <array>

#include <otf2/otf2.h>

#include "commlens/base/text.hpp"

namespace commlens::formats::otf2 {
namespace {

/// How each operation is called, and what EZTrace (which writes the sizes of one peer's part) omits.
struct CollectiveRow {
  std::uint8_t op;
  CommKind kind;
  std::string_view name;
  bool has_part_in = false;   // EZTrace: what is sent is the part of one peer
  bool has_part_out = false;  // the same of what is received
};

constexpr std::array<CollectiveRow, 17> k_collectives = {{
    {OTF2_COLLECTIVE_OP_BARRIER, CommKind::barrier, "MPI_Barrier"},
    {OTF2_COLLECTIVE_OP_BCAST, CommKind::broadcast, "MPI_Bcast"},
    {OTF2_COLLECTIVE_OP_GATHER, CommKind::other, "MPI_Gather"},
    {OTF2_COLLECTIVE_OP_GATHERV, CommKind::other, "MPI_Gatherv"},
    {OTF2_COLLECTIVE_OP_SCATTER, CommKind::other, "MPI_Scatter"},
    {OTF2_COLLECTIVE_OP_SCATTERV, CommKind::other, "MPI_Scatterv"},
    {OTF2_COLLECTIVE_OP_ALLGATHER, CommKind::all_gather, "MPI_Allgather", false, true},
    {OTF2_COLLECTIVE_OP_ALLGATHERV, CommKind::all_gather, "MPI_Allgatherv"},
    {OTF2_COLLECTIVE_OP_ALLTOALL, CommKind::all_to_all, "MPI_Alltoall", true, true},
    {OTF2_COLLECTIVE_OP_ALLTOALLV, CommKind::all_to_all, "MPI_Alltoallv"},
    {OTF2_COLLECTIVE_OP_ALLTOALLW, CommKind::all_to_all, "MPI_Alltoallw"},
    {OTF2_COLLECTIVE_OP_ALLREDUCE, CommKind::all_reduce, "MPI_Allreduce"},
    {OTF2_COLLECTIVE_OP_REDUCE, CommKind::reduce, "MPI_Reduce"},
    {OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK, CommKind::reduce_scatter, "MPI_Reduce_scatter_block"},
    {OTF2_COLLECTIVE_OP_REDUCE_SCATTER, CommKind::reduce_scatter, "MPI_Reduce_scatter"},
    {OTF2_COLLECTIVE_OP_SCAN, CommKind::other, "MPI_Scan"},
    {OTF2_COLLECTIVE_OP_EXSCAN, CommKind::other, "MPI_Exscan"},
}};

bool has_one_tensor(CommKind kind) {
  return kind == CommKind::all_reduce || kind == CommKind::broadcast || kind == CommKind::reduce;
}

/// An absurd size becomes one that CallBuilder refuses, not a negative one.
std::int64_t size_or_absurd(std::uint64_t bytes) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX));
}

CallRecord blank(Rank self) {
  CallRecord record;
  record.rank = self.value;
  record.iteration_unknown = true;
  record.dtype = DType::uint8;  // OTF2 knows bytes
  record.group.is_given = true;
  return record;
}

}  // namespace

CallRecord record_of(const Otf2Definitions& definitions, Rank self, const Otf2Message& message,
                     bool is_ours) {
  CallRecord record = blank(self);
  record.op = message.sends ? CommKind::send : CommKind::recv;
  record.input_bytes = message.sends ? size_or_absurd(message.bytes) : 0;
  record.output_bytes = message.sends ? 0 : size_or_absurd(message.bytes);
  if (const auto members = definitions.members(message.comm, self);
      members && message.peer < members->size()) {
    const Rank peer = (*members)[message.peer];
    record.group.ranks = message.sends ? std::vector{self, peer} : std::vector{peer, self};
    record.peer = peer.value;
  }
  record.name = is_ours ? "" : message.name;
  record.communicator = is_ours ? "" : definitions.comm_label(message.comm);
  return record;
}

std::optional<CallRecord> record_of(const Otf2Definitions& definitions, Rank self,
                                    const Otf2Collective& collective, bool is_ours) {
  const auto* const row = std::find_if(k_collectives.begin(), k_collectives.end(),
                                       [&](const CollectiveRow& each) { return each.op == collective.op; });
  if (row == k_collectives.end()) {
    return std::nullopt;
  }
  CallRecord record = blank(self);
  record.op = row->kind;
  record.name = is_ours && row->kind != CommKind::other ? "" : row->name;
  std::vector<Rank> members = definitions.members(collective.comm, self).value_or(std::vector<Rank>());
  std::uint64_t sent = collective.sent;
  std::uint64_t received = collective.received;
  if (!is_ours && definitions.is_eztrace()) {
    const std::uint64_t peers = std::max<std::size_t>(members.size(), 1);
    __builtin_mul_overflow(sent, row->has_part_in ? peers : 1, &sent);
    __builtin_mul_overflow(received, row->has_part_out ? peers : 1, &received);
  }
  if (!is_ours && has_one_tensor(row->kind)) {  // a root may only send, the others only receive
    sent = received = std::max(sent, received);
  }
  record.input_bytes = size_or_absurd(sent);
  record.output_bytes = size_or_absurd(received);
  if (collective.root == OTF2_COLLECTIVE_ROOT_SELF) {
    record.root = self.value;
  } else if (collective.root < members.size()) {
    record.root = members[collective.root].value;
  }
  record.root_unknown = has_root(row->kind) && !record.root;
  record.communicator = is_ours || members.size() == 1 ? "" : definitions.comm_label(collective.comm);
  record.group.ranks = std::move(members);
  return record;
}

std::vector<Rank> ranks_in(std::string_view text) {
  std::vector<Rank> ranks;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const Result<std::int64_t> rank = parse_integer(text.substr(0, end));
    if (!rank) {
      return {};
    }
    ranks.push_back(Rank{*rank});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return ranks;
}

std::optional<std::uint8_t> otf2_collective(CommKind kind, std::string_view name) {
  const auto* const row =
      std::find_if(k_collectives.begin(), k_collectives.end(), [&](const CollectiveRow& each) {
        return each.kind == kind && (kind != CommKind::other || each.name == name);
      });
  return row == k_collectives.end() ? std::nullopt : std::optional(row->op);
}

}  // namespace commlens::formats::otf2
