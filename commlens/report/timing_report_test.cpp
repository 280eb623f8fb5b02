#include "commlens/report/timing_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

using std::chrono::nanoseconds;
using Json = nlohmann::ordered_json;

/// Rank r issues an all_reduce at 1000 r ns; all end at 10,000. Rank 0 computes from 2000 to 3000, if at all.
Trace late_trace(std::int64_t ranks, bool has_compute) {
  Trace trace;
  std::vector<Rank> members;
  for (Rank rank{0}; rank.value < ranks; ++rank.value) {
    members.push_back(rank);
  }
  const OpId op =
      trace.intern(CommOp{.kind = CommKind::all_reduce, .group = trace.groups.intern(members, Axis::dp)});
  for (const Rank rank : members) {
    const nanoseconds start(1000 * rank.value);
    trace.streams.push_back({{rank, rank}, {{op, 0}}, {{start, start, nanoseconds(10'000)}}, {}});
  }
  if (has_compute) {
    trace.streams[0].compute = {{nanoseconds(2000), nanoseconds(3000), 0}};
  }
  return trace;
}

std::string text_of(const Trace& trace, std::size_t width = 0) {
  return timing_text(trace, timing_totals_of(trace, {}, true), {.width = width});
}

TEST(TimingReport, ShowsOverlapAndWaits) {
  EXPECT_EQ(text_of(late_trace(2, true)),
            "where the time of each rank goes\n"
            "ranks  iterations     time  computing  communicating  exposed  overlapped   idle\n"
            "    0           1  10.0 µs     10.0 %        100.0 %   90.0 %      10.0 %  0.0 %\n"
            "    1           1  9.00 µs          -        100.0 %        -           -      -\n"
            "\n"
            "communication time per op, all ranks\n"
            "op          calls     time  exposed  overlapped  hidden  exposed of all time\n"
            "all_reduce      2  19.0 µs        -           -       -                    -\n"
            "\n"
            "communication time per stream, all ranks\n"
            "group  calls     time  exposed  overlapped  hidden  exposed of all time\n"
            "dp x2      2  19.0 µs        -           -       -                    -\n"
            "\n"
            "waiting for the last rank, all ranks\n"
            "op          group  matched  waiting  of the time in calls  longest  incomplete\n"
            "all_reduce  dp x2        1  1.00 µs                 5.3 %  1.00 µs           0\n"
            "\n"
            "who came last, and what it cost\n"
            "rank  collectives  came last  others waited  each time  it waited\n"
            "   0            1          0           0 ns       0 ns    1.00 µs\n"
            "   1            1          1        1.00 µs    1.00 µs       0 ns\n"
            "by when each rank came, on its clock: one that waited for a slow rank elsewhere comes last too\n"
            "\n"
            "collectives with the longest waits\n"
            "op          group  iteration  call  last rank  others waited           longest\n"
            "all_reduce  dp x2          0     0          1        1.00 µs  1.00 µs (rank 0)\n");
}

TEST(TimingReport, CautionsAboutOverlapWithoutProgress) {
  constexpr std::string_view note = "transport without progress: overlap not meaningful";
  Trace trace = late_trace(2, true);
  EXPECT_EQ(text_of(trace).find(note), std::string::npos);
  EXPECT_FALSE(timing_json(trace, timing_of(trace, {}, true)).contains("progress"));
  trace.provenance.progress = true;
  EXPECT_EQ(text_of(trace).find(note), std::string::npos);
  trace.provenance.progress = false;
  EXPECT_NE(text_of(trace).find(note), std::string::npos);
  EXPECT_EQ(timing_json(trace, timing_of(trace, {}, true))["progress"], false);
}

/// Two calls of an unknown group, each of 1 µs: one in iteration 7, one later in no known iteration.
Trace half_known_trace() {
  Trace trace;
  const OpId op =
      trace.intern(CommOp{.kind = CommKind::all_reduce, .group = trace.groups.intern(std::vector<Rank>{})});
  const nanoseconds later(5000);
  trace.streams.push_back({{Rank{0}, Rank{0}},
                           {{op, 7}, {op, k_unknown_iteration}},
                           {{{}, {}, nanoseconds(1000)}, {later, later, nanoseconds(6000)}},
                           {}});
  return trace;
}

TEST(TimingReport, CountsKnownIterationsAlone) {
  const std::string text = text_of(half_known_trace());
  EXPECT_EQ(text.find("where the time of each rank goes\n"
                      "ranks  iterations     time  computing  communicating  exposed  overlapped  idle\n"
                      "    0           1  1.00 µs          -        100.0 %        -           -     -\n"
                      "skipped, iteration unknown: 1 call\n"
                      "exposed and overlapped communication are not known"),
            0U)
      << text;
  Trace computed = late_trace(1, true);
  computed.streams[0].compute[0].iteration = k_unknown_iteration;
  EXPECT_NE(text_of(computed).find("skipped, iteration unknown: computing\n"), std::string::npos);
}

TEST(TimingReport, OfNoKnownIterationSaysSo) {
  Trace trace = half_known_trace();
  trace.streams[0].events[0].iteration = k_unknown_iteration;
  const std::string text = text_of(trace);
  EXPECT_NE(text.find("    0     unknown  6.00 µs          -         33.3 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("skipped"), std::string::npos) << text;
}

TEST(TimingReport, HasNoStreamsWhereTheOnlyOneHasNoName) {
  EXPECT_EQ(text_of(half_known_trace()).find("per stream"), std::string::npos);
  EXPECT_NE(text_of(late_trace(2, false)).find("per stream"), std::string::npos);
}

TEST(TimingReport, SaysThatExposedTimeIsNotKnown) {
  EXPECT_NE(text_of(late_trace(2, false)).find("exposed and overlapped communication are not known"),
            std::string::npos);
}

TEST(TimingReport, SaysThatThereAreNoTimes) {
  Trace trace = late_trace(2, false);
  for (RankStream& stream : trace.streams) {
    stream.times.clear();
  }
  EXPECT_EQ(text_of(trace), "the trace has no times\n");
}

TEST(TimingReport, FitsThe80ColumnsOfATerminal) {
  for (const std::size_t width : {80U, 200U}) {
    const std::string text = text_of(late_trace(40, true), width);
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = text.find('\n', start);
      EXPECT_LE(display_width(text.substr(start, end - start)), width) << text.substr(start, end - start);
      start = end + 1;
    }
  }
}

TEST(TimingReport, KeepsTheRanksWithTheLargestValues) {
  const std::string text = text_of(late_trace(40, false));
  EXPECT_NE(text.find("the 16 of 40 ranks with the longest exposed communication\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("the 16 of 40 ranks that the others waited for longest\n"), std::string::npos);
  EXPECT_NE(text.find("\n  39 "), std::string::npos) << "rank 39 is the one they waited for";
}

TEST(TimingReport, SkipsEmptyTables) {
  const Trace trace = late_trace(2, true);
  const std::string text = timing_text(trace, timing_totals_of(trace, {}, false), {});
  EXPECT_EQ(text.find("waiting"), std::string::npos);
  EXPECT_EQ(text.find("bubble"), std::string::npos);
  EXPECT_FALSE(timing_json(trace, timing_of(trace, {}, false)).contains("waits"));
}

TEST(TimingReport, WritesJson) {
  const Trace trace = late_trace(2, true);
  const Json json = timing_json(trace, timing_of(trace, {}, true));
  EXPECT_EQ(json["schema"], "commlens.timing/2");
  const Json& row = json["overlap"][0];
  EXPECT_EQ(row["ranks"], Json({0, 0}));
  EXPECT_EQ(row["communication_ns"], 10'000);
  EXPECT_EQ(row["exposed_ns"], 9'000);
  EXPECT_EQ(row["overlapped_ns"], 1'000);
  EXPECT_EQ(row["streams"][0]["group"], Json({0, 1}));
  EXPECT_FALSE(json["overlap"][1].contains("exposed_ns"));
  EXPECT_EQ(json["waits"]["by_rank"][1]["collectives"]["caused_ns"], 1'000);
  EXPECT_EQ(json["waits"]["worst"][0]["last_rank"], 1);
  EXPECT_EQ(json["bubble"]["rows"], Json::array());
}

}  // namespace
}  // namespace commlens
