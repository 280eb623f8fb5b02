#include "commlens/formats/nccl_log/import.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/nccl_lines.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::nccl_log {
namespace {

using test_support::ScratchDirectory;

Result<Trace> read_nccl_text(std::string_view text) {
  const ScratchDirectory directory;
  return read(directory.write("nccl.log", text));
}

/// One call: "rank 1: all_reduce fp32 256->256 of 0 1 root 0", hidden groups as "4x[name]".
std::vector<std::string> nccl_calls(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<std::string> calls;
  for (const RankStream& stream : trace->streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace->op(event.op);
      std::string group;
      for (const Rank member : trace->groups.members(op.group, stream.ranks.first)) {
        group += fmt::format(" {}", member.value);
      }
      if (group.empty()) {
        group = fmt::format(" {}x[{}]", trace->groups.size(op.group), trace->groups.name(op.group));
      }
      const std::string& name = trace->names.text(op.name);
      calls.push_back(fmt::format("rank {}: {}{} {} {}->{} of{}{}", stream.ranks.first.value,
                                  name_of(op.kind), name.empty() ? "" : "(" + name + ")", name_of(op.dtype),
                                  (op.input * op.dtype).value, (op.output * op.dtype).value, group,
                                  op.root ? fmt::format(" root {}", op.root->value) : ""));
    }
  }
  return calls;
}

using NcclCalls = std::vector<std::string>;
using NcclSkips = std::map<std::string, std::int64_t>;

std::string nccl_call_text(std::string_view function, std::int64_t count, int datatype, std::int64_t root,
                           std::string_view comm) {
  return fmt::format(
      "{}: opCount 2a sendbuff 0x7f0000000000 recvbuff (nil) count {} datatype {} op 0 root {} comm {} "
      "stream 0x55",
      function, count, datatype, root, comm);
}

TEST(NcclLog, MapsEveryFunctionToItsBuffers) {
  std::string text;
  for (const char* const function : {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send",
                                     "Recv", "AlltoAll", "Gather", "Scatter"}) {
    text += "h:1:2 [0] NCCL INFO " + nccl_call_text(function, 10, 9, 1, "0xa [nranks=4]") + "\n";
  }
  EXPECT_EQ(nccl_calls(read_nccl_text(text)),
            (NcclCalls{"rank 0: all_reduce bf16 20->20 of 4x[h:1 comm 0xa]",
                       "rank 0: all_gather bf16 20->80 of 4x[h:1 comm 0xa]",
                       "rank 0: reduce_scatter bf16 80->20 of 4x[h:1 comm 0xa]",
                       "rank 0: broadcast bf16 20->20 of 4x[h:1 comm 0xa]",
                       "rank 0: reduce bf16 20->20 of 4x[h:1 comm 0xa]",
                       "rank 0: send bf16 20->0 of 2x[h:1 comm 0xa to 1]",
                       "rank 0: recv bf16 0->20 of 2x[h:1 comm 0xa from 1]",
                       "rank 0: all_to_all bf16 80->80 of 4x[h:1 comm 0xa]",
                       "rank 0: other(Gather) bf16 20->0 of 4x[h:1 comm 0xa]",
                       "rank 0: other(Scatter) bf16 0->20 of 4x[h:1 comm 0xa]"}));
}

// ncclRedOp_t of nccl.h: sum, product, max, min, average; what ncclRedOpCreatePreMulSum makes comes after.
TEST(NcclLog, ReadsTheReductionOfCallsThatReduce) {
  std::string text;
  for (int operation = 0; operation < 6; ++operation) {
    std::string call = nccl_call_text("AllReduce", 3, 7, 0, "0xa [nranks=2]");
    call.replace(call.find("op 0"), 4, fmt::format("op {}", operation));
    text += "h:1:2 [0] NCCL INFO " + call + "\n";
  }
  text += "h:1:2 [0] NCCL INFO " + nccl_call_text("AllGather", 3, 7, 0, "0xa [nranks=2]") + "\n";
  const Result<Trace> trace = read_nccl_text(text);
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<Reduction> reductions;
  for (const CommEvent& event : trace->streams.at(0).events) {
    reductions.push_back(trace->op(event.op).reduction);
  }
  EXPECT_EQ(reductions, (std::vector{Reduction::sum, Reduction::product, Reduction::max, Reduction::min,
                                     Reduction::avg, Reduction::premul_sum, Reduction::unknown}));
}

