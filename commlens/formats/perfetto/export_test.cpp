#include "commlens/formats/perfetto/export.hpp"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/formats/io/timeline.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::perfetto {
namespace {

using Json = nlohmann::json;
using std::chrono::nanoseconds;

std::string perfetto_text(const Trace& trace, const CallSelection& selection = {}) {
  std::string text;
  EXPECT_TRUE(write(trace, selection, [&](std::string_view block) { text += block; }));
  return text;
}

std::int64_t ns_of(const Json& us) { return std::llround(us.get<double>() * 1000); }

/// What trace_processor asks of a JSON trace (src/trace_processor/importers/json): events ascend, slices of a
/// track nest, a thread id belongs to one process, an arrow's end comes after its start and both are bound to
/// a slice that is open on their track.
class ImporterRules {
 public:
  explicit ImporterRules(const Json& file) {
    for (const Json& event : file.at("traceEvents")) {
      check(event);
    }
    for (const auto& [id, ends] : arrows_) {
      if (ends != "sf") {
        broken_.push_back(fmt::format("arrow {} has the ends {}", id, ends));
      }
    }
  }
  const std::vector<std::string>& broken() const { return broken_; }
  std::size_t slices() const { return slices_; }
  std::size_t arrows() const { return arrows_.size(); }

 private:
  void check(const Json& event) {
    const std::string phase = event.at("ph");
    const std::int64_t tid = event.at("tid");
    const std::int64_t pid = event.at("pid");
    if (tid <= 0 || pid <= 0 || process_.try_emplace(tid, pid).first->second != pid) {
      broken_.push_back(fmt::format("thread {} of process {}", tid, pid));
    }
    if (phase == "M") {
      return;
    }
    const std::int64_t time = ns_of(event.at("ts"));
    if (time < now_) {
      broken_.push_back(fmt::format("{} comes after {}", time, now_));
    }
    now_ = time;
    phase == "X" ? check_slice(event, tid, time) : check_arrow(event, tid, phase);
  }

  void check_slice(const Json& event, std::int64_t tid, std::int64_t time) {
    ++slices_;
    const std::int64_t end = time + ns_of(event.at("dur"));
    std::vector<std::int64_t>& open = open_[tid];
    while (!open.empty() && open.back() <= time) {
      open.pop_back();
    }
    if (end < time || (!open.empty() && end > open.back())) {
      broken_.push_back(fmt::format("the slice at {} ends after the one around it", time));
    }
    open.push_back(end);
  }

  void check_arrow(const Json& event, std::int64_t tid, const std::string& phase) {
    if (phase == "f" && event.value("bp", "") != "e") {
      broken_.emplace_back("the end of an arrow is bound to the next slice");
    }
    if (open_[tid].empty() || open_[tid].back() < now_) {
      broken_.push_back(fmt::format("no slice is open at the arrow at {}", now_));
    }
    arrows_[event.at("id")] += phase;
  }

