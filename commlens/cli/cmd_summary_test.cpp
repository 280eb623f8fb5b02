#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/summarise.hpp"
#include "commlens/app/summary_text.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Two ranks all_reduce 2 KiB together, once in each of two iterations: in 8 µs when cold, in 2 µs when warm.
Trace cold_and_warm() {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::fp16;
  op.group = trace.groups.intern(std::vector<Rank>{{0}, {1}}, Axis::dp);
  op.input = op.output = Elements{1024};
  const OpId id = trace.intern(op);
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    const nanoseconds later(100'000);
    trace.streams.push_back({{rank, rank},
                             {{id, 0}, {id, 1}},
                             {{{}, {}, nanoseconds(8000)}, {later, later, later + nanoseconds(2000)}},
                             {}});
  }
  trace.provenance.source = Source::recorded;
  trace.provenance.producer = "test";
  trace.provenance.skip("unfinished call", 4);
  return trace;
}

class CommandSummary : public testing::Test {
 protected:
  void SetUp() override { write_trace(cold_and_warm(), directory()); }
  std::string directory() const { return (scratch_ / "trace").string(); }

  std::string summary(const std::vector<std::string>& flags, const TextStyle& style = {}) const {
    std::vector<std::string> arguments = {"summary", directory()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const test_support::Outcome outcome = test_support::run_with(arguments, style);
    EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
    std::string text = outcome.out;
    const std::string name = directory();
    const std::size_t place = text.find(name);
    return place == std::string::npos ? text : text.replace(place, name.size(), "TRACE");
  }

  /// The text between the line that names the directory and the timing report.
  std::string about_calls(const TextStyle& style) const {
    const std::string text = summary({"--link-bandwidth", "1"}, style);
    const std::size_t end = text.find(style.colour ? "\n\033[1mwhere the time" : "\nwhere the time");
    EXPECT_NE(end, std::string::npos) << text;
    const std::size_t start = text.find("covered:");
    return text.substr(start, end - start);
  }

  test_support::ScratchDirectory scratch_;
};

constexpr const char* k_volumes =
    "covered: all but 4 unfinished calls\n"
    "\n"
    "per op and group, all ranks together\n"
    "op          group  calls  smallest   largest  message bytes    share  wire bytes\n"
    "all_reduce  dp x2      4  2.00 KiB  2.00 KiB       8.00 KiB  100.0 %    8.00 KiB\n";

/// 4 calls of 2 KiB; 8 KiB in 20 µs are 409.6 MB/s; of 2, 2, 8, 8 µs the second and the fourth; the first
/// calls lose 6 µs each.
TEST_F(CommandSummary, FitsIntoAWideTerminal) {
  EXPECT_EQ(summary({}, {.width = 1000}).substr(0, 67),
            "TRACE: recorded by test; 4 calls of 2 ranks, 2 iterations (0 to 1)\n");
  EXPECT_EQ(
      about_calls({.width = 200}),
      std::string(k_volumes) +
          "\n"
          "time in calls, all ranks together\n"
          "op          group    total    share      P50  P50, 95 % interval      P95    alg bw    bus bw  of "
          "link\n"
          "all_reduce  dp x2  20.0 µs  100.0 %  2.00 µs                   -  8.00 µs  410 MB/s  410 MB/s   "
          "41.0 "
          "%\n"
          "P50 and P95 are of one call, and exact\n"
          "\n"
          "message sizes, all ranks together\n"
          "message size            calls  of calls  of bytes  of time\n"
          "2.00 KiB to < 4.00 KiB      4   100.0 %   100.0 %  100.0 %  ########################\n"
          "messages below 64.00 KiB: 100.0 % of the calls, 100.0 % of the bytes, 100.0 % of the time\n"
          "\n"
          "cold start: iteration 0 against 1 warm one\n"
          "op          group  cold calls  warm calls  cold bytes  warm bytes  cold P50  warm P50  cold mean  "
          "warm mean  slower\n"
          "all_reduce  dp x2           2           2    4.00 KiB    4.00 KiB   8.00 µs   2.00 µs    8.00 µs  "
          "  "
          "2.00 µs   x 4.0\n"
          "warm calls and bytes: of one iteration, on average; slower: mean time of a call\n"
          "\n"
          "first call of a rank on a group against later ones\n"
          "op          group  first calls     mean  longest  compared    first    later  slower     lost\n"
          "all_reduce  dp x2            2  8.00 µs  8.00 µs         2  8.00 µs  2.00 µs   x 4.0  12.0 µs\n"
          "compared: with the mean of later calls of the same op, size and group; lost: all ranks added "
          "up\n");
}

TEST_F(CommandSummary, FitsIntoANarrowTerminal) {
  EXPECT_EQ(about_calls({.width = 80}),
            std::string(k_volumes) +
                "\n"
                "time in calls, all ranks together\n"
                "op          group    total    share      P50      P95    bus bw  of link\n"
                "all_reduce  dp x2  20.0 µs  100.0 %  2.00 µs  8.00 µs  410 MB/s   41.0 %\n"
                "hidden, too narrow: P50, 95 % interval, alg bw (see --format csv or a wider\n"
                "  terminal)\n"
                "P50 and P95 are of one call, and exact\n"
                "\n"
                "message sizes, all ranks together\n"
                "message size            calls  of calls  of bytes  of time\n"
                "2.00 KiB to < 4.00 KiB      4   100.0 %   100.0 %  100.0 %  ################\n"
                "messages below 64.00 KiB: 100.0 % of the calls, 100.0 % of the bytes, 100.0 % of\n"
                "  the time\n"
                "\n"
                "cold start: iteration 0 against 1 warm one\n"
                "op          group  warm calls  cold P50  warm P50  cold mean  warm mean  slower\n"
                "all_reduce  dp x2           2   8.00 µs   2.00 µs    8.00 µs    2.00 µs   x 4.0\n"
                "hidden, too narrow: cold calls, cold bytes, warm bytes (see --format json or a\n"
                "  wider terminal)\n"
                "warm calls and bytes: of one iteration, on average; slower: mean time of a call\n"
                "\n"
                "first call of a rank on a group against later ones\n"
                "op          group  first calls  compared    first    later  slower     lost\n"
                "all_reduce  dp x2            2         2  8.00 µs  2.00 µs   x 4.0  12.0 µs\n"
                "hidden, too narrow: mean, longest (see --format json or a wider terminal)\n"
                "compared: with the mean of later calls of the same op, size and group; lost: all\n"
                "  ranks added up\n");
}

TEST_F(CommandSummary, IsTheSameTextWithoutItsColours) {
  std::string coloured = about_calls({.width = 80, .colour = true});
  EXPECT_NE(coloured.find("\033[1mtime in calls, all ranks together\033[0m\n"), std::string::npos)
      << coloured;
  for (const std::string code : {"\033[1m", "\033[0m"}) {
    for (std::size_t at = coloured.find(code); at != std::string::npos; at = coloured.find(code)) {
      coloured.erase(at, code.size());
    }
  }
  EXPECT_EQ(coloured, about_calls({.width = 80}));
}

TEST_F(CommandSummary, SplitsRowsByPhaseAndIteration) {
  const nlohmann::json json = nlohmann::json::parse(summary({"--by", "phase,iteration", "--format", "json"}));
  ASSERT_EQ(json["ops"].size(), 2U);
  EXPECT_EQ(json["ops"][0]["iteration"], 0);
  EXPECT_EQ(json["ops"][0]["phase"], "other");
  EXPECT_EQ(json["ops"][0]["time"]["time_ns_all_ranks"], 16'000);
  EXPECT_EQ(json["ops"][1]["time"]["time_ns_all_ranks"], 4000);
}

TEST_F(CommandSummary, JsonHasTotalsColdStartAndCoverage) {
  const nlohmann::json json = nlohmann::json::parse(summary({"--format", "json"}));
  EXPECT_EQ(json["totals"]["message_bytes_all_ranks"], 8192);
  EXPECT_EQ(json["totals"]["wire_bytes_all_ranks"], 8192);
  EXPECT_EQ(json["totals"]["time"]["p95_ns"], 8000);
  EXPECT_EQ(json["cold_start"]["ops"][0]["warm_time"]["p50_ns"], 2000);
  EXPECT_EQ(json["cold_start"]["first_calls"][0]["later_time_ns_all_ranks"], 4000);
  EXPECT_EQ(json["coverage"]["unfinished_calls_whole_trace"], 4);
  EXPECT_EQ(json["coverage"]["skipped_records_whole_trace"]["unfinished call"], 4);
  EXPECT_EQ(json["sizes"]["small_share_of_time"], 1.0);
}

/// The same numbers whether the directory is read into memory or once through.
TEST_F(CommandSummary, OfALargeDirectoryIsStreamed) {
  const Result<SummarySubject> kept = summarise(SummaryRequest{.trace = directory()});
  const Result<SummarySubject> streamed = summarise(SummaryRequest{.trace = directory(), .most_calls = 3});
  ASSERT_TRUE(kept && streamed);
  EXPECT_TRUE(kept->has_calls);
  EXPECT_FALSE(streamed->has_calls);
  EXPECT_EQ(streamed->summary.calls, 4);
  EXPECT_EQ(streamed->summary.time, kept->summary.time);
  EXPECT_EQ(streamed->summary.wire, kept->summary.wire);
  EXPECT_EQ(streamed->summary.coverage.skipped, kept->summary.coverage.skipped);
}

/// Two ranks that meet 100 times in iterations, of which rank 1 works twice as long before each.
Trace slow_rank_trace(bool has_compute) {
  Trace trace;
  const OpId op = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                      .group = trace.groups.intern(std::vector<Rank>{{0}, {1}}, Axis::dp),
                                      .input = Elements{64},
                                      .output = Elements{64}});
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    RankStream stream{{rank, rank}, {}, {}, {}};
    for (Iteration step = 0; step < 100; ++step) {
      const nanoseconds begin(2100 * step);
      const nanoseconds arrived = begin + nanoseconds(rank.value == 1 ? 2000 : 1000);
      stream.events.push_back({op, step});
      stream.times.push_back({arrived, arrived, begin + nanoseconds(2100)});
      if (has_compute) {
        stream.compute.push_back({begin, arrived, step});
      }
    }
    trace.streams.push_back(std::move(stream));
  }
  trace.provenance.source = Source::recorded;
  return trace;
}