TEST(NcclLog, KnowsTheSizeOfEveryDatatypeAndCountsOthers) {
  std::string text;
  for (int datatype = -1; datatype <= 12; ++datatype) {
    text += "h:1:2 [0] NCCL INFO " + nccl_call_text("AllReduce", 3, datatype, 0, "0xa [nranks=2]") + "\n";
  }
  const Result<Trace> trace = read_nccl_text(text);
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::int64_t> bytes;
  for (const CommEvent& event : trace->streams.at(0).events) {
    bytes.push_back(message_bytes(trace->op(event.op)).value);
  }
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{3, 3, 12, 12, 24, 24, 6, 12, 24, 6, 3, 3}));
  EXPECT_EQ(trace->provenance.skipped, (NcclSkips{{"call with an unknown datatype number", 2}}));
  EXPECT_EQ(trace->provenance.assumed, (NcclSkips{{std::string(k_numbered_rank), 1}}));
}

/// Four processes on two hosts: a communicator of all, and one of the even and one of the odd ranks.
std::string log_of_four(std::string_view id, std::string_view calls) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string who = fmt::format("node{}:{}:9 [{}] NCCL INFO ", rank / 2, 100 + rank, rank % 2);
    for (const char* const moment : {"START", "COMPLETE"}) {
      text += fmt::format(
          "{}ncclCommInitRank comm 0xa{} rank {} nranks 4 cudaDev {} nvmlDev 0 busId 1b000{} - "
          "Init {}\n",
          who, rank, rank, rank % 2, id, moment);
    }
    text += fmt::format(
        "{}ncclCommSplit comm 0xb{} rank {} nranks 2 cudaDev {} nvmlDev 0 busId 1b000 parent "
        "0xa{} splitCount 1 color {} key {}- Init START\n",
        who, rank, rank / 2, rank % 2, rank, rank % 2, rank / 2);
  }
  return text + std::string(calls);
}

TEST(NcclLog, LearnsRanksMembersAndRootsFromCommunicators) {
  const std::string calls =
      "node1:103:7 [1] NCCL INFO " + nccl_call_text("AllReduce", 1, 7, 0, "0xa3 [nranks=4]") + "\n" +
      "node1:102:7 [0] NCCL INFO " + nccl_call_text("Broadcast", 1, 7, 3, "0xa2 [nranks=4]") + "\n" +
      "node1:103:7 [1] NCCL INFO " + nccl_call_text("Broadcast", 1, 7, 1, "0xb3 [nranks=2]") + "\n" +
      "node0:100:7 [0] NCCL INFO " + nccl_call_text("Send", 5, 0, 1, "0xb0 [nranks=2]") + "\n" +
      "node1:102:7 [0] NCCL INFO " + nccl_call_text("Recv", 5, 0, 0, "0xb2 [nranks=2]") + "\n";
  const Result<Trace> trace = read_nccl_text(log_of_four(" commId 0xc0ffee", calls));
  EXPECT_EQ(nccl_calls(trace),
            (NcclCalls{"rank 0: send int8 5->0 of 0 2", "rank 2: broadcast fp32 4->4 of 0 1 2 3 root 3",
                       "rank 2: recv int8 0->5 of 0 2", "rank 3: all_reduce fp32 4->4 of 0 1 2 3",
                       "rank 3: broadcast fp32 4->4 of 1 3 root 1"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped, NcclSkips{});
}

TEST(NcclLog, LearnsRanksFromOldCommunicatorsWithoutId) {
  const std::string calls =
      "node1:103:7 [1] NCCL INFO " + nccl_call_text("AllReduce", 1, 7, 0, "0xa3 [nranks=4]") + "\n" +
      "node1:103:7 [1] NCCL INFO " + nccl_call_text("AllReduce", 1, 7, 0, "0xb3 [nranks=2]") + "\n";
  EXPECT_EQ(nccl_calls(read_nccl_text(log_of_four("", calls))),
            (NcclCalls{"rank 3: all_reduce fp32 4->4 of 0 1 2 3",
                       "rank 3: all_reduce fp32 4->4 of 2x[node1:103 comm 0xb3]"}));
}

TEST(NcclLog, DoesNotTakeGroupsForTheWholeJob) {
  // Two groups of two, each with a rank 0 and a rank 1: no rank is global.
  std::string text;
  for (int process = 0; process < 4; ++process) {
    text += fmt::format("h:{}:9 [0] NCCL INFO comm 0xa rank {} nranks 2 cudaDev 0 busId 0 - Init COMPLETE\n",
                        process, process % 2);
    text += fmt::format("h:{}:9 [0] NCCL INFO {}\n", process,
                        nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]"));
  }
  const Result<Trace> trace = read_nccl_text(text);
  EXPECT_EQ(nccl_calls(trace), (NcclCalls{"rank 0: all_reduce fp32 4->4 of 2x[h:0 comm 0xa]",
                                          "rank 1: all_reduce fp32 4->4 of 2x[h:1 comm 0xa]",
                                          "rank 2: all_reduce fp32 4->4 of 2x[h:2 comm 0xa]",
                                          "rank 3: all_reduce fp32 4->4 of 2x[h:3 comm 0xa]"}));
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->provenance.skipped.empty());
  EXPECT_EQ(trace->provenance.assumed, (NcclSkips{{std::string(k_numbered_rank), 4}}));
}

TEST(NcclLog, TellsAPointerThatIsUsedAgain) {
  const std::string text =
      "h:1:9 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 0 commId 0x1 - Init COMPLETE\n"
      "h:1:9 [0] NCCL INFO " +
      nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]") + "\n" +
      "h:1:9 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 0 - Destroy COMPLETE\n"
      "h:1:9 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 0 commId 0x2 - Init COMPLETE\n"
      "h:1:9 [0] NCCL INFO " +
      nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]") + "\n";
  EXPECT_EQ(nccl_calls(read_nccl_text(text)), (NcclCalls{"rank 0: all_reduce fp32 4->4 of 2x[commId 0x1]",
                                                         "rank 0: all_reduce fp32 4->4 of 2x[commId 0x2]"}));
}