  std::int64_t now_ = INT64_MIN;
  std::map<std::int64_t, std::vector<std::int64_t>> open_;  // ends, per thread
  std::map<std::int64_t, std::int64_t> process_;
  std::map<std::int64_t, std::string> arrows_;
  std::vector<std::string> broken_;
  std::size_t slices_ = 0;
};

/// Rank 4 sends rank 7 a message of 8 fp32, which rank 7 waits for; both then reduce 1000 fp16; rank 4
/// computes meanwhile.
Trace two_ranks() {
  Trace trace;
  const GroupId pair = trace.groups.intern({Rank{4}, Rank{7}}, Axis::pp);
  const GroupId both = trace.groups.intern({Rank{4}, Rank{7}}, Axis::dp);
  const OpId send = trace.intern(CommOp{.kind = CommKind::send,
                                        .dtype = DType::fp32,
                                        .phase = Phase::forward,
                                        .group = pair,
                                        .input = Elements{8}});
  const OpId recv = trace.intern(CommOp{.kind = CommKind::recv,
                                        .dtype = DType::fp32,
                                        .phase = Phase::forward,
                                        .group = pair,
                                        .output = Elements{8}});
  const OpId reduce = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                          .dtype = DType::fp16,
                                          .phase = Phase::backward,
                                          .group = both,
                                          .input = Elements{1000},
                                          .output = Elements{1000},
                                          .tag = trace.tags.intern("say \"hi\"")});
  const auto times = [](std::int64_t started, std::int64_t finished) {
    return Times{nanoseconds(started), nanoseconds(started), nanoseconds(finished)};
  };
  constexpr std::int64_t zero = 1'700'000'000'000'000'000;  // a time of day
  trace.streams.push_back({{Rank{4}, Rank{4}},
                           {{send, 0, 3}, {reduce, 0, -1}},
                           {times(zero + 1'001, zero + 1'501), times(zero + 3'000, zero + 5'000)},
                           {{nanoseconds(zero + 1'400), nanoseconds(zero + 4'000), 0}}});
  trace.streams.push_back({{Rank{7}, Rank{7}},
                           {{recv, 0, 3}, {reduce, 0, -1}},
                           {times(zero, zero + 2'000), times(zero + 2'000, zero + 6'000)},
                           {}});
  return trace;
}

TEST(Perfetto, WritesSlicesWithExactNanosecondsAndAnArrow) {
  const std::string text = perfetto_text(two_ranks());
  const std::string events = text.substr(text.find("\"ph\":\"X\"") - 1);
  EXPECT_EQ(
      events,
      R"({"ph":"X","name":"recv","cat":"pp","pid":8,"tid":5,"ts":0.000,"dur":2.000,"args":{"iteration":0,"op":"recv","phase":"forward","dtype":"fp32","message_bytes":32,"input_bytes":0,"output_bytes":32,"group":"4 7","group_size":2,"micro_batch":3,"bus_bandwidth_gb_per_s":0.016}},
{"ph":"X","name":"send","cat":"pp","pid":5,"tid":3,"ts":1.001,"dur":0.500,"args":{"iteration":0,"op":"send","phase":"forward","dtype":"fp32","message_bytes":32,"input_bytes":32,"output_bytes":0,"group":"4 7","group_size":2,"micro_batch":3,"bus_bandwidth_gb_per_s":0.064}},
{"ph":"s","name":"message","cat":"message","id":1,"pid":5,"tid":3,"ts":1.001},
{"ph":"f","bp":"e","name":"message","cat":"message","id":1,"pid":8,"tid":5,"ts":1.001},
{"ph":"X","name":"compute","cat":"compute","pid":5,"tid":1,"ts":1.400,"dur":2.600,"args":{"iteration":0}},
{"ph":"X","name":"all_reduce","cat":"dp","pid":8,"tid":4,"ts":2.000,"dur":4.000,"args":{"iteration":0,"op":"all_reduce","phase":"backward","dtype":"fp16","message_bytes":2000,"input_bytes":2000,"output_bytes":2000,"group":"4 7","group_size":2,"tag":"say \"hi\"","bus_bandwidth_gb_per_s":0.500}},
{"ph":"X","name":"all_reduce","cat":"dp","pid":5,"tid":2,"ts":3.000,"dur":2.000,"args":{"iteration":0,"op":"all_reduce","phase":"backward","dtype":"fp16","message_bytes":2000,"input_bytes":2000,"output_bytes":2000,"group":"4 7","group_size":2,"tag":"say \"hi\"","bus_bandwidth_gb_per_s":1.000}}
]}
)");
}

TEST(Perfetto, NamesRanksAndTracks) {
  const Json file = Json::parse(perfetto_text(two_ranks()));
  std::map<std::int64_t, std::string> processes;
  std::map<std::int64_t, std::string> threads;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("name") == "process_name") {
      processes[event.at("pid")] = event.at("args").at("name");
    } else if (event.at("name") == "thread_name") {
      threads[event.at("tid")] = event.at("args").at("name");
    }
  }
  EXPECT_EQ(processes, (std::map<std::int64_t, std::string>{{5, "rank 4"}, {8, "rank 7"}}));
  EXPECT_EQ(threads, (std::map<std::int64_t, std::string>{
                         {1, "computing"}, {2, "dp"}, {3, "pp"}, {4, "dp"}, {5, "pp"}}));
  EXPECT_EQ(file.at("displayTimeUnit"), "ns");
  EXPECT_EQ(file.at("metadata").at("time_zero_ns"), "1700000000000000000");
  EXPECT_EQ(file.at("metadata").at("messages_without_other_side"), 0);
}

TEST(Perfetto, KeepsTheImportersRules) {
  const ImporterRules rules(Json::parse(perfetto_text(two_ranks())));
  EXPECT_EQ(rules.broken(), std::vector<std::string>{});
  EXPECT_EQ(rules.slices(), 5U);
  EXPECT_EQ(rules.arrows(), 1U);
}

