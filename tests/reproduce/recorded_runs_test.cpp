// The recordings of a reproduction: those that came with the program are those of tests/golden; those that it
// makes are as predicted and as theory has them.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/app/record_program.hpp"
#include "commlens/app/reproduce/items.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/modules.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/summary/breakdown.hpp"
#include "tests/reproduce/figure_rows.hpp"

namespace commlens::study {
namespace {

TEST(GoldenRuns, AreTheRecordingsOfTheFrameworks) {
  const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path golden =
      std::filesystem::path(source == nullptr ? "." : source) / "tests/golden";
  ASSERT_EQ(golden_runs().size(), 8U);
  for (const GoldenRun& run : golden_runs()) {
    const Result<Trace> trace = open_trace({}, (golden / run.name / "calls.jsonl.gz").string());
    ASSERT_TRUE(trace) << trace.error().message;
    using Key = std::tuple<std::int64_t, CommKind, std::int64_t, std::int64_t>;
    std::map<Key, std::int64_t> recorded;
    for (const Iteration iteration : trace->iterations()) {
      for (const BreakdownRow& row : breakdown(*trace, {.iterations = {iteration}, .rank = Rank{0}})) {
        if (row.kind != CommKind::barrier) {
          recorded[{iteration, row.kind, row.group_size, row.message.value}] += row.calls;
        }
      }
    }
    std::map<Key, std::int64_t> brought;
    for (const GoldenCalls& calls : run.calls) {
      brought[{calls.iteration, calls.op, calls.group_size, calls.message.value}] += calls.calls;
    }
    EXPECT_EQ(brought, recorded) << run.name;
  }
}

/// A training of the quick list, in a directory of its own.
const Training& training(const std::vector<Training>& all, const std::string& name) {
  return *std::ranges::find(all, name, &Training::name);
}

void find_modules() {
  if (const char* const program = std::getenv("COMMLENS_BINARY")) {  // modules are beside it
    setenv("COMMLENS_MODULE_PATH", std::filesystem::path(program).parent_path().c_str(), 1);
  }
}

TEST(RecordedHere, AreAsPredictedAndAsTheoryHasThem) {
  find_modules();
  if (!module_file("libcommlens-engine.so")) {
    GTEST_SKIP() << "this build has no trainer";
  }
  const test_support::ScratchDirectory directory;
  const std::vector<Training> all = quick_trainings();
  Study study;
  for (const char* const name : {"zero-0", "zero-3", "pp-2", "tp-2", "gathers"}) {
    Result<Recording> recording = recorded(training(all, name), directory.path(name), {});
    ASSERT_TRUE(recording) << recording.error().message;
    EXPECT_GT(recording->calls, 0) << name;
    EXPECT_EQ(recording->calls, recording->equal_calls) << name;
    study.add(std::move(*recording));
  }
  // 19M's six layers of width 64, V = 512: 2 V h + L (12 h^2 + 13 h) + 2 h.
  constexpr std::int64_t parameters = 2 * 512 * 64 + 6 * (12 * 64 * 64 + 13 * 64) + 2 * 64;
  const Bytes reduced = total_of(last_totals(*study.recording("zero-0")), CommKind::all_reduce).message;
  EXPECT_GE(reduced.value, 4 * parameters);
  EXPECT_LE(reduced.value, 4 * parameters + 64);  // and the loss and the norm
  // One message of b s h = 1 x 64 x 64 fp32 values.
  EXPECT_EQ(total_of(last_totals(*study.recording("pp-2")), CommKind::send).message, Bytes{4 * 64 * 64});

  const ItemResult timeline = gather_timeline(study);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->panels.front().id, "fig-5-a");
  EXPECT_EQ(timeline->panels.front().kind, FigureKind::timeline);
  for (const auto make : {zero_shares, zero_volumes, gather_sizes, zero_theory, model_theory, equation_1,
                          equation_3, equation_4}) {
    const ItemResult item = make(study);
    ASSERT_TRUE(item);
    bool has_recorded = false;
    for (const FigureColumn& column : item->whole.columns) {
      for (std::size_t row = 0; column.name == "evidence" && row < column.rows(); ++row) {
        has_recorded = has_recorded || column.cell(row) == "recorded here";
      }
    }
    EXPECT_TRUE(has_recorded) << item->whole.caption;
  }

