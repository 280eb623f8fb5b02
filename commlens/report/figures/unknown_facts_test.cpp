#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "commlens/report/figure_files.hpp"
#include "commlens/report/figures/figures.hpp"
#include "commlens/report/figures/labels.hpp"

// Figures of traces with missing facts.

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Rank 0 in one all_reduce of 1000 bytes on a group of `group_size` ranks (0: not known) from 0 to 100 ns.
Trace one_all_reduce(std::int64_t group_size, Iteration iteration = k_unknown_iteration) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::uint8;
  op.group =
      group_size > 0 ? trace.groups.intern_hidden(group_size, "") : trace.groups.intern(std::vector<Rank>{});
  op.input = op.output = {1000};
  trace.provenance.source = Source::imported;
  trace.streams.push_back({{Rank{0}, Rank{0}},
                           {{trace.intern(op), iteration, k_no_micro_batch}},
                           {{nanoseconds(0), nanoseconds(0), nanoseconds(100)}},
                           {}});
  return trace;
}

/// A second call of rank 0, of another group size and iteration.
void add_call(Trace& trace, std::int64_t group_size, Iteration iteration) {
  CommOp op = trace.ops().front();
  op.group =
      group_size > 0 ? trace.groups.intern_hidden(group_size, "") : trace.groups.intern(std::vector<Rank>{});
  trace.streams[0].events.push_back({trace.intern(op), iteration, k_no_micro_batch});
  trace.streams[0].times.push_back({nanoseconds(200), nanoseconds(200), nanoseconds(300)});
}

std::map<std::string, FigureResult> all_figures(const Trace& trace) {
  std::map<std::string, FigureResult> figures;
  for (MadeFigure& made : make_figures(figure_input({"it", &trace}, std::nullopt, 0))) {
    figures.emplace(made.entry->id, std::move(made.figure));
  }
  return figures;
}

/// The column as CSV has it; "no such column" where there is none.
std::vector<std::string> column_of(const Figure& figure, const std::string& name) {
  for (const FigureColumn& column : figure.columns) {
    if (column.name == name) {
      std::vector<std::string> values;
      for (std::size_t row = 0; row < column.rows(); ++row) {
        values.push_back(column.plain(row));
      }
      return values;
    }
  }
  return {"no such column"};
}

using Plain = std::vector<std::string>;
const Plain k_no_column = {"no such column"};

TEST(BreakdownFigure, HasNoWireBytesWhereNoneAreKnown) {
  const Trace trace = one_all_reduce(0);
  const auto figures = all_figures(trace);
  EXPECT_EQ(column_of(*figures.at("breakdown"), "wire_bytes_all_ranks"), k_no_column);
  const Plain lines = column_of(*figures.at("overview"), "what");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "wire bytes, all ranks"), 0);
}

/// An all_reduce of 1000 bytes on 4 ranks: 2 x 1000 x 3 / 4 = 1500 on the wire. On an unknown group: not
/// known.
TEST(BreakdownFigure, LeavesUnknownWireBytesEmptyBesideKnownOnes) {
  Trace trace = one_all_reduce(0);
  add_call(trace, 4, k_unknown_iteration);
  const auto figures = all_figures(trace);
  const Figure& figure = *figures.at("breakdown");
  Plain wire = column_of(figure, "wire_bytes_all_ranks");
  std::sort(wire.begin(), wire.end());
  EXPECT_EQ(wire, (Plain{"", "1500"}));
  EXPECT_NE(figure_csv(figure).find(",1000,0.5,,"), std::string::npos) << figure_csv(figure);
  EXPECT_NE(figure_json(figure).find("null"), std::string::npos);
  ASSERT_EQ(figure.notes.size(), 1U);
  EXPECT_NE(figure.notes[0].find("without 1 call,"), std::string::npos) << figure.notes[0];
  EXPECT_EQ(figures.at("overview")->notes, figure.notes);
}

