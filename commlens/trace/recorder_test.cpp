#include "commlens/trace/recorder.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/trace/clock.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using test_support::content_of;
using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;
using Skipped = std::map<std::string, std::int64_t>;

RecordingInfo info(std::int64_t ranks) {
  return {.producer = "test", .description = "2 layers", .framework = "commlens", .ranks = ranks};
}

/// The trace in `directory`; an empty one, and a failure, when it cannot be read.
Trace read(const std::filesystem::path& directory) {
  Result<Trace> trace = read_trace(directory);
  EXPECT_TRUE(trace) << trace.error().message;
  return trace ? std::move(*trace) : Trace();
}

RecordedCall all_reduce(GroupId group, std::int64_t elements, std::string_view tag = {}) {
  return {.kind = CommKind::all_reduce,
          .dtype = DType::bf16,
          .group = group,
          .input = Elements{elements},
          .output = Elements{elements},
          .tag = tag};
}

/// Without its times.
SpelledCall untimed(SpelledCall call) {
  call.started = 0;
  call.duration = 0;
  return call;
}

TEST(Recorder, ACallThatRanElsewhereHasTheTimesGiven) {
  using std::chrono::nanoseconds;
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  {
    Recorder recorder(directory / "t", Rank{0});
    const GroupId world = recorder.group({Rank{0}, Rank{1}}, Axis::dp);
    const Recorder::Slot slot = recorder.begin(all_reduce(world, 7), 1000);
    recorder.finish(slot, all_reduce(world, 7, "enqueued only"), 1010);
    recorder.finish(slot, all_reduce(world, 7),
                    Times{nanoseconds(1000), nanoseconds(1500), nanoseconds(1700)});
    recorder.finish(slot, all_reduce(world, 7),
                    Times{nanoseconds(1000), nanoseconds(1500), nanoseconds(1900)});
  }
  const Trace trace = read(directory / "t");
  ASSERT_EQ(trace.streams.size(), 1U);
  ASSERT_EQ(trace.streams[0].times.size(), 1U);
  EXPECT_EQ(trace.streams[0].times[0], (Times{nanoseconds(1000), nanoseconds(1500), nanoseconds(1900)}));
  EXPECT_EQ(trace.tags.text(trace.op(trace.streams[0].events[0].op).tag), "");
}

TEST(Recorder, WritesWhatWasCalled) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  {
    Recorder recorder(directory / "t", Rank{0});
    const GroupId world = recorder.group({Rank{0}, Rank{1}}, Axis::dp);
    const GroupId pair = recorder.group({Rank{1}, Rank{0}}, Axis::pp);
    recorder.finish(recorder.begin(all_reduce(world, 7, "wte")));
    recorder.set_iteration(3);
    recorder.set_phase(Phase::backward, 2);
    recorder.finish(
        recorder.begin({.kind = CommKind::recv, .dtype = DType::fp32, .group = pair, .output = Elements{5}}));
    recorder.finish(recorder.begin({.kind = CommKind::broadcast,
                                    .dtype = DType::uint8,
                                    .group = world,
                                    .input = Elements{1},
                                    .output = Elements{1},
                                    .root = GroupRank{1}}));
  }
  finish_recording(directory / "t");
  const Trace trace = read(directory / "t");
  EXPECT_EQ(trace.provenance.source, Source::recorded);
  EXPECT_EQ(trace.provenance.description, "2 layers");
  EXPECT_EQ(trace.provenance.skipped, Skipped{});
  const std::vector<SpelledCall> calls = spelled_calls(trace, Rank{0});
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(untimed(calls[0]), (SpelledCall{.kind = CommKind::all_reduce,
                                            .dtype = DType::bf16,
                                            .phase = Phase::init,
                                            .match = Match::exact,
                                            .group = {Rank{0}, Rank{1}},
                                            .input = 7,
                                            .output = 7,
                                            .root = -1,
                                            .rounding = 0,
                                            .tag = "wte",
                                            .iteration = -1,
                                            .micro_batch = -1}));
  EXPECT_EQ(untimed(calls[1]), (SpelledCall{.kind = CommKind::recv,
                                            .dtype = DType::fp32,
                                            .phase = Phase::backward,
                                            .match = Match::exact,
                                            .group = {Rank{1}, Rank{0}},
                                            .input = 0,
                                            .output = 5,
                                            .root = -1,
                                            .rounding = 0,
                                            .iteration = 3,
                                            .micro_batch = 2}));
  EXPECT_EQ(calls[2].root, 1);
  EXPECT_EQ(trace.groups.axis(trace.op(trace.streams[0].events[0].op).group), Axis::dp);
}

