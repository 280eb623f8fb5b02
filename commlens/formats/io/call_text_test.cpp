#include <csignal>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/formats/calls_csv/export.hpp"
#include "commlens/formats/calls_csv/import.hpp"
#include "commlens/formats/calls_jsonl/export.hpp"
#include "commlens/formats/calls_jsonl/import.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats {
namespace {

using test_support::ScratchDirectory;
using test_support::spelled_calls;

using Writer = void (*)(const Trace&, const CallSelection&, const TextSink&);

std::string written(Writer write, const Trace& trace, const CallSelection& selection = {}) {
  std::string text;
  write(trace, selection, [&](std::string_view block) { text += block; });
  return text;
}

/// Four ranks as 2 stages of 2 tensor ranks: a broadcast within the tensor group, then a send to the next
/// stage.
Trace predicted_trace() {
  Trace trace(Mesh{{Axis::pp, 2}, {Axis::dp, 1}, {Axis::tp, 2}});
  GroupPattern tensor{.axis = Axis::tp};
  tensor.spans = {{Axis::tp, {Span::Shape::all}}};
  const OpId broadcast = trace.intern(CommOp{.kind = CommKind::broadcast,
                                             .dtype = DType::fp32,
                                             .phase = Phase::init,
                                             .group = trace.groups.intern(tensor),
                                             .input = Elements{128'000},
                                             .output = Elements{128'000},
                                             .root = GroupRank{1}});
  const GroupPattern next{.shape = GroupPattern::Shape::to_next, .axis = Axis::pp, .along = Axis::pp};
  const OpId send =
      trace.intern(CommOp{.kind = CommKind::send,
                          .dtype = DType::fp16,
                          .phase = Phase::forward,
                          .match = Match::count,
                          .reduction = Reduction::max,
                          .algorithm = Algorithm::nvls_tree,
                          .protocol = Protocol::ll128,
                          .blocking = false,
                          .group = trace.groups.intern(next),
                          .input = Elements{8},
                          .rounding = Bytes{6},
                          .tag = trace.tags.intern("say \"hi\""),
                          .rule = trace.intern(Rule{.name = "pipe.send", .source = "p2p.py:64"}),
                          .name = trace.names.intern("a,b"),
                          .site = trace.names.intern("x.py:1"),
                          .note = trace.names.intern("enqueued only")});
  trace.streams.push_back({{Rank{0}, Rank{3}}, {{broadcast, -1, -1}, {send, 0, 2}}, {}});
  return trace;
}

TEST(CallsJsonlWriter, WritesTheDocumentedLines) {
  EXPECT_EQ(
      written(calls_jsonl::write, predicted_trace(), {.rank = Rank{3}}),
      R"({"rank":3,"iteration":-1,"phase":"init","op":"broadcast","dtype":"fp32","input_bytes":512000,)"
      R"("output_bytes":512000,"group":[2,3],"root":3,"axis":"tp"})"
      "\n"
      R"({"rank":3,"iteration":0,"phase":"forward","op":"send","dtype":"fp16","input_bytes":16,"output_bytes":0,)"
      R"("group":[3,1],"peer":1,"micro_batch":2,"tag":"say \"hi\"","rule":"pipe.send","name":"a,b",)"
      R"("rounding_bytes":6,"match":"count","reduce_op":"max","algorithm":"nvls_tree","protocol":"ll128",)"
      R"("blocking":false,"site":"x.py:1","note":"enqueued only","axis":"pp"})"
      "\n");
}

TEST(CallsCsvWriter, WritesTheDocumentedLines) {
  EXPECT_EQ(
      written(calls_csv::write, predicted_trace(), {.rank = Rank{0}}),
      "rank,iteration,phase,op,dtype,input_bytes,output_bytes,group,group_size,group_name,root,peer,"
      "micro_batch,tag,rule,name,start_ns,"
      "duration_ns,match,rounding_bytes,reduce_op,algorithm,protocol,blocking,site,note,communicator,axis\n"
      "0,-1,init,broadcast,fp32,512000,512000,0 1,,,1,,,,,,,,,,,,,,,,,tp\n"
      "0,0,forward,send,fp16,16,0,0 2,,,,2,2,\"say \"\"hi\"\"\",pipe.send,\"a,b\",,,count,6,max,"
      "nvls_tree,ll128,false,x.py:1,enqueued only,,pp\n");
}

TEST(CallsWriters, WriteEveryRankOfAClassInOrder) {
  const std::string text = written(calls_jsonl::write, predicted_trace());
  std::size_t at = 0;
  for (const char* const start : {"{\"rank\":0,", "{\"rank\":1,", "{\"rank\":2,", "{\"rank\":3,"}) {
    at = text.find(start, at);
    ASSERT_NE(at, std::string::npos) << start;
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8);
  EXPECT_EQ(written(calls_jsonl::write, predicted_trace(), {.rank = Rank{4}}), "");
}

TEST(CallsWriters, HandOverWholeLinesInBlocks) {
  Trace trace = predicted_trace();
  trace.streams[0].events.resize(20'000, trace.streams[0].events[1]);
  std::size_t blocks = 0;
  calls_jsonl::write(trace, {}, [&](std::string_view block) {
    ++blocks;
    EXPECT_TRUE(block.ends_with("}\n"));
    EXPECT_LT(block.size(), 2U << 20);
  });
  EXPECT_GT(blocks, 10U);
}

/// Rank 1 computes twice, once in an iteration that is not known.
Trace computing_trace() {
  Trace trace = predicted_trace();
  using std::chrono::nanoseconds;
  trace.streams[0].compute = {{nanoseconds(100), nanoseconds(150), 0},
                              {nanoseconds(200), nanoseconds(200), k_unknown_iteration}};
  return trace;
}

TEST(CallsWriters, WriteComputeLinesOnlyWhenAsked) {
  const Trace trace = computing_trace();
  EXPECT_EQ(written(calls_jsonl::write, trace), written(calls_jsonl::write, predicted_trace()));
  const std::string text = written(calls_jsonl::write, trace, {.rank = Rank{1}, .compute = true});
  EXPECT_TRUE(
      text.ends_with("}\n"
                     R"({"rank":1,"iteration":0,"op":"compute","start_ns":100,"duration_ns":50})"
                     "\n"
                     R"({"rank":1,"iteration":null,"op":"compute","start_ns":200,"duration_ns":0})"
                     "\n"))
      << text;
  const std::string csv = written(calls_csv::write, trace, {.rank = Rank{1}, .compute = true});
  EXPECT_TRUE(
      csv.ends_with("\n1,0,,compute,,,,,,,,,,,,,100,50,,,,,,,,,,\n1,,,compute,,,,,,,,,,,,,200,0,,,,,,,,,,\n"))
      << csv;
}

TEST(CallsWriters, ComputeLinesAreReadBack) {
  const ScratchDirectory directory;
  const Trace trace = computing_trace();
  const CallSelection all{.compute = true};
  const Result<Trace> from_jsonl =
      calls_jsonl::read(directory.write("c.jsonl", written(calls_jsonl::write, trace, all)));
  const Result<Trace> from_csv =
      calls_csv::read(directory.write("c.csv", written(calls_csv::write, trace, all)));
  ASSERT_TRUE(from_jsonl) << from_jsonl.error().message;
  ASSERT_TRUE(from_csv) << from_csv.error().message;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(from_jsonl->streams.at(rank).compute, trace.streams[0].compute) << "rank=" << rank;
    EXPECT_EQ(from_csv->streams.at(rank).compute, trace.streams[0].compute) << "rank=" << rank;
    EXPECT_EQ(from_jsonl->streams.at(rank).events.size(), 2U) << "rank=" << rank;
  }
}

TEST(CallsWriters, LoseNothingThatTheReadersTake) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ScratchDirectory directory;
    const Trace trace = test_support::RandomTrace(seed).with_communicators().make();
    const Result<Trace> from_jsonl =
        calls_jsonl::read(directory.write("c.jsonl", written(calls_jsonl::write, trace)));
    const Result<Trace> from_csv =
        calls_csv::read(directory.write("c.csv", written(calls_csv::write, trace)));
    ASSERT_TRUE(from_jsonl) << "seed=" << seed << ": " << from_jsonl.error().message;
    ASSERT_TRUE(from_csv) << "seed=" << seed << ": " << from_csv.error().message;
    for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
      const auto calls = spelled_calls(trace, rank);
      ASSERT_TRUE(spelled_calls(*from_jsonl, rank) == calls) << "seed=" << seed << " rank=" << rank.value;
      ASSERT_TRUE(spelled_calls(*from_csv, rank) == calls) << "seed=" << seed << " rank=" << rank.value;
    }
  }
}