TEST(Perfetto, KeepsTheImportersRulesWhateverTheTrace) {
  std::size_t slices = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Trace trace = test_support::RandomTrace(seed).make();
    const ImporterRules rules(Json::parse(perfetto_text(trace)));
    ASSERT_EQ(rules.broken(), std::vector<std::string>{}) << "seed=" << seed;
    slices += rules.slices();
  }
  EXPECT_GT(slices, 1000U);
}

// A ring of sends and receives that overlap and last no time at all, whose starts and ends fall together.
TEST(Perfetto, BindsArrowsOfMessagesThatTouch) {
  Trace trace;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const OpId send = trace.intern(CommOp{.kind = CommKind::send,
                                          .dtype = DType::uint8,
                                          .group = trace.groups.intern({Rank{rank}, Rank{(rank + 1) % 3}}),
                                          .input = Elements{4}});
    const OpId recv = trace.intern(CommOp{.kind = CommKind::recv,
                                          .dtype = DType::uint8,
                                          .group = trace.groups.intern({Rank{(rank + 2) % 3}, Rank{rank}}),
                                          .output = Elements{4}});
    RankStream stream{{Rank{rank}, Rank{rank}}, {}, {}, {}};
    for (std::int64_t step = 0; step < 20; ++step) {
      const nanoseconds start(step / 3 * 10);
      const nanoseconds end = start + nanoseconds(step % 4 * 5);
      stream.events.push_back({send, 0, -1});
      stream.times.push_back({start, start, end});
      stream.events.push_back({recv, 0, -1});
      stream.times.push_back({start, start, step % 2 == 0 ? start : end});
    }
    trace.streams.push_back(stream);
  }
  const ImporterRules rules(Json::parse(perfetto_text(trace)));
  EXPECT_EQ(rules.broken(), std::vector<std::string>{});
  EXPECT_EQ(rules.slices(), 120U);
  EXPECT_EQ(rules.arrows(), 60U);
}

// Two messages of one size, received in the other order: only their communicators tell which is which.
TEST(Perfetto, DrawsArrowsWithinACommunicator) {
  Trace trace;
  RankStream from{{Rank{0}, Rank{0}}, {}, {}, {}};
  RankStream to{{Rank{1}, Rank{1}}, {}, {}, {}};
  for (const std::uint64_t number : {1U, 2U}) {
    const GroupId pair = trace.groups.intern({Rank{0}, Rank{1}}, Axis::unknown, CommunicatorId{number});
    const OpId send = trace.intern(CommOp{.kind = CommKind::send, .group = pair, .input = Elements{4}});
    const OpId recv = trace.intern(CommOp{.kind = CommKind::recv, .group = pair, .output = Elements{4}});
    from.events.push_back({send, 0, -1});
    to.events.insert(to.events.begin(), {recv, 0, -1});
    const nanoseconds start(static_cast<std::int64_t>(number) * 1000);
    from.times.push_back({start, start, start + nanoseconds(10)});
    to.times.push_back({start, start, start + nanoseconds(5000)});
  }
  trace.streams = {from, to};
  std::map<std::string, std::vector<std::int64_t>> arrows;  // start and end of each, in ns
  const Json file = Json::parse(perfetto_text(trace));
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == "s" || event.at("ph") == "f") {
      arrows[event.at("id").dump()].push_back(ns_of(event.at("ts")));
    } else if (event.at("ph") == "X") {
      EXPECT_TRUE(event.at("args").contains("communicator"));
    }
  }
  std::vector<std::vector<std::int64_t>> ends;
  for (const auto& [id, both] : arrows) {
    ends.push_back(both);
  }
  std::sort(ends.begin(), ends.end());
  // Sent at 0, its receive begins at 1000; sent at 1000, its receive has been waiting since 0.
  EXPECT_EQ(ends, (std::vector<std::vector<std::int64_t>>{{0, 1000}, {1000, 1000}}));
}