TEST(Recorder, MeasuresIssueAndEndOfEachCall) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  {
    Recorder recorder(directory / "t", Rank{0});
    const RecordedCall call = all_reduce(recorder.group({Rank{0}}, Axis::dp), 1);
    const Recorder::Slot outer = recorder.begin(call);
    recorder.finish(recorder.begin(call));
    recorder.finish(outer);
  }
  const std::vector<Times> times = read(directory / "t").streams[0].times;
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].issued, times[0].started);
  EXPECT_LE(times[0].started, times[1].started);
  EXPECT_LE(times[1].started, times[1].finished);
  EXPECT_LE(times[1].finished, times[0].finished);
}

TEST(Recorder, PutsRanksOfOneMachineOnOneClock) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(2));
  Recorder first(directory / "t", Rank{0});
  Recorder second(directory / "t", Rank{1});
  const GroupId world = first.group({Rank{0}, Rank{1}}, Axis::dp);
  ASSERT_EQ(second.group({Rank{0}, Rank{1}}, Axis::dp), world);
  for (int turn = 0; turn < 3; ++turn) {
    first.finish(first.begin(all_reduce(world, 1)));
    second.finish(second.begin(all_reduce(world, 1)));
  }
  const Trace trace = read(directory / "t");
  for (std::size_t turn = 0; turn < 3; ++turn) {
    EXPECT_LE(trace.streams[0].times[turn].finished, trace.streams[1].times[turn].issued);
  }
}

TEST(Recorder, IsReadWhileItRecordsAndLeavesOutWhatIsUnderWay) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  Recorder recorder(directory / "t", Rank{0});
  const RecordedCall call = all_reduce(recorder.group({Rank{0}}, Axis::dp), 1);
  recorder.finish(recorder.begin(call));
  const Recorder::Slot under_way = recorder.begin(call);
  recorder.finish(recorder.begin(call));
  Trace trace = read(directory / "t");
  EXPECT_EQ(trace.streams[0].events.size(), 2U);
  EXPECT_EQ(trace.provenance.skipped, (Skipped{{"unfinished call", 1}}));
  recorder.finish(under_way);
  trace = read(directory / "t");
  EXPECT_EQ(trace.streams[0].events.size(), 3U);
  EXPECT_EQ(trace.provenance.skipped, Skipped{});
}

// The reader has the tables of a moment at which the rank has issued more: calls of descriptions that are
// new.
TEST(Recorder, IsReadWhileNewDescriptionsComeIn) {
  constexpr std::int64_t calls = 5000;
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  Recorder recorder(directory / "t", Rank{0});
  const GroupId group = recorder.group({Rank{0}}, Axis::dp);
  std::atomic<bool> is_over = false;
  std::thread rank([&] {
    for (std::int64_t call = 0; call < calls; ++call) {
      recorder.finish(recorder.begin(all_reduce(group, call)));
    }
    is_over = true;
  });
  std::string error;
  while (!is_over && error.empty()) {
    const Result<Trace> trace = read_trace(directory / "t");
    error = trace ? "" : trace.error().message;
  }
  rank.join();
  EXPECT_EQ(error, "");
  EXPECT_EQ(read(directory / "t").streams.at(0).events.size(), static_cast<std::size_t>(calls));
}