  // Of the JSON: every recorded row is of a training all of whose calls were predicted, and Figure 10 has
  // what Eq. 2 has: 2 P (d-1)/d elements, and those of the loss and the norm.
  MadeItem volumes = made(*std::ranges::find(item_entries(), "fig-10", &ItemEntry::id), study);
  ASSERT_TRUE(volumes.item);
  const Rows rows(Json::parse(figure_json(volumes.item->whole)));
  const std::vector<Where> recorded = rows.all({{"evidence", "recorded here"}});
  EXPECT_EQ(recorded.size(), 2U);
  for (const Where& row : recorded) {
    const std::string provenance = row.at("provenance");
    EXPECT_TRUE(std::regex_search(provenance, std::regex("([0-9]+) of \\1 calls as predicted$")))
        << provenance;
  }
  const double theory = 2.0 * parameters * 7 / 8;
  const double found =
      rows.one({{"evidence", "recorded here"}, {"setting", "DDP"}}, "elements_per_rank").get<double>();
  EXPECT_GE(found, theory);
  EXPECT_LE(found, theory + 16);
}

/// The cells of an item's column, as its CSV has them.
std::vector<std::string> cells_of(const Figure& figure, const std::string& key) {
  std::vector<std::string> cells;
  for (const FigureColumn& column : figure.columns) {
    for (std::size_t row = 0; column.name == key && row < column.rows(); ++row) {
      cells.push_back(column.plain(row));
    }
  }
  return cells;
}

TEST(ColdReceive, SaysWhyItIsNotThere) {
  Study study;
  ASSERT_FALSE(cold_receive(study));
  EXPECT_EQ(cold_receive(study).error().reason,
            "no stages were trained: that takes a run without --no-train");
  study.lacks_stages("Open MPI, TCP: no mpirun of Open MPI is in PATH");
  EXPECT_EQ(cold_receive(study).error().reason, "Open MPI, TCP: no mpirun of Open MPI is in PATH");
}

TEST(ColdReceive, TellsTheFirstMessageOfEachPairFromLaterOnes) {
  find_modules();
  const LaunchedTraining over_tcp = launched_trainings().back();
  EXPECT_EQ(command_of(over_tcp),
            "mpirun -n 4 --oversubscribe --bind-to none --mca pml ob1 --mca btl self,tcp --mca "
            "btl_tcp_if_include lo --mca btl_base_verbose 40 --tag-output "
            "commlens train 19M --dp 1 --pp 4 --layers 4 --hidden 64 --heads 2 --seq 64 --vocab 512 "
            "--micro-batch 1 --micro-batches 4 --dtype fp32 --iterations 6 --threads 1 --transport mpi");
  if (!module_file("libcommlens-engine.so") || !module_file("libcommlens-mpi-openmpi.so") ||
      !launcher_in_path(MpiLibrary::openmpi)) {
    GTEST_SKIP() << "no trainer, or no Open MPI";
  }
  const test_support::ScratchDirectory directory;
  Result<RecordedStages> stages = launched(over_tcp, directory.path("stages"), {});
  ASSERT_TRUE(stages) << stages.error().message;
  Study study;
  study.add(std::move(*stages));
  study.lacks_stages("Open MPI, carrier pigeons: none are at home");
  const ItemResult item = cold_receive(study);
  ASSERT_TRUE(item) << item.error().reason;
  EXPECT_EQ(item->panels.size(), 1U);
  EXPECT_EQ(item->whole.notes.back(), "Not recorded here: Open MPI, carrier pigeons: none are at home.");
  // Four stages have three boundaries, each with two directions. In 6 iterations of 4 micro-batches a pair
  // has 24 messages; b s h = 1 x 64 x 64 fp32 values.
  std::map<std::string, int> rows;
  const std::vector<std::string> part = cells_of(item->whole, "part");
  for (std::size_t row = 0; row < part.size(); ++row) {
    const auto at = [&](const char* key) { return cells_of(item->whole, key)[row]; };
    ++rows[at("op") + " " + at("source_rank") + " " + at("destination_rank") + " " + part[row] + " " +
           at("count")];
    EXPECT_EQ(at("message_bytes"), "16384");
    EXPECT_EQ(at("evidence"), "recorded here");
    EXPECT_EQ(at("provenance"), "`" + command_of(over_tcp) + "`");
    EXPECT_EQ(at("moving_ns").empty(), at("op") == "send");
    EXPECT_EQ(at("cold_slowdown").empty(), part[row] != "first");
  }
  std::map<std::string, int> expected;
  for (const char* const pair : {"0 1", "1 2", "2 3", "3 2", "2 1", "1 0"}) {
    for (const char* const op : {"recv", "send"}) {
      expected[fmt::format("{} {} first 1", op, pair)] = 1;
      expected[fmt::format("{} {} later, median 23", op, pair)] = 1;
    }
  }
  EXPECT_EQ(rows, expected);
}

TEST(LaunchedStages, LeaveNothingWhereTheyFail) {
  find_modules();
  const test_support::ScratchDirectory directory;
  const std::filesystem::path where = directory / "stages";
  std::filesystem::create_directories(where / "of-an-earlier-run");
  const Result<RecordedStages> stages =
      launched({"stages", "no network", {"--no-such-option"}}, where.string(), {});
  EXPECT_FALSE(stages);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Commands, RepeatATraining) {
  const std::vector<Training> all = quick_trainings();
  EXPECT_EQ(command_of(training(all, "zero-3")),
            "commlens train 19M --dp 8 --zero 3 --hidden 64 --seq 64 --vocab 512 --micro-batch 1 "
            "--persistence-threshold 0 --dtype fp32 --iterations 3");
}

TEST(Interconnect, TimesTheMessagesOfTheModel) {
  // Two stages of 19M, b s h = 4 x 2048 x 512 halves forward and back, and the mask of 2048^2 halves.
  const std::vector<MessageBench> benches = quick_benches();
  MessageBench stages = benches.back();
  EXPECT_EQ(command_of(stages), "commlens bench --messages 19M --framework neox --dp 1 --pp 2 --time 200ms");
  stages.time = std::chrono::milliseconds(5);
  Result<MeasuredMessages> messages = measured(stages, {});
  ASSERT_TRUE(messages) << messages.error().message;
  Study study;
  EXPECT_FALSE(interconnect(study));
  study.add(std::move(*messages));
  const ItemResult item = interconnect(study);
  ASSERT_TRUE(item);
  std::map<std::string, std::vector<std::string>> cells;
  for (const FigureColumn& column : item->whole.columns) {
    for (std::size_t row = 0; row < column.rows(); ++row) {
      cells[column.name].push_back(column.plain(row));
    }
  }
  const auto sent = std::ranges::find(cells["op"], "send");
  ASSERT_NE(sent, cells["op"].end());
  const auto row = static_cast<std::size_t>(sent - cells["op"].begin());
  EXPECT_EQ(cells["message_bytes"][row], "8388608");
  EXPECT_EQ(cells["calls_per_rank"][row], "3");
  EXPECT_EQ(cells["evidence"][row], "recorded here");
  EXPECT_FALSE(cells["p50_ns"][row].empty());
  EXPECT_EQ(item->panels.front().id, "interconnect-d");
}

}  // namespace
}  // namespace commlens::study
