#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// What one call takes on a machine, with its 90 % interval.
struct RowTime {
  double seconds = 0;
  double low = 0;
  double high = 0;
  std::string provenance;
};

/// Calls of one class of ranks that are equal in all but order: a row of every table and of `predict`'s JSON.
/// Totals are of one rank of the class. Wire bytes per docs/volumes.md.
struct BreakdownRow {
  RankRange ranks;
  CommKind kind = CommKind::other;
  Axis axis = Axis::unknown;
  std::int64_t group_size = 1;
  Phase phase = Phase::other;
  DType dtype = DType::uint8;
  Bytes message;               // of one call
  Bytes rounding;              // the message is known to within this (printed logs)
  Match match = Match::exact;  // other: the message is an expected value
  std::int64_t calls = 0;
  Bytes total_message;
  Bytes wire_per_rank;
  Bytes wire_inter_node;  // part of wire_per_rank that leaves the node; 0 without ranks_per_node
  RuleId rule{};
  TagId tag{};
  NameId name{};
  NameId site{};
  OpId op{};                    // of the first of the calls
  std::optional<RowTime> time;  // of one call, where a machine is given
  bool no_traffic() const { return group_size == 1; }
};

struct BreakdownOptions {
  std::vector<Iteration> iterations;  // iterations to sum; empty: all
  std::optional<Rank> rank;           // only this rank's stream
  std::int64_t ranks_per_node = 0;    // 0: do not split by node
  bool by_rule = true;                // rows with different rule, tag or name stay apart
  bool by_tag = true;                 // with by_rule: false lets rows differ in their tag alone
  Accounting accounting =
      Accounting::messages;  // deepspeed_logger: the sizes that its comms logger would show
};

/// The axis of a group; a group of all `job_ranks` is the world even if its axis is not known.
Axis axis_in(const Trace& trace, const CommOp& op, std::int64_t job_ranks);

/// Rows in the order of first appearance, stream by stream.
std::vector<BreakdownRow> breakdown(const Trace& trace, const BreakdownOptions& options);

/// Sums over one rank (`per_rank`: the first of `rows`' first class, or the chosen rank) and over the whole
/// job.
struct Totals {
  std::int64_t calls = 0;
  Bytes message;
  Bytes wire;
};
Totals total_per_rank(const std::vector<BreakdownRow>& rows, RankRange ranks);

/// Wire bytes summed over all ranks of all classes.
Bytes aggregate_wire(const std::vector<BreakdownRow>& rows);

}  // namespace commlens
