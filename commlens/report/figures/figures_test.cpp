#include "commlens/report/figures/figures.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "commlens/report/figure_files.hpp"
#include "commlens/report/figures/bubble_figure.hpp"
#include "commlens/report/figures/calls_figure.hpp"
#include "commlens/report/figures/formulas_figure.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/figures/overlap_figure.hpp"
#include "commlens/report/figures/prediction_figure.hpp"
#include "commlens/report/figures/waits_figure.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Two ranks, two iterations. Each rank, iteration 0: an all_reduce of 400 bytes, 100 to 300 ns; iteration 1:
/// the same from 1000 to 1100 ns on rank 0 and from 1050 on rank 1; then a barrier without a size.
class TwoRanks {
 public:
  explicit TwoRanks(bool has_times) {
    CommOp reduce;
    reduce.kind = CommKind::all_reduce;
    reduce.dtype = DType::fp32;
    reduce.phase = Phase::backward;
    reduce.group = trace_.groups.intern({Rank{0}, Rank{1}}, Axis::dp);
    reduce.input = reduce.output = {100};
    CommOp barrier;
    barrier.kind = CommKind::barrier;
    barrier.group = reduce.group;
    const OpId reduces = trace_.intern(reduce);
    const OpId barriers = trace_.intern(barrier);
    trace_.provenance.source = has_times ? Source::recorded : Source::predicted;
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      RankStream stream{{Rank{rank}, Rank{rank}}, {}, {}, {}};
      stream.events = {{reduces, 0}, {reduces, 1}, {barriers, 1}};
      if (has_times) {
        const nanoseconds late(50 * rank);
        stream.times = {{nanoseconds(100), nanoseconds(100), nanoseconds(300)},
                        {nanoseconds(1000) + late, nanoseconds(1000) + late, nanoseconds(1100)},
                        {nanoseconds(1200), nanoseconds(1200), nanoseconds(1210)}};
      }
      trace_.streams.push_back(std::move(stream));
    }
  }
  const Trace& trace() const { return trace_; }
  FigureInput input() const { return figure_input({"two", &trace_}, std::nullopt, 0); }

 private:
  Trace trace_;
};

std::map<std::string, FigureResult> figures_of(const FigureInput& input) {
  std::map<std::string, FigureResult> figures;
  for (MadeFigure& made : make_figures(input)) {
    figures.emplace(made.entry->id, std::move(made.figure));
  }
  return figures;
}

/// The plain values of the column of that name.
std::vector<std::string> values_of(const Figure& figure, const std::string& name) {
  std::vector<std::string> values;
  for (const FigureColumn& column : figure.columns) {
    for (std::size_t row = 0; column.name == name && row < column.rows(); ++row) {
      values.push_back(column.plain(row));
    }
  }
  return values;
}

using Texts = std::vector<std::string>;

TEST(Figures, IdsAreUniqueAndNameFiles) {
  std::set<std::string_view> ids;
  for (const FigureEntry& entry : figure_entries()) {
    EXPECT_TRUE(ids.insert(entry.id).second) << entry.id;
    EXPECT_EQ(entry.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos) << entry.id;
  }
}

TEST(Figures, SectionsStandTogether) {
  std::set<std::string_view> ended;
  std::string_view current;
  for (const FigureEntry& entry : figure_entries()) {
    if (entry.section != current) {
      EXPECT_TRUE(ended.insert(entry.section).second) << entry.section;
      current = entry.section;
    }
  }
}

TEST(Figures, EveryDefinitionThatOneNamesExists) {
  std::set<std::string_view> known;
  for (const Formula& formula : formulas()) {
    known.insert(formula.id);
  }
  for (const auto& [id, figure] : figures_of(TwoRanks(true).input())) {
    for (const std::string& formula : figure ? figure->formulas : Texts{}) {
      EXPECT_TRUE(known.contains(formula)) << id << ": " << formula;
    }
  }
}

