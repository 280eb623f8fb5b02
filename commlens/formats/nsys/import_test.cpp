// Reports are synthetic, made by the schema that Nsight Systems documents: none of a real run is at hand.
#include "commlens/formats/nsys/import.hpp"

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/io/sqlite_database.hpp"
#include "commlens/formats/sqlite/export.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::nsys {
namespace {

using std::chrono::nanoseconds;
using test_support::ScratchDirectory;
using test_support::spelled_calls;

constexpr std::int64_t k_first = std::int64_t{101} << 24;   // globalPid of rank 0
constexpr std::int64_t k_second = std::int64_t{102} << 24;  // and of rank 1
constexpr std::int64_t k_session = 1'700'000'000'000'000'000;

const char* const k_schema = R"(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
  globalTid INTEGER, textId INTEGER, domainId INTEGER, jsonTextId INTEGER, jsonText TEXT, binaryData BLOB);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (2, 'gemm'),
  (3, 'ncclDevKernel_SendRecv'), (4, 'ncclAllReduce'), (5, 'ncclDevKernel_AllGather_RING_LL'),
  (6, '{"NCCL communicator ID": 77, "Message size [bytes]": 4096}'), (7, 'ncclDevKernel_Broadcast_RING_LL'),
  (8, 'cudaLaunchKernel');
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, '', 'Hostname', 0, 'gpu12');
)";

/// A report that is filled row by row.
class SyntheticReport {
 public:
  explicit SyntheticReport(const std::filesystem::path& file) : database_(SqliteDatabase::create(file)) {
    run(k_schema);
  }
  void run(const std::string& sql) {
    const Result<void> done = database_.run(sql);
    EXPECT_TRUE(done) << sql << ": " << (done ? "" : done.error().message);
  }
  void kernel(std::int64_t process, std::int64_t device, int name, std::int64_t correlation,
              std::pair<std::int64_t, std::int64_t> time) {
    run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, 7, {}, {}, {}, {})",
                    time.first, time.second, device, correlation, process, name, name));
  }
  void launch(std::int64_t process, std::int64_t correlation, std::int64_t start) {
    run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, {}, {}, 8)", start, start + 5,
                    process + 9, correlation));
  }
  void range(std::int64_t process, std::string_view name, std::int64_t start, std::string_view payload) {
    run(fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, '{}', {}, NULL, 3, NULL, '{}', NULL)", start,
                    start + 10, name, process + 9, payload));
  }

 private:
  SqliteDatabase database_;
};

/// Two processes of one communicator (77). Rank 0: an all_reduce of 4096 bytes, which a gemm overlaps; a send
/// and a recv in one kernel; an all_gather; a kernel that no call was seen of. Rank 1: the all_reduce; a
/// broadcast on a communicator whose creation was not recorded.
void fill(SyntheticReport& report) {
  report.range(k_first, "ncclCommInitRank", 10,
               R"({"NCCL communicator ID": 77, "No. of ranks": 2, "Rank": 0, "CUDA device": 0})");
  report.range(
      k_second, "ncclCommInitRank", 10,
      R"({"a": [{"NCCL communicator ID": 77, "No. of ranks": 2}], "b": {"Rank": 1, "CUDA device": 1}})");
  report.run(fmt::format("INSERT INTO NVTX_EVENTS VALUES (1000, 1100, 59, NULL, {}, 4, 3, 6, NULL, NULL)",
                         k_first + 9));
  report.launch(k_first, 1, 1050);
  report.kernel(k_first, 0, 1, 1, {2000, 5000});
  report.kernel(k_first, 0, 2, 9, {3000, 4000});
  report.range(k_first, "ncclGroupStart", 5990, "");
  report.range(k_first, "ncclSend", 6000,
               R"({"NCCL communicator ID": 77, "Message size [bytes]": 512, "Peer rank": 1})");
  report.range(k_first, "ncclRecv", 6020,
               R"({"NCCL communicator ID": 77, "Message size [bytes]": 256, "Peer rank": 1})");
  report.launch(k_first, 2, 6100);
  report.kernel(k_first, 0, 3, 2, {7000, 7500});
  report.range(k_first, "ncclAllGather", 8000,
               R"({"NCCL communicator ID": 77, "Message size [bytes]": 100})");
  report.launch(k_first, 3, 8005);
  report.kernel(k_first, 0, 5, 3, {9000, 9400});
  report.launch(k_first, 4, 9600);
  report.kernel(k_first, 0, 1, 4, {9700, 9800});
  report.range(k_second, "ncclAllReduce", 1200,
               R"({"NCCL communicator ID": 77, "Message size [bytes]": 4096})");
  report.launch(k_second, 1, 1205);
  report.kernel(k_second, 1, 1, 1, {2100, 5000});
  report.range(k_second, "ncclBroadcast", 5500,
               R"({"NCCL communicator ID": 99, "Message size [bytes]": 64, "Root": 0})");
  report.launch(k_second, 2, 5505);
  report.kernel(k_second, 1, 7, 2, {5600, 5700});
  report.run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 3), (2, 3, 4)");
}

