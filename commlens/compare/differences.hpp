#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "commlens/compare/canonical.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Calls (or pairs of calls) that differ, on all ranks of a segment.
struct FoundDifference {
  Verdict verdict = Verdict::missing;
  const CommOp* a = nullptr;
  const CommOp* b = nullptr;
  RankRange ranks;
  Iteration iteration = 0;
  std::int64_t times = 1;  // on each of the ranks
};

/// Merges equal findings into differences.
class Differences {
 public:
  /// `rules` may be null; then no difference has a cause.
  Differences(const Trace& a, const Trace& b, const RuleBook* rules) : a_(a), b_(b), rules_(rules) {}
  /// Findings of the same ranks must be added consecutively.
  void add(const FoundDifference& finding);
  /// Most bytes first.
  std::vector<Difference> sorted() const;

 private:
  using Shape = std::tuple<DType, Elements, Elements>;  // of a call
  using Key = std::tuple<Verdict, CommKind, Axis, std::int64_t, Shape, Shape, RuleId, RuleId>;
  Axis axis_of_side(bool is_a, const CommOp& op, RankRange ranks);
  Difference described(const FoundDifference& finding, Axis axis) const;

  const Trace& a_;
  const Trace& b_;
  const RuleBook* rules_;
  std::map<Key, std::size_t> places_;
  std::vector<Difference> differences_;
  std::vector<RankRange> counted_;  // per difference: the ranks that its `ranks` counted last
  std::map<std::tuple<bool, GroupId, CommKind>, Axis> axes_;  // on the current ranks
  RankRange axes_ranks_{Rank{-1}, Rank{-1}};
};

}  // namespace commlens