/// Which calls have one group, in the order of the ranks' calls: "rank 0: 0 1 0" are three calls, the first
/// and the last of them on one communicator. Groups have numbers in order of appearance.
std::vector<std::string> groups_of_calls(const Result<Trace>& trace) {
  if (!trace) {
    return {trace.error().message};
  }
  std::map<GroupId, std::size_t> numbers;
  std::vector<std::string> ranks;
  for (const RankStream& stream : trace->streams) {
    std::string text = fmt::format("rank {}:", stream.ranks.first.value);
    for (const CommEvent& event : stream.events) {
      const GroupId group = trace->op(event.op).group;
      EXPECT_NE(trace->groups.communicator(group), k_no_communicator);
      text += fmt::format(" {}", numbers.try_emplace(group, numbers.size()).first->second);
    }
    ranks.push_back(text);
  }
  return ranks;
}

/// A synthetic log of two processes that print the same lines but for "{rank}".
std::string log_of_two(const std::vector<std::string>& lines) {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    for (const std::string& line : lines) {
      text += fmt::format("h:{}:9 [{}] NCCL INFO {}\n", rank, rank,
                          fmt::format(fmt::runtime(line), fmt::arg("rank", rank)));
    }
  }
  return text;
}

std::string init_line(std::string_view pointer, std::string_view more) {
  return fmt::format("ncclCommInitRank comm {} rank {{rank}} nranks 2 cudaDev {{rank}} busId 1b000 {}",
                     pointer, more);
}

std::string reduce_line(std::string_view pointer) {
  return nccl_call_text("AllReduce", 1, 7, 0, fmt::format("{} [nranks=2]", pointer));
}

TEST(NcclLog, GivesCommunicatorsOfTheSameRanksGroupsOfTheirOwn) {
  EXPECT_EQ(
      groups_of_calls(read_nccl_text(log_of_two(
          {init_line("0xa", "commId 0x1 - Init COMPLETE"), init_line("0xb", "commId 0x2 - Init COMPLETE"),
           reduce_line("0xa"), reduce_line("0xb"), reduce_line("0xa")}))),
      (NcclCalls{"rank 0: 0 1 0", "rank 1: 0 1 0"}));
}

TEST(NcclLog, TellsCommunicatorsApartThatHadOnePointerOneAfterTheOther) {
  EXPECT_EQ(groups_of_calls(read_nccl_text(log_of_two(
                {init_line("0xa", "commId 0x1 - Init START"), init_line("0xa", "commId 0x1 - Init COMPLETE"),
                 reduce_line("0xa"), init_line("0xa", "- Destroy COMPLETE"),
                 init_line("0xa", "commId 0x2 - Init START"), init_line("0xa", "commId 0x2 - Init COMPLETE"),
                 reduce_line("0xa"), init_line("0xa", "- Abort COMPLETE")}))),
            (NcclCalls{"rank 0: 0 1", "rank 1: 0 1"}));
}

