#include "commlens/formats/io/mpi_benchmark.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/imb/import.hpp"
#include "commlens/formats/osu/import.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;

/// One call: "all_reduce int8 8->8 x4 [OSU MPI Allreduce Latency Test] 0+1500".
std::vector<std::string> benchmarked_calls(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::string> calls;
  const RankStream& stream = trace->streams.at(0);
  for (std::size_t row = 0; row < stream.events.size(); ++row) {
    const CommOp& op = trace->op(stream.events[row].op);
    const Times& times = stream.times.at(row);
    const std::string& name = trace->names.text(op.name);
    calls.push_back(fmt::format("{}{} {} {}->{} x{} [{}] {}+{}", name_of(op.kind),
                                name.empty() ? "" : "(" + name + ")", name_of(op.dtype),
                                (op.input * op.dtype).value, (op.output * op.dtype).value,
                                trace->groups.size(op.group), trace->tags.text(op.tag), times.started.count(),
                                (times.finished - times.started).count()));
  }
  return calls;
}

using BenchmarkedCalls = std::vector<std::string>;
using BenchmarkSkips = std::map<std::string, std::int64_t>;

Result<Trace> read_osu_text(std::string_view text) {
  const ScratchDirectory directory;
  return osu::read(directory.write("osu.log", text));
}

Result<Trace> read_imb_text(std::string_view text) {
  const ScratchDirectory directory;
  return imb::read(directory.write("imb.log", text));
}

TEST(MpiBenchmark, KnowsTheTitlesOfBothPrograms) {
  const auto kind = [](std::string_view title) {
    const MpiBenchmark benchmark = mpi_benchmark(title);
    return std::string(name_of(benchmark.kind)) + (benchmark.name.empty() ? "" : " " + benchmark.name);
  };
  EXPECT_EQ(kind("OSU MPI All-to-All Personalized Exchange Latency Test"), "all_to_all");
  EXPECT_EQ(kind("OSU MPI All-to-Allv Personalized Exchange Latency Test"), "all_to_all");
  EXPECT_EQ(kind("OSU MPI-CUDA Allgatherv Latency Test"), "all_gather");
  EXPECT_EQ(kind("OSU MPI Non-blocking Reduce_scatter Latency Test"), "reduce_scatter");
  EXPECT_EQ(kind("OSU MPI Reduce Latency Test"), "reduce");
  EXPECT_EQ(kind("OSU MPI Broadcast Latency Test"), "broadcast");
  EXPECT_EQ(kind("OSU MPI Barrier Latency Test"), "barrier");
  EXPECT_EQ(kind("OSU MPI Multiple Bandwidth / Message Rate Test"), "send");
  EXPECT_EQ(kind("OSU MPI Latency Test"), "send");
  EXPECT_EQ(kind("OSU MPI_Get_accumulate latency Test"), "other MPI_Get_accumulate");
  EXPECT_EQ(kind("OSU MPI Scatter Latency Test"), "other OSU MPI Scatter Latency Test");
  EXPECT_EQ(kind("OSU MPI Neighborhood Alltoall Latency Test"),
            "other OSU MPI Neighborhood Alltoall Latency Test");
  EXPECT_EQ(kind("PingPong"), "send");
  EXPECT_EQ(kind("Iallreduce_pure"), "all_reduce");
  EXPECT_EQ(kind("Ibcast"), "broadcast");
  EXPECT_EQ(kind("Exchange"), "other Exchange");
  EXPECT_EQ(kind("Gatherv"), "other Gatherv");
}