TEST(Communicators, PassThroughCallsAndCsv) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::fp32;
  op.input = op.output = Elements{4};
  RankStream stream{{Rank{1}, Rank{1}}, {}, {}, {}};
  for (const CommunicatorId communicator : {k_no_communicator, CommunicatorId{0x2f}, CommunicatorId{1}}) {
    op.group = trace.groups.intern({Rank{0}, Rank{1}}, Axis::unknown, communicator);
    stream.events.push_back({trace.intern(op), 0});
  }
  trace.streams.push_back(stream);
  const std::string lines = written(calls_jsonl::write, trace);
  EXPECT_NE(lines.find(R"("group":[0,1],"communicator":"0x000000000000002f"})"), std::string::npos) << lines;
  EXPECT_NE(lines.find(R"("group":[0,1]})"), std::string::npos) << lines;
  const ScratchDirectory directory;
  for (const bool as_csv : {false, true}) {
    const std::filesystem::path file =
        directory.write("calls", written(as_csv ? calls_csv::write : calls_jsonl::write, trace));
    const Result<Trace> back = as_csv ? calls_csv::read(file) : calls_jsonl::read(file);
    ASSERT_TRUE(back.has_value()) << back.error().message;
    std::vector<CommunicatorId> read;
    for (const CommEvent& event : back->streams.at(0).events) {
      read.push_back(back->groups.communicator(back->op(event.op).group));
    }
    EXPECT_EQ(read, (std::vector{k_no_communicator, CommunicatorId{0x2f}, CommunicatorId{1}}));
  }
}

