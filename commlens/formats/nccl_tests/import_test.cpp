#include "commlens/formats/nccl_tests/import.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/benchmark_trace.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::nccl_tests {
namespace {

using test_support::ScratchDirectory;

Result<Trace> read_tests(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("run.log", text));
}

/// One call: "all_reduce fp32 8->8 x8 in-place 0+1500" (group size, tag, start and duration in ns).
std::vector<std::string> tested_calls(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::string> calls;
  const RankStream& stream = trace->streams.at(0);
  for (std::size_t row = 0; row < stream.events.size(); ++row) {
    const CommOp& op = trace->op(stream.events[row].op);
    const Times& times = stream.times.at(row);
    const std::string& name = trace->names.text(op.name);
    calls.push_back(fmt::format("{}{} {} {}->{} x{} {} {}+{}", name_of(op.kind),
                                name.empty() ? "" : "(" + name + ")", name_of(op.dtype),
                                (op.input * op.dtype).value, (op.output * op.dtype).value,
                                trace->groups.size(op.group), trace->tags.text(op.tag), times.started.count(),
                                (times.finished - times.started).count()));
  }
  return calls;
}

using TestedCalls = std::vector<std::string>;

constexpr std::string_view k_four_devices =
    "# nThread 1 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#  Rank  0 Group  0 Pid  10 on       node device  0 [0000:07:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid  10 on       node device  1 [0000:0a:00] NVIDIA H100\n"
    "#  Rank  2 Group  0 Pid  10 on       node device  2 [0000:44:00] NVIDIA H100\n"
    "#  Rank  3 Group  0 Pid  10 on       node device  3 [0000:48:00] NVIDIA H100\n";
constexpr std::string_view k_new_columns =
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " "
    "busbw  #wrong\n";

std::string new_table(std::string_view rows, std::string_view program = "") {
  return fmt::format("{}{}{}{}# Avg bus bandwidth    : 1.5\n", program, k_four_devices, k_new_columns, rows);
}

TEST(NcclTests, TellsTheCollectiveByTheProgramsName) {
  const auto calls = [](std::string_view program, std::string_view row) {
    return tested_calls(read_tests(new_table(row, fmt::format("# Collective test starting: {}\n", program))));
  };
  constexpr std::string_view row = "  64  4  float  none  -1  1.50  0.1  0.1  0  2.5  0.1  0.1  0\n";
  EXPECT_EQ(calls("all_gather_perf", row), (TestedCalls{"all_gather fp32 16->64 x4 out-of-place 0+1500",
                                                        "all_gather fp32 16->64 x4 in-place 1500+2500"}));
  EXPECT_EQ(calls("alltoall_perf", row), (TestedCalls{"all_to_all fp32 64->64 x4 out-of-place 0+1500",
                                                      "all_to_all fp32 64->64 x4 in-place 1500+2500"}));
  EXPECT_EQ(calls("reduce_scatter_perf", row),
            (TestedCalls{"reduce_scatter fp32 64->16 x4 out-of-place 0+1500",
                         "reduce_scatter fp32 64->16 x4 in-place 1500+2500"}));
  EXPECT_EQ(calls("gather_perf", row), (TestedCalls{"other(gather) fp32 64->0 x4 out-of-place 0+1500",
                                                    "other(gather) fp32 64->0 x4 in-place 1500+2500"}));
  EXPECT_EQ(calls("sendrecv_perf", "  16 4 float none -1 1.5 0.1 0.1 0 2.5 0.1 0.1 N/A\n"),
            (TestedCalls{"send fp32 16->0 x2 out-of-place 0+1500", "send fp32 16->0 x2 in-place 1500+2500"}));
}

