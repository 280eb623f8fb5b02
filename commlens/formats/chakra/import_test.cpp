#include "commlens/formats/chakra/import.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

#include "commlens/formats/chakra/messages.hpp"
#include "commlens/formats/chakra/names.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::chakra {
namespace {

using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

/// A file as Chakra's tools write it, made node by node.
class ChakraFile {
 public:
  ChakraFile() {
    GlobalMetadata head;
    head.set_version("0.0.4");
    append_message(head, bytes_);
  }

  ChakraFile& with(const Node& node) {
    append_message(node, bytes_);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Node collective(std::uint64_t id, std::int64_t comm_type, std::int64_t size) {
  Node node;
  node.set_id(id);
  node.set_name("ncclDevKernel");
  node.set_type(COMM_COLL_NODE);
  add_attribute(node, "is_cpu_op").set_flag(false);
  add_attribute(node, "comm_type").set_integer(comm_type);
  add_attribute(node, "comm_size").set_integer(size);
  return node;
}

Node groups_node(const std::string& list) {
  Node node;
  node.set_id(1);
  node.set_name("## process_group:init ##");
  node.set_type(METADATA_NODE);
  node.mutable_inputs()->set_values("['" + list + "']");
  return node;
}

Node in_group(Node node, const std::string& group) {
  add_attribute(node, "pg_name").set_text(group);
  return node;
}

Result<Trace> read_bytes(const std::string& bytes, std::string_view name = "chakra.2.et") {
  const ScratchDirectory directory;
  return read(directory.write(name, bytes));
}

std::int64_t skipped(const Trace& trace, const std::string& reason) {
  const auto found = trace.provenance.skipped.find(reason);
  return found == trace.provenance.skipped.end() ? 0 : found->second;
}

TEST(ReadChakraEt, SizesAreThoseOfWhatARankPutsIn) {
  ChakraFile file;
  file.with(groups_node(R"([{"pg_name": "7", "pg_desc": "dp", "ranks": [0, 2, 4], "group_size": 3}])"));
  for (std::int64_t comm_type = 0; comm_type <= 9; ++comm_type) {
    file.with(in_group(collective(10 + static_cast<std::uint64_t>(comm_type), comm_type, 600), "7"));
  }
  const Result<Trace> trace = read_bytes(file.bytes());
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::string> rows;
  for (const SpelledCall& call : spelled_calls(*trace, Rank{2})) {
    rows.push_back(std::string(name_of(call.kind)) + " " + std::to_string(call.input) + "->" +
                   std::to_string(call.output) + " of " + std::to_string(call.group.size()));
  }
  // Three ranks: an all_gather of 600 B each makes 1800 B, a reduce_scatter of 600 B leaves 200 B.
  EXPECT_EQ(rows, (std::vector<std::string>{"all_reduce 600->600 of 3", "reduce 600->600 of 3",
                                            "all_gather 600->1800 of 3", "other 600->0 of 3",
                                            "other 600->0 of 3", "broadcast 600->600 of 3",
                                            "all_to_all 600->600 of 3", "reduce_scatter 600->200 of 3",
                                            "reduce_scatter 600->200 of 3", "barrier 0->0 of 3"}));
  EXPECT_TRUE(trace->provenance.skipped.empty());
}

TEST(ReadChakraEt, ElementTypeComesFromTheTensors) {
  Node halves = collective(2, 0, 600);
  halves.mutable_inputs()->set_values("[[1, 2, 0, 300, 2, 'cuda:0']]");
  halves.mutable_inputs()->set_types("['Tensor(c10::BFloat16)']");
  const Result<Trace> trace = read_bytes(ChakraFile().with(halves).with(collective(3, 0, 5)).bytes());
  ASSERT_TRUE(trace);
  const std::vector<SpelledCall> calls = spelled_calls(*trace, Rank{2});
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].dtype, DType::bf16);
  EXPECT_EQ(calls[0].input, 300);
  EXPECT_EQ(calls[1].dtype, DType::uint8);
  EXPECT_EQ(calls[1].input, 5);
}

TEST(ReadChakraEt, SendsNameTheirRanksAndTheFileWithoutANumberToo) {
  Node send;
  send.set_id(1);
  send.set_name("COMM_SEND_NODE");
  send.set_type(COMM_SEND_NODE);
  add_attribute(send, "comm_src").set_integer_32(5);
  add_attribute(send, "comm_dst").set_integer_32(3);
  add_attribute(send, "comm_size").set_integer(128);
  Node recv = send;
  recv.set_id(2);
  recv.set_type(COMM_RECV_NODE);
  recv.clear_attributes();
  add_attribute(recv, "comm_src").set_integer_32(3);
  add_attribute(recv, "comm_dst").set_integer_32(5);
  add_attribute(recv, "comm_size").set_integer(64);
  const Result<Trace> trace = read_bytes(ChakraFile().with(send).with(recv).bytes(), "graph.et");
  ASSERT_TRUE(trace) << trace.error().message;
  const std::vector<SpelledCall> calls = spelled_calls(*trace, Rank{5});
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].group, (std::vector<Rank>{Rank{5}, Rank{3}}));
  EXPECT_EQ(calls[0].input, 128);
  EXPECT_EQ(calls[1].group, (std::vector<Rank>{Rank{3}, Rank{5}}));
  EXPECT_EQ(calls[1].output, 64);
}