/// "all_reduce 4096>4096 0 1 @2000+3000", times after the session's start.
std::vector<std::string> calls_of(const Trace& trace, Rank rank) {
  std::vector<std::string> calls;
  for (const test_support::SpelledCall& call : spelled_calls(trace, rank)) {
    std::string text = fmt::format("{} {}>{}", name_of(call.kind), call.input, call.output);
    for (const Rank member : call.group) {
      text += fmt::format(" {}", member.value);
    }
    calls.push_back(fmt::format("{} @{}+{}", text, call.started - k_session, call.duration));
  }
  return calls;
}

using Skipped = std::map<std::string, std::int64_t>;

TEST(Nsys, ReadsKernelsWithTheCallsThatMadeThem) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  fill(report);
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.producer, "Nsight Systems");
  EXPECT_TRUE(trace->provenance.description.ends_with("r.sqlite, host gpu12"))
      << trace->provenance.description;
  EXPECT_EQ(trace->provenance.skipped, (Skipped{{"copy or filling of memory", 2}}));
  ASSERT_EQ(trace->streams.size(), 2U);
  EXPECT_EQ(calls_of(*trace, Rank{0}),
            (std::vector<std::string>{"all_reduce 4096>4096 0 1 @2000+3000", "send 512>0 0 1 @7000+500",
                                      "recv 0>256 1 0 @7000+500", "all_gather 100>200 0 1 @9000+400",
                                      "all_reduce 0>0 @9700+100"}));
  EXPECT_EQ(calls_of(*trace, Rank{1}),
            (std::vector<std::string>{"all_reduce 4096>4096 0 1 @2100+2900", "broadcast 64>64 @5600+100"}));
  EXPECT_EQ(trace->streams[0].compute,
            (std::vector<ComputeInterval>{
                {nanoseconds(k_session + 3000), nanoseconds(k_session + 4000), k_unknown_iteration}}));
  EXPECT_TRUE(trace->streams[1].compute.empty());
}

TEST(Nsys, NumbersProcessesAndDevicesWhereNoCommunicatorTells) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  report.kernel(k_second, 0, 1, 1, {20, 30});
  report.kernel(k_first, 1, 1, 1, {10, 40});
  report.kernel(k_first, 0, 1, 2, {5, 40});
  report.kernel(k_first + (std::int64_t{9} << 24), 0, 2, 1, {5, 40});  // a process that only computes
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.assumed, (Skipped{{"rank not reported, numbered by file or process", 3}}));
  EXPECT_EQ(trace->provenance.skipped, (Skipped{{"kernel of a process that does not communicate", 1}}));
  EXPECT_EQ(calls_of(*trace, Rank{0}), std::vector<std::string>{"all_reduce 0>0 @5+35"});
  EXPECT_EQ(calls_of(*trace, Rank{1}), std::vector<std::string>{"all_reduce 0>0 @10+30"});
  EXPECT_EQ(calls_of(*trace, Rank{2}), std::vector<std::string>{"all_reduce 0>0 @20+10"});
}

TEST(Nsys, TakesCallsOnTheHostWhereKernelsWereNotTraced) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  fill(report);
  report.run(
      "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE "
      "CUPTI_ACTIVITY_KIND_MEMCPY;");
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(calls_of(*trace, Rank{1}),
            (std::vector<std::string>{"all_reduce 4096>4096 0 1 @1200+10", "broadcast 64>64 @5500+10"}));
  EXPECT_EQ(trace->provenance.assumed,
            (Skipped{{"time of the kernel (it was not traced; that of the call on the host is used)", 6}}));
}

