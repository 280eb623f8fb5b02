// The figures of one iteration apart from initialisation, of several inputs, and of times that overlap.
#include <gtest/gtest.h>

#include "commlens/report/documents/test_documents.hpp"
#include "commlens/report/figures/figures.hpp"
#include "commlens/report/verdict.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;
using Lines = std::vector<std::string>;

/// Two ranks that all_reduce: 1 call of 400 bytes in initialisation, then per iteration 2 of 4,096 bytes.
Trace with_initialisation(Source source) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::fp32;
  op.group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::dp);
  op.input = op.output = {100};
  const OpId small = trace.intern(op);
  op.input = op.output = {1024};
  const OpId large = trace.intern(op);
  trace.provenance.source = source;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    RankStream stream{{Rank{rank}, Rank{rank}}, {}, {}, {}};
    stream.events = {{small, -1}, {large, 0}, {large, 0}, {large, 1}, {large, 1}};
    trace.streams.push_back(std::move(stream));
  }
  return trace;
}

/// Two calls of one rank at the same time: 0 to 100 and 50 to 150 ns, of 1,000 bytes in groups of 2; a span
/// of 150 ns.
Trace overlapping() {
  Trace trace;
  CommOp op;
  op.dtype = DType::uint8;
  op.input = op.output = {1000};
  op.kind = CommKind::all_reduce;
  op.group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::dp);
  const OpId reduce = trace.intern(op);
  op.kind = CommKind::broadcast;
  op.group = trace.groups.intern({Rank{0}, Rank{2}}, Axis::tp);
  const OpId broadcast = trace.intern(op);
  trace.provenance.source = Source::recorded;
  RankStream stream{{Rank{0}, Rank{0}}, {{reduce, 0}, {broadcast, 0}}, {}, {}};
  stream.times = {{nanoseconds(0), nanoseconds(0), nanoseconds(100)},
                  {nanoseconds(50), nanoseconds(50), nanoseconds(150)}};
  trace.streams.push_back(std::move(stream));
  return trace;
}

FigureInput input_of(const Trace& trace) { return figure_input({"run", &trace}, std::nullopt, 0); }

Figure made(const FigureInput& input, std::string_view id) {
  for (MadeFigure& figure : make_figures(input)) {
    if (figure.entry->id == id) {
      EXPECT_TRUE(figure.figure) << id;
      return figure.figure.value_or(Figure{});
    }
  }
  return {};
}

Lines column(const Figure& figure, std::string_view name) {
  Lines values;
  for (const FigureColumn& each : figure.columns) {
    for (std::size_t row = 0; each.name == name && row < each.rows(); ++row) {
      values.push_back(each.plain(row));
    }
  }
  return values;
}

TEST(TotalsFigure, KeepsInitialisationApartFromAnIteration) {
  const Trace trace = with_initialisation(Source::recorded);
  const Figure figure = made(input_of(trace), "totals");
  EXPECT_EQ(column(figure, "part"),
            (Lines{"one iteration, mean of 2 iterations (0 to 1)", "initialisation", "everything shown"}));
  EXPECT_EQ(column(figure, "calls_all_ranks"), (Lines{"4", "2", "10"}));
  EXPECT_EQ(column(figure, "message_bytes_all_ranks"),
            (Lines{"16384", "800", "33568"}));  // 4 x 4096; 2 x 400
  // 2 m (n-1)/n = m for n = 2: each of the two ranks sends half of that.
  EXPECT_EQ(column(figure, "wire_bytes_mean_per_rank"), (Lines{"8192", "400", "16784"}));
}

TEST(BreakdownFigure, CountsTrainingAndInitialisationApart) {
  const Trace trace = with_initialisation(Source::recorded);
  const FigureInput input = input_of(trace);
  EXPECT_EQ(column(made(input, "breakdown"), "message_bytes_all_ranks"), (Lines{"32768"}));
  EXPECT_EQ(column(made(input, "init-breakdown"), "message_bytes_all_ranks"), (Lines{"800"}));
  EXPECT_EQ(column(made(input, "breakdown"), "axis"), (Lines{"dp"}));
}

TEST(BreakdownFigure, OfAPredictionCountsOneIteration) {
  const Trace trace = with_initialisation(Source::predicted);
  EXPECT_EQ(column(made(input_of(trace), "breakdown"), "calls_all_ranks"), (Lines{"4"}));
  EXPECT_EQ(column(made(input_of(trace), "totals"), "part")[0], "one iteration (1)");
}

TEST(RunsFigure, ChartsEveryOneOfThreePerIteration) {
  const Trace a = with_initialisation(Source::recorded);
  const Trace b = with_initialisation(Source::predicted);
  FigureInput input = input_of(a);
  input.all = {{"a", &a}, {"b", &b}, {"b", &b}};
  const Figure runs = made(input, "runs");
  EXPECT_EQ(runs.kind, FigureKind::bars);
  EXPECT_EQ(column(runs, "trace"), (Lines{"a", "b", "b #2"}));
  EXPECT_EQ(column(runs, "message_bytes_per_iteration_all_ranks"), (Lines{"16384", "16384", "16384"}));
  const Figure by_op = made(input, "runs-by-op");
  EXPECT_EQ(column(by_op, "call"), (Lines{"all_reduce x2", "all_reduce x2", "all_reduce x2"}));
  EXPECT_EQ(column(by_op, "calls_per_iteration_all_ranks"), (Lines{"4", "4", "4"}));
}

