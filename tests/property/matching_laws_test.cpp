// The calls of several ranks matched while they are read, compared with a slow matching in memory.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "commlens/base/check.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/summary/time_tally.hpp"
#include "commlens/trace/call_source.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

OpId random_meeting(Trace& trace, std::int64_t ranks, Rank rank) {
  CommOp op{.kind = *rc::gen::elementOf(std::vector{CommKind::all_reduce, CommKind::barrier, CommKind::send,
                                                    CommKind::recv, CommKind::broadcast, CommKind::other})};
  const Rank other{*rc::gen::inRange<std::int64_t>(0, ranks)};
  const Axis axis = *rc::gen::elementOf(std::vector{Axis::dp, Axis::tp});
  if (is_point_to_point(op.kind)) {
    op.group = trace.groups.intern(
        op.kind == CommKind::send ? std::vector{rank, other} : std::vector{other, rank}, axis);
    return trace.intern(op);
  }
  std::vector<Rank> members;
  const bool is_world = *rc::gen::arbitrary<bool>();
  for (Rank member{0}; member.value < ranks; ++member.value) {
    if (is_world || member == rank || member == other) {
      members.push_back(member);
    }
  }
  op.group = trace.groups.intern(members, axis);
  if (op.kind == CommKind::broadcast) {
    op.root = GroupRank{*rc::gen::inRange<std::int64_t>(0, std::ssize(members))};
  }
  return trace.intern(op);
}

enum class IterationsAre : std::uint8_t { ascending, any };

/// Ranks with calls of a few ops each, sequential or not; some ranks without times.
Trace trace_of_ranks(IterationsAre iterations) {
  Trace trace;
  const auto ranks = *rc::gen::inRange<std::int64_t>(1, 6);
  for (Rank rank{0}; rank.value < ranks; ++rank.value) {
    std::vector<OpId> ops;
    for (int op = 0; op < 4; ++op) {
      ops.push_back(random_meeting(trace, ranks, rank));
    }
    RankStream stream{{rank, rank}, {}, {}, {}};
    Iteration iteration = *rc::gen::inRange(-1, 2);
    nanoseconds now(*rc::gen::inRange(0, 100));
    const int calls = *rc::gen::inRange(0, 60);
    for (int call = 0; call < calls; ++call) {
      iteration = iterations == IterationsAre::any
                      ? *rc::gen::inRange(-1, 4)
                      : iteration + *rc::gen::weightedElement<int>({{9, 0}, {1, 1}});
      stream.events.push_back({*rc::gen::elementOf(ops), iteration});
      now += nanoseconds(*rc::gen::inRange(0, 20));
      const nanoseconds started = now + nanoseconds(*rc::gen::inRange(0, 5));
      stream.times.push_back({now, started, started + nanoseconds(*rc::gen::inRange(0, 40))});
    }
    if (*rc::gen::inRange(0, 8) == 0) {
      stream.times.clear();
    }
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

/// The source of a trace in memory that gives fewer calls than it is asked for.
CallSource slow_source(const Trace& trace, const std::vector<std::size_t>& sizes) {
  CallSource source = call_source(trace);
  source.calls = [calls = source.calls, sizes, at = std::size_t{0}](StreamCursor& cursor,
                                                                    std::size_t most) mutable {
    return calls(cursor, std::min(most, sizes[at++ % sizes.size()]));
  };
  return source;
}

IterationFacts facts_of(const Trace& trace) {
  IterationSurvey survey;
  visit_calls(trace, [&](const CallBlock& block) { survey.add(block); });
  return survey.facts();
}

auto spelled(const WaitInstance& wait) {
  return std::tuple(wait.kind, wait.axis, wait.members, wait.iteration, wait.index, wait.last,
                    wait.last_arrival, wait.waited, wait.longest_waiter, wait.longest);
}

void expect_equal(const Stragglers& a, const Stragglers& b) {
  RC_ASSERT(a.ranks.size() == b.ranks.size());
  for (std::size_t row = 0; row < a.ranks.size(); ++row) {
    RC_ASSERT(a.ranks[row].rank == b.ranks[row].rank);
    RC_ASSERT(a.ranks[row].collectives == b.ranks[row].collectives);
    RC_ASSERT(a.ranks[row].messages == b.ranks[row].messages);
  }
  RC_ASSERT(a.collectives == b.collectives);
  RC_ASSERT(a.pairs == b.pairs);
  RC_ASSERT(a.worst.size() == b.worst.size());
  for (std::size_t row = 0; row < a.worst.size(); ++row) {
    RC_ASSERT(spelled(a.worst[row]) == spelled(b.worst[row]));
  }
  RC_ASSERT(std::tuple(a.instances, a.messages, a.incomplete) ==
            std::tuple(b.instances, b.messages, b.incomplete));
  RC_ASSERT(std::tuple(a.without_group, a.unclassified, a.without_times, a.too_far_apart) ==
            std::tuple(b.without_group, b.unclassified, b.without_times, b.too_far_apart));
  RC_ASSERT(a.slow.ranks == b.slow.ranks);
  RC_ASSERT(a.slow.groups == b.slow.groups);
}

RC_GTEST_PROP(Matching, DoesNotDependOnHowTheCallsAreRead, ()) {
  const Trace trace =
      trace_of_ranks(*rc::gen::elementOf(std::vector{IterationsAre::ascending, IterationsAre::any}));
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 9)));
  expect_equal(stragglers(slow_source(trace, sizes), facts_of(trace)), stragglers(trace));
}

