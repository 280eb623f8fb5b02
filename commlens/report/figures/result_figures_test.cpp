#include <map>

#include <gtest/gtest.h>

#include "commlens/report/documents/test_documents.hpp"
#include "commlens/report/figures/figures.hpp"

namespace commlens {
namespace {

using Plain = std::vector<std::string>;

/// The figures of a report of these alone.
std::map<std::string, FigureResult> result_figures(const std::vector<std::string>& documents) {
  FigureInput input;
  for (const std::string& text : documents) {
    EXPECT_TRUE(read_result_document("r.json", text, input.documents));
  }
  std::map<std::string, FigureResult> figures;
  for (MadeFigure& made : make_figures(input)) {
    figures.emplace(made.entry->id, std::move(made.figure));
  }
  return figures;
}

Plain cells_of_column(const Figure& figure, const std::string& name) {
  Plain cells;
  for (const FigureColumn& column : figure.columns) {
    for (std::size_t row = 0; column.name == name && row < column.rows(); ++row) {
      cells.push_back(column.cell(row));
    }
  }
  return cells;
}

TEST(ResultFigures, AreThoseOfWhatWasGiven) {
  const std::map<std::string, FigureResult> found = result_figures({test_support::k_found_json});
  EXPECT_EQ(found.size(), 7);  // what was given, and six of layouts
  EXPECT_FALSE(found.contains("overview"));
  EXPECT_EQ(result_figures({test_support::k_scaling_json}).size(), 2);
  EXPECT_EQ(result_figures({test_support::k_simulated_json, test_support::k_scaling_json}).size(), 4);
}

TEST(ResultFigures, OfLayoutsHavePartsIntervalsAndWhichAreEqual) {
  const auto figures = result_figures({test_support::k_found_json});
  const Figure& layouts = *figures.at("layouts");
  EXPECT_EQ(cells_of_column(layouts, "layout_text"), (Plain{"1. tp 1, pp 1, dp 8", "2. tp 2, pp 1, dp 4"}));
  EXPECT_EQ(cells_of_column(layouts, "low_s"), (Plain{"1.50 s", "3.00 s"}));
  EXPECT_EQ(cells_of_column(layouts, "bubble_s"), (Plain{"250 ms", "250 ms"}));
  EXPECT_EQ(cells_of_column(layouts, "verdict"), (Plain{"equal within the error", "slower"}));
  EXPECT_NE(layouts.caption.find("on 8 devices of small (chip), as nemo runs it. "), std::string::npos);
  EXPECT_NE(layouts.caption.find("calibrated on 3 runs"), std::string::npos);
  EXPECT_NE(layouts.caption.find("1 of these 2 are equal"), std::string::npos);
  const Figure& front = *figures.at("front");
  EXPECT_EQ(front.kind, FigureKind::scatter);
  EXPECT_EQ(cells_of_column(front, "memory_high_bytes_per_rank"), Plain{"1,250"});
}

TEST(ResultFigures, OfMeasuredCallsHaveIntervalsOfTimeAndBandwidth) {
  const auto figures = result_figures({test_support::k_measured_json});
  EXPECT_EQ(figures.size(), 2);  // what was given, and this one
  const Figure& measured = *figures.at("measured");
  EXPECT_EQ(measured.kind, FigureKind::lines);
  EXPECT_EQ(cells_of_column(measured, "call"), (Plain{"all_reduce world x4", "barrier world x4"}));
  EXPECT_EQ(cells_of_column(measured, "p50_high_ns"), (Plain{"4.00 µs", "3.00 µs"}));
  // 768 MB/s at 2 µs are 384 at 4 µs and 1,536 at 1 µs.
  EXPECT_EQ(cells_of_column(measured, "bus_bandwidth_low_bytes_per_s"), (Plain{"0.38 GB/s", "-"}));
  EXPECT_EQ(cells_of_column(measured, "bus_bandwidth_high_bytes_per_s"), (Plain{"1.54 GB/s", "-"}));
  EXPECT_NE(measured.caption.find("4 ranks over mpi, hot buffers"), std::string::npos);
}

TEST(ResultFigures, SayWhatBindsAndWhatOneChangeGives) {
  const auto figures = result_figures({test_support::k_found_json});
  const Figure& binding = *figures.at("binding");
  EXPECT_EQ(cells_of_column(binding, "what"),
            (Plain{"iteration", "computing", "tensor messages", "bubble", "data messages", "optimizer",
                   "other", "memory", "with twice the memory"}));
  EXPECT_EQ(cells_of_column(binding, "value")[1], "1.00 s, 50.0 %");
  EXPECT_EQ(
      cells_of_column(binding, "value")[8],
      "tp 1, pp 2, dp 4 would take 1.00 s (500 ms to 1.50 s), 50.0 % less, and need 1000 B (800 B to 1.22 "
      "KiB)");
  const Figure& changes = *figures.at("changes");
  EXPECT_EQ(cells_of_column(changes, "title"), (Plain{"as it is", "micro-batch 2 instead of 1"}));
  EXPECT_EQ(cells_of_column(changes, "fits"), (Plain{"fits", "does not fit"}));
  EXPECT_EQ(cells_of_column(changes, "slower_share"), (Plain{"0.0 %", "-50.0 %"}));
  EXPECT_NE(changes.caption.find("No change of one setting fits."), std::string::npos);
}

TEST(ResultFigures, SetTheClosedFormAgainstTheSimulation) {
  const auto figures = result_figures({test_support::k_found_json});
  const Figure& retimed = *figures.at("retimed");
  EXPECT_EQ(cells_of_column(retimed, "side"), (Plain{"closed form", "simulated"}));
  EXPECT_EQ(cells_of_column(retimed, "time_s"), (Plain{"2.00 s", "2.25 s"}));
  EXPECT_EQ(cells_of_column(retimed, "high_s"), (Plain{"2.50 s", "3.00 s"}));
  EXPECT_EQ(cells_of_column(retimed, "provenance")[1], "megatron 0.19; kernels: fitted; nccl 2.29.2");
  EXPECT_EQ(retimed.notes, Plain{"Not simulated: 2. tp 2, pp 1, dp 4 (no plan)."});
  EXPECT_NE(retimed.caption.find(
                "with nccl 2.29.2, both with their 90 % interval. Kendall's tau of the two orders: 0.50"),
            std::string::npos);
}

TEST(ResultFigures, OfScalingGiveTokensOfARankWithTheirInterval) {
  const auto figures = result_figures({test_support::k_scaling_json});
  const Figure& scaling = *figures.at("scaling");
  // 4,096 tokens a second of 8 ranks in 4 s (2 to 8 s).
  EXPECT_EQ(cells_of_column(scaling, "tokens_per_s_per_rank"), (Plain{"-", "512"}));
  EXPECT_EQ(cells_of_column(scaling, "tokens_per_s_low_per_rank"), (Plain{"-", "256"}));
  EXPECT_EQ(cells_of_column(scaling, "tokens_per_s_high_per_rank"), (Plain{"-", "1,024"}));
  EXPECT_EQ(cells_of_column(scaling, "reason"), (Plain{"memory: at least 9 GiB", ""}));
}

TEST(ResultFigures, OfASimulationSayWhereTheTimeGoes) {
  const auto figures = result_figures({test_support::k_simulated_json});
  const Figure& head = *figures.at("simulated");
  EXPECT_EQ(cells_of_column(head, "value"),
            (Plain{"500 ms", "12,346", "50.0 %", "250 ms", "125 ms", "125 ms", "1.00 KiB"}));
  EXPECT_EQ(cells_of_column(head, "high")[0], "1.00 s");
  EXPECT_EQ(head.notes,
            (Plain{"Not measured: a layer.",
                   "Taken to be so of links: leaves of 32 nodes; a global link is as fast as a NIC."}));
  EXPECT_NE(head.caption.find("nccl 2.29.2, calls share links (flows); kernels"), std::string::npos);
  const Figure& parts = *figures.at("simulated-time");
  EXPECT_EQ(cells_of_column(parts, "part"),
            (Plain{"computing", "exposed all_reduce dp", "bubble and waiting"}));
  EXPECT_EQ(cells_of_column(parts, "part_share"), (Plain{"50.0 %", "25.0 %", "25.0 %"}));
  EXPECT_EQ(cells_of_column(parts, "calls_per_rank"), (Plain{"-", "11,150", "-"}));
  EXPECT_EQ(cells_of_column(parts, "provenance"), (Plain{"calibrated on 3 runs", "measured", ""}));
}

}  // namespace
}  // namespace commlens