TEST(SummaryText, IsTheSameOfADirectoryThatIsNotKept) {
  for (const bool has_compute : {false, true}) {
    const test_support::ScratchDirectory scratch;
    const std::string directory = (scratch / "trace").string();
    write_trace(slow_rank_trace(has_compute), directory);
    const Result<SummarySubject> kept = summarise(SummaryRequest{.trace = directory});
    const Result<SummarySubject> streamed = summarise(SummaryRequest{.trace = directory, .most_calls = 3});
    ASSERT_TRUE(kept && streamed);
    EXPECT_FALSE(streamed->has_calls);
    const std::string text = summary_text({*kept, "trace", {}, {}}, {});
    EXPECT_EQ(summary_text({*streamed, "trace", {}, {}}, {}), text) << "computing known: " << has_compute;
    // A block of 64 steps, the first of which begins with its call, and one of 36: 99 times 1000 ns.
    EXPECT_NE(text.find("rank 1 is slow: in 2 of 2 blocks of dp x2 it spent 99.0 µs more between its calls"),
              std::string::npos)
        << text;
  }
}

/// For a trace of many iterations, JSON has the first rows of single ones, their number and their totals.
TEST(SummaryJson, OfManyIterationsIsBounded) {
  const Trace trace = slow_rank_trace(false);
  SummarySubject subject{trace, true, summarise(trace), {}};
  const nlohmann::ordered_json all = summary_json({subject, "trace", {}, {}});
  EXPECT_EQ(all["iterations"].size(), 100U);
  EXPECT_EQ(all["overlap"].size(), 200U);
  EXPECT_EQ(all["overlap_rows"], 200);
  SummaryView view{subject, "trace", {}, {}};
  view.most_json_rows = 99;
  const nlohmann::ordered_json bounded = summary_json(view);
  EXPECT_EQ(bounded["iterations"], all["iterations"]);
  EXPECT_EQ(bounded["iteration_count"], 100);
  ASSERT_EQ(bounded["overlap"].size(), 99U);
  EXPECT_EQ(bounded["overlap"][98], all["overlap"][98]);
  EXPECT_EQ(bounded["overlap_rows"], 200);
  EXPECT_EQ(bounded["bubble"], all["bubble"]);
  for (const char* const key : {"overlap_totals", "stragglers", "bubble_totals", "totals", "cold_start"}) {
    EXPECT_EQ(bounded[key], all[key]) << key;
  }
  // Rank 1 is 100 ns of each step in its call, rank 0 1100.
  EXPECT_EQ(bounded["overlap_totals"]["by_rank"][1]["communication_ns"], 100 * 100);
  EXPECT_EQ(bounded["overlap_totals"]["by_op"][0]["communication_ns_all_ranks"], 100 * 1200);
  EXPECT_EQ(bounded["overlap_totals"]["by_stream"][0]["group_size"], 2);
}