constexpr std::string_view k_4096_bytes = R"({"NCCL communicator ID": 77, "Message size [bytes]": 4096})";

/// One thread that drives two devices, its calls before its kernels (nccl-tests -g 2).
void fill_two_devices(SyntheticReport& report) {
  for (int device = 0; device < 2; ++device) {
    report.range(
        k_first, "ncclCommInitRank", 10 + device,
        fmt::format(R"({{"NCCL communicator ID": 77, "No. of ranks": 2, "Rank": {0}, "CUDA device": {0}}})",
                    device));
  }
}

TEST(Nsys, DealsTheCallsOfAGroupToItsDevices) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  fill_two_devices(report);
  for (const int turn : {1'000, 2'000}) {
    report.range(k_first, "ncclAllReduce", turn, k_4096_bytes);
    report.range(k_first, "ncclAllReduce", turn + 20, k_4096_bytes);
    report.launch(k_first, turn, turn + 50);
    report.launch(k_first, turn + 1, turn + 60);
    report.kernel(k_first, 0, 1, turn, {turn + 100, turn + 300});
    report.kernel(k_first, 1, 1, turn + 1, {turn + 110, turn + 300});
  }
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped, Skipped{});
  EXPECT_EQ(calls_of(*trace, Rank{0}), (std::vector<std::string>{"all_reduce 4096>4096 0 1 @1100+200",
                                                                 "all_reduce 4096>4096 0 1 @2100+200"}));
  EXPECT_EQ(calls_of(*trace, Rank{1}), (std::vector<std::string>{"all_reduce 4096>4096 0 1 @1110+190",
                                                                 "all_reduce 4096>4096 0 1 @2110+190"}));
}