TEST(IterationsFigure, LeavesUnknownWireBytesEmpty) {
  Trace trace = one_all_reduce(0, 0);
  add_call(trace, 4, 1);
  EXPECT_EQ(column_of(*all_figures(trace).at("iterations"), "wire_bytes_all_ranks"), (Plain{"", "1500"}));
  Trace incomplete = one_all_reduce(0, 0);
  add_call(incomplete, 0, 1);
  EXPECT_EQ(column_of(*all_figures(incomplete).at("iterations"), "wire_bytes_all_ranks"), k_no_column);
}

TEST(RunsFigure, LeavesUnknownWireBytesEmpty) {
  const Trace known = one_all_reduce(4);
  const Trace incomplete = one_all_reduce(0);
  FigureInput input = figure_input({"known", &known}, std::nullopt, 0);
  input.all.push_back({"incomplete", &incomplete});
  for (const MadeFigure& made : make_figures(input)) {
    if (made.entry->id == "runs") {
      EXPECT_EQ(column_of(*made.figure, "wire_bytes_all_ranks"), (Plain{"1500", ""}));
    }
  }
}

TEST(MatrixFigure, ReportsThatTheRanksOfAGroupAreUnknown) {
  for (const std::int64_t size : {0, 8}) {
    const auto figures = all_figures(one_all_reduce(size));
    ASSERT_FALSE(figures.at("matrix"));
    EXPECT_EQ(figures.at("matrix").error().reason, "the trace does not say between which ranks its calls are")
        << size;
  }
}

TEST(TimelineFigure, HasNoIterationWhereItIsUnknown) {
  const Trace trace = one_all_reduce(2);
  const auto figures = all_figures(trace);
  const Figure& figure = *figures.at("timeline");
  EXPECT_EQ(column_of(figure, "iteration"), Plain{""});
  const auto option = std::find_if(figure.options.begin(), figure.options.end(),
                                   [](const auto& named) { return named.first == "iterations"; });
  ASSERT_NE(option, figure.options.end());
  EXPECT_TRUE(std::get<std::vector<std::int64_t>>(option->second).empty());
}

TEST(TimelineFigure, ReportsThatItSkipsUnknownIterations) {
  Trace trace = one_all_reduce(2);
  add_call(trace, 2, 5);
  const auto figures = all_figures(trace);
  EXPECT_EQ(column_of(*figures.at("timeline"), "iteration"), Plain{"5"});
  EXPECT_EQ(figures.at("timeline")->notes, Plain{"Skipped, iteration unknown: 1 of 2 calls."});
  trace.streams[0].compute = {{nanoseconds(0), nanoseconds(50), 5},
                              {nanoseconds(50), nanoseconds(70), k_unknown_iteration},
                              {nanoseconds(80), nanoseconds(90), k_unknown_iteration}};
  EXPECT_EQ(all_figures(trace).at("timeline")->notes,
            Plain{"Skipped, iteration unknown: 1 of 2 calls, 2 of 3 compute intervals."});
}

/// Rank 0 is in a call from 0 to 100 ns, of an unknown iteration, and from 200 to 300 ns, of iteration 5.
TEST(OverlapFigure, IsOfKnownIterations) {
  Trace trace = one_all_reduce(2);
  add_call(trace, 2, 5);
  const auto figures = all_figures(trace);
  const Figure& figure = *figures.at("overlap");
  EXPECT_EQ(column_of(figure, "part"), (Plain{"communication", "not in a call"}));
  EXPECT_EQ(column_of(figure, "part_ns"), (Plain{"100", "0"}));
  EXPECT_EQ(figure.notes, Plain{"Calls and computing of unknown iterations are skipped."});
  const Trace incomplete = one_all_reduce(2);
  EXPECT_TRUE(all_figures(incomplete).at("overlap")->notes.empty());
}

TEST(OverviewFigure, CountsCallsOfNoKnownIteration) {
  Trace trace = one_all_reduce(2);
  add_call(trace, 2, 5);
  const auto figures = all_figures(trace);
  const Plain values = column_of(*figures.at("overview"), "value");
  EXPECT_EQ(std::count(values.begin(), values.end(), "1 iteration (5); 1 call of no known iteration"), 1);
}