// Every table is of the iterations that were asked for: each rank was 2 us in the one call of the warm one.
TEST_F(CommandSummary, OfSomeIterationsIsSoThroughout) {
  const auto json = nlohmann::json::parse(summary({"--iteration", "1-", "--format", "json"}));
  EXPECT_EQ(json["calls_all_ranks"], 2);
  ASSERT_EQ(json["overlap"].size(), 2U);
  EXPECT_EQ(json["overlap"][0]["iteration"], 1);
  EXPECT_EQ(json["stragglers"]["matched_collectives"], 1);
  const std::string text = summary({"--iteration", "1-"});
  EXPECT_NE(text.find("   0           1  2.00 µs"), std::string::npos) << text;
}

TEST(SummaryJson, OfSomeOfManyIterationsHasTheirRows) {
  const Trace trace = slow_rank_trace(false);
  const SummaryOptions options{.iterations = std::pair{90, 99}, .rank = Rank{1}};
  const SummarySubject subject{
      .trace = trace, .summary = summarise(trace, options), .options = options, .timing = {}};
  SummaryView view{subject, "trace", options, {}};
  view.most_json_rows = 99;
  const nlohmann::ordered_json json = summary_json(view);
  ASSERT_EQ(json["overlap"].size(), 10U);
  EXPECT_EQ(json["overlap"][0]["iteration"], 90);
  EXPECT_EQ(json["overlap_rows"], 10);
}

