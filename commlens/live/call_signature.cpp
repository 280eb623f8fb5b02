#include "commlens/live/call_signature.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "commlens/base/dtype.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/trace/op_lanes.hpp"

namespace commlens {

bool has_own_sizes(std::string_view function) {
  if (!function.starts_with("MPI_")) {
    return false;
  }
  for (const std::string_view end : {"_c", "_init"}) {
    if (function.ends_with(end)) {
      function.remove_suffix(end.size());
    }
  }
  return function.ends_with('v') || function.ends_with('w');
}

CallPart part_of(const Trace& tables, const CommOp& op, Rank rank) {
  const bool is_known = tables.groups.knows_members(op.group);
  const std::vector<Rank> members = is_known ? tables.groups.members(op.group, rank) : std::vector<Rank>{};
  if (is_point_to_point(op.kind)) {
    if (members.size() != 2) {
      return op.kind == CommKind::recv && members.empty() ? CallPart::receive_any : CallPart::other;
    }
    if (members.front() == members.back()) {
      return CallPart::other;
    }
    return op.kind == CommKind::send ? CallPart::send : CallPart::receive;
  }
  const bool is_member = std::find(members.begin(), members.end(), rank) != members.end();
  const bool is_collective = lane_kind(op.kind, tables.names.text(op.name)) != LaneKind::other;
  return is_member && members.size() > 1 && is_collective ? CallPart::collective : CallPart::other;
}

CallChannel channel_of(const Trace& tables, const CommOp& op, Rank rank, CallPart part) {
  return {.is_pair = part != CallPart::collective,
          .is_window = lane_kind(CommKind::barrier, tables.names.text(op.name)) == LaneKind::window,
          .members = tables.groups.members(op.group, rank),
          .communicator = tables.groups.communicator(op.group)};
}

std::int64_t root_of(const Trace& tables, const CommOp& op, Rank rank) {
  if (!op.root || !tables.groups.knows_members(op.group)) {
    return -1;
  }
  const std::vector<Rank> members = tables.groups.members(op.group, rank);
  const auto place = static_cast<std::size_t>(op.root->value);
  return place < members.size() ? members[place].value : -1;
}

bool are_compatible(const CallSignature& a, const CallSignature& b) {
  if (a == b) {
    return true;
  }
  const bool has_bytes = a.dtype && b.dtype && (*a.dtype == DType::uint8 || *b.dtype == DType::uint8);
  return has_bytes && a.kind == b.kind && a.root == b.root &&
         saturating_product(a.elements, size_of(*a.dtype)) ==
             saturating_product(b.elements, size_of(*b.dtype));
}

// Which of a call's two sizes is the same on all members: docs/volumes.md#the-table.
CallSignature signature_of(const CommOp& op, const std::string& name, std::int64_t root) {
  CallSignature signature{.kind = op.kind, .name = {}, .dtype = {}, .root = root};
  if (op.kind == CommKind::other) {
    signature.name = name;
    return signature;
  }
  // PyTorch's all_to_all may move other amounts to each rank.
  const bool may_be_uneven = op.kind == CommKind::all_to_all && !name.starts_with("MPI_");
  if (op.match != Match::exact || op.rounding.value > 0 || may_be_uneven || has_own_sizes(name)) {
    return signature;
  }
  signature.dtype = op.dtype;
  signature.elements = op.kind == CommKind::all_gather ? op.output.value
                       : op.kind == CommKind::reduce_scatter || op.kind == CommKind::all_to_all
                           ? op.input.value
                           : std::max(op.input.value, op.output.value);
  return signature;
}

CallSignature signature_of(const Trace& tables, const CommOp& op, Rank rank) {
  return signature_of(op, tables.names.text(op.name), root_of(tables, op, rank));
}

SeenCall seen_call(const Trace& tables, Rank rank, const StatedCall& call, CallPart part, std::size_t channel,
                   std::int64_t number) {
  const CommOp& op = tables.op(call.op);
  const bool has_members = channel == k_no_channel && tables.groups.knows_members(op.group);
  return {.part = part,
          .channel = channel,
          .number = number,
          .op = op,
          .name = tables.names.text(op.name),
          .tag = tables.tags.text(op.tag),
          .site = tables.names.text(op.site),
          .members = has_members ? tables.groups.members(op.group, rank) : std::vector<Rank>{},
          .root = root_of(tables, op, rank),
          .iteration = call.iteration,
          .started_ns = call.started_ns,
          .is_on_device = call.is_on_device};
}

std::vector<std::pair<CallSignature, std::vector<Rank>>> sides_of(
    const std::vector<std::pair<Rank, const CallSignature*>>& calls) {
  std::vector<std::pair<CallSignature, std::vector<Rank>>> sides;
  std::map<const CallSignature*, std::size_t> side_of;
  for (const auto& [rank, signature] : calls) {
    const auto [side, is_new] = side_of.try_emplace(signature, sides.size());
    if (is_new) {
      const CallSignature& made = *signature;
      const auto same = std::find_if(sides.begin(), sides.end(),
                                     [&](const auto& known) { return are_compatible(known.first, made); });
      side->second = static_cast<std::size_t>(same - sides.begin());
      if (same == sides.end()) {
        sides.emplace_back(made, std::vector<Rank>{});
      }
    }
    sides[side->second].second.push_back(rank);
  }
  std::stable_sort(sides.begin(), sides.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return sides;
}

}  // namespace commlens