TEST(Figures, OptionsThatNameColumnsNameSomeThatExist) {
  const std::set<std::string> name_columns = {"category", "series", "value",  "x",
                                              "lower",    "upper",  "source", "destination"};
  for (const auto& [id, figure] : figures_of(TwoRanks(true).input())) {
    for (const auto& [option, value] : figure ? figure->options : FigureOptions{}) {
      Texts names;
      if (name_columns.contains(option)) {
        names = {std::get<std::string>(value)};
      } else if (option == "toggles") {
        names = std::get<Texts>(value);
      }
      for (const std::string& name : names) {
        EXPECT_FALSE(values_of(*figure, name).empty()) << id << ": " << option << " " << name;
      }
    }
  }
}

TEST(Figures, TracesWithoutTimesSayWhyFiguresOfTimesAreAbsent) {
  const auto figures = figures_of(TwoRanks(false).input());
  for (const char* const id :
       {"timeline", "overlap", "first-calls", "slow-ranks", "lateness", "waits", "bubble"}) {
    ASSERT_FALSE(figures.at(id)) << id;
    EXPECT_EQ(figures.at(id).error().reason, "a prediction knows calls and sizes, not when they happen")
        << id;
  }
}

TEST(Figures, OfAnEmptyTraceHaveNoDataButItsProvenance) {
  const Trace empty;
  const auto figures = figures_of(figure_input({"empty", &empty}, std::nullopt, 0));
  EXPECT_EQ(figures.at("breakdown").error().reason, "the trace has no calls");
  for (const char* const id : {"overview", "provenance", "formulas"}) {
    EXPECT_TRUE(figures.at(id)) << id;
  }
}

TEST(BreakdownFigure, CountsEveryRank) {
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("breakdown");
  EXPECT_EQ(values_of(figure, "call"), (Texts{"all_reduce dp x2", "barrier dp x2"}));
  EXPECT_EQ(values_of(figure, "phase"), (Texts{"backward", "other"}));
  EXPECT_EQ(values_of(figure, "calls_all_ranks"), (Texts{"4", "2"}));
  EXPECT_EQ(values_of(figure, "message_bytes_all_ranks"), (Texts{"1600", "0"}));  // 4 x 400
  EXPECT_EQ(values_of(figure, "wire_bytes_all_ranks"), (Texts{"1600", "0"}));     // 2 m (n-1)/n = m for n = 2
  EXPECT_EQ(values_of(figure, "share_of_message_bytes"), (Texts{"1", "0"}));
  EXPECT_EQ(values_of(figure, "time_ns_all_ranks"), (Texts{"550", "20"}));  // 200 + 200 + 100 + 50; 2 x 10
}

TEST(BreakdownFigure, HasNoTimeColumnsWithoutTimes) {
  const auto figures = figures_of(TwoRanks(false).input());
  EXPECT_TRUE(values_of(*figures.at("breakdown"), "time_ns_all_ranks").empty());
}

TEST(IterationsFigure, IsPerIterationAndOp) {
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("iterations");
  EXPECT_EQ(values_of(figure, "iteration"), (Texts{"0", "1", "1"}));
  EXPECT_EQ(values_of(figure, "calls_all_ranks"), (Texts{"2", "2", "2"}));
  EXPECT_EQ(values_of(figure, "message_bytes_all_ranks"), (Texts{"800", "800", "0"}));
  EXPECT_EQ(values_of(figure, "time_ns_all_ranks"), (Texts{"400", "150", "20"}));
}

