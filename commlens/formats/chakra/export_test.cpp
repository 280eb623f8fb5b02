#include "commlens/formats/chakra/export.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/formats/chakra/import.hpp"
#include "commlens/formats/chakra/messages.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::chakra {
namespace {

using std::chrono::nanoseconds;
using test_support::content_of;
using test_support::ScratchDirectory;
using test_support::spelled_calls;

CommOp all_reduce(Trace& trace, const std::vector<Rank>& group) {
  return {.kind = CommKind::all_reduce,
          .dtype = DType::fp16,
          .phase = Phase::backward,
          .group = trace.groups.intern(group),
          .input = Elements{3},
          .output = Elements{3}};
}

std::vector<Node> nodes_of(const std::filesystem::path& file) {
  Reader reader(TextSource::open(file).value());
  EXPECT_TRUE(reader.metadata());
  std::vector<Node> nodes;
  Node node;
  while (reader.next(node).value()) {
    nodes.push_back(node);
  }
  return nodes;
}

using Ids = std::vector<std::uint64_t>;

template <typename Field>
Ids ids_of(const Field& dependencies) {
  return {dependencies.begin(), dependencies.end()};
}

TEST(WriteChakra, WritesTheBytesOfItsSchema) {
  Trace trace;
  CommOp op = all_reduce(trace, {});
  op.phase = Phase::other;
  trace.streams.push_back({{Rank{4}, Rank{4}}, {CommEvent{trace.intern(op), 0, k_no_micro_batch}}, {}, {}});
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "."));
  // By hand from et_def.proto: a length, then tag (field << 3 | wire type) and value of each field.
  const auto attribute = [](std::string_view name, const std::string& value) {
    const std::string body =
        "\x0a" + std::string(1, static_cast<char>(name.size())) + std::string(name) + value;
    return "\x52" + std::string(1, static_cast<char>(body.size())) + body;
  };
  const std::string tensors = std::string("\x0a\x02[]\x12\x02[]\x1a\x02[]");
  const std::string node = std::string("\x08\x01\x12\x0a") + "all_reduce" + "\x18\x07" +  // id, name, type
                           "\x42\x0c" + tensors + "\x4a\x0c" + tensors +                  // inputs, outputs
                           attribute("is_cpu_op", std::string("\xd8\x01\0", 3)) +         // bool_val = 27
                           attribute("comm_type", std::string("\x48\0", 2)) +             // int64_val = 9
                           attribute("comm_size", "\x48\x06") +                           //
                           attribute("commlens_op",
                                     "\xea\x01\x0a"
                                     "all_reduce") +  // string_val = 29
                           attribute("commlens_dtype",
                                     "\xea\x01\x04"
                                     "fp16") +                               //
                           attribute("commlens_input_bytes", "\x48\x06") +   //
                           attribute("commlens_output_bytes", "\x48\x06") +  //
                           attribute("commlens_iteration", std::string("\x48\0", 2));
  std::string head = std::string("\x0a\x05") + "0.0.4" + "\x12\x11\x0a\x0d" + "commlens_rank" + "\x48\x04";
  head.insert(0, 1, static_cast<char>(head.size()));
  ASSERT_GT(node.size(), 128U);
  const std::string length = {static_cast<char>((node.size() & 0x7FU) | 0x80U),
                              static_cast<char>(node.size() >> 7U)};
  EXPECT_EQ(content_of(directory / "chakra.4.et"), head + length + node);
}

TEST(WriteChakra, NodesWaitForTheCallBeforeAndForFinishedComputing) {
  Trace trace;
  const OpId op = trace.intern(all_reduce(trace, {Rank{0}, Rank{1}}));
  const auto at = [](std::int64_t started, std::int64_t finished) {
    return Times{nanoseconds(started), nanoseconds(started), nanoseconds(finished)};
  };
  trace.streams.push_back(
      {{Rank{1}, Rank{1}},
       {CommEvent{op, 0, k_no_micro_batch}, CommEvent{op, 0, k_no_micro_batch}},
       {at(5'500, 8'000), at(20'000, 21'001)},
       {{nanoseconds(1'500), nanoseconds(4'000), 0}, {nanoseconds(6'000), nanoseconds(9'000), 0}}});
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "."));
  const std::vector<Node> nodes = nodes_of(directory / "chakra.1.et");
  ASSERT_EQ(nodes.size(), 5U);  // the groups, computing, a call, computing, a call
  EXPECT_EQ(nodes[0].name(), "## process_group:init ##");
  EXPECT_EQ(nodes[0].inputs().values(),
            R"(['[{"pg_name": "1", "pg_desc": "unknown", "ranks": [0, 1], "group_size": 2}]'])");
  EXPECT_EQ(ids_of(nodes[1].data_dependencies()), Ids{});
  EXPECT_EQ(nodes[1].start_us(), 0U);  // the earliest time of the rank
  EXPECT_EQ(ids_of(nodes[2].data_dependencies()), Ids{2});
  EXPECT_EQ(nodes[2].start_us(), 4U);
  EXPECT_EQ(nodes[2].duration_us(), 3U);                    // 2.5, rounded up
  EXPECT_EQ(ids_of(nodes[3].data_dependencies()), Ids{2});  // the call runs until 8000
  EXPECT_EQ(ids_of(nodes[4].data_dependencies()), (Ids{3, 4}));
  EXPECT_EQ(text(nodes[4].attributes(), "pg_name"), "1");
}