TEST(NcclTests, TellsTheCollectiveByItsRows) {
  const auto kind = [](std::string_view row) { return tested_calls(read_tests(new_table(row)))[0]; };
  EXPECT_EQ(kind("8 4 half sum -1 1 1 1 0 1 1 1 0\n"), "all_reduce fp16 8->8 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("32 4 half sum -1 1 1 1 0 1 1 1 0\n"), "reduce_scatter fp16 32->8 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("8 4 half sum 0 1 1 1 0 1 1 1 0\n"), "reduce fp16 8->8 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("8 4 half none 0 1 1 1 0 1 1 1 0\n"), "broadcast fp16 8->8 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("32 4 half none 0 1 1 1 0 1 1 1 0\n"),
            "other(gather or scatter) fp16 32->0 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("8 4 half none -1 1 1 1 0 1 1 1 0\n"), "send fp16 8->0 x2 out-of-place 0+1000");
  EXPECT_EQ(kind("32 4 half none -1 1 1 1 0 1 1 1 0\n"), "all_gather fp16 8->32 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("32 4 half none -1 1 1 1 0 1 1 1 N/A\n"), "all_to_all fp16 32->32 x4 out-of-place 0+1000");
  EXPECT_EQ(kind("32 4 half none -1 1 1 1 N/A 1 1 1 N/A\n"),
            "other(all_gather or alltoall) fp16 32->0 x4 out-of-place 0+1000");
}

TEST(NcclTests, GivesRowsOfNoBytesTheCollectiveOfTheOthers) {
  EXPECT_EQ(tested_calls(read_tests(new_table("0 0 float sum -1 1 0 0 0 1 0 0 0\n"
                                              "64 4 float sum -1 2 0 0 0 2 0 0 0\n"))),
            (TestedCalls{"reduce_scatter fp32 0->0 x4 out-of-place 0+1000",
                         "reduce_scatter fp32 0->0 x4 in-place 1000+1000",
                         "reduce_scatter fp32 64->16 x4 out-of-place 2000+2000",
                         "reduce_scatter fp32 64->16 x4 in-place 4000+2000"}));
}

TEST(NcclTests, ReadsPerIterationFiguresTimestampsAndCpuTimes) {
  const std::string header =
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong "
      "i_min i_max i_p99 i_cv%\n";
  EXPECT_EQ(tested_calls(read_tests(std::string(k_four_devices) + header +
                                    "8 2 float sum -1 1.5 1 1 0 1 2 2 3.5 2.5 1 1 0 1 2 2 3.5\n")),
            (TestedCalls{"all_reduce fp32 8->8 x4 out-of-place 0+1500",
                         "all_reduce fp32 8->8 x4 in-place 1500+2500"}));
  const std::string stamped =
      "# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong timestamp\n";
  EXPECT_EQ(tested_calls(read_tests(std::string(k_four_devices) + stamped +
                                    "8 2 float sum -1 1.2e+05 1 1 N/A 2.5 1 1 N/A  2025-10-01 12:13:14\n")),
            (TestedCalls{"all_reduce fp32 8->8 x4 out-of-place, time until the call returns 0+120000000",
                         "all_reduce fp32 8->8 x4 in-place, time until the call returns 120000000+2500"}));
}

TEST(NcclTests, ReadsSeveralRunsInOneLogWithLaunchersAndOtherLines) {
  const std::string one =
      "[1,0]<stdout>:# nThread 1\n"
      "[1,0]<stdout>:#  Rank  0 Group  0 Pid  10 on n device  0 [0x07] H100\n"
      "[1,0]<stdout>:#  Rank  1 Group  1 Pid  10 on n device  1 [0x07] H100\n"
      "[1,0]<stdout>:#  Rank  2 Group  0 Pid  10 on n device  2 [0x07] H100\n"
      "[1,0]<stdout>:# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "n:1:1 [0] NCCL INFO Launch mode Parallel\n"
      "[1,0]<stdout>:   8  2  float  sum  -1  1.5  1  1  0  2.5  1  1  0\n"
      "[1,0]<stdout>:  16  4  float  sum  -1n:1:1 [0] NCCL INFO comm 0x1\n"
      "[1,0]<stdout>:# Avg bus bandwidth : 1\n";
  const Result<Trace> trace =
      read_tests(one + "+ mpirun -np 4 ./build/reduce_perf -b 8\n" + std::string(k_four_devices) +
                 std::string(k_new_columns) + "8 2 float none -1 1 1 1 0 1 1 1 0\n");
  EXPECT_EQ(tested_calls(trace),
            (TestedCalls{
                "all_reduce fp32 8->8 x2 out-of-place 0+1500", "all_reduce fp32 8->8 x2 in-place 1500+2500",
                "reduce fp32 8->8 x4 out-of-place 4000+1000", "reduce fp32 8->8 x4 in-place 5000+1000"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"row torn apart, cut off or impossible", 1}}));
  EXPECT_TRUE(trace->provenance.averaged_times);
}

TEST(NcclTests, NamesTheDeviceOfTheList) {
  EXPECT_EQ(device_named(std::string(k_four_devices) + "# done\n"), "NVIDIA H100");
  EXPECT_EQ(device_named("#   Rank  0 Pid 112424 on localhost device  0 [0x00] A100-SXM4-40GB\r\n"),
            "A100-SXM4-40GB");
  EXPECT_EQ(device_named("Rank of device ] 7\n# nThread 1"), "");
}

TEST(NcclTests, LearnsTheRanksFromSizesWithoutAListOfDevices) {
  EXPECT_EQ(tested_calls(read_tests(std::string(k_new_columns) + "96 4 half sum -1 1 1 1 0 1 1 1 0\n"))[0],
            "reduce_scatter fp16 96->8 x12 out-of-place 0+1000");
  EXPECT_EQ(tested_calls(read_tests(std::string(k_new_columns) + "8 4 half sum -1 1 1 1 0 1 1 1 0\n"))[0],
            "all_reduce fp16 8->8 x0 out-of-place 0+1000");
}

TEST(NcclTests, RefusesATableWithoutRows) {
  for (const std::string& text :
       {std::string(), std::string("hello\n"), new_table(""),
        new_table("8 2 float sum -1 nan 1 1 0 nan 1 1 0\n"), new_table("-8 2 float sum -1 1 1 1 0 1 1 1 0\n"),
        new_table("8 9000000000000000000 float sum -1 1 1 1 0 1 1 1 0\n")}) {
    EXPECT_NE(tested_calls(read_tests(text))[0].find("no row of nccl-tests"), std::string::npos) << text;
  }
}

constexpr std::string_view k_json_report =
    R"({"version":3,"start_time":"2025-10-20 10:00:00","args":["./build/all_gather_perf","-b","64"],"env":["A=1"],)"
    R"("nccl_version":22803,"config":{"nthreads":1,"ngpus":2,"minimum_bytes":64,"validation":1},)"
    R"("devices":[{"rank":0,"group":0,"pid":7,"hostname":"a","device":0},{"rank":2,"group":0,"pid":8,"hostname":"a","device":2}],)"
    R"("results":[{"size":64,"count":4,"type":"float","redop":"none","root":"    -1",)"
    R"("out_of_place":{"time":1.500000,"alg_bw":42.66,"bus_bw":32.0,"nwrong":0.000000},)"
    R"("in_place":{"time":2.000000,"alg_bw":32.0,"bus_bw":24.0,"nwrong":null}},)"
    R"({"size":64,"count":4,"type":"float","redop":"none","root":"-1","out_of_place":null,"in_place":{"cpu_time":3.0}},)"
    R"({"size":64,"count":4,"type":"float128","redop":"none","root":"-1","out_of_place":{"time":3.0}},)"
    R"({"size":64,"count":4,"type":"float","out_of_place":{"time":"nan"},"in_place":null}],)"
    R"("out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":28,"okay":"unchecked"},)"
    R"("end_time":"2025-10-20 10:00:01","errors":[]})";

Result<Trace> read_json_report(std::string_view text) {
  const ScratchDirectory directory;
  return read_json(directory.write("report.json", text));
}

TEST(NcclTestsJson, ReadsAReport) {
  // Two processes of two GPUs each, of which the report lists the first alone.
  const Result<Trace> trace = read_json_report(k_json_report);
  EXPECT_EQ(tested_calls(trace),
            (TestedCalls{"all_gather fp32 16->64 x4 out-of-place, time until the call returns 0+1500",
                         "all_gather fp32 16->64 x4 in-place, time until the call returns 1500+2000",
                         "all_gather fp32 16->64 x4 in-place, time until the call returns 3500+3000"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"row without size, type or time", 2}}));
  EXPECT_TRUE(trace->provenance.averaged_times);
}