TEST(Osu, ReadsEveryAgeOfATable) {
  const std::string text =
      "# OSU MPI Latency Test (Version 2.1)\n# Size\t\tLatency (us)\n0\t\t0.64\n8\t\t1.5\n"
      "\n# OSU MPI-CUDA Allreduce Latency Test v5.9\n# Size       Avg Latency(us)   Min Latency(us)   Max "
      "Latency(us)  Iterations\n4                       2.00              1.00              3.00        "
      "1000\n"
      "\n# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n# Size       Avg Latency(us)    P50 "
      "Tail "
      "Lat(us)    P99 Tail Lat(us)\n4                       2.50              2.00              9.00\n"
      "2                       2.50              2.00              9.00\n";
  EXPECT_EQ(benchmarked_calls(read_osu_text(text)),
            (BenchmarkedCalls{"send uint8 0->0 x2 [OSU MPI Latency Test] 0+640",
                              "send uint8 8->0 x2 [OSU MPI Latency Test] 640+1500",
                              "all_reduce uint8 4->4 x0 [OSU MPI-CUDA Allreduce Latency Test] 2140+2000",
                              "all_reduce fp32 4->4 x0 [OSU MPI Allreduce Latency Test] 4140+2500",
                              "all_reduce uint8 2->2 x0 [OSU MPI Allreduce Latency Test] 6640+2500"}));
}

TEST(Osu, TakesRanksFromTheCommandLineAndSizesByTheirMeaning) {
  const auto calls = [](std::string_view command, std::string_view title) {
    return benchmarked_calls(read_osu_text(fmt::format(
        "{}\n# OSU MPI {} Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n8       1.00\n",
        command, title)))[0];
  };
  EXPECT_EQ(calls("mpirun -N 2 -np 4 ./osu_allgather", "Allgather Latency"),
            "all_gather int8 8->32 x4 [OSU MPI Allgather Latency Test] 0+1000");
  EXPECT_EQ(calls("srun -n4 ./osu_alltoall", "All-to-All Personalized Exchange Latency"),
            "all_to_all int8 32->32 x4 [OSU MPI All-to-All Personalized Exchange Latency Test] 0+1000");
  EXPECT_EQ(calls("srun --ntasks=4 ./osu_reduce_scatter", "Reduce_scatter Latency"),
            "reduce_scatter int8 8->2 x4 [OSU MPI Reduce_scatter Latency Test] 0+1000");
  EXPECT_EQ(calls("mpiexec -n 4 ./osu_bcast", "Broadcast Latency"),
            "broadcast int8 8->8 x4 [OSU MPI Broadcast Latency Test] 0+1000");
  EXPECT_EQ(calls("echo no command", "Allgather Latency"),
            "other(allgather of unknown ranks, a rank's part) int8 8->0 x0 [OSU MPI Allgather Latency Test] "
            "0+1000");
}

TEST(Osu, ReadsBarriersBandwidthsAndNonBlockingTests) {
  const std::string text =
      "# OSU MPI Barrier Latency Test v7.4\n# Avg Latency(us)\n             1.25\n"
      "# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n1000      500.00\n0   0.00\n"
      "# OSU MPI Multiple Bandwidth / Message Rate Test v5.8\n# [ pairs: 2 ] [ window size: 64 ]\n"
      "# Size                  MB/s        Messages/s\n4000                  2000.00        500000.00\n"
      "# OSU MPI Non-blocking Allreduce Latency Test v5.8\n"
      "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n"
      "4                      20.00             10.00              9.50             10.00\n";
  const Result<Trace> trace = read_osu_text(text);
  EXPECT_EQ(
      benchmarked_calls(trace),
      (BenchmarkedCalls{"barrier uint8 0->0 x0 [OSU MPI Barrier Latency Test] 0+1250",
                        "send uint8 1000->0 x2 [OSU MPI Bandwidth Test, time = size / bandwidth] 1250+2000",
                        "send uint8 4000->0 x2 [OSU MPI Multiple Bandwidth / Message Rate Test, time = 2 x "
                        "size / bandwidth] 3250+4000",
                        "all_reduce uint8 4->4 x0 [OSU MPI Non-blocking Allreduce Latency Test] 7250+9500"}));
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->provenance.averaged_times);
  EXPECT_EQ(trace->provenance.skipped, (BenchmarkSkips{{"call with impossible fields", 1}}));
}