TEST(NcclLog, TellsCommunicatorsApartThatHaveOneIdOneAfterTheOther) {
  // Also where the second one got the pointer before the line of the first one's end was printed.
  const std::string start = init_line("0xa", "commId 0x1 - Init START");
  const std::string complete = init_line("0xa", "commId 0x1 - Init COMPLETE");
  const std::string end = init_line("0xa", "- Destroy COMPLETE");
  const std::string call = reduce_line("0xa");
  for (const auto& lines : {std::vector{start, complete, call, end, start, complete, call, call},
                            std::vector{start, complete, call, start, end, complete, call, call},
                            std::vector{start, complete, call, start, complete, call, call}}) {
    EXPECT_EQ(groups_of_calls(read_nccl_text(log_of_two(lines))),
              (NcclCalls{"rank 0: 0 1 1", "rank 1: 0 1 1"}));
  }
}

TEST(NcclLog, TellsSplitsOfOneParentApart) {
  const std::string parent = init_line("0xa", "commId 0x1 - Init COMPLETE");
  const auto split = [](std::string_view pointer, std::string_view more) {
    return fmt::format("ncclCommSplit comm {} rank {{rank}} nranks 2 cudaDev {{rank}} busId 1b000 {}",
                       pointer, more);
  };
  // By version: 2.18 has one commId for all splits by one color, and no color in the second line; then the
  // number of the split stands there, and the second line may have "no commId", 0x0.
  const std::vector<std::string> calls = {reduce_line("0xa"), reduce_line("0xb"), reduce_line("0xc")};
  const std::vector<std::vector<std::string>> splits = {
      {split("0xb", "parent 0xa color 0 key 0 commId 0x9 - Init START"),
       init_line("0xb", "commId 0x9 - Init COMPLETE"),
       split("0xc", "parent 0xa color 0 key 0 commId 0x9 - Init START"),
       init_line("0xc", "commId 0x9 - Init COMPLETE")},
      {split("0xb", "parent 0xa splitCount 1 color 0 key 0- Init START"),
       init_line("0xb", "commId 0x0 - Init COMPLETE"),
       split("0xc", "parent 0xa splitCount 2 color 0 key 0- Init START"),
       init_line("0xc", "commId 0x0 - Init COMPLETE")},
      {split("0xb", "parent 0xa childCount 1 color 0 key 0 - Init START"),
       split("0xb", "parent 0xa childCount 1 color 0 key 0 - Init COMPLETE"),
       split("0xc", "parent 0xb childCount 1 color 0 key 0 - Init START"),
       split("0xc", "parent 0xb childCount 1 color 0 key 0 - Init COMPLETE")}};
  for (const std::vector<std::string>& made : splits) {
    std::vector<std::string> lines = {parent};
    lines.insert(lines.end(), made.begin(), made.end());
    lines.insert(lines.end(), calls.begin(), calls.end());
    EXPECT_EQ(groups_of_calls(read_nccl_text(log_of_two(lines))),
              (NcclCalls{"rank 0: 0 1 2", "rank 1: 0 1 2"}))
        << made.front();
  }
}

TEST(NcclLog, ReadsWhatLaunchersAndTimestampsPutBefore) {
  const std::string call = nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=1]");
  for (const std::string_view prefix : {"[1,0]<stdout>:", "0: ", "(RayTrainWorker pid=7, ip=10.0.0.1) ",
                                        "[2025-01-02 03:04:05] ", "[rank0]:"}) {
    EXPECT_EQ(nccl_calls(read_nccl_text(fmt::format("{}my-node.x:1:2 [3] NCCL INFO {}", prefix, call))),
              NcclCalls{"rank 0: all_reduce fp32 4->4 of 0"})
        << prefix;
  }
  EXPECT_EQ(nccl_calls(read_nccl_text("h:1:2 [0] 2025-01-02 03:04:05.6 NCCL INFO " + call)),
            NcclCalls{"rank 0: all_reduce fp32 4->4 of 0"});
}