TEST_F(CommandSummary, RefusesRanksAndIterationsThatAreNotThere) {
  for (const std::int64_t most_calls : {std::int64_t{3}, k_most_calls_in_memory}) {
    const Result<SummarySubject> rank = summarise(
        SummaryRequest{.trace = directory(), .options = {.rank = Rank{2}}, .most_calls = most_calls});
    ASSERT_FALSE(rank);
    EXPECT_EQ(rank.error().message, "--rank 2: the trace has no calls of that rank, its highest is 1");
    const Result<SummarySubject> iterations =
        summarise(SummaryRequest{.trace = directory(),
                                 .options = {.iterations = IterationRange{2, INT32_MAX}},
                                 .most_calls = most_calls});
    ASSERT_FALSE(iterations);
    EXPECT_EQ(iterations.error().message, "--iteration 2-: the trace has iterations 0 to 1");
  }
}

/// The output of summary for `trace`, which is written first, without the directory's name.
std::string summary_of(const Trace& trace, const std::string& format = "table") {
  const test_support::ScratchDirectory scratch;
  const std::string directory = (scratch / "trace").string();
  write_trace(trace, directory);
  const test_support::Outcome outcome = test_support::run_with({"summary", directory, "--format", format});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  return format == "table" ? outcome.out.substr(directory.size()) : outcome.out;
}

