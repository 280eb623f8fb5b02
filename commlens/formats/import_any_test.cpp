#include "commlens/formats/import_any.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/formats/formats.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/io/write_stream.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;
using namespace std::string_view_literals;

constexpr std::string_view k_jsonl =
    R"({"rank":0,"iteration":0,"op":"send","dtype":"fp16","input_bytes":2,"output_bytes":0,"group":[0,1],"peer":1})"
    "\n";
constexpr std::string_view k_csv =
    "rank,iteration,op,dtype,input_bytes,output_bytes,group\n0,0,all_reduce,fp16,2,2,0 1\n";
constexpr std::string_view k_table =
    "Comm. Op            Message Size        Count               Total Latency(ms)\nall_reduce\n  2.0 KB 1 1 "
    "1 1 1\n";
constexpr std::string_view k_verbose =
    "[Rank 0] comm op: all_reduce | time (ms): 0.11 | msg size: 6.0 MB | algbw (Gbps): 954.41\n";

constexpr std::string_view k_nccl =
    "h:1:2 [0] NCCL INFO AllReduce: opCount 1a sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 "
    "comm "
    "0x3 [nranks=2] stream 0x4\n";

constexpr std::string_view k_chakra =
    "\x07\x0a\x05"
    "0.0.4"
    "\x25\x08\x01\x12\x01x\x18\x07\x52\x0d\x0a\x09"
    "comm_type"
    "\x48\0\x52\x0d\x0a\x09"
    "comm_size"
    "\x48\x04"sv;

constexpr std::string_view k_nccl_table =
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    "8 2 float sum -1 1.5 1 1 0 2.5 1 1 0\n";
constexpr std::string_view k_nccl_report =
    R"({"version":3,"start_time":"","args":["all_reduce_perf"],"results":[)"
    R"({"size":8,"count":2,"type":"float","out_of_place":{"time":1.5}}]})";

constexpr std::string_view k_inspector =
    R"({"header":{"id":"0x1","rank":0,"n_ranks":2},"metadata":{"inspector_output_format_version":"v4.0"},)"
    R"("coll_perf":{"coll":"AllReduce","coll_msg_size_bytes":8,"coll_exec_time_us":3}})"
    "\n";

constexpr std::string_view k_pytorch_et =
    R"({"schema": "1.0.1", "pid": 7, "time": "now", "start_ts": 1, "nodes": [{"name": "record_param_comms",)"
    R"( "id": 9, "rf_id": 1, "parent": 2, "fw_parent": 0, "inputs": [[1, 2, 0, 7, 4, "cuda:2"], 1, 94398426, 2,)"
    R"x( "allreduce", [], []], "input_types": ["Tensor(int)"], "outputs": [], "output_types": []}]})x";

constexpr std::string_view k_kineto =
    R"k({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce(x)",)k"
    R"k("ts": 1, "dur": 1}]})k";

constexpr std::string_view k_osu =
    "# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n0                       9.29\n";
constexpr std::string_view k_imb =
    "# Benchmarking PingPong\n# #processes = 2\n#bytes #repetitions t[usec] Mbytes/sec\n0 1000 4.06 0.00\n";

constexpr std::string_view k_mpip =
    "@ mpiP\n@--- Callsite Message Sent statistics (all, sent bytes) ---\nSend 5 0 1 8 8 8 8\n";

constexpr std::string_view k_flight_json =
    R"({"entries": [{"profiling_name": "nccl:all_reduce", "input_sizes": [[2]], "input_dtypes": ["Float"], )"
    R"("time_created_ns": 5, "state": "started"}], "pg_config": {}, "version": "2.4"})";
// {"entries": [{"profiling_name": "nccl:all_reduce", "time_created_ns": 5}]} in protocol 2.
constexpr std::string_view k_flight_pickle =
    "\x80\x02}X\x07\0\0\0entries]}(X\x0e\0\0\0profiling_nameX\x0f\0\0\0nccl:all_reduceX\x0f\0\0\0"
    "time_created_nsK\x05uas."sv;

constexpr std::string_view k_plugin =
    "[\n"
    R"({"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 1.5, "args": )"
    R"({"CommHash": 1, "Rank": 0, "Count": 8, "Datatype": ncclFloat32}},)"
    "\n";

/// A sample of every format, and the one importer that takes it.
constexpr std::array k_samples = {
    std::pair(k_jsonl, "calls-jsonl"),
    std::pair(k_csv, "calls-csv"),
    std::pair(k_table, "deepspeed-log"),
    std::pair(k_verbose, "deepspeed-log"),
    std::pair(k_nccl, "nccl-log"),
    std::pair(k_inspector, "nccl-inspector"),
    std::pair(k_osu, "osu"),
    std::pair(k_plugin, "nccl-profiler-plugin"),
    std::pair(k_mpip, "mpip"),
    std::pair(k_imb, "imb"),
    std::pair(k_nccl_table, "nccl-tests"),
    std::pair(k_nccl_report, "nccl-tests-json"),
    std::pair(k_chakra, "chakra-et"),
    std::pair(k_kineto, "kineto"),
    std::pair(k_pytorch_et, "pytorch-et"),
    std::pair(k_flight_json, "flight-recorder"),
    std::pair(k_flight_pickle, "flight-recorder"),
};