TEST(Recorder, DescribesEqualCallsOnceWhereverTheirTagsLie) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  const std::string one = "layer 1";
  const std::string same = "layer 1";
  {
    Recorder recorder(directory / "t", Rank{0});
    const GroupId group = recorder.group({Rank{0}}, Axis::dp);
    for (const std::string& tag : {one, same, one}) {
      recorder.finish(recorder.begin(all_reduce(group, 1, tag)));
    }
    recorder.finish(recorder.begin(all_reduce(group, 2, one)));
    EXPECT_EQ(recorder.group({Rank{0}}, Axis::dp), group);
    EXPECT_NE(recorder.group({Rank{0}}, Axis::tp), group);
  }
  const std::string tables = content_of(directory / "t/rank-0.jsonl");
  const auto lines_with = [&](std::string_view word) {
    std::int64_t count = 0;
    for (std::size_t at = tables.find(word); at != std::string::npos; at = tables.find(word, at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(lines_with("{\"tag\": "), 1);
  EXPECT_EQ(lines_with("{\"op\": {"), 2);
  EXPECT_EQ(lines_with("{\"group\": {"), 2);
  EXPECT_EQ(read(directory / "t").ops().size(), 2U);
}

TEST(Recorder, TrimsItsFileAndSaysWhatItCost) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  {
    Recorder recorder(directory / "t", Rank{0});
    const GroupId group = recorder.group({Rank{0}}, Axis::dp);
    recorder.finish(recorder.begin(all_reduce(group, 1)));
    EXPECT_GT(std::filesystem::file_size(directory / "t/rank-0.bin"), 96U);
    recorder.close();
    EXPECT_EQ(std::filesystem::file_size(directory / "t/rank-0.bin"), 96U);
    const std::string closed = content_of(directory / "t/rank-0.jsonl");
    recorder.close();
    EXPECT_EQ(content_of(directory / "t/rank-0.jsonl"), closed);
    EXPECT_EQ(recorder.begin(all_reduce(group, 1)), Recorder::k_dropped);
    recorder.finish(0);
    EXPECT_EQ(recorder.dropped(), 1);
  }
  EXPECT_FALSE(read(directory / "t").provenance.recorder);
  finish_recording(directory / "t");
  const Trace trace = read(directory / "t");
  ASSERT_TRUE(trace.provenance.recorder);
  EXPECT_GT(trace.provenance.recorder->cost_per_call.count(), 0);
  EXPECT_EQ(trace.provenance.recorder->dropped, 0);
  EXPECT_NE(content_of(directory / "t/manifest.json").find("\"events\": 1"), std::string::npos);
  write_trace(trace, directory / "copy");
  EXPECT_EQ(read(directory / "copy").provenance.recorder, trace.provenance.recorder);
}

TEST(Recorder, OfManyThreadsKeepsTheirCallsApart) {
  constexpr std::int64_t ranks = 4;
  constexpr std::int64_t calls = 20'000;
  const ScratchDirectory directory;
  create_recording(directory / "t", info(ranks));
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Recorder recorder(directory / "t", Rank{rank});
      const GroupId group = recorder.group({Rank{rank}}, Axis::dp);
      for (std::int64_t call = 0; call < calls; ++call) {
        recorder.finish(recorder.begin(all_reduce(group, rank * 1000 + call % 100)));
      }
      EXPECT_EQ(recorder.dropped(), 0);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  finish_recording(directory / "t");
  const Trace trace = read(directory / "t");
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<SpelledCall> recorded = spelled_calls(trace, Rank{rank});
    ASSERT_EQ(recorded.size(), static_cast<std::size_t>(calls));
    for (std::int64_t call = 0; call < calls; ++call) {
      ASSERT_EQ(recorded[static_cast<std::size_t>(call)].input, rank * 1000 + call % 100);
    }
  }
}

TEST(Recorder, CountsARankThatNeverStarted) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(2));
  Recorder(directory / "t", Rank{1}).close();
  finish_recording(directory / "t");
  const Trace trace = read(directory / "t");
  EXPECT_EQ(trace.streams.size(), 2U);
  EXPECT_EQ(trace.provenance.skipped, (Skipped{{"rank without a recording", 1}}));
}

TEST(Recorder, ReplacesARecordingAndNothingElse) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(2));
  Recorder(directory / "t", Rank{1}).close();
  create_recording(directory / "t", info(1));
  EXPECT_FALSE(std::filesystem::exists(directory / "t/rank-1.bin"));
  directory.write("t/calls.jsonl", "precious");
  EXPECT_THROW(create_recording(directory / "t", info(1)), SystemError);
  EXPECT_EQ(content_of(directory / "t/calls.jsonl"), "precious");
}

TEST(Recorder, ThrowsWhereNothingCanBeWritten) {
  const ScratchDirectory directory;
  EXPECT_THROW(create_recording("/proc/commlens/t", info(1)), SystemError);
  EXPECT_THROW(Recorder(directory / "missing", Rank{0}), SystemError);
  EXPECT_THROW(finish_recording(directory / "missing"), SystemError);
}

/// A recording of one rank, one call long, to be damaged.
void record_one_call(const std::filesystem::path& directory) {
  create_recording(directory, info(1));
  Recorder recorder(directory, Rank{0});
  const GroupId group = recorder.group({Rank{0}}, Axis::dp);
  recorder.finish(recorder.begin(all_reduce(group, 1, "wte")));
}

