#include "commlens/bench/replay_others.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace commlens::bench {

namespace {

/// Whether the parts of a call of this name may be of unequal sizes: those of MPI's v-variants, and ours.
bool may_be_unequal(std::string_view name) {
  return name.ends_with('v') || name == "gather" || name == "scatter";
}

}  // namespace

OtherCall other_call_of(const Trace& trace, const CommOp& op) {
  constexpr std::array<std::pair<std::string_view, OtherCall>, 16> k_names = {
      {{"gather", OtherCall::gather},
       {"MPI_Gather", OtherCall::gather},
       {"MPI_Igather", OtherCall::gather},
       {"ncclGather", OtherCall::gather},
       {"Gather", OtherCall::gather},
       {"MPI_Gatherv", OtherCall::gather},
       {"MPI_Igatherv", OtherCall::gather},
       {"Gatherv", OtherCall::gather},
       {"scatter", OtherCall::scatter},
       {"MPI_Scatter", OtherCall::scatter},
       {"MPI_Iscatter", OtherCall::scatter},
       {"ncclScatter", OtherCall::scatter},
       {"Scatter", OtherCall::scatter},
       {"MPI_Scatterv", OtherCall::scatter},
       {"MPI_Iscatterv", OtherCall::scatter},
       {"Scatterv", OtherCall::scatter}}};
  const std::string& own = trace.names.text(op.name);
  for (const auto& [name, call] : k_names) {
    if (own == name) {
      return op.kind == CommKind::other ? call : OtherCall::none;
    }
  }
  return OtherCall::none;
}

std::optional<std::string> fault_of_other(const Trace& trace, const CommOp& op, Rank rank) {
  constexpr std::string_view k_advice = "--skip-other leaves such calls out";
  const std::string& name = trace.names.text(op.name);
  const OtherCall other = other_call_of(trace, op);
  if (other == OtherCall::none) {
    return fmt::format("no transport makes {}; {}", name.empty() ? "it" : name, k_advice);
  }
  if (!trace.groups.knows_members(op.group)) {
    return fmt::format("the trace does not say which ranks the group of its {} has; {}", name, k_advice);
  }
  const std::vector<Rank> members = trace.groups.members(op.group, rank);
  const auto ranks = static_cast<std::int64_t>(members.size());
  if (!op.root || op.root->value < 0 || op.root->value >= ranks) {
    return fmt::format("the trace does not say which rank is the root of its {}; {}", name, k_advice);
  }
  const bool is_root = members[static_cast<std::size_t>(op.root->value)] == rank;
  const bool gathers = other == OtherCall::gather;
  const Elements part = gathers ? op.input : op.output;
  const Elements all = gathers ? op.output : op.input;
  if (all.value != (is_root ? part.value * ranks : 0) && !(is_root && may_be_unequal(name))) {
    return fmt::format("its {} of {} elements each has {} at {} of {} ranks, not {}; {}", name, part.value,
                       all.value, is_root ? "the root" : "another one", ranks,
                       is_root ? part.value * ranks : 0, k_advice);
  }
  return std::nullopt;
}

}  // namespace commlens::bench