TEST(Osu, DividesBandwidthsThatAreSumsOfSeveralMessages) {
  // Two messages of 1 MB at 20 GB/s together: 10 GB/s each, 100 us. Eight at 80 GB/s: the same.
  const std::string multiple = "# OSU MPI Multiple Bandwidth / Message Rate Test v5.8\n";
  const std::string rows = "# Size                  MB/s        Messages/s\n1000000    80000.00    80000.0\n";
  const Result<Trace> trace = read_osu_text(
      "# OSU MPI Bi-Directional Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n1000000   20000.00\n" +
      multiple + "# [ pairs: 8 ] [ window size: 64 ]\n" + rows + multiple + rows + multiple +
      "# [ pairs: -8 ] [ window size: 64 ]\n" + rows +
      "# OSU MPI_Put Bi-directional Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n8      4.00\n");
  EXPECT_EQ(benchmarked_calls(trace),
            (BenchmarkedCalls{
                "send uint8 1000000->0 x2 [OSU MPI Bi-Directional Bandwidth Test, time = 2 x size / "
                "bandwidth] 0+100000",
                "send uint8 1000000->0 x2 [OSU MPI Multiple Bandwidth / Message Rate Test, time = 8 x size "
                "/ bandwidth] 100000+100000",
                "other(MPI_Put) uint8 8->0 x0 [OSU MPI_Put Bi-directional Bandwidth Test, time = 2 x size "
                "/ bandwidth] 200000+4000"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (BenchmarkSkips{{"row of a bandwidth summed over pairs whose number is not known", 2}}));
}

TEST(Osu, CountsACutRowAndRefusesATableWithoutRows) {
  const std::string title = "# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n";
  const Result<Trace> cut = read_osu_text(title + "1    2.0\n[warn] 3 nodes\n16");
  EXPECT_EQ(benchmarked_calls(cut), BenchmarkedCalls{"send uint8 1->0 x2 [OSU MPI Latency Test] 0+2000"});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->provenance.skipped, (BenchmarkSkips{{"row that is cut off", 1}}));
  for (const std::string& text : {std::string(), title, std::string("1 2\n"), title + "-1 2.0\n",
                                  title + "1 nan\n", title + "9000000000000000000 1\n"}) {
    EXPECT_NE(benchmarked_calls(read_osu_text(text))[0].find("no row below the title"), std::string::npos)
        << text;
  }
}

TEST(Imb, ReadsEveryKindOfTable) {
  const std::string text =
      "#---------------------------------------------------\n"
      "# Benchmarking PingPong \n# #processes = 2 \n# ( 2 additional processes waiting in MPI_Barrier)\n"
      "#---------------------------------------------------\n"
      "       #bytes #repetitions      t[usec]   Mbytes/sec\n"
      "            0         1000         4.06         0.00\n"
      "            8         1000         4.50         1.78\n\n"
      "# Benchmarking Allgather \n# #processes = 4 \n"
      "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]      defects\n"
      "            8         1000         1.00         3.00         2.00         0.00\n"
      "# Benchmarking Barrier \n# #processes = 4 \n #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
      "         1000        49.75        49.77        49.76\n"
      "# Benchmarking Multi-Iallreduce \n# #processes = 4 \n"
      " Group       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]\n"
      "     0            8         1000        20.00        10.00         5.00        50.00\n"
      "     1            8         1000        20.00        10.00\n";
  const Result<Trace> trace = read_imb_text(text);
  EXPECT_EQ(benchmarked_calls(trace),
            (BenchmarkedCalls{"send uint8 0->0 x2 [IMB PingPong] 0+4060",
                              "send uint8 8->0 x2 [IMB PingPong] 4060+4500",
                              "all_gather uint8 8->32 x4 [IMB Allgather] 8560+2000",
                              "barrier uint8 0->0 x4 [IMB Barrier] 10560+49760",
                              "all_reduce uint8 8->8 x4 [IMB Iallreduce] 60320+10000"}));
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->provenance.averaged_times);
  EXPECT_EQ(trace->provenance.skipped, (BenchmarkSkips{{"row that is cut off", 1}}));
}