TEST(SizesFigure, JsonIsWhatItWas) {
  // 400 bytes lie in [256, 512): 4 calls, 1600 bytes, 550 ns; barriers are skipped.
  const auto figures = figures_of(TwoRanks(true).input());
  const std::string expected = R"json({
 "schema": "commlens.figure/1",
 "id": "sizes",
 "title": "Message sizes",
 "caption": "Message bytes of one call, in classes of powers of two, over all ranks and the iterations shown; barriers are skipped. Messages below 64.00 KiB are 100.0 % of the calls and 100.0 % of the bytes, and take 100.0 % of the time.",
 "kind": "histogram",
 "notes": [],
 "options": {"lower":"lower_bytes","upper":"upper_bytes","toggles":["calls_all_ranks","message_bytes_all_ranks","time_ns_all_ranks"],"small_limit":65536},
 "rows": 1,
 "columns": [
  {"name": "lower_bytes", "title": "from (bytes)", "unit": "bytes", "values": [256]},
  {"name": "upper_bytes", "title": "to below (bytes)", "unit": "bytes", "values": [512]},
  {"name": "calls_all_ranks", "title": "calls", "unit": "", "values": [4]},
  {"name": "message_bytes_all_ranks", "title": "message bytes", "unit": "bytes", "values": [1600]},
  {"name": "time_ns_all_ranks", "title": "time in calls", "unit": "ns", "values": [550]}
 ]
}
)json";
  EXPECT_EQ(figure_json(*figures.at("sizes")), expected);
}

TEST(TimelineFigure, CountsFromTheFirstStart) {
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("timeline");
  EXPECT_EQ(values_of(figure, "rank"), (Texts{"0", "0", "0", "1", "1", "1"}));
  EXPECT_EQ(values_of(figure, "start_ns"), (Texts{"0", "900", "1100", "0", "950", "1100"}));
  EXPECT_EQ(values_of(figure, "duration_ns"), (Texts{"200", "100", "10", "200", "50", "10"}));
  EXPECT_EQ(values_of(figure, "message_bytes")[0], "400");
  EXPECT_TRUE(figure.notes.empty());
}

TEST(TimelineFigure, KeepsWholeIterationsTheLastFirst) {
  // 50,000 calls in each of 4 iterations: two fit into 120,000, the last and the first.
  Trace trace;
  CommOp op;
  op.kind = CommKind::barrier;
  op.group = trace.groups.intern({Rank{0}});
  RankStream stream{{Rank{0}, Rank{0}}, {}, {}, {}};
  const OpId id = trace.intern(op);
  for (Iteration iteration = 0; iteration < 4; ++iteration) {
    for (std::int64_t call = 0; call < 50'000; ++call) {
      const nanoseconds start(static_cast<std::int64_t>(stream.events.size()));
      stream.events.push_back({id, iteration});
      stream.times.push_back({start, start, start});
    }
  }
  trace.streams.push_back(std::move(stream));
  const auto figures = figures_of(figure_input({"long", &trace}, std::nullopt, 0));
  const Figure& figure = *figures.at("timeline");
  EXPECT_EQ(figure.rows(), 100'000U);
  EXPECT_EQ(values_of(figure, "iteration").front(), "0");
  EXPECT_EQ(values_of(figure, "iteration").back(), "3");
  ASSERT_EQ(figure.notes.size(), 1U);
  EXPECT_NE(figure.notes[0].find("2 of 4 iterations"), std::string::npos);
}

TEST(TimelineFigure, ShowsAtMost64Ranks) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::barrier;
  op.group = trace.groups.intern({Rank{0}});
  const OpId id = trace.intern(op);
  for (std::int64_t rank = 0; rank < 128; ++rank) {
    trace.streams.push_back({{Rank{rank}, Rank{rank}}, {{id, 0}}, {Times{}}, {}});
  }
  const auto figures = figures_of(figure_input({"wide", &trace}, std::nullopt, 0));
  const Figure& figure = *figures.at("timeline");
  EXPECT_EQ(figure.rows(), 64U);
  EXPECT_EQ(values_of(figure, "rank")[1], "2");  // every second one
  EXPECT_EQ(figure.notes, (Texts{"64 of 128 ranks are shown, evenly spread."}));
}

