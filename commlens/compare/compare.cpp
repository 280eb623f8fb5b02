#include "commlens/compare/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "commlens/base/sums.hpp"
#include "commlens/compare/canonical.hpp"
#include "commlens/compare/differences.hpp"
#include "commlens/compare/match.hpp"
#include "commlens/compare/scope.hpp"
#include "commlens/compare/stream_calls.hpp"

namespace commlens {
namespace {

class Comparer {
 public:
  Comparer(const Trace& a, const Trace& b, const CompareOptions& options, Scope scope)
      : scope_(std::move(scope)),
        a_(a),
        b_(b),
        calls_a_(a, options, scope_.iterations),
        calls_b_(b, options, scope_.iterations),
        matcher_(a, b),
        differences_(a, b, options.rules) {}

  Comparison run() {
    for (const Segment& segment : scope_.segments) {
      if (segment.ranks.count() == 1 ||
          matcher_.uniform(ops_in(calls_a_, *segment.a), ops_in(calls_b_, *segment.b), segment.ranks)) {
        add(segment);
        continue;
      }
      for (const Rank rank : segment.ranks) {
        add({{rank, rank}, segment.a, segment.b});
      }
    }
    result_.iterations = scope_.iterations;
    result_.only_a = scope_.only_a;
    result_.only_b = scope_.only_b;
    result_.ranks = scope_.ranks;
    result_.ranks_only_a = scope_.ranks_only_a;
    result_.ranks_only_b = scope_.ranks_only_b;
    result_.differences = differences_.sorted();
    return std::move(result_);
  }

 private:
  std::vector<OpId> ops_in(StreamCalls& calls, const RankStream& stream) {
    std::set<OpId> ops;
    for (const Iteration iteration : scope_.iterations) {
      for (const auto& [op, times] : calls.at(stream, iteration).counts) {
        ops.insert(op);
      }
    }
    return {ops.begin(), ops.end()};
  }

  void add(const Segment& segment) {
    const std::int64_t ranks = segment.ranks.count();
    matcher_.look_from(segment.ranks.first);
    for (const Iteration iteration : scope_.iterations) {
      const IterationCalls& a = calls_a_.at(*segment.a, iteration);
      const IterationCalls& b = calls_b_.at(*segment.b, iteration);
      const Matching matching = matcher_.match(a, b);
      result_.calls_a += static_cast<std::int64_t>(a.sequence.size()) * ranks;
      result_.calls_b += static_cast<std::int64_t>(b.sequence.size()) * ranks;
      result_.ignored += (a.ignored + b.ignored) * ranks;
      result_.exact += matching.exact * ranks;
      result_.order_differs += matching.leftover.empty() && !matching.same_order ? ranks : 0;
      for (const Pair& pair : matching.leftover) {
        add(pair, segment.ranks, iteration);
      }
      for (const ReduceOpDifference& difference : matching.reduce_ops) {
        add(difference, ranks);
      }
      for (const CountedCalls& counted : matching.counted) {
        add(counted, segment.ranks);
      }
    }
  }

  void add(const CountedCalls& more, RankRange ranks) {
    const CommOp& op = a_.op(more.a);
    Axis axis = axis_of(a_, op, b_.groups.mesh(), ranks.first);
    if (axis == Axis::unknown) {
      axis = axis_of(b_, b_.op(more.b), a_.groups.mesh(), ranks.first);
    }
    const std::int64_t size = a_.groups.size(op.group);
    const auto found = std::find_if(
        result_.counted_sizes.begin(), result_.counted_sizes.end(), [&](const CountedSizes& one) {
          return one.kind == op.kind && one.axis == axis && one.group_size == size;
        });
    CountedSizes& sum = found == result_.counted_sizes.end()
                            ? result_.counted_sizes.emplace_back(CountedSizes{op.kind, axis, size, 0, {}, {}})
                            : *found;
    sum.calls += more.calls * ranks.count();
    sum.message_a = saturating_sum(sum.message_a, saturating_product(more.message_a, ranks.count()));
    sum.message_b = saturating_sum(sum.message_b, saturating_product(more.message_b, ranks.count()));
  }

  void add(const ReduceOpDifference& more, std::int64_t ranks) {
    const auto found = std::find_if(result_.reduce_ops.begin(), result_.reduce_ops.end(),
                                    [&](const ReduceOpDifference& one) {
                                      return one.kind == more.kind && one.a == more.a && one.b == more.b;
                                    });
    ReduceOpDifference& sum =
        found == result_.reduce_ops.end()
            ? result_.reduce_ops.emplace_back(ReduceOpDifference{more.kind, more.a, more.b, 0})
            : *found;
    sum.calls += more.calls * ranks;
  }

  void add(const Pair& pair, RankRange ranks, Iteration iteration) {
    const Verdict verdict =
        pair.has_a && pair.has_b ? Verdict::size : (pair.has_a ? Verdict::missing : Verdict::extra);
    std::int64_t& total = verdict == Verdict::size      ? result_.size
                          : verdict == Verdict::missing ? result_.missing
                                                        : result_.extra;
    total += pair.times * ranks.count();
    differences_.add({verdict, pair.has_a ? &a_.op(pair.a) : nullptr, pair.has_b ? &b_.op(pair.b) : nullptr,
                      ranks, iteration, pair.times});
  }

  Scope scope_;
  const Trace& a_;
  const Trace& b_;
  StreamCalls calls_a_;
  StreamCalls calls_b_;
  Matcher matcher_;
  Differences differences_;
  Comparison result_;
};

}  // namespace

std::int64_t Comparison::other_reduce_op() const {
  std::int64_t calls = 0;
  for (const ReduceOpDifference& difference : reduce_ops) {
    calls += difference.calls;
  }
  return calls;
}

bool CountedSizes::are_apart() const {
  const auto a = static_cast<double>(message_a.value);
  const auto b = static_cast<double>(message_b.value);
  return std::abs(a - b) > k_counted_tolerance * std::max(a, b);
}

std::string_view name_of(Verdict verdict) {
  constexpr std::array<std::string_view, 4> names = {"exact", "size", "missing", "extra"};
  return names.at(static_cast<std::size_t>(verdict));
}

Result<Comparison> compare(const Trace& a, const Trace& b, const CompareOptions& options) {
  return common_scope(a, b, options).map([&](Scope scope) {
    return Comparer(a, b, options, std::move(scope)).run();
  });
}

}  // namespace commlens