TEST(RankTables, MayEndInALineThatNoRecordNeeds) {
  const ScratchDirectory directory;
  record_one_call(directory / "t");
  const std::string tables = content_of(directory / "t/rank-0.jsonl");
  directory.write("t/rank-0.jsonl",
                  tables.substr(0, tables.find("{\"closed\"")) + "{\"op\": {\"op\": \"all_");
  EXPECT_EQ(read(directory / "t").streams[0].events.size(), 1U);
  directory.write("t/rank-0.jsonl",
                  tables.substr(0, tables.find("{\"closed\"")) + "{\"tag\": \"wpe\", \"row\": 2}\n");
  EXPECT_EQ(read(directory / "t").streams[0].events.size(), 1U);
  directory.write("t/rank-0.jsonl", tables.substr(0, tables.find("{\"op\"") + 9));
  const Trace broken = read(directory / "t");
  EXPECT_EQ(broken.streams[0].events.size(), 0U);
  EXPECT_EQ(broken.provenance.skipped.at("call lost, not described in the tables"), 1);
}

TEST(RankTables, SaysWhichLineIsWrong) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"commlens.rank/2", "commlens.rank/3", "line 1 \"schema\" is \"commlens.rank/3\""},
      {"\"rank\": 0", "\"rank\": 1", "these are the tables of rank 1, the manifest wants those of rank 0"},
      {"\"rank\": 0", "\"rank\": -1", "line 1 \"rank\" must be"},
      {"\"clock\"", "\"o'clock\"", "line 1 has no \"clock\""},
      {"\"frequency_hz\": ", "\"frequency_hz\": -", "line 1 \"frequency_hz\" must be an integer"},
      {"\"wall_offset_ns\": ", "\"wall_offset_ns\": 9999", "line 1 \"wall_offset_ns\" must be"},
      {"\"ranks\": [0]", "\"ranks\": [-1]", "line 2 \"ranks\" must be integers"},
      {"{\"tag\": \"wte\", \"row\": 1}", "{\"tag\": \"\"}", "line 3 is in the table twice"},
      {"{\"tag\": \"wte\", \"row\": 1}", "{\"tag\": 3}", "line 3 must be a string"},
      {"{\"tag\": \"wte\", \"row\": 1}", "{\"tag\"", "line 3 not valid JSON"},
      {"{\"tag\": \"wte\", \"row\": 1}", "7", "line 3 must be an object"},
      {"{\"tag\": \"wte\", \"row\": 1}", "{}", "line 3 has none of"},
      {"all_reduce", "all_seduce", "line 4 \"op\" is \"all_seduce\""},
      {"\"group\": 0", "\"group\": 1", "line 4 \"group\" must be an integer from 0 to 0"},
      {"\"tag\": 1", "\"tag\": 2", "line 4 \"tag\" must be an integer from 0 to 1"},
      {"\"events\": 1", "\"events\": -1", "line 5 \"events\" must be"},
      {"\"row\": 1", "\"row\": 0", "line 3 \"row\" must be an integer from 1 to"},
      {"\"row\": 1", "\"row\": 2", "line 3 is row 2, and row 1 is missing"},
      {"\"row\": 1", "\"row\": 1000000000", "line 3 \"row\" must be an integer from 1 to"},
      {"{\"tag\": \"wte\", \"row\": 1}",
       "{\"closed\": {\"events\": 1, \"dropped\": 0, \"cost_ns_per_call\": 1, "
       "\"clock_drift_ns\": 0}}",
       "line 4 comes after the closing line"},
  };
  for (const auto& [from, to, said] : cases) {
    const ScratchDirectory directory;
    record_one_call(directory / "t");
    std::string text = content_of(directory / "t/rank-0.jsonl");
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    directory.write("t/rank-0.jsonl", text.replace(at, from.size(), to));
    const Result<Trace> trace = read_trace(directory / "t");
    ASSERT_FALSE(trace) << said;
    EXPECT_NE(trace.error().message.find("rank-0.jsonl"), std::string::npos);
    EXPECT_NE(trace.error().message.find(said), std::string::npos) << trace.error().message;
  }
}