TEST(ColdFigure, SetsTheFirstIterationAgainstTheMeanOfTheLaterOnes) {
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("cold");
  EXPECT_EQ(values_of(figure, "call")[0], "all_reduce dp x2");
  EXPECT_EQ(values_of(figure, "when"), (Texts{"cold", "warm, mean", "cold", "warm, mean"}));
  EXPECT_EQ(values_of(figure, "calls_per_iteration_all_ranks"), (Texts{"2", "2", "0", "2"}));
  EXPECT_EQ(values_of(figure, "time_ns_per_iteration_all_ranks"), (Texts{"400", "150", "", "20"}));
}

TEST(SlowRanksFigure, NamesWhoWorkedLonger) {
  // From the end of the first call: rank 0 works 700 + 100 ns, rank 1 750 + 100; 110 and 60 ns in calls. One
  // block of 3 calls; the median of two is the lower one, 800, and 50 is more than its twentieth.
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("slow-ranks");
  EXPECT_EQ(values_of(figure, "rank"), (Texts{"0", "1"}));
  EXPECT_EQ(values_of(figure, "verdict"), (Texts{"not slow", "slow in one block"}));
  EXPECT_EQ(values_of(figure, "between_calls_ns"), (Texts{"800", "850"}));
  EXPECT_EQ(values_of(figure, "in_calls_ns"), (Texts{"110", "60"}));
  EXPECT_EQ(values_of(figure, "excess_ns"), (Texts{"0", "50"}));
  EXPECT_EQ(values_of(figure, "group_text"), (Texts{"dp x2", "dp x2"}));
  EXPECT_NE(
      figure.caption.find(" Rank 1 stands out in the only block of dp x2: it spent 50 ns more "
                          "between its calls than the median rank; one block does not show whether that "
                          "lasts."),
      std::string::npos)
      << figure.caption;
}

TEST(LatenessFigure, NamesWhoWasWaitedFor) {
  // Rank 1 issues its second all_reduce 50 ns after rank 0, which therefore waits 50 ns.
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("lateness");
  EXPECT_EQ(values_of(figure, "rank"), (Texts{"0", "1"}));
  EXPECT_EQ(values_of(figure, "caused_ns"), (Texts{"0", "50"}));
  EXPECT_EQ(values_of(figure, "waited_ns"), (Texts{"50", "0"}));
}

TEST(OverlapFigure, WithoutComputeTimesSplitsIntoCallsAndTheRest) {
  // Iteration 0 of each rank is its call alone, 200 ns. Iteration 1: 1000 (1050) to 1210 ns, 110 (60) ns in
  // calls.
  const auto figures = figures_of(TwoRanks(true).input());
  const Figure& figure = *figures.at("overlap");
  EXPECT_EQ(values_of(figure, "part"),
            (Texts{"communication", "not in a call", "communication", "not in a call"}));
  EXPECT_EQ(values_of(figure, "part_ns"), (Texts{"310", "100", "260", "100"}));
}

TEST(RunsFigure, HasALineForEachTrace) {
  const TwoRanks a(true);
  const TwoRanks b(false);
  FigureInput input = a.input();
  input.all = {{"a", &a.trace()}, {"b", &b.trace()}};
  const auto figures = figures_of(input);
  EXPECT_EQ(values_of(*figures.at("runs"), "trace"), (Texts{"a", "b"}));
  EXPECT_EQ(values_of(*figures.at("runs"), "calls_all_ranks"), (Texts{"6", "6"}));
  EXPECT_EQ(values_of(*figures.at("runs"), "time_ns_all_ranks"), (Texts{"570", ""}));
}

