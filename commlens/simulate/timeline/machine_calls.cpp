#include "commlens/simulate/timeline/machine_calls.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"
#include "commlens/machine/cost/comm_graph.hpp"

namespace commlens {

Placement placement_of(const std::vector<Rank>& members, std::int64_t ranks_per_node) {
  std::set<std::int64_t> nodes;
  for (const Rank rank : members) {
    nodes.insert(rank.value / ranks_per_node);
  }
  return {static_cast<std::int64_t>(members.size()), static_cast<std::int64_t>(nodes.size())};
}

std::int64_t sharers_of(const Placement& place, std::int64_t ranks_on_node) {
  return place.nodes > 1 ? std::max<std::int64_t>(ranks_on_node / place.per_node(), 1) : 1;
}

namespace {

// Of a call without bytes, or by the links alone; small sizes of docs/results/calibrate.md.
constexpr std::int64_t k_smallest_bytes = 8;
constexpr double k_link_latency_us = 15;
constexpr std::string_view k_by_links = "the links alone";
// As of a library's constants alone (cost/collective.cpp): a third lower to 2.2 times as long.
constexpr double k_links_low = 1.35;
constexpr double k_links_high = 2.2;

/// Bytes per us: of a rank's links inside a node, of the NICs of a node that a group reaches between nodes.
double bytes_per_us(const Machine& machine, const Placement& place) {
  if (place.nodes == 1) {
    return machine.up.bandwidth ? machine.up.bandwidth->value * 1e3 : 0;
  }
  return machine.out.nics && machine.out.bandwidth
             ? nics_of(machine, place) * machine.out.bandwidth->value * 1e3
             : 0;
}

/// How many times its bytes a call takes as long as, where groups beside it share its NICs.
double times_shared(const Machine& machine, const ClassGroup& group) {
  if (group.sharers == 1 || !machine.out.nics) {
    return static_cast<double>(group.sharers);
  }
  const double wanted = static_cast<double>(group.sharers) * nics_of(machine, group.place);
  return std::max(wanted / machine.out.nics->value, 1.0);
}

CollectiveTime by_links(const Machine& machine, const TimedCall& call) {
  CollectiveTime time;
  const double rate = bytes_per_us(machine, call.place);
  const double sent = static_cast<double>(call.bytes.value) * sent_share(call.op, call.place.ranks);
  time.us = k_link_latency_us + std::max(sent / rate, least_us(machine, call));
  time.low_us = time.us / k_links_low;
  time.high_us = time.us * k_links_high;
  time.source_of = std::string(k_by_links);
  return time;
}

/// A kind that has a time; what has none is as a small all_reduce.
CommKind timed_kind(CommKind kind) {
  return kind == CommKind::barrier || kind == CommKind::other ? CommKind::all_reduce : kind;
}

}  // namespace

ClassGroup placed_group(const GroupTable& groups, GroupId group, Rank self, std::int64_t ranks_per_node,
                        std::int64_t job_ranks) {
  ClassGroup placed;
  const std::vector<Rank> members = groups.members(group, self);
  placed.place = members.empty() ? Placement{groups.size(group), ceil_div(groups.size(group), ranks_per_node)}
                                 : placement_of(members, ranks_per_node);
  placed.sharers = sharers_of(placed.place, std::min(ranks_per_node, job_ranks));
  return placed;
}

std::string provenance_text(const CollectiveTime& time) {
  const bool by_links = time.source == TimeSource::uncalibrated && time.source_of == k_by_links;
  return time.source == TimeSource::borrowed ? "borrowed from " + time.source_of
         : by_links                          ? "uncalibrated, by the links alone"
                                             : std::string(name_of(time.source));
}

MachineCalls::MachineCalls(const Machine& machine, const Machine* lender, Library library)
    : machine_(machine),
      lender_(lender),
      library_(std::move(library)),
      is_by_links_(!runs_on(library_.name, machine.processor.architecture)) {}

std::string MachineCalls::text() const {
  return is_by_links_ ? "calls by the links alone"
                      : library_.name + (library_.version.empty() ? "" : " " + library_.version);
}

CollectiveTime MachineCalls::found(const TimedCall& call) {
  if (is_by_links_) {
    if (bytes_per_us(machine_, call.place) <= 0) {
      const bool is_across = call.place.nodes > 1;
      error_ = fmt::format("machine {}: has no {}, which the time of calls {} needs", machine_.name,
                           is_across ? "scale_out.nics and scale_out.bandwidth" : "scale_up.bandwidth",
                           is_across ? "between nodes" : "inside a node");
      return {};
    }
    return by_links(machine_, call);
  }
  CostQuery query;
  query.machine = &machine_;
  query.lender = lender_;
  query.library = library_;
  query.call = call;
  const Result<CollectiveTime> time = collective_time(query);
  if (!time) {
    error_ = time.error().message;
  }
  return time ? *time : CollectiveTime();
}

const CollectiveTime& MachineCalls::time(const CommOp& op, const ClassGroup& group) {
  TimedCall call;
  call.op = timed_kind(op.kind);
  const std::int64_t bytes = std::max(message_bytes(op).value, k_smallest_bytes);
  call.bytes = Bytes{std::llround(static_cast<double>(bytes) * times_shared(machine_, group))};
  call.dtype = op.dtype;
  call.place = group.place;
  const auto key = std::tuple(call.op, call.bytes.value, op.dtype, group.place.ranks, group.place.nodes);
  const auto known = known_.find(key);
  return known != known_.end() ? known->second : known_.emplace(key, found(call)).first->second;
}

}  // namespace commlens