TEST(WriteChakra, GroupsOfAClassHaveOneNumberOnAllTheirRanks) {
  Trace trace(Mesh{{Axis::pp, 1}, {Axis::dp, 2}, {Axis::tp, 2}});  // ranks 0 and 1, 2 and 3 are tensor groups
  GroupPattern pattern;
  pattern.spans = {{Axis::tp, {Span::Shape::all}}};
  CommOp op = all_reduce(trace, {});
  op.group = trace.groups.intern(pattern);
  trace.streams.push_back({{Rank{0}, Rank{3}}, {CommEvent{trace.intern(op), 0, k_no_micro_batch}}, {}, {}});
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "."));
  const auto number = [&directory](int rank) {
    const auto nodes = nodes_of(directory / ("chakra." + std::to_string(rank) + ".et"));
    return std::string(text(nodes.at(1).attributes(), "pg_name"));
  };
  EXPECT_EQ(number(0), number(1));
  EXPECT_EQ(number(2), number(3));
  EXPECT_NE(number(0), number(2));
}

TEST(WriteChakra, WritesTheSelectedRankAlone) {
  Trace trace;
  const OpId op = trace.intern(all_reduce(trace, {Rank{0}, Rank{1}}));
  trace.streams.push_back({{Rank{0}, Rank{1}}, {CommEvent{op, 0, k_no_micro_batch}}, {}, {}});
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {.rank = Rank{1}}, directory / "."));
  EXPECT_FALSE(std::filesystem::exists(directory / "chakra.0.et"));
  EXPECT_TRUE(std::filesystem::exists(directory / "chakra.1.et"));
}

/// The node of each call of rank 0, which all ranks of `members` make alike.
std::vector<Node> calls_of(const std::vector<CommOp>& ops, Trace& trace) {
  for (const Rank rank : {Rank{0}, Rank{1}, Rank{2}, Rank{3}}) {
    RankStream stream{{rank, rank}, {}, {}, {}};
    for (const CommOp& op : ops) {
      stream.events.push_back({trace.intern(op), 0, k_no_micro_batch});
    }
    trace.streams.push_back(std::move(stream));
  }
  const ScratchDirectory directory;
  EXPECT_TRUE(write(trace, {}, directory / "."));
  std::vector<Node> nodes = nodes_of(directory / "chakra.0.et");
  std::erase_if(nodes, [](const Node& node) { return node.name() == "## process_group:init ##"; });
  return nodes;
}

// ASTRA-sim knows all_reduce (0), all_gather (2), broadcast (5), all_to_all (6) and reduce_scatter (7).
TEST(WriteChakra, SimulatesWhatAstraSimRefusesWithWhatItTakes) {
  Trace trace;
  const GroupId all = trace.groups.intern({Rank{0}, Rank{1}, Rank{2}, Rank{3}});
  const auto op = [&](CommKind kind, std::int64_t input, std::int64_t output) {
    CommOp made{.kind = kind, .group = all, .input = Elements{input}, .output = Elements{output}};
    made.root = has_root(kind) ? std::optional(GroupRank{1}) : std::nullopt;
    return made;
  };
  const std::vector<Node> nodes =
      calls_of({op(CommKind::barrier, 0, 0), op(CommKind::reduce, 40, 40), op(CommKind::all_gather, 0, 0),
                op(CommKind::broadcast, 12, 12), op(CommKind::all_gather, 7, 41)},
               trace);
  ASSERT_EQ(nodes.size(), 5U);
  using Simulated = std::pair<std::int64_t, std::int64_t>;                              // type and bytes
  const std::vector<Simulated> expected = {{0, 1}, {7, 40}, {0, 1}, {5, 12}, {2, 11}};  // 41 / 4, rounded up
  const std::vector<std::string> own = {"barrier", "reduce", "all_gather", "broadcast", "all_gather"};
  for (std::size_t row = 0; row < nodes.size(); ++row) {
    EXPECT_EQ(Simulated(integer(nodes[row].attributes(), "comm_type").value_or(-1),
                        integer(nodes[row].attributes(), "comm_size").value_or(-1)),
              expected[row])
        << row;
    EXPECT_EQ(text(nodes[row].attributes(), "commlens_op"), own[row]);
  }
}

