// Archives: what we write, read back and read by otf2-print; what EZTrace writes of a real MPI program.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/otf2/api.hpp"
#include "commlens/formats/otf2/export.hpp"
#include "commlens/formats/otf2/import.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::otf2 {
namespace {

using std::chrono::nanoseconds;
using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

/// Exit code of a shell command in a directory.
int shell(const std::filesystem::path& directory, const std::string& command) {
  const int status = std::system(fmt::format("cd '{}' && {}", directory.string(), command).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has_tool(const std::string& program) {
  return shell("/", fmt::format("command -v {} >/dev/null", program)) == 0;
}

std::size_t lines_with(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

/// Rank 0 sends rank 2 8 fp32 while all reduce 10 fp16; then a gather, and a call that OTF2 does not know.
Trace three_ranks() {
  Trace trace;
  const GroupId all = trace.groups.intern({Rank{0}, Rank{1}, Rank{2}}, Axis::world);
  const GroupId pair = trace.groups.intern({Rank{0}, Rank{2}}, Axis::pp);
  const auto collective = [&](CommKind kind, std::string_view name) {
    return trace.intern(CommOp{.kind = kind,
                               .dtype = DType::fp16,
                               .phase = Phase::backward,
                               .group = all,
                               .input = Elements{10},
                               .output = Elements{10},
                               .tag = trace.tags.intern("layer 1"),
                               .name = trace.names.intern(name)});
  };
  const OpId reduce = collective(CommKind::all_reduce, "");
  const OpId gather = collective(CommKind::other, "MPI_Gather");
  const OpId window = collective(CommKind::other, "win_fence");
  const OpId send = trace.intern(CommOp{.kind = CommKind::send,
                                        .dtype = DType::fp32,
                                        .phase = Phase::forward,
                                        .group = pair,
                                        .input = Elements{8}});
  const OpId recv = trace.intern(CommOp{.kind = CommKind::recv,
                                        .dtype = DType::fp32,
                                        .phase = Phase::forward,
                                        .group = pair,
                                        .output = Elements{8}});
  constexpr std::int64_t zero = 1'700'000'000'000'000'123;
  const auto times = [](std::int64_t started, std::int64_t duration) {
    return Times{nanoseconds(zero + started), nanoseconds(zero + started),
                 nanoseconds(zero + started + duration)};
  };
  trace.streams = {
      {{Rank{0}, Rank{0}},
       {{send, 0, 4}, {reduce, 0, -1}, {gather, 1, -1}, {window, 1, -1}},
       {times(0, 100), times(50, 100), times(200, 7), times(300, 9)},
       {}},
      {{Rank{1}, Rank{1}}, {{reduce, k_unknown_iteration, -1}}, {times(60, 80)}, {}},
      {{Rank{2}, Rank{2}}, {{recv, 0, 4}, {reduce, 0, -1}}, {times(10, 95), times(40, 100)}, {}}};
  return trace;
}

TEST(Otf2, KeepsCallsSizesGroupsAndTimes) {
  const ScratchDirectory directory;
  const Trace trace = three_ranks();
  const Result<void> written =
      write_export(*exporter_named("otf2"), trace, {}, (directory / "archive").string());
  ASSERT_TRUE(written) << written.error().message;
  const Result<Trace> read = otf2::read(directory / "archive/traces.otf2");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->provenance.skipped, (std::map<std::string, std::int64_t>{}));
  ASSERT_EQ(read->streams.size(), 3U);
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(spelled_calls(*read, Rank{rank}) == spelled_calls(trace, Rank{rank})) << "rank=" << rank;
  }
}

/// What survives of a call whatever the trace: OTF2 orders calls by time.
using Kept = std::tuple<CommKind, DType, std::vector<Rank>, std::int64_t, std::int64_t, std::int64_t>;

std::vector<Kept> kept_of(const Trace& trace, Rank rank) {
  std::vector<Kept> kept;
  for (const SpelledCall& call : spelled_calls(trace, rank)) {
    kept.emplace_back(call.kind, call.dtype, call.group, call.input, call.output, call.root);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(Otf2, KeepsCountsKindsSizesAndGroupsWhateverTheTrace) {
  std::size_t calls = 0;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const ScratchDirectory directory;
    const Trace trace = test_support::RandomTrace(seed).make();
    const std::string anchor = (directory / "t.otf2").string();
    const Result<void> written = write_export(*exporter_named("otf2"), trace, {}, anchor);
    ASSERT_TRUE(written) << "seed=" << seed << ": " << written.error().message;
    const Result<Trace> read = otf2::read(anchor);
    ASSERT_TRUE(read) << "seed=" << seed << ": " << read.error().message;
    EXPECT_EQ(read->provenance.skipped, (std::map<std::string, std::int64_t>{})) << "seed=" << seed;
    for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
      ASSERT_TRUE(kept_of(*read, rank) == kept_of(trace, rank)) << "seed=" << seed << " rank=" << rank.value;
      calls += kept_of(trace, rank).size();
    }
  }
  EXPECT_GT(calls, 500U);
}

TEST(Otf2, WithoutTimesReadsBackWithoutTimes) {
  const ScratchDirectory directory;
  Trace trace = three_ranks();
  for (RankStream& stream : trace.streams) {
    stream.times.clear();
  }
  ASSERT_TRUE(write_export(*exporter_named("otf2"), trace, {}, (directory / "t.otf2").string()));
  const Result<Trace> read = otf2::read(directory / "t.otf2");
  ASSERT_TRUE(read) << read.error().message;
  for (const RankStream& stream : read->streams) {
    EXPECT_TRUE(stream.times.empty());
    EXPECT_TRUE(spelled_calls(*read, stream.ranks.first) == spelled_calls(trace, stream.ranks.first));
  }
}

TEST(Otf2, IsAcceptedByOtf2Print) {
  if (!has_tool("otf2-print")) {
    GTEST_SKIP() << "otf2-tools is not installed";
  }
  const ScratchDirectory directory;
  ASSERT_TRUE(write_export(*exporter_named("otf2"), three_ranks(), {}, (directory / "t.otf2").string()));
  ASSERT_EQ(shell(directory / ".", "otf2-print t.otf2 >events.txt 2>complaints.txt"), 0);
  EXPECT_EQ(test_support::content_of(directory / "complaints.txt"), "");
  const std::string events = test_support::content_of(directory / "events.txt");
  EXPECT_EQ(lines_with(events, "MPI_ISEND "), 1U) << events;  // it overlaps the all_reduce
  EXPECT_EQ(lines_with(events, "MPI_IRECV "), 1U);
  EXPECT_EQ(lines_with(events, "Length: 32"), 2U);
  EXPECT_EQ(lines_with(events, "Operation: ALLREDUCE"), 3U);
  EXPECT_EQ(lines_with(events, "Sent: 20, Received: 20"), 4U);
  EXPECT_EQ(lines_with(events, "Operation: GATHER"), 1U);
  EXPECT_EQ(lines_with(events, "(\"commlens.dtype\""), 0U + lines_with(events, "(\"commlens.phase\""));
  ASSERT_EQ(shell(directory / ".", "otf2-print -G t.otf2 >definitions.txt 2>complaints.txt"), 0);
  EXPECT_EQ(test_support::content_of(directory / "complaints.txt"), "");
}

TEST(Otf2, RefusesGroupsWhoseRanksAreNotKnown) {
  const ScratchDirectory directory;
  Trace trace;
  const OpId reduce = trace.intern(CommOp{.kind = CommKind::all_reduce,
                                          .group = trace.groups.intern_hidden(4, "comm 0x7f"),
                                          .input = Elements{4},
                                          .output = Elements{4}});
  trace.streams.push_back({{Rank{0}, Rank{0}}, {{reduce, 0, -1}}, {}, {}});
  const Result<void> written = write_export(*exporter_named("otf2"), trace, {}, (directory / "t").string());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message,
            "OTF2 needs the ranks of every group; the trace does not tell those of 1 call (the first: "
            "all_reduce of rank 0 on a group of 4 ranks, comm 0x7f)");
  EXPECT_FALSE(std::filesystem::exists(directory / "t"));
}

TEST(Otf2, SniffsAnAnchorFile) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write_export(*exporter_named("otf2"), three_ranks(), {}, (directory / "t.otf2").string()));
  EXPECT_TRUE(sniff("f", read_head(directory / "t.otf2", 65'536).value()));
  EXPECT_FALSE(sniff("f", read_head(directory / "t.def", 65'536).value()));
  EXPECT_FALSE(sniff("f", "OTF2"));
  EXPECT_FALSE(sniff("f", ""));
}

TEST(Otf2, ADamagedArchiveIsAnErrorOrATrace) {
  const ScratchDirectory directory;
  ASSERT_TRUE(write_export(*exporter_named("otf2"), three_ranks(), {}, (directory / "t.otf2").string()));
  EXPECT_NE(read(directory / "none.otf2").error().message.find("none.otf2: "), std::string::npos);
  for (const std::string name : {"t.otf2", "t.def", "t/0.evt"}) {
    const std::string whole = test_support::content_of(directory / name);
    ASSERT_FALSE(whole.empty()) << name;
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 12) {
      directory.write(name, whole.substr(0, size));
      const Result<Trace> cut = read(directory / "t.otf2");
      EXPECT_TRUE(cut.has_value() || cut.error().message.find("t.otf2: ") != std::string::npos);
      std::string damaged = whole;
      damaged[size] = static_cast<char>(damaged[size] ^ 0xff);
      directory.write(name, damaged);
      const Result<Trace> changed = read(directory / "t.otf2");
      EXPECT_TRUE(changed.has_value() || changed.error().message.find("t.otf2: ") != std::string::npos);
    }
    directory.write(name, whole);
  }
  EXPECT_TRUE(read(directory / "t.otf2"));
}

constexpr const char* k_program = R"(
#include MPI_HEADER
static double a[4096], b[4096];
static int n[10];
int main(int argc, char** argv) {
  int rank, size;
  MPI_Comm half;
  MPI_Request receive, send;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  for (int step = 0; step < 5; ++step) MPI_Allreduce(a, b, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Bcast(n, 10, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Reduce(a, b, 20, MPI_DOUBLE, MPI_SUM, 0, half);
  MPI_Allgather(a, 3, MPI_DOUBLE, b, 3, MPI_DOUBLE, half);
  MPI_Alltoall(a, 2, MPI_DOUBLE, b, 2, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Gather(a, 7, MPI_DOUBLE, b, 7, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_Send(a, 64, MPI_DOUBLE, 3, 5, MPI_COMM_WORLD);
  if (rank == 3) MPI_Recv(a, 100, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Irecv(b, 100, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &receive);
  MPI_Isend(a, 16, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD, &send);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
)";

/// "all_reduce 8000>8000 0 1 2 3 root 1", as often as it was called.
std::map<std::string, int> counts_of(const Trace& trace, Rank rank) {
  std::map<std::string, int> counts;
  for (const SpelledCall& call : spelled_calls(trace, rank)) {
    std::string text = fmt::format("{} {} {}>{}", call.name, name_of(call.kind), call.input, call.output);
    for (const Rank member : call.group) {
      text += fmt::format(" {}", member.value);
    }
    text += call.root < 0 ? "" : fmt::format(" root {}", call.root);
    ++counts[text];
    EXPECT_EQ(call.dtype, DType::uint8);
    EXPECT_GE(call.duration, 0);
    EXPECT_LT(call.duration, 60'000'000'000);
  }
  return counts;
}

// Written by EZTrace of a program whose calls can be counted in the text above: doubles have 8 bytes, four
// ranks.
TEST(Otf2, ReadsWhatEztraceRecordsOfARealProgram) {
  if (!has_tool("eztrace") || !has_tool("mpicc.openmpi") || !has_tool("mpirun.openmpi")) {
    GTEST_SKIP() << "eztrace and Open MPI are not installed";
  }
  const ScratchDirectory directory;
  directory.write("program.c", k_program);
  ASSERT_EQ(shell(directory / ".", "mpicc.openmpi '-DMPI_HEADER=<mpi.h>' program.c -o program 2>/dev/null"),
            0);
  ASSERT_EQ(shell(directory / ".",
                  "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe "
                  "-n 4 eztrace -t openmpi ./program >out.txt 2>&1"),
            0)
      << test_support::content_of(directory / "out.txt");
  const Result<Trace> trace = read(directory / "program_trace/eztrace_log.otf2");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->streams.size(), 4U);
  EXPECT_EQ(
      trace->provenance.skipped,
      (std::map<std::string, std::int64_t>{{"receive or collective whose completion is not recorded", 4}}));
  EXPECT_EQ(
      trace->provenance.assumed.at("message whose end is not known (the return of its function is used)"), 4);
  EXPECT_EQ(trace->streams[2].times.size(), trace->streams[2].events.size());
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    const std::string half = rank % 2 == 0 ? "0 2" : "1 3";
    std::map<std::string, int> expected = {
        {"MPI_Allreduce all_reduce 8000>8000 0 1 2 3", 5},
        {"MPI_Bcast broadcast 40>40 0 1 2 3 root 1", 1},
        {"MPI_Reduce reduce 160>160 " + half + " root 0", 1},  // position 0 of the half
        {"MPI_Allgather all_gather 24>48 " + half, 1},
        {"MPI_Alltoall all_to_all 64>64 0 1 2 3", 1},
        {"MPI_Gather other 56>56 0 1 2 3 root 0", 1},
        {"MPI_Barrier barrier 0>0 0 1 2 3", 1},
        {fmt::format("MPI_Isend send 128>0 {} {}", rank, (rank + 1) % 4), 1}};
    if (rank == 0) {
      expected["MPI_Send send 512>0 0 3"] = 1;
    } else if (rank == 3) {
      expected["MPI_Recv recv 0>512 0 3"] = 1;
    }
    EXPECT_EQ(counts_of(*trace, Rank{rank}), expected) << "rank=" << rank;
  }
}

}  // namespace
}  // namespace commlens::formats::otf2