TEST(PredictionFigure, ShowsBothSidesPerOp) {
  const TwoRanks a(false);
  const TwoRanks b(true);
  FigureInput input = b.input();
  const Result<Comparison> comparison = compare(a.trace(), b.trace(), {});
  ASSERT_TRUE(comparison);
  input.compared =
      ComparedTraces{{"case", &a.trace()}, {"run", &b.trace()}, *comparison, explain_calls(*comparison)};
  const auto figures = figures_of(input);
  const Figure& figure = *figures.at("prediction");
  EXPECT_EQ(values_of(figure, "call"), (Texts{"all_reduce x2", "all_reduce x2"}));
  EXPECT_EQ(values_of(figure, "side"), (Texts{"case (predicted)", "run (recorded)"}));
  EXPECT_EQ(values_of(figure, "message_bytes_all_ranks"), (Texts{"1600", "1600"}));
  EXPECT_EQ(figures.at("differences").error().reason, "the two sides are equal");
}

/// One rank that is in one call from `started` to `finished` in each iteration.
class OneRank {
 public:
  explicit OneRank(CommKind kind) {
    CommOp op;
    op.kind = kind;
    op.group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::pp);
    op.input = op.output = {100};
    op_ = trace.intern(op);
    trace.provenance.source = Source::recorded;
    trace.streams.push_back({{Rank{0}, Rank{0}}, {}, {}, {}});
  }
  void add(Iteration iteration, std::int64_t started, std::int64_t finished) {
    trace.streams[0].events.push_back({op_, iteration});
    trace.streams[0].times.push_back({nanoseconds(started), nanoseconds(started), nanoseconds(finished)});
  }
  FigureInput input() const { return figure_input({"one", &trace}, std::nullopt, 0); }

  Trace trace;

 private:
  OpId op_{};
};

TEST(OverlapFigure, LeavesInitialisationOutAsTheSummaryDoes) {
  OneRank one(CommKind::all_reduce);
  one.add(-1, 0, 5000);
  one.add(0, 6000, 6100);
  one.add(0, 6150, 6200);
  const FigureResult figure = overlap_figure(one.input());
  ASSERT_TRUE(figure);
  EXPECT_EQ(values_of(*figure, "part_ns"), (Texts{"150", "50"}));  // of 6000 to 6200
  EXPECT_EQ(figure->notes, (Texts{"Initialisation is skipped."}));
}

TEST(OverlapFigure, HoldsSumsAtTheLargestTime) {
  // Two iterations of 2^62 ns each.
  OneRank one(CommKind::all_reduce);
  const std::int64_t far = std::int64_t{1} << 61;
  one.add(0, -far, far);
  one.add(1, -far, far);
  const FigureResult figure = overlap_figure(one.input());
  ASSERT_TRUE(figure);
  EXPECT_EQ(values_of(*figure, "part_ns"), (Texts{"9223372036854775807", "0"}));
}

TEST(BubbleFigure, ShowsTheIterationsThatFit) {
  OneRank one(CommKind::send);
  for (Iteration iteration = 0; iteration < 20'001; ++iteration) {
    one.add(iteration, 100 * iteration, 100 * iteration + 50);
  }
  const FigureResult figure = bubble_figure(one.input());
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->rows(), 20'000U);
  EXPECT_EQ(values_of(*figure, "iteration").back(), "19999");
  EXPECT_EQ(figure->notes,
            (Texts{"The first 20000 of 20001 iterations are shown; choose others with --iteration."}));
}

TEST(BubbleFigure, OfUnknownIterationsIsPerRank) {
  OneRank one(CommKind::send);
  one.add(k_unknown_iteration, 0, 50);
  const FigureResult figure = bubble_figure(one.input());
  ASSERT_TRUE(figure);
  EXPECT_TRUE(values_of(*figure, "iteration").empty());
  EXPECT_EQ(values_of(*figure, "ranks_text"), (Texts{"rank 0"}));
  EXPECT_EQ(values_of(*figure, "bubble_ns"), (Texts{"50"}));
}