TEST(SummaryOfHalfKnownIterations, CountsTheCallsOfNone) {
  Trace trace = cold_and_warm();
  for (RankStream& stream : trace.streams) {
    stream.events[1].iteration = k_unknown_iteration;
  }
  const test_support::ScratchDirectory scratch;
  const std::string directory = (scratch / "trace").string();
  write_trace(trace, directory);
  const std::string text = test_support::run_with({"summary", directory}).out;
  EXPECT_NE(text.find("; 4 calls of 2 ranks, 1 iteration (0); 2 calls of no known iteration\n"),
            std::string::npos)
      << text;
  const std::string chosen = test_support::run_with({"summary", directory, "--iteration", "0"}).out;
  EXPECT_NE(chosen.find("; 2 calls of 2 ranks, 1 iteration (0)\n"), std::string::npos) << chosen;
  const auto json =
      nlohmann::json::parse(test_support::run_with({"summary", directory, "--format", "json"}).out);
  EXPECT_EQ(json["coverage"]["calls_without_iteration_all_ranks"], 2);
}

TEST(SummaryOfAverages, HasNoTimesOfSingleCallsAndTheReason) {
  Trace trace = cold_and_warm();
  trace.provenance.skipped.clear();
  trace.provenance.averaged_times = true;
  const std::string text = summary_of(trace);
  EXPECT_NE(text.find("covered: every record\n"
                      "times: averages over several calls each, placed end to end, so times of single "
                      "calls and overlap are not known\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("op          group    total    alg bw    bus bw\n"
                      "all_reduce  dp x2  20.0 µs  410 MB/s  410 MB/s\n"),
            std::string::npos)
      << text;
  for (const char* const word : {"P50", "P95", "cold", "first call", "of time", "of the time",
                                 "where the time", "overlap with\n\nwhere", "not matched"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word << "\n" << text;
  }
  const nlohmann::json json = nlohmann::json::parse(summary_of(trace, "json"));
  for (const char* const key : {"cold_start", "overlap", "stragglers", "bubble"}) {
    EXPECT_TRUE(json.at(key).is_null()) << key;
  }
  EXPECT_TRUE(json.at("totals").at("time").at("p50_ns").is_null());
  EXPECT_TRUE(json.at("sizes").at("small_share_of_time").is_null());
  EXPECT_EQ(json.at("coverage").at("averaged_times"), true);
  EXPECT_EQ(json.at("totals").at("time").at("time_ns_all_ranks"), 20'000);
}

/// Ranks 2 and 5 compute 300 ns in all and call nothing.
TEST(SummaryOfComputing, ShowsRanksAndTimeWithoutAnyCall) {
  Trace trace;
  trace.provenance.source = Source::imported;
  trace.provenance.producer = "test";
  for (const std::int64_t rank : {2, 5}) {
    trace.streams.push_back({{Rank{rank}, Rank{rank}}, {}, {}, {{nanoseconds(0), nanoseconds(150), 0}}});
  }
  EXPECT_EQ(summary_of(trace),
            ": imported from test; 0 calls; 2 ranks computed for 300 ns in all\n"
            "covered: every record\n"
            "no calls\n"
            "\n"
            "where the time of each rank goes\n"
            "ranks  iterations    time  computing  communicating  exposed  overlapped   idle\n"
            "    2           1  150 ns    100.0 %          0.0 %    0.0 %       0.0 %  0.0 %\n"
            "    5           1  150 ns    100.0 %          0.0 %    0.0 %       0.0 %  0.0 %\n");
  const nlohmann::json json = nlohmann::json::parse(summary_of(trace, "json"));
  EXPECT_EQ(json.at("computing"), (nlohmann::json{{"rank_count", 2}, {"computing_ns_all_ranks", 300}}));
  EXPECT_EQ(json.at("overlap").size(), 2U);
  EXPECT_TRUE(nlohmann::json::parse(summary_of(cold_and_warm(), "json")).at("computing").is_null());
}

/// Two ranks all_reduce 1,000 elements of fp16 twice, in 4 µs and 8 µs, and once 2^19 + 1 of them in 1 ms.
Trace two_sizes() {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::fp16;
  op.group = trace.groups.intern(std::vector<Rank>{{0}, {1}}, Axis::dp);
  op.input = op.output = Elements{1000};
  const OpId small = trace.intern(op);
  op.input = op.output = Elements{524'289};
  const OpId large = trace.intern(op);
  const nanoseconds second(100'000);
  const nanoseconds third(200'000);
  for (const Rank rank : {Rank{0}, Rank{1}}) {
    trace.streams.push_back({{rank, rank},
                             {{small, 0}, {small, 0}, {large, 0}},
                             {{{}, {}, nanoseconds(4000)},
                              {second, second, second + nanoseconds(8000)},
                              {third, third, third + nanoseconds(1'000'000)}},
                             {}});
  }
  trace.provenance.source = Source::recorded;
  return trace;
}

TEST_F(CommandSummary, BySizeShowsWhatEachMessageSizeTakes) {
  const std::string trace = (scratch_ / "sizes").string();
  write_trace(two_sizes(), trace);
  const std::string text = test_support::run_with({"summary", trace, "--by", "size"}).out;
  const std::size_t begin = text.find("\nper op, group and message size");
  ASSERT_NE(begin, std::string::npos) << text;
  // bus bandwidth of two ranks: message bytes over time; 4 x 2,000 B / 24 µs and 1,048,578 B / 1 ms.
  EXPECT_EQ(
      text.substr(begin + 1, text.find("\n\n", begin + 1) - begin - 1),
      "per op, group and message size, all ranks together\n"
      "op          group  message bytes  calls   share    total      P50      P95     alg bw     bus bw\n"
      "all_reduce  dp x2          2,000      4   0.4 %  24.0 µs  4.00 µs  8.00 µs   333 MB/s   333 MB/s\n"
      "all_reduce  dp x2      1,048,578      2  99.6 %  2.00 ms  1.00 ms  1.00 ms  1.05 GB/s  1.05 GB/s\n"
      "P50 and P95 are of one call, and exact");
  const auto json = nlohmann::json::parse(
      test_support::run_with({"summary", trace, "--by", "size", "--format", "json"}).out);
  ASSERT_EQ(json["ops"].size(), 2u);
  EXPECT_EQ(json["ops"][0]["smallest_message_bytes"], 2000);
  EXPECT_EQ(json["ops"][0]["largest_message_bytes"], 2000);
  EXPECT_EQ(json["ops"][0]["calls_all_ranks"], 4);
  EXPECT_EQ(json["ops"][0]["time"]["p50_ns"], 4000);
  EXPECT_EQ(json["ops"][0]["time"]["p95_ns"], 8000);
  EXPECT_DOUBLE_EQ(json["ops"][0]["bus_bandwidth_bytes_per_s"].get<double>(), 8000 / 24e-6);
  EXPECT_EQ(json["ops"][1]["smallest_message_bytes"], 1'048'578);
  EXPECT_DOUBLE_EQ(json["ops"][1]["bus_bandwidth_bytes_per_s"].get<double>(), 1'048'578 / 1e-3);
}

}  // namespace
}  // namespace commlens
