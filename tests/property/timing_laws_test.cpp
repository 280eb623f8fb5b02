// Laws of the analyses of time, on random traces.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "commlens/summary/bubble.hpp"
#include "commlens/summary/intervals.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/stragglers.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

nanoseconds small_time() { return nanoseconds(*rc::gen::inRange(0, 60)); }

Intervals random_intervals() {
  Intervals result;
  const int count = *rc::gen::inRange(0, 12);
  for (int i = 0; i < count; ++i) {
    const nanoseconds started = small_time();
    result.push_back({started, started + nanoseconds(*rc::gen::inRange(0, 12))});
  }
  return result;
}

/// The points of a set, one by one: the slow and obvious way.
std::set<std::int64_t> points_of(const Intervals& intervals) {
  std::set<std::int64_t> points;
  for (const Interval& interval : intervals) {
    for (std::int64_t at = interval.started.count(); at < interval.finished.count(); ++at) {
      points.insert(at);
    }
  }
  return points;
}

bool is_normal(const Intervals& intervals) {
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].started >= intervals[i].finished ||
        (i > 0 && intervals[i].started <= intervals[i - 1].finished)) {
      return false;
    }
  }
  return true;
}

RC_GTEST_PROP(Intervals, AreSetsOfPoints, ()) {
  const Intervals any_a = random_intervals();
  const Intervals any_b = random_intervals();
  const Intervals a = united(any_a);
  const Intervals b = united(any_b);
  const std::set<std::int64_t> in_a = points_of(any_a);
  const std::set<std::int64_t> in_b = points_of(any_b);
  std::set<std::int64_t> both;
  std::set<std::int64_t> common;
  std::set<std::int64_t> only_a;
  std::set_union(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(), std::inserter(both, both.end()));
  std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                        std::inserter(common, common.end()));
  std::set_difference(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                      std::inserter(only_a, only_a.end()));
  RC_ASSERT(is_normal(a) && is_normal(united(a, b)) && is_normal(difference(a, b)));
  RC_ASSERT(points_of(a) == in_a);
  RC_ASSERT(points_of(united(a, b)) == both);
  RC_ASSERT(points_of(difference(a, b)) == only_a);
  RC_ASSERT(length(a).count() == std::ssize(in_a));
  RC_ASSERT(common_length(a, b).count() == std::ssize(common));
}

CommOp random_op(Trace& trace, std::int64_t ranks, Rank rank) {
  CommOp op{.kind = *rc::gen::elementOf(std::vector{CommKind::all_reduce, CommKind::barrier, CommKind::send,
                                                    CommKind::recv, CommKind::broadcast, CommKind::other})};
  const Rank other{(rank.value + *rc::gen::inRange<std::int64_t>(0, ranks)) % ranks};
  if (is_point_to_point(op.kind)) {
    op.group = trace.groups.intern(
        op.kind == CommKind::send ? std::vector{rank, other} : std::vector{other, rank}, Axis::pp);
    return op;
  }
  std::vector<Rank> members;
  const bool is_world = *rc::gen::arbitrary<bool>();
  for (Rank member{0}; member.value < ranks; ++member.value) {
    if (is_world || member == rank || member == other) {
      members.push_back(member);
    }
  }
  op.group = trace.groups.intern(members, Axis::dp);
  if (op.kind == CommKind::broadcast) {
    op.root = GroupRank{0};
  }
  return op;
}