TEST(ReadChakraEt, ReadsHowACallIsComparedFromOlderExports) {
  Node older = collective(2, 0, 64);
  add_attribute(older, "commlens_data_dependent").set_flag(true);
  Node newer = collective(3, 0, 64);
  add_attribute(newer, "commlens_match").set_text("random");
  add_attribute(newer, "commlens_blocking").set_text("perhaps");
  const Result<Trace> trace = read_bytes(ChakraFile().with(older).with(newer).bytes());
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->ops().size(), 2U);
  EXPECT_EQ(trace->ops()[0].match, Match::count);
  EXPECT_EQ(trace->ops()[1].match, Match::random);
  EXPECT_EQ(trace->ops()[1].blocking, std::nullopt);
}

TEST(ReadChakraEt, WhatIsNoCallIsCountedByReason) {
  Node launch;
  launch.set_id(1);
  launch.set_name("c10d::allreduce_(0)");
  launch.set_type(COMM_COLL_NODE);
  add_attribute(launch, "is_cpu_op").set_flag(true);
  Node operation = launch;
  operation.set_type(COMP_NODE);
  Node kernel = operation;
  kernel.clear_attributes();
  kernel.set_duration_us(4);
  Node load = kernel;
  load.set_type(MEM_LOAD_NODE);
  const Result<Trace> trace = read_bytes(ChakraFile()
                                             .with(launch)
                                             .with(operation)
                                             .with(kernel)
                                             .with(load)
                                             .with(collective(9, 10, 4))
                                             .with(collective(10, 2, 4))
                                             .with(collective(11, 0, -4))
                                             .bytes());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(skipped(*trace, "node of the CPU, which launches a call"), 1);
  EXPECT_EQ(skipped(*trace, "node of the CPU"), 1);
  EXPECT_EQ(skipped(*trace, "computing node without a start time"), 1);
  EXPECT_EQ(skipped(*trace, "memory node"), 1);
  EXPECT_EQ(skipped(*trace, "call of an unknown type"), 1);
  EXPECT_EQ(skipped(*trace, "call whose size cannot be determined"),
            1);  // all_gather of a group of unknown size
  EXPECT_EQ(skipped(*trace, "call with impossible fields"), 1);
  EXPECT_TRUE(spelled_calls(*trace, Rank{2}).empty());
}

TEST(ReadChakraEt, AnAllGatherOfUnknownRanksTakesItsWholeFromTheLaunch) {
  Node kernel = collective(5, 2, 40);
  kernel.add_control_dependencies(4);
  kernel.add_data_dependencies(6);
  Node launch;
  launch.set_id(6);
  launch.set_name("c10d::allgather_(1)");
  launch.set_type(COMM_COLL_NODE);
  launch.mutable_outputs()->set_values(
      "[[[[19, 20, 0, 10, 4, 'cuda:0'], [5, 23, 0, 10, 4, 'cuda:0']]], '<Object>']");
  add_attribute(launch, "is_cpu_op").set_flag(true);
  const Result<Trace> trace = read_bytes(ChakraFile().with(kernel).with(launch).bytes());
  ASSERT_TRUE(trace);
  ASSERT_EQ(spelled_calls(*trace, Rank{2}).size(), 1U);
  EXPECT_EQ(spelled_calls(*trace, Rank{2})[0].output, 80);
}