RC_GTEST_PROP(Matching, OfADirectoryIsThatOfTheTrace, ()) {
  const Trace trace = trace_of_ranks(IterationsAre::ascending);
  const test_support::ScratchDirectory scratch;
  write_trace(trace, scratch / "trace");
  Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "trace");
  RC_ASSERT(calls.has_value());
  IterationSurvey survey;
  calls->visit([&](const CallBlock& block) { survey.add(block); });
  const Stragglers streamed = stragglers(calls->source(), survey.facts());
  expect_equal(streamed, stragglers(trace));
}

/// The slow method: a list of the calls of every member, by the key of matching.
class InMemory {
 public:
  explicit InMemory(const Trace& trace) : trace_(trace) {
    for (const RankStream& stream : trace.streams) {
      for (std::size_t row = 0; row < stream.times.size(); ++row) {
        add(stream.ranks.first, stream.events[row], stream.times[row]);
      }
    }
  }

  nanoseconds waited{};
  nanoseconds caused_by_last{};
  std::map<Rank, Lateness> collectives;
  std::map<Rank, Lateness> messages;
  std::int64_t instances = 0;
  std::int64_t incomplete = 0;
  std::vector<nanoseconds> waits;  // of collectives

  void match() {
    for (const auto& [key, by_member] : calls_) {
      const std::vector<Rank> members = std::get<4>(key);
      std::size_t fewest = SIZE_MAX;
      std::size_t most = 0;
      for (std::size_t member = 0; member < members.size(); ++member) {
        const auto found = by_member.find(member);
        const std::size_t count = found == by_member.end() ? 0 : found->second.size();
        fewest = std::min(fewest, count);
        most = std::max(most, count);
      }
      incomplete += static_cast<std::int64_t>(most - fewest);
      for (std::size_t k = 0; k < fewest; ++k) {
        match_one(std::get<1>(key) == CommKind::send, members, by_member, k);
      }
    }
  }

 private:
  using Key = std::tuple<Iteration, CommKind, GroupId, std::int64_t, std::vector<Rank>>;
  using Calls = std::map<std::size_t, std::vector<Times>>;  // by place of the member

  void add(Rank rank, const CommEvent& event, const Times& times) {
    const CommOp& op = trace_.op(event.op);
    const std::vector<Rank> members = trace_.groups.members(op.group, rank);
    const bool is_pair = is_point_to_point(op.kind);
    if (op.kind == CommKind::other || members.size() == 1 || (is_pair && members[0] == members[1])) {
      return;
    }
    const auto place =
        is_pair ? static_cast<std::size_t>(op.kind == CommKind::recv)
                : static_cast<std::size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
    calls_[{event.iteration, is_pair ? CommKind::send : op.kind, op.group, op.root ? op.root->value : -1,
            members}][place]
        .push_back(times);
  }

  void match_one(bool is_pair, const std::vector<Rank>& members, const Calls& calls, std::size_t k) {
    nanoseconds last = calls.at(0)[k].issued;
    std::size_t last_member = 0;
    for (std::size_t member = 0; member < members.size(); ++member) {
      const nanoseconds issued = calls.at(member)[k].issued;
      last_member = issued > last ? member : last_member;
      last = std::max(last, issued);
    }
    nanoseconds all{};
    std::map<Rank, Lateness>& late = is_pair ? messages : collectives;
    for (std::size_t member = 0; member < members.size(); ++member) {
      const Times& times = calls.at(member)[k];
      const nanoseconds wait = std::min(times.finished, last) - times.issued;
      late[members[member]].waited += wait;
      ++late[members[member]].instances;
      all += wait;
    }
    late[members[last_member]].last += all > nanoseconds(0) ? 1 : 0;
    late[members[last_member]].caused += all;
    instances += is_pair ? 0 : 1;
    if (!is_pair && all > nanoseconds(0)) {
      waits.push_back(all);
    }
  }

  const Trace& trace_;
  std::map<Key, Calls> calls_;
};

