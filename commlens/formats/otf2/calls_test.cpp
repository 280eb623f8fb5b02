#include "commlens/formats/otf2/calls.hpp"

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/otf2/definitions.hpp"
#include "commlens/formats/otf2/events.hpp"
#include "commlens/formats/otf2/names.hpp"

namespace commlens::formats::otf2 {
namespace {

/// What was handed over: "name start+duration", and what was skipped.
class Handed {
 public:
  Handed()
      : sink_{.add =
                  [this](const CallRecord& record) {
                    calls.push_back(fmt::format("{} {}+{}", record.name, record.start_ns.value_or(-1),
                                                record.duration_ns.value_or(-1)));
                  },
              .skip = [this](std::string_view reason,
                             std::int64_t records) { skipped[std::string(reason)] += records; },
              .assume = [this](std::string_view reason,
                               std::int64_t records) { assumed[std::string(reason)] += records; }} {}
  Otf2Calls location() {  // NOLINT(readability-make-member-function-const): its calls come to this object
    return Otf2Calls(sink_);
  }
  std::vector<std::string> calls;
  std::map<std::string, std::int64_t> skipped;
  std::map<std::string, std::int64_t> assumed;

 private:
  RecordSink sink_;
};

CallRecord named(std::string name) {
  CallRecord record;
  record.name = std::move(name);
  return record;
}

using Calls = std::vector<std::string>;

TEST(Otf2Calls, ABlockingCallLastsAsLongAsItsFunction) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.enter(0, false);  // main
  location.enter(100, true);
  location.call(120, named("send"));
  EXPECT_EQ(handed.calls, Calls{});  // not over
  location.leave(150);
  location.enter(200, true);  // MPI_Sendrecv
  location.call(210, named("to"));
  location.call(240, named("from"));
  location.leave(250);
  location.leave(300);
  EXPECT_EQ(handed.calls, (Calls{"send 100+50", "to 200+50", "from 200+50"}));
}

TEST(Otf2Calls, OutsideOfMpiFunctionsTheEventsOwnTimesCount) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.enter(0, false);  // main, which is no call
  location.begin_collective(100);
  location.call(130, named("all_reduce"));
  location.call(140, named("send"));
  location.leave(1000);
  EXPECT_EQ(handed.calls, (Calls{"all_reduce 100+30", "send 140+0"}));
}

TEST(Otf2Calls, ARequestLastsUntilItIsCompleteAndCallsKeepTheirOrder) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.enter(10, true);
  location.start(11, 7, std::nullopt);  // MPI_Irecv
  location.leave(12);
  location.enter(20, true);
  location.start(21, 8, named("isend"));
  location.leave(22);
  location.enter(30, true);
  location.call(31, named("barrier"));
  location.leave(35);
  EXPECT_EQ(handed.calls, Calls{});
  location.enter(40, true);  // MPI_Waitall
  location.complete(50, 8, std::nullopt);
  location.complete(60, 7, named("irecv"));
  location.leave(65);
  EXPECT_EQ(handed.calls, (Calls{"irecv 10+50", "isend 20+30", "barrier 30+5"}));
}

TEST(Otf2Calls, WhatDoesNotCompleteIsCountedOrEndsWithItsFunction) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.enter(10, true);
  location.start(11, 1, std::nullopt);
  location.start(11, 2, named("isend"));
  location.start(11, 3, named("cancelled"));
  location.leave(14);
  location.cancel(3);
  location.cancel(99);
  location.complete(20, 98, std::nullopt);
  location.leave(30);  // one too many
  location.finish();
  EXPECT_EQ(handed.calls, Calls{"isend 10+4"});
  EXPECT_EQ(handed.skipped,
            (std::map<std::string, std::int64_t>{
                {"cancelled call", 1}, {"receive or collective whose completion is not recorded", 1}}));
  EXPECT_EQ(handed.assumed.at("message whose end is not known (the return of its function is used)"), 1);
}