TEST(NcclLog, CountsTornAndImpossibleLines) {
  const std::string whole = nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]");
  const std::string text =
      "h:1:2 [0] NCCL INFO h:3:4 [1] NCCL INFO " + whole + "\n" +  // the first lost its text …
      whole + "\n" +                                               // … which comes here
      "h:1:2 [0] NCCL INFO AllReduce: opCount 2a sendbuff 0x1 rech:1:2 [0] NCCL INFO " + whole + "\n" +
      "h:1:2 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo 1 proto 0 time 9.2\n" + "h:1:2 [0] NCCL INFO " +
      nccl_call_text("AllReduce", 1LL << 62, 7, 0, "0xa [nranks=2]") + "\n" + "h:1:2 [0] NCCL INFO " +
      nccl_call_text("AllReduce", 1, 7, 2, "0xa [nranks=2]") + "\n" + "h:1:2 [0] NCCL INFO " +
      nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=99999999999]") + "\n" + "h:1:2 [0] NCCL INFO " +
      nccl_call_text("Teleport", 1, 7, 0, "0xa [nranks=2]") + "\n" + "h:1:2 [0] NCCL INFO AllReduce: opC";
  const Result<Trace> trace = read_nccl_text(text);
  EXPECT_EQ(nccl_calls(trace), (NcclCalls{"rank 0: all_reduce fp32 4->4 of 2x[h:3 comm 0xa]",
                                          "rank 1: all_reduce fp32 4->4 of 2x[h:1 comm 0xa]"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped, (NcclSkips{{"line torn apart or cut off", 3},
                                                  {"call with impossible fields", 3},
                                                  {"call of a function we do not know", 1}}));
  EXPECT_EQ(trace->provenance.assumed, (NcclSkips{{std::string(k_numbered_rank), 2}}));
}

TEST(NcclLog, FindsAProcessBehindTheRestOfABrokenLine) {
  const std::string whole = nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]");
  EXPECT_EQ(nccl_calls(read_nccl_text("node:1:2 [0] NCCL INFO " + whole + "node:1:2 [0] NCCL INFO " + whole)),
            (NcclCalls{"rank 0: all_reduce fp32 4->4 of 2x[node:1 comm 0xa]",
                       "rank 0: all_reduce fp32 4->4 of 2x[node:1 comm 0xa]"}));
}

TEST(NcclLog, FindsAProcessBehindTheRestOfACallAlone) {
  const std::string whole = nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]");
  EXPECT_EQ(nccl_calls(read_nccl_text("node:1:2 [0] NCCL INFO " + whole + "\nnt 1 op 0 root 0 stream 0x3" +
                                      "node:1:2 [0] NCCL INFO " + whole)),
            (NcclCalls{"rank 0: all_reduce fp32 4->4 of 2x[node:1 comm 0xa]",
                       "rank 0: all_reduce fp32 4->4 of 2x[node:1 comm 0xa]"}));
}

TEST(NcclLog, KeepsProcessesApartWhoseNamesEndAlike) {
  const std::string whole = nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]");
  for (const std::string_view before : {"", "[1,1]<stdout>:", "1: "}) {
    EXPECT_EQ(nccl_calls(read_nccl_text(fmt::format(
                  "n1:100:2 [0] NCCL INFO {}\n{}gpun1:100:2 [0] NCCL INFO {}", whole, before, whole))),
              (NcclCalls{"rank 0: all_reduce fp32 4->4 of 2x[n1:100 comm 0xa]",
                         "rank 1: all_reduce fp32 4->4 of 2x[gpun1:100 comm 0xa]"}))
        << before;
  }
}

TEST(NcclLog, RefusesALogWithoutCalls) {
  for (const std::string& text :
       {std::string(), std::string("hello\n"), std::string("h:1:2 [0] NCCL INFO Bootstrap : Using eth0\n")}) {
    EXPECT_NE(nccl_calls(read_nccl_text(text))[0].find("nccl.log: no whole call of NCCL's log"),
              std::string::npos);
  }
}

TEST(NcclLog, SurvivesEveryCut) {
  const std::string text = log_of_four(
      " commId 0x1", "node1:103:7 [1] NCCL INFO " + nccl_call_text("Send", 1, 7, 0, "0xa3 [nranks=4]"));
  const ScratchDirectory directory;
  for (std::size_t size = 0; size <= text.size(); size += 3) {
    static_cast<void>(read(directory.write("f", text.substr(0, size))));
    static_cast<void>(read(directory.write("f", text.substr(size))));
  }
}