TEST(NcclTestsJson, RefusesWhatIsCutOff) {
  for (std::size_t size = 0; size < k_json_report.size(); size += 7) {
    EXPECT_FALSE(read_json_report(k_json_report.substr(0, size))) << size;
  }
  EXPECT_NE(tested_calls(read_json_report("{}"))[0].find("no \"results\""), std::string::npos);
  EXPECT_NE(tested_calls(read_json_report(R"({"results":[]})"))[0].find("no row with a time"),
            std::string::npos);
}

class PublishedNcclTests : public ::testing::Test {
 protected:
  static std::filesystem::path file(std::string_view name) {
    return std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) / "golden/foreign/nccl_tests" / name;
  }
  void SetUp() override {
    if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }

  /// A second reading of the old columns: size, then from the end the figures of the two placements.
  struct Printed {
    std::int64_t bytes;
    double microseconds;
    double bus_bandwidth;
    double time_step;  // one unit of the last printed digit
  };
  static std::vector<Printed> printed(std::string_view name) {
    std::ifstream in(file(name));
    std::vector<Printed> rows;
    for (std::string line; std::getline(in, line);) {
      std::istringstream text(line);
      const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
      if (words.size() < 11 || line.find_first_not_of(" 0123456789") < line.find("float")) {
        continue;
      }
      for (const std::size_t from : {words.size() - 8, words.size() - 4}) {
        const std::size_t dot = words[from].find('.');
        const double decimals =
            dot == std::string::npos ? 0 : static_cast<double>(words[from].size() - dot - 1);
        rows.push_back({std::stoll(words[0]), std::stod(words[from]), std::stod(words[from + 2]),
                        std::pow(10.0, -decimals)});
      }
    }
    return rows;
  }
};