TEST(BusyFigure, CountsWhatOverlapsOnce) {
  const Trace trace = overlapping();
  const Figure figure = made(input_of(trace), "busy");
  const Lines parts = column(figure, "part");
  const Lines times = column(figure, "time_ns_all_ranks");
  ASSERT_EQ(parts.size(), 10);  // two ops, two groups and everything: added up, and once
  EXPECT_EQ(parts[8], "everything");
  EXPECT_EQ(times[8], "200");
  EXPECT_EQ(times[9], "150");
  EXPECT_EQ(column(figure, "part_share")[9], "1");
}

TEST(BandwidthFigure, IsOfEachMessageSize) {
  const Trace trace = overlapping();
  const Figure figure = made(input_of(trace), "bandwidth");
  EXPECT_EQ(column(figure, "call"), (Lines{"all_reduce dp x2", "broadcast tp x2"}));
  EXPECT_EQ(column(figure, "message_bytes"), (Lines{"1000", "1000"}));
  // 1000 bytes in 100 ns; the factor of an all_reduce is 2 (n-1)/n = 1, of a broadcast 1.
  EXPECT_EQ(column(figure, "bus_bandwidth_bytes_per_s"), (Lines{"10000000000", "10000000000"}));
}

TEST(ReportVerdict, OfAPredictionSaysWhatDominates) {
  const Trace trace = with_initialisation(Source::predicted);
  const ReportVerdict verdict = verdict_of(input_of(trace));
  EXPECT_EQ(verdict.tone, ReportVerdict::Tone::neutral);
  EXPECT_EQ(verdict.sentences, (Lines{"2 ranks make 4 calls in an iteration and put 16.00 KiB on the wire; "
                                      "all_reduce dp x2 is 100.0 % of it."}));
}

TEST(ReportVerdict, OfTimesSaysWhatTheyGoTo) {
  const Trace trace = overlapping();
  const ReportVerdict verdict = verdict_of(input_of(trace));
  EXPECT_EQ(verdict.sentences.back(),
            "Calls take 100.0 % of the ranks' time (overlaps counted once); all_reduce alone 66.7 %.");
}

TEST(ReportVerdict, OfTwoEqualSidesIsGood) {
  const Trace trace = with_initialisation(Source::recorded);
  FigureInput input = input_of(trace);
  const Result<Comparison> comparison = compare(trace, trace, {});
  ASSERT_TRUE(comparison);
  input.compared = ComparedTraces{{"a", &trace}, {"b", &trace}, *comparison, std::nullopt};
  const ReportVerdict verdict = verdict_of(input);
  EXPECT_EQ(verdict.tone, ReportVerdict::Tone::good);
  EXPECT_EQ(verdict.sentences[0], "Equal: 10 of 10 calls (2 ranks, iterations -1 to 1). A is a, B is b.");
}

TEST(ReportVerdict, OfTwoSidesThatDifferIsBad) {
  const Trace a = with_initialisation(Source::recorded);
  Trace b = with_initialisation(Source::recorded);
  b.streams[0].events.pop_back();
  FigureInput input = input_of(a);
  const Result<Comparison> comparison = compare(a, b, {});
  ASSERT_TRUE(comparison);
  input.compared = ComparedTraces{{"a", &a}, {"b", &b}, *comparison, explain_calls(*comparison)};
  const ReportVerdict verdict = verdict_of(input);
  EXPECT_EQ(verdict.tone, ReportVerdict::Tone::bad);
  EXPECT_EQ(verdict.sentences[0],
            "Different: 9 of 10 calls equal, 1 only in A (2 ranks, iterations -1 to 1). A is a, B is b.");
  EXPECT_EQ(verdict.sentences[1], "No rule or setting is known that explains it.");
}

TEST(ReportVerdict, OfASimulationSaysTimeIntervalMfuAndWhatIsExposed) {
  FigureInput input;
  ASSERT_TRUE(read_result_document("r.json", test_support::k_simulated_json, input.documents));
  const ReportVerdict verdict = verdict_of(input);
  // 0.125 of 0.5 s is a quarter, exposed and waiting alike.
  EXPECT_EQ(
      verdict.sentences,
      (Lines{"An iteration takes 500 ms (250 ms to 1.00 s) (90 % interval), 50.0 % MFU (25.0 % to 75.0 %): "
             "25.0 % of it in calls with nothing computed meanwhile, 25.0 % waiting for the pipeline or for "
             "later ranks.",
             "Most exposed: all_reduce dp, 25.0 %. Times of kernels: calibrated on 3 runs; of calls: "
             "measured."}));
  const std::vector<InputFacts> facts = document_facts(input.documents);
  ASSERT_EQ(facts.size(), 1);
  EXPECT_EQ(facts[0].facts[2], std::pair(std::string("machine"), std::string("small (Small)")));
}

TEST(ReportVerdict, OfASearchSaysTheFastestLayout) {
  FigureInput input;
  ASSERT_TRUE(read_result_document("f.json", test_support::k_found_json, input.documents));
  ASSERT_TRUE(read_result_document("s.json", test_support::k_scaling_json, input.documents));
  const ReportVerdict verdict = verdict_of(input);
  ASSERT_EQ(verdict.sentences.size(), 2);
  EXPECT_EQ(
      verdict.sentences[0].find("Fastest of 80 layouts that fit: tp 1, pp 1, dp 8, 2.00 s (1.50 s to 2.50 s) "
                                "an iteration (90 % interval), "),
      0);
  EXPECT_EQ(
      verdict.sentences[1],
      "On 8 devices the fastest layout takes 4.00 s (2.00 s to 8.00 s) an iteration (90 % interval), 4,096 "
      "tokens/s in all, 100.0 % of linear scaling.");
}

}  // namespace
}  // namespace commlens