TEST(Perfetto, LaysCallsWithoutTimesInIssueOrderAndSaysSo) {
  Trace trace = two_ranks();
  for (RankStream& stream : trace.streams) {
    stream.times.clear();
  }
  std::swap(trace.streams[0].events[0], trace.streams[0].events[1]);  // the send comes second
  const Json file = Json::parse(perfetto_text(trace));
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> when;  // by rank and op
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == "X") {
      when[fmt::format("{} {}", event.at("pid").get<int>() - 1, event.at("name").get<std::string>())] = {
          ns_of(event.at("ts")), ns_of(event.at("dur"))};
    }
  }
  EXPECT_EQ(when,
            (std::map<std::string, std::pair<std::int64_t, std::int64_t>>{{"4 all_reduce", {0, 1000}},
                                                                          {"4 send", {1000, 1000}},
                                                                          {"7 recv", {1000, 1000}},
                                                                          {"7 all_reduce", {2000, 1000}}}));
  EXPECT_EQ(file.at("metadata").at("time").get<std::string>().substr(0, 10), "order only");
  EXPECT_EQ(file.at("metadata").at("compute_left_out"), 1);
  EXPECT_EQ(ImporterRules(file).arrows(), 1U);
}

TEST(Perfetto, SaysThatTimesAreAveragesAndWhatWasAssumed) {
  Trace trace = two_ranks();
  EXPECT_EQ(Json::parse(perfetto_text(trace)).at("metadata").at("time"), "measured");
  trace.provenance.averaged_times = true;
  trace.provenance.assume("rank not reported", 2);
  const Json metadata = Json::parse(perfetto_text(trace)).at("metadata");
  EXPECT_EQ(metadata.at("time"), "averages of several calls each, placed end to end");
  EXPECT_EQ(metadata.at("assumed: rank not reported"), 2);
}

TEST(Perfetto, LaysOutRanksThatWaitForEachOther) {
  Trace trace = two_ranks();
  for (RankStream& stream : trace.streams) {
    stream.times.clear();
  }
  const GroupId back = trace.groups.intern({Rank{7}, Rank{4}}, Axis::pp);
  const OpId send = trace.intern(CommOp{.kind = CommKind::send, .group = back, .input = Elements{1}});
  const OpId recv = trace.intern(CommOp{.kind = CommKind::recv, .group = back, .output = Elements{1}});
  trace.streams[0].events.insert(trace.streams[0].events.begin(), {recv, 0, -1});
  trace.streams[1].events.push_back({send, 0, -1});
  const Json file = Json::parse(perfetto_text(trace));
  const ImporterRules rules(file);
  EXPECT_EQ(rules.broken(), std::vector<std::string>{});
  EXPECT_EQ(rules.slices(), 6U);
  EXPECT_EQ(rules.arrows(), 1U);  // the other would point backward
  EXPECT_EQ(file.at("metadata").at("messages_received_before_sent"), 1);
}

TEST(Perfetto, LeavesOutArrowsThatPointBackwardAndCountsThem) {
  Trace trace = two_ranks();
  trace.streams[1].times[0].finished = trace.streams[1].times[0].started + nanoseconds(900);
  const Json file = Json::parse(perfetto_text(trace));
  EXPECT_EQ(ImporterRules(file).arrows(), 0U);
  EXPECT_EQ(file.at("metadata").at("messages_received_before_sent"), 1);
}

TEST(Perfetto, OfOneRankHasItsTracksAlone) {
  const Json file = Json::parse(perfetto_text(two_ranks(), {.rank = Rank{7}}));
  for (const Json& event : file.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 8);
  }
  EXPECT_EQ(ImporterRules(file).slices(), 2U);
  EXPECT_EQ(file.at("metadata").at("messages_without_other_side"), 1);
}

TEST(Perfetto, HoldsTimesFromEndToEnd) {
  Trace trace = two_ranks();
  trace.streams[0].times[0] = {nanoseconds(INT64_MIN / 2), nanoseconds(INT64_MIN / 2),
                               nanoseconds(INT64_MAX)};
  EXPECT_NE(perfetto_text(trace).find("\"ts\":0.000,\"dur\":13835058055282163.711"), std::string::npos)
      << perfetto_text(trace);  // 2^62 + 2^63 - 1 ns
}

TEST(Perfetto, RefusesWhatNoViewerShows) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 1'000'000}, {Axis::tp, 1}});
  const OpId barrier = trace.intern(
      CommOp{.kind = CommKind::barrier, .group = trace.groups.intern(GroupPattern{.axis = Axis::world})});
  trace.streams.push_back({{Rank{0}, Rank{999'999}}, {31, CommEvent{barrier, 0, -1}}, {}, {}});
  const Result<void> written = write(trace, {}, [](std::string_view) {});
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("31000000 calls"), std::string::npos) << written.error().message;
}

}  // namespace
}  // namespace commlens::formats::perfetto