// EZTrace 2.0 numbers requests by their address and does not record that receives complete.
TEST(Otf2Calls, ANumberThatIsUsedAgainEndsTheRequestBefore) {
  Handed handed;
  Otf2Calls location = handed.location();
  for (std::int64_t turn = 0; turn < 3; ++turn) {
    location.enter(100 * turn, true);
    location.start(100 * turn + 1, 7, std::nullopt);
    location.leave(100 * turn + 2);
    location.enter(100 * turn + 10, true);
    location.start(100 * turn + 11, 8, named("isend"));
    location.leave(100 * turn + 15);
  }
  EXPECT_EQ(handed.calls, (Calls{"isend 10+5", "isend 110+5"}));
  location.finish();
  EXPECT_EQ(handed.calls.size(), 3U);
  EXPECT_EQ(handed.skipped.at("receive or collective whose completion is not recorded"), 3);
}

TEST(Otf2Calls, HoldsABoundedNumberBehindACallThatNeverCompletes) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.start(0, 1, named("isend"));
  for (std::size_t call = 0; call <= Otf2Calls::k_most_waiting; ++call) {
    location.call(5, named("send"));
  }
  EXPECT_GT(handed.calls.size(), 1U);
  EXPECT_EQ(handed.calls[0], "isend 0+0");
  location.complete(10, 1, std::nullopt);  // too late
  location.finish();
  EXPECT_EQ(handed.calls.size(), Otf2Calls::k_most_waiting + 2);
}