TEST(WriteChakra, WhatMovesNothingIsMetadata) {
  Trace trace;
  const std::vector<Node> nodes = calls_of(
      {{.kind = CommKind::all_reduce, .group = trace.groups.intern({Rank{0}}), .input = Elements{8}},
       {.kind = CommKind::send, .group = trace.groups.intern({Rank{0}, Rank{0}}), .input = Elements{8}}},
      trace);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].type(), METADATA_NODE);
  EXPECT_EQ(nodes[1].type(), METADATA_NODE);
}

// The second all_to_all of each rank moves another amount; simulated are 1 + 2 + 3 + 6 bytes over four ranks.
TEST(WriteChakra, AnUnevenAllToAllHasTheMeanOfItsRanks) {
  Trace trace;
  const GroupId all = trace.groups.intern({Rank{0}, Rank{1}, Rank{2}, Rank{3}});
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    const Elements bytes{rank == 3 ? 6 : rank + 1};
    const OpId op = trace.intern(
        CommOp{.kind = CommKind::all_to_all, .group = all, .input = bytes, .output = Elements{3}});
    trace.streams.push_back({{Rank{rank}, Rank{rank}}, {{op, 0, k_no_micro_batch}}, {}, {}});
  }
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "."));
  for (const char* const file : {"chakra.0.et", "chakra.3.et"}) {
    EXPECT_EQ(integer(nodes_of(directory / file).at(1).attributes(), "comm_size"), 3) << file;
  }
}

TEST(WriteChakra, ASendWaitsForTheReceivesThatWereOverAndNothingForASend) {
  Trace trace;
  const OpId recv = trace.intern(CommOp{
      .kind = CommKind::recv, .group = trace.groups.intern({Rank{1}, Rank{0}}), .output = Elements{8}});
  const OpId send = trace.intern(
      CommOp{.kind = CommKind::send, .group = trace.groups.intern({Rank{0}, Rank{1}}), .input = Elements{8}});
  RankStream stream{{Rank{0}, Rank{0}}, {}, {}, {}};
  // A receive is open until 30, while two messages are sent; the third is sent behind its wait.
  for (const auto& [op, start, end] : {std::tuple(recv, 0, 30), std::tuple(send, 5, 6),
                                       std::tuple(send, 10, 11), std::tuple(send, 40, 41)}) {
    stream.events.push_back({op, 0, k_no_micro_batch});
    stream.times.push_back({nanoseconds(start), nanoseconds(start), nanoseconds(end)});
  }
  trace.streams.push_back(std::move(stream));
  const ScratchDirectory directory;
  ASSERT_TRUE(write(trace, {}, directory / "."));
  const std::vector<Node> nodes = nodes_of(directory / "chakra.0.et");
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(ids_of(nodes[0].data_dependencies()), Ids{});
  EXPECT_EQ(ids_of(nodes[1].data_dependencies()), Ids{});
  EXPECT_EQ(ids_of(nodes[2].data_dependencies()), Ids{});
  EXPECT_EQ(ids_of(nodes[3].data_dependencies()), Ids{1});
}

TEST(WriteChakra, LosesNothingThatTheReaderTakes) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ScratchDirectory directory;
    const Trace trace = test_support::RandomTrace(seed).with_communicators().make();
    ASSERT_TRUE(write(trace, {}, directory / "."));
    for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
      const std::string name = "chakra." + std::to_string(rank.value) + ".et";
      if (trace.stream_of(rank) == nullptr) {
        EXPECT_FALSE(std::filesystem::exists(directory / name));
        continue;
      }
      const Result<Trace> again = read(directory / name);
      ASSERT_TRUE(again) << "seed=" << seed << ": " << again.error().message;
      ASSERT_TRUE(spelled_calls(*again, rank) == spelled_calls(trace, rank))
          << "seed=" << seed << " rank=" << rank.value;
    }
  }
}

}  // namespace
}  // namespace commlens::formats::chakra