TEST(RankTables, MoveTimesOfAnotherMachineByItsWallClock) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(2));
  for (const std::int64_t rank : {0, 1}) {
    Recorder recorder(directory / "t", Rank{rank});
    recorder.finish(recorder.begin(all_reduce(recorder.group({Rank{rank}}, Axis::dp), 1)));
  }
  const Trace same = read(directory / "t");
  for (const std::int64_t rank : {0, 1}) {
    const std::string name = "t/rank-" + std::to_string(rank) + ".jsonl";
    const std::string tables = content_of(directory / name);
    const std::string clock = R"({"schema": "commlens.rank/1", "rank": )" + std::to_string(rank) +
                              R"(, "clock": {"source": "tsc", "boot": "b)" + std::to_string(rank) +
                              R"(", "frequency_hz": 1, "rate_error_ppb": 0, )" + R"("wall_offset_ns": )" +
                              std::to_string(1000 + 500 * rank) + "}}";
    directory.write(name, clock + tables.substr(tables.find('\n')));
  }
  const Trace apart = read(directory / "t");
  EXPECT_EQ(apart.streams[0].times, same.streams[0].times);
  EXPECT_EQ(apart.streams[1].times[0].started,
            same.streams[1].times[0].started + std::chrono::nanoseconds(500));
  // Started 2^62 - 2 ns after the zero: a shift of 500 ns leads out of the range of a record.
  directory.write("t/rank-1.bin",
                  content_of(directory / "t/rank-1.bin")
                      .replace(72, 16, "\xfe\xff\xff\xff\xff\xff\xff\x3f\0\0\0\0\0\0\0\0", 16));
  const Result<Trace> far = read_trace(directory / "t");
  ASSERT_FALSE(far);
  EXPECT_NE(far.error().message.find("a call lies centuries away"), std::string::npos);
}

using Computed = std::vector<ComputeInterval>;

RecordingInfo computing_info() {
  RecordingInfo result = info(1);
  result.compute = true;
  return result;
}

ComputeInterval interval(std::int64_t started, std::int64_t finished, Iteration iteration) {
  return {std::chrono::nanoseconds(started), std::chrono::nanoseconds(finished), iteration};
}

TEST(Recorder, WritesWhenTheRankComputed) {
  const ScratchDirectory directory;
  create_recording(directory / "t", computing_info());
  {
    Recorder recorder(directory / "t", Rank{0}, {.parts = RecorderParts::calls_and_compute});
    recorder.stop_computing(1'000);  // it had not begun
    recorder.start_computing(5'000);
    recorder.start_computing(6'000);  // it had begun
    recorder.stop_computing(8'000);
    recorder.start_computing(10'000);
    recorder.stop_computing(10'999);  // too short
    recorder.start_computing(20'000);
    recorder.stop_computing(21'000);
    recorder.start_computing(30'000);  // never ends
  }
  finish_recording(directory / "t");
  const Trace trace = read(directory / "t");
  EXPECT_EQ(trace.streams[0].compute, (Computed{interval(5'000, 8'000, -1), interval(20'000, 21'000, -1)}));
  EXPECT_EQ(trace.provenance.skipped, Skipped{});
  EXPECT_EQ(std::filesystem::file_size(directory / "t/rank-0.compute.bin"), 64U + 2 * 24);
}

TEST(Recorder, DividesComputingBetweenIterations) {
  const ScratchDirectory directory;
  create_recording(directory / "t", computing_info());
  const std::int64_t start = Clock::of_process().now_ns();
  std::int64_t end = 0;
  {
    Recorder recorder(directory / "t", Rank{0}, {.parts = RecorderParts::calls_and_compute});
    recorder.start_computing(start);
    recorder.set_iteration(0);
    recorder.set_iteration(0);  // no new one
    end = Clock::of_process().now_ns() + 1'000'000;
    recorder.stop_computing(end);
  }
  const Trace trace = read(directory / "t");
  const Computed& compute = trace.streams[0].compute;
  ASSERT_EQ(compute.size(), 2U);
  EXPECT_EQ(compute[0].started.count(), start);
  EXPECT_EQ(compute[0].finished, compute[1].started);
  EXPECT_EQ(compute[1].finished.count(), end);
  EXPECT_EQ(compute[0].iteration, -1);
  EXPECT_EQ(compute[1].iteration, 0);
}

TEST(Recorder, OfCallsAloneMakesNoFileOfCompute) {
  const ScratchDirectory directory;
  create_recording(directory / "t", info(1));
  {
    Recorder recorder(directory / "t", Rank{0});
    recorder.start_computing(0);
    recorder.stop_computing(1'000'000);
  }
  finish_recording(directory / "t");
  EXPECT_TRUE(read(directory / "t").streams[0].compute.empty());
  EXPECT_FALSE(std::filesystem::exists(directory / "t/rank-0.compute.bin"));
}

TEST(Recorder, ARankThatLacksItsComputeTimesIsCounted) {
  const ScratchDirectory directory;
  create_recording(directory / "t", computing_info());
  {
    const Recorder recorder(directory / "t", Rank{0});
  }
  EXPECT_EQ(read(directory / "t").provenance.skipped, (Skipped{{"rank without its compute times", 1}}));
}

}  // namespace
}  // namespace commlens