TEST_F(PublishedNcclTests, AgreeWithEverySizeTimeAndBusBandwidth) {
  for (const auto& [name, kind] :
       {std::pair("nccl_allreduce.log", CommKind::all_reduce),
        std::pair("nccl_allgather.log", CommKind::all_gather),
        std::pair("nccl_alltoall.log", CommKind::all_to_all),
        std::pair("nccl_broadcast.log", CommKind::broadcast), std::pair("nccl_reduce.log", CommKind::reduce),
        std::pair("nccl_reducescatter.log", CommKind::reduce_scatter)}) {
    const Result<Trace> trace = read(file(name));
    ASSERT_TRUE(trace) << name << trace.error().message;
    EXPECT_TRUE(trace->provenance.skipped.empty()) << name;
    EXPECT_TRUE(trace->provenance.averaged_times) << name;
    const std::vector<Printed> rows = printed(name);
    const RankStream& stream = trace->streams.at(0);
    ASSERT_EQ(stream.events.size(), rows.size()) << name;
    ASSERT_EQ(rows.size(), 68U) << name << ": 34 rows in the file, each twice";
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const CommOp& op = trace->op(stream.events[row].op);
      const double took_ns =
          static_cast<double>((stream.times[row].finished - stream.times[row].started).count());
      EXPECT_EQ(op.kind, kind) << name;
      EXPECT_EQ(message_bytes(op).value, rows[row].bytes) << name << " row " << row;
      EXPECT_EQ(trace->groups.size(op.group), 8) << name;
      EXPECT_DOUBLE_EQ(took_ns, rows[row].microseconds * 1e3) << name << " row " << row;
      const double bandwidth = static_cast<double>(rows[row].bytes) / took_ns * bus_factor(kind, 8);
      const double tolerance = 0.0051 + bandwidth * rows[row].time_step / rows[row].microseconds / 2;
      EXPECT_NEAR(bandwidth, rows[row].bus_bandwidth, tolerance) << name << " row " << row;
    }
  }
}

}  // namespace
}  // namespace commlens::formats::nccl_tests