TEST(Imb, CountsRowsOfBandwidthsWithoutTimes) {
  const std::string text =
      "# Benchmarking Uniband \n# #processes = 2 \n"
      "       #bytes #repetitions   Mbytes/sec      Msg/sec\n"
      "            0         1000         0.00      2189915\n"
      "            8         1000        17.52      2189915\n"
      "# Benchmarking Allreduce \n# #processes = 2 \n"
      "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
      "            8         1000         1.00         3.00         2.00\n";
  const Result<Trace> trace = read_imb_text(text);
  EXPECT_EQ(benchmarked_calls(trace), BenchmarkedCalls{"all_reduce uint8 8->8 x2 [IMB Allreduce] 0+2000"});
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (BenchmarkSkips{{"row of a bandwidth of all pairs, without a time", 2}}));
}

TEST(Imb, RefusesATableWithoutRows) {
  const std::string beyond =
      fmt::format("# Benchmarking Alltoall\n# #processes = {}\n#bytes #repetitions t[usec]\n{} 1 1\n",
                  1 << 24, 9'000'000'000'000);
  for (const std::string_view text :
       {std::string_view(beyond), std::string_view(), std::string_view("hello\n"),
        std::string_view("# Benchmarking PingPong\n"),
        std::string_view("# Benchmarking PingPong\n#bytes #repetitions t[usec]\n"),
        std::string_view("# Benchmarking PingPong\n#bytes #repetitions t[usec]\n-1 1 1\n")}) {
    EXPECT_NE(benchmarked_calls(read_imb_text(text))[0].find("no row with a time"), std::string::npos)
        << text;
  }
}

TEST(MpiBenchmark, SurvivesEveryCut) {
  const std::string osu =
      "mpirun -np 4 osu_bw\n# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n1  500.00\n";
  const std::string imb =
      "# Benchmarking Gather\n# #processes = 4\n#bytes #repetitions t_avg[usec]\n8 1 1.5\n";
  for (const std::string& text : {osu, imb}) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
      static_cast<void>(read_osu_text(text.substr(0, size)));
      static_cast<void>(read_imb_text(text.substr(0, size)));
    }
  }
}

class PublishedOsu : public ::testing::Test {
 protected:
  static std::filesystem::path file(std::string_view name) {
    return std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) / "golden/foreign/osu" / name;
  }
  void SetUp() override {
    if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }
};

TEST_F(PublishedOsu, LogOfNineTestsAgreesWithEveryRow) {
  // A second reading: every line of two numbers, and the unit of the table above it.
  std::vector<std::pair<std::int64_t, double>> rows;  // bytes, µs
  std::ifstream in(file("raw_log_README.md"));
  bool is_bandwidth = false;
  double directions = 1;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# OSU")) {
      directions = line.find("Bi-") != std::string::npos ? 2 : 1;
    }
    if (line.starts_with("# Size")) {
      is_bandwidth = line.find("MB/s") != std::string::npos;
    }
    std::istringstream words(line);
    double bytes = 0;
    double value = 0;
    std::string rest;
    if (line.find('#') == std::string::npos && words >> bytes >> value && !(words >> rest)) {
      rows.emplace_back(static_cast<std::int64_t>(bytes), is_bandwidth ? directions * bytes / value : value);
    }
  }
  const Result<Trace> trace = osu::read(file("raw_log_README.md"));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped, BenchmarkSkips{});
  const RankStream& stream = trace->streams.at(0);
  ASSERT_EQ(stream.events.size(), rows.size());
  ASSERT_EQ(rows.size(), 182U) << "as grep counts them: 4 x 23 one-sided, 1, 19, 24 and 2 x 23";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const CommOp& op = trace->op(stream.events[row].op);
    EXPECT_EQ(message_bytes(op).value, rows[row].first) << row;
    const auto duration = (stream.times[row].finished - stream.times[row].started).count();
    EXPECT_EQ(duration, std::llround(rows[row].second * 1e3)) << row;
  }
  EXPECT_EQ(trace->groups.size(trace->op(stream.events[93].op).group), 2) << "-np 2 of the allreduce";
}

TEST_F(PublishedOsu, NumbersThatAnotherToolWrappedAreNotOurs) {
  for (const std::string_view name :
       {"metrics.json", "metrics-multiple.json", "mpitrace_metrics.json", "README.md"}) {
    EXPECT_FALSE(osu::sniff(file(name), test_support::content_of(file(name)).substr(0, 65'536))) << name;
  }
}

}  // namespace
}  // namespace commlens::formats