TEST(NcclLog, IsFoundFarIntoALog) {
  const ScratchDirectory directory;
  std::string text;
  for (int line = 0; line < 20'000; ++line) {
    text += "[2024-01-01] [INFO] step loss and so on\n";
  }
  const std::string head = text.substr(0, 65'536);
  const std::string call =
      "h:1:2 [0] NCCL INFO " + nccl_call_text("AllReduce", 1, 7, 0, "0xa [nranks=2]") + "\n";
  EXPECT_TRUE(sniff(directory.write("run.log", text + call), head));
  EXPECT_FALSE(sniff(directory.write("run.log", text), head));
  EXPECT_FALSE(sniff(directory.write("run.log", ""), ""));
}

class FieldNcclLog : public ::testing::Test {
 protected:
  static Result<Trace> read(std::string_view name) {
    return nccl_log::read(std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) /
                          "golden/foreign/nccl_log" / name);
  }
  void SetUp() override {
    if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }
};

TEST_F(FieldNcclLog, OfTwoRanksInOneProcessHasTheseCalls) {
  const Result<Trace> trace = read("nccl_203_tf_2rank.log");
  EXPECT_EQ(nccl_calls(trace),
            (NcclCalls{"rank 0: all_reduce fp32 256->256 of 2x[gpu1:13135 comm 0x7f0c741162f0]",
                       "rank 0: all_reduce fp32 948736->948736 of 2x[gpu1:13135 comm 0x7f0c741162f0]",
                       "rank 0: all_reduce fp32 1546240->1546240 of 2x[gpu1:13135 comm 0x7f0c741162f0]",
                       "rank 1: all_reduce fp32 256->256 of 2x[gpu1:13135 comm 0x7f0c7410f0e0]",
                       "rank 1: all_reduce fp32 948736->948736 of 2x[gpu1:13135 comm 0x7f0c7410f0e0]",
                       "rank 1: all_reduce fp32 1546240->1546240 of 2x[gpu1:13135 comm 0x7f0c7410f0e0]",
                       "rank 1: all_reduce fp32 32768->32768 of 2x[gpu1:13135 comm 0x7f0c7410f0e0]"}));
}

TEST_F(FieldNcclLog, OfInterleavedProcessesHasTheseCalls) {
  const Result<Trace> trace = read("nccl_584_sendrecv_and_147_interleaved.log");
  EXPECT_EQ(
      nccl_calls(trace),
      (NcclCalls{"rank 0: send fp32 9682944->0 of 2x[ubuntu:199574 comm 0x7f5128002e10 to 1]",
                 "rank 0: send fp32 9682944->0 of 2x[ubuntu:199574 comm 0x7f5128002e10 to 1]",
                 "rank 0: send fp32 9682944->0 of 2x[ubuntu:199574 comm 0x7f516c002e10 to 0]",
                 "rank 0: recv fp32 0->9682944 of 2x[ubuntu:199574 comm 0x7f5128002e10 from 1]",
                 "rank 1: broadcast int64 424->424 of 8x[learnfair062:32629 comm 0x7f372005a260]",
                 "rank 2: broadcast int64 424->424 of 8x[learnfair062:32625 comm 0x7f6b5c05a260]",
                 "rank 3: broadcast fp16 51007824->51007824 of 8x[learnfair062:32615 comm 0x7f88e005a260]",
                 "rank 4: broadcast int64 424->424 of 8x[learnfair062:32617 comm 0x7f3bf405a260]"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->provenance.skipped, (NcclSkips{{"line torn apart or cut off", 1}}));
  EXPECT_EQ(trace->provenance.assumed, (NcclSkips{{std::string(k_numbered_rank), 5}}));
}

TEST_F(FieldNcclLog, OfRcclHasGlobalRanks) {
  const Result<Trace> trace = read("rccl_task_globalrank.log");
  EXPECT_EQ(
      nccl_calls(trace),
      (NcclCalls{
          "rank 0: all_reduce fp16 536870912->536870912 of 8x[banff-cyxtera-s78-4:52937 comm 0xaef8a00]",
          "rank 1: all_reduce fp32 4004->4004 of 2x[rocm-framework-3:24888 comm 0x7f80467b9770]",
          "rank 170: all_reduce fp32 4->4 of 256x[x1000c3s5b0n0:906353 comm 0xfe08fa0]"}));
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->provenance.skipped.empty());
  EXPECT_EQ(trace->provenance.assumed, (NcclSkips{{std::string(k_numbered_rank), 1}}));
}

}  // namespace
}  // namespace commlens::formats::nccl_log