TEST(ReadChakraEt, CallsWithTimesStandInTheOrderOfTheirStarts) {
  Node late = collective(1, 0, 4);
  late.set_start_us(30);
  late.set_duration_us(5);
  Node early = collective(2, 5, 8);
  early.set_duration_us(7);  // starts at 0
  Node kernel;
  kernel.set_id(3);
  kernel.set_name("gemm");
  kernel.set_type(COMP_NODE);
  add_attribute(kernel, "is_cpu_op").set_flag(false);
  kernel.set_start_us(10);
  kernel.set_duration_us(20);
  const Result<Trace> trace = read_bytes(ChakraFile().with(late).with(early).with(kernel).bytes());
  ASSERT_TRUE(trace);
  const std::vector<SpelledCall> calls = spelled_calls(*trace, Rank{2});
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].kind, CommKind::broadcast);
  EXPECT_EQ(calls[0].duration, 7'000);
  EXPECT_EQ(calls[1].started, 30'000);
  ASSERT_EQ(trace->streams.at(0).compute.size(), 1U);
  EXPECT_EQ(trace->streams[0].compute[0].finished.count(), 30'000);
}

TEST(ReadChakraEt, SaysWhatIsWrongWithAFile) {
  const std::string good = ChakraFile().with(collective(1, 0, 4)).bytes();
  const auto error = [](const std::string& bytes) {
    const Result<Trace> trace = read_bytes(bytes);
    return trace ? std::string("no error") : trace.error().message;
  };
  EXPECT_NE(error("").find("the file ends before its head"), std::string::npos) << error("");
  EXPECT_NE(error(ChakraFile().bytes()).find("no whole node"), std::string::npos);
  EXPECT_NE(error("hello world, hello world").find("the file ends before its head"), std::string::npos);
  // The head is 0x07 and 7 bytes: a length of 2^34 - 1 in byte 8, then one of more than ten bytes.
  EXPECT_NE(error(ChakraFile().bytes() + "\xff\xff\xff\xff\x3f" + std::string(20, 'x'))
                .find("byte 8: a message of"),
            std::string::npos);
  EXPECT_NE(error(ChakraFile().bytes() + std::string(12, '\xff')).find("byte 8: no length"),
            std::string::npos);
  EXPECT_NE(error(ChakraFile().bytes() + "\x03\x0a\x7f\x01").find("byte 8: no node"), std::string::npos);
  const Result<Trace> cut = read_bytes(good + good.substr(8, 5));
  ASSERT_TRUE(cut);
  EXPECT_EQ(skipped(*cut, "node that the end of the file cuts off"), 1);
}

TEST(ReadChakraEt, SurvivesEveryDamagedByte) {
  const std::string good = ChakraFile().with(groups_node("[]")).with(collective(1, 0, 4)).bytes();
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x81);
    static_cast<void>(read_bytes(bytes));
    static_cast<void>(read_bytes(good.substr(0, at)));
  }
}

TEST(ReadChakraEt, OfAResnetHasItsSevenKernels) {
  if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
  }
  const std::filesystem::path file =
      std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) / "golden/foreign/chakra/chakra.0.et";
  const Result<Trace> trace = read(file);
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::string> rows;
  for (const SpelledCall& call : spelled_calls(*trace, Rank{0})) {
    rows.push_back(std::string(name_of(call.kind)) + " " + std::string(name_of(call.dtype)) + " " +
                   std::to_string(call.input));
  }
  // Tensor shapes as `protoc --decode_raw` shows them.
  EXPECT_EQ(rows,
            (std::vector<std::string>{"broadcast fp32 53120", "broadcast int64 53", "all_reduce fp32 2049000",
                                      "all_reduce fp32 7875584", "all_reduce fp32 6563840",
                                      "all_reduce fp32 6637568", "all_reduce fp32 2431040"}));
  EXPECT_EQ(skipped(*trace, "node of the CPU, which launches a call"), 14);
  EXPECT_EQ(skipped(*trace, "call with a duration and no start time"), 7);
}

}  // namespace
}  // namespace commlens::formats::chakra