/// Ranks 0 and 2 are on different nodes of two, so both messages of their ring leave the node; the group of
/// the second call is not known.
TEST(BreakdownFigure, LeavesUnknownInterNodeBytesEmpty) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::uint8;
  op.input = op.output = {1000};
  op.group = trace.groups.intern(std::vector<Rank>{{0}, {2}});
  const OpId known = trace.intern(op);
  op.group = trace.groups.intern(std::vector<Rank>{});
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{known, 0}, {trace.intern(op), 0}}, {}, {}});
  for (const MadeFigure& made : make_figures(figure_input({"it", &trace}, std::nullopt, 2))) {
    if (made.entry->id == "breakdown") {
      Plain bytes = column_of(*made.figure, "wire_inter_node_bytes_all_ranks");
      std::sort(bytes.begin(), bytes.end());
      EXPECT_EQ(bytes, (Plain{"", "1000"}));
    }
  }
}

TEST(Figures, OfAveragedTimesHaveNoSingleCalls) {
  Trace trace = one_all_reduce(4, 0);
  add_call(trace, 4, 1);
  trace.provenance.averaged_times = true;
  const auto figures = all_figures(trace);
  for (const char* const id :
       {"timeline", "overlap", "cold", "first-calls", "slow-ranks", "lateness", "waits", "bubble"}) {
    ASSERT_FALSE(figures.at(id)) << id;
    EXPECT_NE(figures.at(id).error().reason.find("averages over several calls"), std::string::npos) << id;
  }
  const Figure& breakdown = *figures.at("breakdown");
  for (const char* const name : {"p50_ns", "p50_low_ns", "p50_high_ns", "p95_ns"}) {
    EXPECT_EQ(column_of(breakdown, name), k_no_column) << name;
  }
  EXPECT_EQ(column_of(breakdown, "bus_bandwidth_bytes_per_s"), Plain{"15000000000"});  // 1500 B in 100 ns
  const Plain lines = column_of(*figures.at("overview"), "what");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "time of one call"), 0);
  EXPECT_EQ(figures.at("sizes")->caption.find("of the time"), std::string::npos);
}

/// Rank 0 computes from 100 to 150 ns and from 120 to 200 ns, and calls nothing.
TEST(Figures, OfComputingAloneShowIt) {
  Trace trace;
  trace.streams.push_back(
      {{Rank{0}, Rank{0}},
       {},
       {},
       {{nanoseconds(100), nanoseconds(150), 3}, {nanoseconds(120), nanoseconds(200), 3}}});
  const auto figures = all_figures(trace);
  const Figure& overview = *figures.at("overview");
  const Plain lines = column_of(overview, "what");
  const auto line = std::find(lines.begin(), lines.end(), "time computing, all ranks");
  ASSERT_NE(line, lines.end());
  EXPECT_EQ(column_of(overview, "value")[static_cast<std::size_t>(line - lines.begin())], "100 ns of 1 rank");
  EXPECT_EQ(column_of(*figures.at("timeline"), "duration_ns"), (Plain{"50", "80"}));
  EXPECT_EQ(column_of(*figures.at("timeline"), "iteration"), (Plain{"3", "3"}));
  EXPECT_EQ(column_of(*figures.at("overlap"), "part"),
            (Plain{"computing only", "overlapped communication", "exposed communication", "neither"}));
  EXPECT_EQ(column_of(*figures.at("overlap"), "part_ns"), (Plain{"100", "0", "0", "0"}));
}

TEST(CoverageFigure, DistinguishesAssumedFromSkippedRecords) {
  Trace trace = one_all_reduce(2);
  trace.provenance.skip("torn line", 3);
  trace.provenance.assume("rank not reported", 1);
  const auto figures = all_figures(trace);
  EXPECT_EQ(column_of(*figures.at("coverage"), "what"),
            (Plain{"calls shown", "skipped: torn line", "assumed: rank not reported"}));
}

}  // namespace
}  // namespace commlens
