#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A comparison of two views of one job of which one has no iterations (a tool's profile, a library's log):
/// by the number of calls of each rank over the whole job, per op, group and message size. Element types,
/// roots and order are not compared, because such views seldom have them.

/// Whether exactly one of two traces has iterations. A trace without calls counts as having them.
bool one_lacks_iterations(const Trace& a, const Trace& b);

/// The property by which groups of two traces are compared: the most detailed one that both have for every
/// used group.
enum class GroupDetail : std::uint8_t { members, size, nothing };

/// Equal calls, over all ranks that both traces have.
struct WholeJobRow {
  CommKind kind = CommKind::other;
  std::string name;             // of an op without a kind of its own
  std::int64_t group_size = 0;  // 0: not known
  Bytes message;                // of one call; of calls that match although one side's size is rounded: A's
  std::int64_t calls_a = 0;
  std::int64_t calls_b = 0;
  std::int64_t exact = 0;  // of these, pairs of the same rank and group
  bool equal() const { return calls_a == exact && calls_b == exact; }
};

struct WholeJobComparison {
  bool b_lacks_iterations = true;     // else A does
  std::vector<Iteration> iterations;  // of the side that has them
  GroupDetail collectives = GroupDetail::members;
  GroupDetail messages = GroupDetail::members;  // of send and recv: source and destination
  std::int64_t ranks = 0;                       // compared
  std::int64_t ranks_only_a = 0;                // not compared
  std::int64_t ranks_only_b = 0;
  std::int64_t calls_a = 0;  // barriers and ignored ops skipped
  std::int64_t calls_b = 0;
  std::int64_t exact = 0;
  std::int64_t ignored = 0;       // barriers and ignored ops of both sides
  std::vector<WholeJobRow> rows;  // those that differ first, of these most bytes first
  bool equal() const { return calls_a == exact && calls_b == exact; }
};

/// Compares over the whole job. `options.iterations` selects iterations of the side that has them; all calls
/// of the other side are used. A size that is rounded or depends on data matches any size within its bounds.
/// Fails if the traces share no rank or no requested iteration exists.
Result<WholeJobComparison> compare_whole_job(const Trace& a, const Trace& b, const CompareOptions& options);

}  // namespace commlens