/// The importers that accept a text, joined by "+".
std::string accepted_by(std::string_view text) {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory.write("f", text);
  const Result<std::string> head = read_head(file, 65'536);
  std::string names;
  for (const Importer& importer : importers()) {
    if (head && importer.sniff(file, *head)) {
      names += (names.empty() ? "" : "+") + std::string(importer.name);
    }
  }
  return names;
}

TEST(Importers, AcceptEachSampleOnce) {
  for (const auto& [text, importer] : k_samples) {
    EXPECT_EQ(accepted_by(text), importer) << text.substr(0, 80);
  }
}

TEST(Importers, AcceptNothingElse) {
  for (const std::string& text :
       {std::string(), std::string("hello\n"), std::string("{}"), std::string("[1,2]"),
        std::string(70'000, '\0'),
        std::string("\x7f"
                    "ELF\x02\x01\x01\0\0",
                    9),
        std::string("\x1f\x8b"), std::string("name,op\n1,2\n"),
        std::string("framework: deepspeed\nranks: 4\n"),
        std::string(R"({"schema": "1-chakra", "nodes": []})"),
        std::string(R"({"traceEvents": [{"name": "nccl", "args": {"rank": 1}}]})")}) {
    EXPECT_EQ(accepted_by(text), "") << text.substr(0, 40);
  }
}

TEST(ImportAny, ReadsEveryFormatByItsContent) {
  const ScratchDirectory directory;
  for (const auto& [text, importer] : k_samples) {
    const Result<Trace> trace = import_any(directory.write("f", text));
    ASSERT_TRUE(trace) << importer << ": " << trace.error().message;
    EXPECT_GE(trace->streams.at(0).events.size(), 1U) << importer;
    write_trace(*trace, directory / "t");
    EXPECT_TRUE(import_any(directory / "t"));
    write_stream((directory / "f.gz").string(), [&](const TextSink& sink) { sink(text); });
    EXPECT_TRUE(import_any(directory / "f.gz"));
  }
}

TEST(ImportAny, SaysWhatItCannotRead) {
  const ScratchDirectory directory;
  const auto error = [](const std::filesystem::path& path) {
    const Result<Trace> trace = import_any(path);
    return trace ? "no error" : trace.error().message;
  };
  EXPECT_NE(error(directory / "x").find("x: no such file"), std::string::npos);
  EXPECT_NE(error(directory / ".").find("no manifest.json"), std::string::npos);
  EXPECT_NE(error(directory.write("f", "")).find("the file is empty"), std::string::npos);
  EXPECT_NE(error(directory.write("f", "hello")).find(" calls-jsonl, "), std::string::npos);
  if (geteuid() != 0) {
    chmod((directory / "f").c_str(), 0);
    EXPECT_NE(error(directory / "f").find("Permission denied"), std::string::npos);
  }
}

/// A directory for temporary files, as TMPDIR says while this lives.
class TemporaryPlace {
 public:
  TemporaryPlace() {
    if (const char* const before = std::getenv("TMPDIR")) {
      before_ = before;
    }
    std::filesystem::create_directory(directory_ / "tmp");
    setenv("TMPDIR", (directory_ / "tmp").c_str(), 1);
  }
  ~TemporaryPlace() { before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR"); }
  TemporaryPlace(const TemporaryPlace&) = delete;
  TemporaryPlace& operator=(const TemporaryPlace&) = delete;
  bool is_empty() const { return std::filesystem::is_empty(directory_ / "tmp"); }
  std::string path() const { return (directory_ / "tmp").string(); }

 private:
  ScratchDirectory directory_;
  std::optional<std::string> before_;
};

/// What import_any makes of a named pipe into which `content` is written `times` times, or until nobody
/// reads.
Result<Trace> imported_from(const std::filesystem::path& pipe, std::string_view content, int times = 1) {
  std::filesystem::remove(pipe);
  EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    std::signal(SIGPIPE, SIG_DFL);
    std::ofstream out(pipe, std::ios::binary);
    for (int time = 0; time < times; ++time) {
      out << content;
    }
    out.close();
    _exit(0);
  }
  Result<Trace> trace = import_any(pipe);
  EXPECT_EQ(waitpid(writer, nullptr, 0), writer);
  return trace;
}

TEST(ImportAny, ReadsEveryFormatFromAPipe) {
  const ScratchDirectory directory;
  const TemporaryPlace temporary;
  for (const auto& [text, importer] : k_samples) {
    const Result<Trace> file = import_any(directory.write("f", text));
    write_stream((directory / "f.gz").string(), [&](const TextSink& sink) { sink(text); });
    for (const std::string& content : {std::string(text), test_support::content_of(directory / "f.gz")}) {
      const Result<Trace> piped = imported_from(directory / "pipe", content);
      ASSERT_TRUE(piped) << importer << ": " << piped.error().message;
      ASSERT_EQ(piped->streams.size(), file->streams.size()) << importer;
      EXPECT_EQ(piped->streams[0].events.size(), file->streams[0].events.size()) << importer;
      EXPECT_EQ(piped->provenance.producer, file->provenance.producer);
      EXPECT_EQ(piped->provenance.skipped, file->provenance.skipped) << importer;
      EXPECT_EQ(piped->provenance.description.find(temporary.path()), std::string::npos)
          << piped->provenance.description;
    }
    EXPECT_TRUE(temporary.is_empty()) << importer;
  }
}

TEST(ImportAny, ReadsAPipeThatIsLongerThanItsHead) {
  const ScratchDirectory directory;
  const Result<Trace> trace = imported_from(directory / "pipe", k_nccl, 10'000);  // 1.4 MB
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->streams.at(0).events.size(), 10'000U);
  // A table that begins behind the first 64 KiB.
  const Result<Trace> late =
      imported_from(directory / "pipe", std::string(100'000, '\n') + std::string(k_nccl_table));
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_EQ(late->provenance.producer, "nccl-tests");
}

TEST(ImportAny, ReadsStandardInput) {
  const ScratchDirectory directory;
  const TemporaryPlace temporary;
  const int before = dup(STDIN_FILENO);
  for (const auto& [text, importer] : k_samples) {
    const int file = open(directory.write("f", text).c_str(), O_RDONLY | O_CLOEXEC);
    dup2(file, STDIN_FILENO);
    close(file);
    const Result<Trace> trace = import_any("-");
    ASSERT_TRUE(trace) << importer << ": " << trace.error().message;
    EXPECT_GE(trace->streams.at(0).events.size(), 1U) << importer;
    EXPECT_EQ(trace->provenance.description.find(temporary.path()), std::string::npos);
    EXPECT_EQ(import_any("-").error().message.substr(0, 33), "standard input: the file is empty");
  }
  dup2(before, STDIN_FILENO);
  close(before);
  EXPECT_TRUE(temporary.is_empty());
}

TEST(ImportAny, SaysOfAPipeWhatItSaysOfAFile) {
  const ScratchDirectory directory;
  const TemporaryPlace temporary;
  const std::string head = R"({"schemaVersion": 1, "distributedInfo": {"rank": 3}})";
  for (const std::string& text : {std::string("hello\n"), std::string(70'000, '\0'), head}) {
    std::filesystem::remove(directory / "pipe");
    const Result<Trace> file = import_any(directory.write("pipe", text));
    const Result<Trace> piped = imported_from(directory / "pipe", text);
    ASSERT_FALSE(piped);
    EXPECT_EQ(piped.error().message, file.error().message);
  }
  const Result<Trace> archive = imported_from(directory / "pipe",
                                              "\x03"
                                              "BOTF2\x02\x02");
  EXPECT_NE(archive.error().message.find("pipe: an OTF2 archive is several files"), std::string::npos);
  EXPECT_TRUE(temporary.is_empty());
}

TEST(ImportAny, EndsOnAPipeWithoutAnEnd) {
  const ScratchDirectory directory;
  const TemporaryPlace temporary;
  const std::string block(std::size_t{1} << 20, 'x');
  const std::string call(k_jsonl.substr(0, k_jsonl.find("send")));
  const std::string zeros(std::size_t{1} << 20, '\0');
  const Result<Trace> line = imported_from(directory / "pipe", call + block, 1'000'000);
  EXPECT_NE(line.error().message.find("pipe:1: a line of more than 16 MiB"), std::string::npos);
  const Result<Trace> binary = imported_from(directory / "pipe", zeros, 1'000'000);
  EXPECT_NE(binary.error().message.find("pipe: no format we know"), std::string::npos);
  EXPECT_TRUE(temporary.is_empty());
}

TEST(ImportAny, SurvivesEveryCutOfEverySample) {
  const ScratchDirectory directory;
  for (const auto& [text, importer] : k_samples) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      static_cast<void>(import_any(directory.write("f", text.substr(0, size))));
      std::string damaged(text);
      damaged[size] = static_cast<char>(damaged[size] ^ 0x81);
      static_cast<void>(import_any(directory.write("f", damaged)));
    }
  }
}

}  // namespace
}  // namespace commlens::formats