// One standing receive must not make every return look at all calls behind it: 50 000 of them would take
// 1.25 * 10^9 steps.
TEST(Otf2Calls, AFunctionsReturnConcernsItsOwnCallsAlone) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.enter(0, true);
  location.start(0, 1, named("irecv"));
  location.enter(1, true);  // a function of the library within
  location.call(2, named("inner"));
  location.leave(3);
  location.call(4, named("outer"));
  location.leave(5);
  for (std::int64_t call = 0; call < 50'000; ++call) {
    location.enter(10 * call + 10, true);
    location.call(10 * call + 11, named("send"));
    location.leave(10 * call + 12);
  }
  location.finish();
  ASSERT_EQ(handed.calls.size(), 50'003U);
  EXPECT_EQ(handed.calls[0], "irecv 0+5");
  EXPECT_EQ(handed.calls[1], "inner 1+2");
  EXPECT_EQ(handed.calls[2], "outer 0+5");
  EXPECT_EQ(handed.calls[50'002], "send 500000+2");
}

TEST(Otf2Calls, HoldsReceivesThatCompleteWithoutARequest) {
  Handed handed;
  Otf2Calls location = handed.location();
  location.complete(10, 1, named("irecv"));
  EXPECT_EQ(handed.calls, Calls{"irecv 10+0"});
}

std::string spelled_records(const std::vector<TimelineSlice>& slices,
                            const std::vector<Otf2Function>& functions) {
  constexpr std::array<const char*, 6> names = {"enter", "call", "post", "start", "complete", "leave"};
  std::string text;
  for (const Otf2Event& event : otf2_events(slices, functions)) {
    text += fmt::format("{}{}@{} ", names.at(static_cast<std::size_t>(event.kind)), event.slice, event.time);
  }
  return text;
}

TEST(Otf2Events, ACallThatLetsOthersStartHasARequest) {
  EXPECT_EQ(spelled_records({{.started = 0, .finished = 10}, {.started = 10, .finished = 10}}, {{}, {}}),
            "enter0@0 call0@10 leave0@10 enter1@10 call1@10 leave1@10 ");
  EXPECT_EQ(spelled_records({{.started = 0, .finished = 10}, {.started = 5, .finished = 20}}, {{}, {}}),
            "post0@0 start0@0 leave0@0 enter1@5 complete0@10 call1@20 leave1@20 ");
  // The second and the third last while the first is under way, each as long as it takes.
  EXPECT_EQ(spelled_records({{.started = 0, .finished = 10},
                             {.started = 2, .finished = 4},
                             {.started = 9, .finished = 12},
                             {.started = 12, .finished = 13}},
                            {{}, {}, {}, {}}),
            "post0@0 start0@0 leave0@0 enter1@2 call1@4 leave1@4 enter2@9 complete0@10 call2@12 leave2@12 "
            "enter3@12 call3@13 leave3@13 ");
}

TEST(Otf2Events, AFunctionThatReturnsAtOnceHasARequestWhateverFollows) {
  EXPECT_EQ(spelled_records({{.started = 0, .finished = 10}}, {{.returns_at_once = true}}),
            "post0@0 start0@0 leave0@0 complete0@10 ");
}

TEST(Otf2Events, TheHalvesOfAnExchangeAreOneFunction) {
  const std::vector<TimelineSlice> halves = {{.started = 5, .finished = 9}, {.started = 5, .finished = 9}};
  EXPECT_EQ(spelled_records(halves, {{.exchange = 3}, {.exchange = 3}}),
            "enter0@5 call0@9 call1@9 leave1@9 ");
  EXPECT_EQ(spelled_records(halves, {{.exchange = 3}, {.exchange = 4}}),
            "post0@5 start0@5 leave0@5 enter1@5 complete0@9 call1@9 leave1@9 ");
  // Another thread's call begins before it is over.
  EXPECT_EQ(spelled_records(
                {{.started = 5, .finished = 9}, {.started = 5, .finished = 9}, {.started = 8, .finished = 9}},
                {{.exchange = 3}, {.exchange = 3}, {}}),
            "post0@5 start0@5 leave0@5 post1@5 start1@5 leave1@5 enter2@8 complete0@9 complete1@9 call2@9 "
            "leave2@9 ");
}

TEST(Otf2Names, AreThoseOfMpi) {
  EXPECT_EQ(otf2_region_name(CommKind::all_reduce, "", false), "MPI_Allreduce");
  EXPECT_EQ(otf2_region_name(CommKind::reduce_scatter, "engine.py:33", true), "MPI_Ireduce_scatter");
  EXPECT_EQ(otf2_region_name(CommKind::recv, "MPI_Sendrecv", false), "MPI_Sendrecv");
  EXPECT_EQ(otf2_region_name(CommKind::other, "win_fence", false), "win_fence");
  EXPECT_EQ(otf2_region_name(CommKind::other, "", false), "other");
  for (const char* const name :
       {"MPI_Irecv", "MPI_Ibcast_c", "MPI_Rput", "MPI_Send_init", "MPI_Psend_init"}) {
    EXPECT_TRUE(returns_at_once(name)) << name;
  }
  for (const char* const name :
       {"MPI_Recv", "MPI_Init", "MPI_Reduce", "MPI_Initialized", "Irecv", "MPI_", ""}) {
    EXPECT_FALSE(returns_at_once(name)) << name;
  }
}

TEST(Otf2Names, TellCommunicatorsApart) {
  const auto ranks = [](std::initializer_list<std::int64_t> values) {
    std::vector<Rank> list;
    for (const std::int64_t value : values) {
      list.push_back(Rank{value});
    }
    return list;
  };
  EXPECT_EQ(otf2_comm_name(ranks({0, 1, 2, 3}), 4, Axis::world, 1), "MPI_COMM_WORLD");
  EXPECT_EQ(otf2_comm_name(ranks({0, 1, 2, 3}), 4, Axis::unknown, 2), "MPI_COMM_WORLD dup");
  EXPECT_EQ(otf2_comm_name(ranks({0, 1, 2, 3}), 4, Axis::unknown, 3), "MPI_COMM_WORLD dup 2");
  EXPECT_EQ(otf2_comm_name(ranks({3, 2, 1, 0}), 4, Axis::unknown, 1), "ranks 3,2,1,0");
  EXPECT_EQ(otf2_comm_name(ranks({4, 5, 6, 7}), 8, Axis::tp, 1), "tp ranks 4-7");
  EXPECT_EQ(otf2_comm_name(ranks({1, 2}), 8, Axis::unknown, 2), "ranks 1,2 dup");
  EXPECT_EQ(otf2_comm_name(ranks({5}), 8, Axis::self, 1), "MPI_COMM_SELF");
  EXPECT_EQ(otf2_comm_name(ranks({0, 2, 4, 6, 8, 10, 12, 14, 16}), 18, Axis::dp, 1),
            "dp ranks 0,2,4,…,16 (9)");
}

TEST(Otf2Definitions, ResolvesCommunicatorsInAnyOrderOfDefinitions) {
  Otf2Definitions definitions;
  definitions.add_comm(5, 9, 0);
  definitions.add_group(9, {2, 0}, false);
  definitions.add_comm(6, 10, 0);
  definitions.add_group(10, {70, 80}, true);  // locations themselves
  definitions.add_comm(7, 11, 0);
  definitions.add_self_group(11);
  definitions.add_comm(8, 0, 0);  // the group of all, which has the locations
  definitions.add_comm(9, 12, 0);
  definitions.add_group(12, {3}, false);  // no such rank
  definitions.add_inter_comm(10);
  for (const std::uint64_t location : {70U, 80U, 90U, 91U}) {
    definitions.add_location(location, location == 91 ? 2 : static_cast<std::uint32_t>(location / 10 - 7));
  }
  definitions.add_ranks({70, 80, 90});
  definitions.conclude();
  using Ranks = std::vector<Rank>;
  EXPECT_EQ(definitions.members(5, Rank{0}), (Ranks{Rank{2}, Rank{0}}));
  EXPECT_EQ(definitions.members(6, Rank{0}), (Ranks{Rank{0}, Rank{1}}));
  EXPECT_EQ(definitions.members(7, Rank{1}), (Ranks{Rank{1}}));
  EXPECT_EQ(definitions.members(8, Rank{1}), (Ranks{Rank{0}, Rank{1}, Rank{2}}));
  EXPECT_EQ(definitions.members(9, Rank{0}), std::nullopt);
  EXPECT_EQ(definitions.members(77, Rank{0}), std::nullopt);
  EXPECT_TRUE(definitions.is_inter_comm(10));
  EXPECT_EQ(definitions.rank_of(91), Rank{2});  // a thread of the process of rank 2
  EXPECT_EQ(definitions.rank_of(55), std::nullopt);
  EXPECT_TRUE(definitions.knows_ranks());
}

TEST(Otf2Definitions, NumbersProcessesWhereRanksAreNotSaid) {
  Otf2Definitions definitions;
  definitions.add_location(500, 3);
  definitions.add_location(501, 3);
  definitions.add_location(400, 1);
  definitions.conclude();
  EXPECT_FALSE(definitions.knows_ranks());
  EXPECT_EQ(definitions.rank_of(500), Rank{0});
  EXPECT_EQ(definitions.rank_of(501), Rank{0});
  EXPECT_EQ(definitions.rank_of(400), Rank{1});
}

TEST(Otf2Definitions, TurnsTicksIntoNanosecondsExactly) {
  Otf2Definitions definitions;
  definitions.set_clock(3'000'000'000, 1'000);
  EXPECT_EQ(definitions.ns(1'000), 0);
  EXPECT_EQ(definitions.ns(1'003), 1);
  EXPECT_EQ(definitions.ns(999), 0);
  // 2^60 ticks after the offset: 1152921504606846976 / 3.
  EXPECT_EQ(definitions.ns(1'152'921'504'606'847'976), 384'307'168'202'282'325);
  definitions.set_clock(0, 0);
  EXPECT_EQ(definitions.ns(UINT64_MAX), INT64_MAX / 4);
}

TEST(Otf2Definitions, KnowsFunctionsOfMpiByParadigmOrName) {
  Otf2Definitions definitions;
  definitions.add_string(1, "MPI_Send");
  definitions.add_string(2, "mpi_bcast_");
  definitions.add_string(3, "main");
  definitions.add_string(4, "EZTrace finalize");
  definitions.add_region(1, 1, false);
  definitions.add_region(2, 2, false);
  definitions.add_region(3, 3, false);
  definitions.add_region(4, 3, true);
  definitions.conclude();
  EXPECT_TRUE(definitions.is_call(1));
  EXPECT_TRUE(definitions.is_call(2));
  EXPECT_FALSE(definitions.is_call(3));
  EXPECT_TRUE(definitions.is_call(4));
  EXPECT_FALSE(definitions.is_call(5));
  EXPECT_FALSE(definitions.is_eztrace());
}

}  // namespace
}  // namespace commlens::formats::otf2
