#include "commlens/compare/differences.hpp"

#include <algorithm>

#include "commlens/comm/volume.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/trace/logger_view.hpp"

namespace commlens {
namespace {

const CommOp& either(const FoundDifference& finding) {
  return finding.a != nullptr ? *finding.a : *finding.b;
}

double bytes_of(const std::optional<CommOp>& op, bool is_logged) {
  return op ? static_cast<double>((is_logged ? logged_bytes(*op) : message_bytes(*op)).value) : 0.0;
}

double differing_bytes(const Difference& difference) {
  const double a = bytes_of(difference.a, difference.logged_a);
  const double b = bytes_of(difference.b, difference.logged_b);
  return std::max(a - b, b - a) * static_cast<double>(difference.calls);
}

}  // namespace

Axis Differences::axis_of_side(bool is_a, const CommOp& op, RankRange ranks) {
  if (axes_ranks_ != ranks) {
    axes_ranks_ = ranks;
    axes_.clear();
  }
  const auto [found, added] = axes_.try_emplace({is_a, op.group, op.kind}, Axis::unknown);
  if (added) {
    found->second = is_a ? axis_of(a_, op, b_.groups.mesh(), ranks.first)
                         : axis_of(b_, op, a_.groups.mesh(), ranks.first);
  }
  return found->second;
}

Difference Differences::described(const FoundDifference& finding, Axis axis) const {
  Difference difference;
  const Trace& trace = finding.a != nullptr ? a_ : b_;
  const CommOp& op = either(finding);
  difference.verdict = finding.verdict;
  difference.logged_a = a_.provenance.accounting == Accounting::comms_logger;
  difference.logged_b = b_.provenance.accounting == Accounting::comms_logger;
  difference.kind = op.kind;
  difference.axis = axis;
  difference.group_size = trace.groups.size(op.group);
  difference.example_rank = finding.ranks.first;
  difference.example_iteration = finding.iteration;
  difference.example_group = trace.groups.members(op.group, finding.ranks.first);
  if (finding.a != nullptr) {
    difference.a = *finding.a;
    difference.rule = a_.rule(finding.a->rule);
    difference.tag = a_.tags.text(finding.a->tag);
  }
  if (finding.b != nullptr) {
    difference.b = *finding.b;
    if (difference.rule.name.empty()) {
      difference.rule = b_.rule(finding.b->rule);
    }
    if (difference.tag.empty()) {
      difference.tag = b_.tags.text(finding.b->tag);
    }
  }
  if (rules_ != nullptr) {
    difference.cause = cause_of_rule(*rules_, difference.rule.name, axis);
  }
  return difference;
}

void Differences::add(const FoundDifference& finding) {
  const auto shape = [](const CommOp* op) {
    return op == nullptr ? Shape{} : Shape{op->dtype, op->input, op->output};
  };
  const CommOp& op = either(finding);
  Axis axis = Axis::unknown;
  if (finding.a != nullptr) {
    axis = axis_of_side(true, *finding.a, finding.ranks);
  }
  if (axis == Axis::unknown && finding.b != nullptr) {
    axis = axis_of_side(false, *finding.b, finding.ranks);
  }
  const std::int64_t size = (finding.a != nullptr ? a_ : b_).groups.size(op.group);
  const Key key{finding.verdict,
                op.kind,
                axis,
                size,
                shape(finding.a),
                shape(finding.b),
                finding.a == nullptr ? RuleId{} : finding.a->rule,
                finding.b == nullptr ? RuleId{} : finding.b->rule};
  const auto [found, added] = places_.try_emplace(key, differences_.size());
  if (added) {
    differences_.push_back(described(finding, axis));
    counted_.push_back({Rank{-1}, Rank{-1}});
  }
  Difference& difference = differences_[found->second];
  difference.calls += finding.ranks.count() * finding.times;
  if (counted_[found->second] != finding.ranks) {
    counted_[found->second] = finding.ranks;
    difference.ranks += finding.ranks.count();
  }
}

std::vector<Difference> Differences::sorted() const {
  std::vector<Difference> result = differences_;
  std::stable_sort(result.begin(), result.end(), [](const Difference& left, const Difference& right) {
    return differing_bytes(left) > differing_bytes(right);
  });
  return result;
}

}  // namespace commlens