/// Ranks that make random calls; those of one iteration come in any order.
Trace random_timed_trace() {
  Trace trace;
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 5);
  for (Rank rank{0}; rank.value < ranks; ++rank.value) {
    RankStream stream{{rank, rank}, {}, {}, {}};
    const int calls = *rc::gen::inRange(0, 25);
    for (int call = 0; call < calls; ++call) {
      stream.events.push_back(
          {trace.intern(random_op(trace, ranks, rank)), *rc::gen::inRange(-1, 3), *rc::gen::inRange(-1, 2)});
      const nanoseconds issued = small_time();
      const nanoseconds started = issued + nanoseconds(*rc::gen::inRange(0, 5));
      stream.times.push_back({issued, started, started + nanoseconds(*rc::gen::inRange(0, 20))});
    }
    if (*rc::gen::arbitrary<bool>()) {
      for (const Interval& interval : random_intervals()) {
        stream.compute.push_back({interval.started, interval.finished, *rc::gen::inRange(-1, 3)});
      }
      std::sort(stream.compute.begin(), stream.compute.end());
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

void check_time(const CommunicationTime& time, bool has_compute) {
  RC_ASSERT(time.total <= time.sum);
  RC_ASSERT(time.total >= nanoseconds(0));
  RC_ASSERT(time.exposed.has_value() == has_compute);
  RC_ASSERT(time.overlapped.has_value() == has_compute);
  if (has_compute) {
    RC_ASSERT(*time.exposed >= nanoseconds(0));
    RC_ASSERT(*time.overlapped >= nanoseconds(0));
    RC_ASSERT(*time.exposed + *time.overlapped == time.total);
  }
}

RC_GTEST_PROP(Overlap, PartsOfAnIterationAddUp, ()) {
  const Trace trace = random_timed_trace();
  for (const IterationOverlap& row : communication_overlap(trace)) {
    const bool has_compute = !trace.stream_of(row.ranks.first)->compute.empty();
    check_time(row.all, has_compute);
    RC_ASSERT(row.all.total <= row.length());
    nanoseconds of_ops{};
    std::int64_t calls = 0;
    for (const OpCommunication& op : row.ops) {
      check_time(op.time, has_compute);
      RC_ASSERT(op.time.total <= row.all.total);
      of_ops += op.time.total;
      calls += op.time.calls;
    }
    RC_ASSERT(of_ops >= row.all.total);
    RC_ASSERT(calls == row.all.calls);
    nanoseconds of_streams{};
    for (const StreamCommunication& stream : row.streams) {
      check_time(stream.time, has_compute);
      of_streams += stream.time.sum;
    }
    RC_ASSERT(of_streams == row.all.sum);
    if (has_compute) {
      const nanoseconds computing_only = *row.compute - *row.all.overlapped;
      RC_ASSERT(computing_only >= nanoseconds(0));
      RC_ASSERT(*row.idle >= nanoseconds(0));
      RC_ASSERT(computing_only + *row.all.overlapped + *row.all.exposed + *row.idle == row.length());
    }
  }
}

RC_GTEST_PROP(Bubble, IsAPartOfTheSpan, ()) {
  const Trace trace = random_timed_trace();
  for (const PipelineBubble& row : pipeline_bubbles(trace).rows) {
    RC_ASSERT(row.bubble() >= nanoseconds(0));
    RC_ASSERT(row.bubble() <= row.span);
    RC_ASSERT(row.in_pipeline_calls >= nanoseconds(0));
    RC_ASSERT(row.in_pipeline_calls <= row.span);
  }
}

RC_GTEST_PROP(Bubble, OfTheIdealLiesBetweenNothingAndAll, ()) {
  const PipelineShape shape{*rc::gen::inRange<std::int64_t>(1, 1000),
                            *rc::gen::inRange<std::int64_t>(1, 1000), *rc::gen::inRange<std::int64_t>(1, 10)};
  RC_ASSERT(shape.ideal_bubble() >= 0);
  RC_ASSERT(shape.ideal_bubble() < 1);
}

RC_GTEST_PROP(Stragglers, EveryWaitHasOneCause, ()) {
  const Stragglers waits = stragglers(random_timed_trace());
  nanoseconds caused{};
  nanoseconds waited{};
  for (const RankLateness& rank : waits.ranks) {
    for (const Lateness& lateness : {rank.collectives, rank.messages}) {
      RC_ASSERT(lateness.waited >= nanoseconds(0));
      RC_ASSERT(lateness.caused >= nanoseconds(0));
      RC_ASSERT(lateness.last <= lateness.instances);
      caused += lateness.caused;
      waited += lateness.waited;
    }
  }
  RC_ASSERT(caused == waited);
  nanoseconds listed{};
  for (const CollectiveWait& row : waits.collectives) {
    RC_ASSERT(row.waited <= row.in_calls);
    RC_ASSERT(row.longest <= row.waited);
    listed += row.waited;
  }
  for (const PairWait& pair : waits.pairs) {
    RC_ASSERT(pair.sender_first + pair.receiver_first <= pair.messages);
    RC_ASSERT(pair.sender_first > 0 || pair.sender_waited == nanoseconds(0));
    RC_ASSERT(pair.receiver_first > 0 || pair.receiver_waited == nanoseconds(0));
    listed += pair.sender_waited + pair.receiver_waited;
  }
  RC_ASSERT(listed == waited);
}

RC_GTEST_PROP(Stragglers, TheLastToArriveOfTheWorstWaitedForNobody, ()) {
  const Stragglers waits = stragglers(random_timed_trace(), {.iterations = {}, .worst = 1000});
  for (const WaitInstance& instance : waits.worst) {
    RC_ASSERT(instance.waited > nanoseconds(0));
    RC_ASSERT(instance.longest > nanoseconds(0));
    RC_ASSERT(instance.longest <= instance.waited);
    RC_ASSERT(instance.longest_waiter != instance.last);
  }
}

RC_GTEST_PROP(Stragglers, DoNotDependOnTheOrderOfTheRanks, ()) {
  Trace trace = random_timed_trace();
  const Stragglers forward = stragglers(trace);
  std::reverse(trace.streams.begin(), trace.streams.end());
  const Stragglers backward = stragglers(trace);
  RC_ASSERT(forward.pairs == backward.pairs);
  RC_ASSERT(forward.incomplete == backward.incomplete);
  RC_ASSERT(forward.instances == backward.instances);
  RC_ASSERT(forward.ranks.size() == backward.ranks.size());
  for (std::size_t row = 0; row < forward.ranks.size(); ++row) {
    RC_ASSERT(forward.ranks[row].rank == backward.ranks[row].rank);
    RC_ASSERT(forward.ranks[row].collectives == backward.ranks[row].collectives);
    RC_ASSERT(forward.ranks[row].messages == backward.ranks[row].messages);
  }
  RC_ASSERT(forward.worst.size() == backward.worst.size());
  for (std::size_t row = 0; row < forward.worst.size(); ++row) {
    RC_ASSERT(forward.worst[row].waited == backward.worst[row].waited);
    RC_ASSERT(forward.worst[row].last == backward.worst[row].last);
  }
}

/// The waits of one channel, matched the slow way: all calls of a rank, kind, group and root in a list.
RC_GTEST_PROP(Stragglers, AgreeWithMatchingOneByOne, ()) {
  const Trace trace = random_timed_trace();
  struct Call {
    nanoseconds arrived;
    nanoseconds ended;
  };
  using Key = std::tuple<Iteration, CommKind, std::vector<Rank>>;
  std::map<Key, std::map<std::int64_t, std::vector<Call>>> calls;
  for (const RankStream& stream : trace.streams) {
    for (std::size_t row = 0; row < stream.events.size(); ++row) {
      const CommOp& op = trace.op(stream.events[row].op);
      if (op.kind == CommKind::all_reduce) {
        calls[{stream.events[row].iteration, op.kind, trace.groups.members(op.group, stream.ranks.first)}]
             [stream.ranks.first.value]
                 .push_back({stream.times[row].issued, stream.times[row].finished});
      }
    }
  }
  nanoseconds waited{};
  for (const auto& [key, by_rank] : calls) {
    const std::vector<Rank>& members = std::get<2>(key);
    for (std::size_t k = 0; members.size() > 1 && by_rank.size() == members.size(); ++k) {
      nanoseconds last{-1};
      bool is_complete = true;
      for (const auto& [rank, list] : by_rank) {
        is_complete = is_complete && k < list.size();
        last = k < list.size() ? std::max(last, list[k].arrived) : last;
      }
      if (!is_complete) {
        break;
      }
      for (const auto& [rank, list] : by_rank) {
        waited += std::min(list[k].ended, last) - list[k].arrived;
      }
    }
  }
  nanoseconds reported{};
  for (const CollectiveWait& row : stragglers(trace).collectives) {
    reported += row.kind == CommKind::all_reduce ? row.waited : nanoseconds(0);
  }
  RC_ASSERT(reported == waited);
}

}  // namespace
}  // namespace commlens