TEST(BubbleFigure, LeavesUnknownIterationsOutBesideKnownOnes) {
  OneRank one(CommKind::send);
  one.add(k_unknown_iteration, 0, 50);
  one.add(3, 100, 170);
  const FigureResult figure = bubble_figure(one.input());
  ASSERT_TRUE(figure);
  EXPECT_EQ(values_of(*figure, "iteration"), (Texts{"3"}));
  EXPECT_EQ(values_of(*figure, "bubble_ns"), (Texts{"70"}));
  EXPECT_EQ(figure->notes, (Texts{"Calls whose iteration is unknown are skipped."}));
}

/// What two traces of one rank are compared as.
FigureInput compared(const Trace& a, const Trace& b) {
  FigureInput input = figure_input({"b", &b}, std::nullopt, 0);
  const Result<Comparison> comparison = compare(a, b, {});
  if (comparison) {
    input.compared = ComparedTraces{{"a", &a}, {"b", &b}, *comparison, std::nullopt};
  }
  return input;
}

TEST(PredictionFigure, CountsTheIterationsComparedAndNoneBetween) {
  OneRank a(CommKind::all_reduce);
  OneRank b(CommKind::all_reduce);
  for (const Iteration iteration : {0, 1, 2}) {
    a.add(iteration, 0, 1);
  }
  b.add(0, 0, 1);
  b.add(2, 0, 1);
  const FigureResult figure = prediction_figure(compared(a.trace, b.trace));
  ASSERT_TRUE(figure);
  EXPECT_EQ(values_of(*figure, "calls_all_ranks"), (Texts{"2", "2"}));
  EXPECT_NE(figure->caption.find("over all ranks, 2 iterations (0, 2);"), std::string::npos)
      << figure->caption;
}

TEST(IterationsLabel, SaysWhichThereAre) {
  EXPECT_EQ(iterations_label({3}), "1 iteration (3)");
  EXPECT_EQ(iterations_label({-1, 0, 1, 2}), "initialisation and 3 iterations (0 to 2)");
  EXPECT_EQ(iterations_label({0, 2, 4, 6, 8, 10, 12, 14, 16}), "9 iterations (0 to 16, with gaps)");
}

TEST(PredictionFigure, NamesNoNumberOfUnknownIterations) {
  OneRank a(CommKind::all_reduce);
  OneRank b(CommKind::all_reduce);
  a.add(k_unknown_iteration, 0, 1);
  b.add(k_unknown_iteration, 0, 1);
  const FigureInput input = compared(a.trace, b.trace);
  const FigureResult figure = prediction_figure(input);
  ASSERT_TRUE(figure);
  EXPECT_EQ(values_of(*figure, "calls_all_ranks"), (Texts{"1", "1"}));
  EXPECT_NE(figure->caption.find("over all ranks, iterations unknown;"), std::string::npos)
      << figure->caption;
}

TEST(CallsFigure, NamesNoNumberOfAnUnknownIteration) {
  OneRank a(CommKind::all_reduce);
  OneRank b(CommKind::all_reduce);
  a.add(k_unknown_iteration, 0, 1);
  a.add(k_unknown_iteration, 0, 1);
  b.add(k_unknown_iteration, 0, 1);
  const FigureResult figure = calls_figure(compared(a.trace, b.trace));
  ASSERT_TRUE(figure);
  EXPECT_EQ(values_of(*figure, "example"), (Texts{"rank 0, iteration unknown"}));
}

TEST(WaitsFigure, NamesNoNumberOfAnUnknownIteration) {
  OneRank one(CommKind::all_reduce);
  one.add(k_unknown_iteration, 0, 100);
  one.trace.streams.push_back(one.trace.streams[0]);
  one.trace.streams[1].ranks = {Rank{1}, Rank{1}};
  one.trace.streams[1].times[0].issued = one.trace.streams[1].times[0].started = nanoseconds(70);
  const FigureResult figure = waits_figure(one.input());
  ASSERT_TRUE(figure);
  EXPECT_NE(figure->caption.find("of iteration unknown among 2 ranks: rank 1 came last"), std::string::npos)
      << figure->caption;
}

}  // namespace
}  // namespace commlens