TEST(Nsys, LeavesOutSizesOfAGroupWhoseCallsCannotBeToldApart) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  fill_two_devices(report);
  report.range(k_first, "ncclAllReduce", 1'000, k_4096_bytes);
  report.range(k_first, "ncclAllReduce", 1'020, R"({"NCCL communicator ID": 77, "Message size [bytes]": 8})");
  report.launch(k_first, 1, 1'050);
  report.launch(k_first, 2, 1'060);
  report.kernel(k_first, 0, 1, 1, {1'100, 1'300});
  report.kernel(k_first, 1, 1, 2, {1'110, 1'300});
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped,
            (Skipped{{"call of a group over several devices or streams (sizes are not distinguished)", 2}}));
  EXPECT_EQ(calls_of(*trace, Rank{0}), std::vector<std::string>{"all_reduce 0>0 @1100+200"});
  EXPECT_EQ(calls_of(*trace, Rank{1}), std::vector<std::string>{"all_reduce 0>0 @1110+190"});
}

TEST(Nsys, TellsCallsOfAGroupOverCommunicatorsApartByTheirOp) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  report.range(k_first, "ncclCommInitRank", 10,
               R"({"NCCL communicator ID": 77, "No. of ranks": 4, "Rank": 0, "CUDA device": 0})");
  report.range(k_first, "ncclCommSplit", 20,
               R"({"NCCL communicator ID": 99, "No. of ranks": 2, "Rank": 0, "CUDA device": 0})");
  report.range(k_first, "ncclAllReduce", 1'000, k_4096_bytes);
  report.range(k_first, "ncclAllGather", 1'020,
               R"({"NCCL communicator ID": 99, "Message size [bytes]": 100})");
  report.launch(k_first, 1, 1'050);
  report.launch(k_first, 2, 1'060);
  report.kernel(k_first, 0, 5, 1, {1'100, 1'300});  // all_gather, on a stream of its own
  report.run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 8");
  report.kernel(k_first, 0, 1, 2, {1'110, 1'300});
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped, Skipped{});
  EXPECT_EQ(calls_of(*trace, Rank{0}), (std::vector<std::string>{"all_gather 100>200 @1100+200",
                                                                 "all_reduce 4096>4096 0 1 2 3 @1110+190"}));
}

TEST(Nsys, CountsWhatItCannotUse) {
  const ScratchDirectory directory;
  SyntheticReport report(directory / "r.sqlite");
  fill(report);
  report.range(k_first, "ncclAllReduce", 20'000, "");  // no payload, no kernel
  report.range(k_second, "ncclAllReduce", 20'000, "{\"Message size [bytes]\": 8");
  report.launch(k_second, 7, 20'005);
  report.kernel(k_second, 1, 1, 7, {21'000, 22'000});
  report.range(k_second, "ncclReduceScatter", 23'000, R"({"Message size [bytes]": 8})");
  report.launch(k_second, 8, 23'005);
  report.kernel(k_second, 1, 1, 8, {24'000, 25'000});
  report.kernel(k_second, 1, 1, 9, {30'000, 29'000});  // ends before it starts
  report.run(
      "CREATE TABLE MPI_P2P_EVENTS (start INTEGER); INSERT INTO MPI_P2P_EVENTS VALUES (1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER); "
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1);");
  const Result<Trace> trace = read(directory / "r.sqlite");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped,
            (Skipped{{"copy or filling of memory", 2},
                     {"CUDA graph traced as one block (use --cuda-graph-trace=node)", 1},
                     {"MPI call in a report of Nsight", 1},
                     {"call of NCCL without a kernel", 1},
                     {"kernel without a proper time", 1},
                     {"size of a call (how many ranks share it is not recorded)", 1},
                     {"size of a call (the payload of its NVTX range is not there as text)", 1}}));
  EXPECT_EQ(calls_of(*trace, Rank{1}).back(), "reduce_scatter 0>0 @24000+1000");
}

TEST(Nsys, SaysWhatIsWrong) {
  const ScratchDirectory directory;
  const auto error = [](const std::filesystem::path& file) {
    const Result<Trace> trace = read(file);
    return trace ? "no error" : trace.error().message;
  };
  EXPECT_NE(error(directory / "none").find("none: "), std::string::npos);
  EXPECT_NE(error(directory.write("text", std::string(5000, 'x'))).find("not a database"), std::string::npos);
  {
    SyntheticReport(directory / "empty.sqlite")
        .run("DROP TABLE NVTX_EVENTS; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL");
  }
  EXPECT_NE(error(directory / "empty.sqlite").find("--trace=cuda,nvtx"), std::string::npos);
  {
    const SyntheticReport no_rows(directory / "rows.sqlite");
  }
  EXPECT_NE(error(directory / "rows.sqlite").find("no communication in it"), std::string::npos);
  {
    SyntheticReport other(directory / "other.sqlite");
    other.run("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (a)");
  }
  EXPECT_NE(error(directory / "other.sqlite").find("has no column start"), std::string::npos);
}

TEST(Nsys, SurvivesDamageAnywhere) {
  const ScratchDirectory directory;
  {
    SyntheticReport report(directory / "r.sqlite");
    fill(report);
  }
  const std::string whole = test_support::content_of(directory / "r.sqlite");
  std::size_t readable = 0;
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 60) {
    std::string damaged = whole;
    for (std::size_t byte = at; byte < std::min(at + 3, whole.size()); ++byte) {
      damaged[byte] = static_cast<char>(damaged[byte] ^ 0x5a);
    }
    readable += read(directory.write("d.sqlite", damaged)).has_value() ? 1U : 0U;
    static_cast<void>(read(directory.write("d.sqlite", whole.substr(0, at))));
  }
  EXPECT_GT(readable, 0U);
}

TEST(Nsys, IsSniffedByItsTablesAndByNoOtherImporter) {
  const ScratchDirectory directory;
  {
    SyntheticReport report(directory / "r.sqlite");
    fill(report);
    EXPECT_TRUE(SqliteDatabase::create(directory / "other.db").run("CREATE TABLE calls (rank)"));
    ASSERT_TRUE(sqlite::write(*read(directory / "r.sqlite"), {}, directory / "own.db"));
  }
  const auto takers = [&](const char* name) {
    const std::string head = read_head(directory / name, 65'536).value();
    std::string names;
    for (const Importer& importer : importers()) {
      names += importer.sniff(directory / name, head) ? std::string(importer.name) + " " : "";
    }
    return names;
  };
  EXPECT_EQ(takers("r.sqlite"), "nsys ");
  EXPECT_EQ(takers("own.db"), "");
  EXPECT_EQ(takers("other.db"), "nsys ");
  const Result<Trace> trace = import_any(directory / "r.sqlite");
  EXPECT_TRUE(trace.has_value());
  const Result<Trace> other = import_any(directory / "other.db");
  EXPECT_NE((other ? "no error" : other.error().message).find("neither table"), std::string::npos);
}

}  // namespace
}  // namespace commlens::formats::nsys