RC_GTEST_PROP(Matching, AgreesWithLists, ()) {
  const Trace trace =
      trace_of_ranks(*rc::gen::elementOf(std::vector{IterationsAre::ascending, IterationsAre::any}));
  InMemory expected(trace);
  expected.match();
  const Stragglers found = stragglers(trace, {.iterations = {}, .worst = 5});
  RC_ASSERT(found.instances == expected.instances);
  RC_ASSERT(found.incomplete == expected.incomplete);
  for (const RankLateness& rank : found.ranks) {
    RC_ASSERT(rank.collectives == expected.collectives[rank.rank]);
    RC_ASSERT(rank.messages == expected.messages[rank.rank]);
  }
  std::sort(expected.waits.rbegin(), expected.waits.rend());
  RC_ASSERT(found.worst.size() == std::min<std::size_t>(5, expected.waits.size()));
  for (std::size_t row = 0; row < found.worst.size(); ++row) {
    RC_ASSERT(found.worst[row].waited == expected.waits[row]);
  }
}

auto spelled(const OverlapTotal& row) {
  return std::tuple(row.ranks, row.kind, row.name, row.axis, row.is_pair, row.group_size, row.iterations,
                    row.span, row.time.calls, row.time.sum, row.time.total, row.time.exposed,
                    row.time.overlapped, row.compute, row.idle);
}

void expect_equal(const std::vector<OverlapTotal>& a, const std::vector<OverlapTotal>& b) {
  RC_ASSERT(a.size() == b.size());
  for (std::size_t row = 0; row < a.size(); ++row) {
    RC_ASSERT(spelled(a[row]) == spelled(b[row]));
  }
}

/// Some ranks compute, too.
void add_computing(Trace& trace) {
  for (RankStream& stream : trace.streams) {
    for (int left = *rc::gen::inRange(-3, 6); left > 0; --left) {
      const nanoseconds started(*rc::gen::inRange(0, 600));
      stream.compute.push_back(
          {started, started + nanoseconds(*rc::gen::inRange(0, 200)), *rc::gen::inRange(-1, 4)});
    }
    std::sort(stream.compute.begin(), stream.compute.end());
  }
}

void expect_equal(const TimeTotals& streamed, const Trace& trace, const TimeSelection& selection) {
  const OverlapTotals rows = overlap_totals(communication_overlap(trace, selection));
  expect_equal(streamed.overlap.by_rank, rows.by_rank);
  expect_equal(streamed.overlap.by_op, rows.by_op);
  expect_equal(streamed.overlap.by_axis, rows.by_axis);
  RC_ASSERT(streamed.overlap.knows_exposed == rows.knows_exposed);
  RC_ASSERT(streamed.overlap.has_skipped == rows.has_skipped);
  RC_ASSERT(streamed.overlap.skipped_calls == rows.skipped_calls);
  RC_ASSERT(streamed.overlap.skipped_ranks == 0);
  const BubbleTotals bubbles = bubble_totals(pipeline_bubbles(trace, selection));
  RC_ASSERT(streamed.bubbles.shape == bubbles.shape);
  RC_ASSERT(streamed.bubbles.by_rank.size() == bubbles.by_rank.size());
  for (std::size_t row = 0; row < bubbles.by_rank.size(); ++row) {
    const BubbleTotal& a = streamed.bubbles.by_rank[row];
    const BubbleTotal& b = bubbles.by_rank[row];
    RC_ASSERT(std::tuple(a.ranks, a.iterations, a.span, a.bubble, a.in_calls, a.is_idle_known) ==
              std::tuple(b.ranks, b.iterations, b.span, b.bubble, b.in_calls, b.is_idle_known));
  }
}

RC_GTEST_PROP(TimeTotals, AreThoseOfTheRows, ()) {
  Trace trace =
      trace_of_ranks(*rc::gen::elementOf(std::vector{IterationsAre::ascending, IterationsAre::any}));
  add_computing(trace);
  TimeSelection selection;
  if (*rc::gen::arbitrary<bool>()) {
    selection.iterations = std::pair(0, 2);
  }
  expect_equal(time_totals(trace, selection), trace, selection);
}

RC_GTEST_PROP(TimeTotals, OfADirectoryAreThoseOfTheRows, ()) {
  Trace trace =
      trace_of_ranks(*rc::gen::elementOf(std::vector{IterationsAre::ascending, IterationsAre::any}));
  add_computing(trace);
  const test_support::ScratchDirectory scratch;
  write_trace(trace, scratch / "trace");
  Result<DirectoryCalls> calls = DirectoryCalls::open(scratch / "trace");
  RC_ASSERT(calls.has_value());
  const CallSource source = calls->source();
  TimeTally tally(source, {});
  calls->visit([&](const CallBlock& block) { tally.add(block); });
  const TimeTotals totals = tally.finish(1000);
  expect_equal(totals, trace, {});
}

}  // namespace
}  // namespace commlens