TEST(HiddenGroups, PassThroughCallsAndCsv) {
  Trace trace;
  CommOp op;
  op.kind = CommKind::all_reduce;
  op.dtype = DType::fp32;
  op.group = trace.groups.intern_hidden(8, "comm 0x1f");
  op.input = Elements{4};
  op.output = Elements{4};
  trace.streams.push_back({{Rank{3}, Rank{3}}, {{trace.intern(op), 0}}, {}, {}});
  EXPECT_EQ(written(calls_jsonl::write, trace),
            R"({"rank":3,"iteration":0,"phase":"other","op":"all_reduce","dtype":"fp32","input_bytes":16,)"
            R"("output_bytes":16,"group":[],"group_size":8,"group_name":"comm 0x1f"})"
            "\n");
  const ScratchDirectory directory;
  for (const bool as_csv : {false, true}) {
    const std::string text = written(as_csv ? calls_csv::write : calls_jsonl::write, trace);
    const std::filesystem::path file = directory.write("calls", text);
    const Result<Trace> back = as_csv ? calls_csv::read(file) : calls_jsonl::read(file);
    ASSERT_TRUE(back.has_value()) << back.error().message;
    const GroupId group = back->op(back->streams[0].events[0].op).group;
    EXPECT_EQ(back->groups.size(group), 8);
    EXPECT_EQ(back->groups.name(group), "comm 0x1f");
    EXPECT_FALSE(back->groups.knows_members(group));
  }
}

}  // namespace
}  // namespace commlens::formats
