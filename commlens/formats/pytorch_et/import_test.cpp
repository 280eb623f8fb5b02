#include "commlens/formats/pytorch_et/import.hpp"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/pytorch_et/node.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::pytorch_et {
namespace {

using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

constexpr std::string_view k_groups =
    R"({"id": 3, "name": "## process_group:init ##", "ctrl_deps": 2, "inputs": {"values": ["[{\"pg_name\": \"0\", \"backend_id\": 82149104, \"ranks\": [], \"group_size\": 4}, {\"pg_name\": \"1\", \"ranks\": [1, 3], \"group_size\": 2}]"], "shapes": [[]], "types": ["String"]}, "outputs": {"values": [], "shapes": [], "types": []}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 1}, {"name": "fw_parent", "type": "uint64", "value": 0}]})";

std::string nodes_text(const std::vector<std::string>& nodes) {
  std::string text = R"({"schema": "1.0.3-chakra.0.0.4", "pid": 7, "time": "now", "start_ts": 1, "nodes": [)";
  for (const std::string& node : nodes) {
    text += (text.back() == '[' ? "" : ", ") + node;
  }
  return text + R"(], "finish_ts": 2})";
}

/// A call as schema 1.0.3 on writes it: `before` are the arguments before the name.
// NOLINTNEXTLINE(readability-function-size): they stand as in the file
std::string call_node(int id, const std::string& before, const std::string& name, const std::string& behind,
                      const std::string& outputs, const std::string& type = "GenericList[Tensor(float)]") {
  return R"({"id": )" + std::to_string(id) +
         R"(, "name": "record_param_comms", "ctrl_deps": 2, "inputs": {"values": [)" + before + ", \"" +
         name + "\", " + behind + R"(], "shapes": [], "types": [")" + type +
         R"("]}, "outputs": {"values": [)" + outputs + R"(], "shapes": [], "types": [")" + type +
         R"("]}, "attrs": [{"name": "rf_id", "type": "uint64", "value": 5}]})";
}

std::string step_node(int id, int number) {
  return R"({"id": )" + std::to_string(id) + R"(, "name": "ProfilerStep#)" + std::to_string(number) +
         R"(", "ctrl_deps": 2, "inputs": {"values": []}, "outputs": {"values": []}, "attrs": []})";
}

Result<Trace> read_nodes(const std::vector<std::string>& nodes, std::string_view name = "et.json") {
  const ScratchDirectory directory;
  return read(directory.write(name, nodes_text(nodes)));
}

std::string spelled(const SpelledCall& call) {
  std::string text = std::string(name_of(call.kind)) + " " + std::string(name_of(call.dtype)) + " " +
                     std::to_string(call.input) + "->" + std::to_string(call.output) + " [";
  for (const Rank rank : call.group) {
    text += " " + std::to_string(rank.value);
  }
  return text + " ] root " + std::to_string(call.root) + " in " + std::to_string(call.iteration) + " " +
         call.name;
}

std::vector<std::string> spelled(const Result<Trace>& trace, Rank rank) {
  std::vector<std::string> calls;
  for (const SpelledCall& call : spelled_calls(trace.value(), rank)) {
    calls.push_back(spelled(call));
  }
  return calls;
}

std::int64_t skipped_nodes(const Trace& trace, const std::string& reason) {
  const auto found = trace.provenance.skipped.find(reason);
  return found == trace.provenance.skipped.end() ? 0 : found->second;
}

TEST(ReadPytorchEt, CallsHaveTheirTensorsGroupsAndSteps) {
  const std::string ten = R"([[1, 2, 0, 10, 4, "cuda:3"]])";
  const std::string two = R"([[1, 2, 0, 2, 4, "cuda:3"]])";
  const std::string four_parts =
      R"([[[4, 5, 0, 10, 4, "cpu"], [6, 7, 0, 10, 4, "cpu"], [8, 9, 0, 10, 4, "cpu"], [3, 3, 0, 10, 4, "cpu"]]])";
  const Result<Trace> trace = read_nodes({
      std::string(k_groups),
      // A node is written when it ends: the step behind what is in it.
      call_node(30, ten + R"(, 5, ["0", "default_pg"], 3)", "all_gather", "[], [], 0, 1, 4", four_parts),
      call_node(20, ten + R"(, 4, ["1", "tp"], 0)", "broadcast", "[], [], 1, 2, 2", ten),
      step_node(10, 6),
      call_node(40, ten + R"(, 5, ["0", "default_pg"], 3)", "allreduce", "[], [], 0, 1, 4", ten,
                "GenericList[Tensor(c10::Half)]"),
      call_node(41, two + R"(, 5, ["1", "tp"], 0)", "send", "[], [], 1, 2, 2", two),
      call_node(42, two + R"(, 5, ["1", "tp"], 0)", "recv", "[], [], 1, 2, 2", two),
      call_node(43, R"([], 5, ["1", "tp"], 1)", "barrier", "[], [], 1, 2, 2", ""),
      call_node(44, ten + R"(, 5, ["1", "tp"], 1)", "gather", "[], [], 1, 2, 2", "[]"),
      call_node(45, R"(7, ["", ""], 1)", "wait", "[], [], -1, -1, 1", ""),
      call_node(46, R"(8, ["", ""], 1)", "init", "[], [], -1, -1, 1", ""),
      step_node(39, 7),
  });
  ASSERT_TRUE(trace) << trace.error().message;
  // Half of 4 bytes an element cannot be, so the bytes are kept as they are.
  EXPECT_EQ(
      spelled(trace, Rank{3}),
      (std::vector<std::string>{
          "broadcast fp32 10->10 [ 1 3 ] root 0 in 6 ", "all_gather fp32 10->40 [ 0 1 2 3 ] root -1 in 6 ",
          "all_reduce uint8 40->40 [ 0 1 2 3 ] root -1 in 7 ", "send fp32 2->0 [ 3 1 ] root -1 in 7 ",
          "recv fp32 0->2 [ 1 3 ] root -1 in 7 ", "barrier uint8 0->0 [ 1 3 ] root -1 in 7 ",
          "other fp32 10->0 [ 1 3 ] root -1 in 7 gather"}));
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"wait or set-up of a collective", 2}}));
}

TEST(ReadPytorchEt, ReadsTheFlatNodesOfSchema101) {
  const auto flat = [](int id, const std::string& inputs, const std::string& outputs) {
    return R"({"name": "record_param_comms", "id": )" + std::to_string(id) +
           R"(, "rf_id": 1, "parent": 2, "fw_parent": 0, "inputs": [)" + inputs +
           R"x(], "input_types": ["Tensor(int)"], "outputs": [)x" + outputs +
           R"x(], "output_types": ["Tensor(int)"]})x";
  };
  const Result<Trace> trace = read_nodes(
      {flat(9, R"([1, 2, 0, 7, 4, "cuda:2"], 1, 94398426290464, 2, "all_to_allv", [1, 2, 4], [3, 3, 3])",
            R"([3, 4, 0, 9, 4, "cuda:2"])"),
       flat(8, R"(1, 0, 2, "wait", [], [])", "")});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(spelled(trace, Rank{2}),
            (std::vector<std::string>{"all_to_all int32 7->9 [ ] root -1 in -2147483648 "}));
  const GroupId group = trace->op(trace->streams.at(0).events.at(0).op).group;
  EXPECT_EQ(trace->groups.size(group), 3);  // as many as the splits have parts
  EXPECT_EQ(trace->groups.name(group), "the only process group");
}

TEST(ReadPytorchEt, FindsAGroupByItsAddress) {
  const Result<Trace> trace = read_nodes(
      {std::string(k_groups), call_node(5, R"([[1, 2, 0, 1, 4, "cpu"]], 12, 82149104, 2)", "all_gather",
                                        "[], [], 4", R"([[[1, 2, 0, 4, 4, "cpu"]]])")});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(spelled(trace, Rank{2}),
            (std::vector<std::string>{"all_gather fp32 1->4 [ 0 1 2 3 ] root -1 in -2147483648 "}));
}

TEST(ReadPytorchEt, TakesSizesFromAttributesWhereThereAreNoTensors) {
  std::string node =
      call_node(5, R"([], 12, ["9", "dp"], 1)", "_reduce_scatter_base", "[], [], 4, 2, 2", "[]");
  const std::string more =
      R"(, {"name": "dtype", "type": "string", "value": "BFloat16"}, {"name": "in_msg_nelems", "type": "uint64", "value": 8}, {"name": "out_msg_nelems", "type": "uint64", "value": 4})";
  node.insert(node.size() - 2, more);
  const Result<Trace> trace = read_nodes({node});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(spelled(trace, Rank{6}),
            (std::vector<std::string>{"reduce_scatter bf16 8->4 [ 4 6 ] root -1 in -2147483648 "}));
}

TEST(ReadPytorchEt, TheFilesNameGoesBeforeAGuessedPlace) {
  // Place 1 in a group of unknown ranks, which may be any two of the job's.
  const std::string node = call_node(5, R"([[[1, 1, 0, 4, 4, "cuda:0"]]], 1, ["7", "tp"], 1)", "allreduce",
                                     "[], [], -1, -1, 2", "");
  const Result<Trace> named = read_nodes({node}, "et_rank-5.json");
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->streams.at(0).ranks.first, Rank{5});
  EXPECT_TRUE(named->provenance.skipped.empty());
  const Result<Trace> guessed = read_nodes({node}, "et_3.json");
  ASSERT_TRUE(guessed) << guessed.error().message;
  EXPECT_EQ(guessed->streams.at(0).ranks.first, Rank{1});
  EXPECT_EQ(guessed->provenance.assumed.at("rank not reported, taken from the place in the only group"), 1);
}

TEST(ReadPytorchEt, OfAGroupTooLargeToListOnlyTheSizeIsKept) {
  const std::string ten = R"([[1, 2, 0, 10, 4, "cuda:3"]])";
  const Result<Trace> trace = read_nodes(
      {call_node(1, ten + R"(, 5, ["0", "default_pg"], 0)", "allreduce", "[], [], 0, 1, 1048577", ten),
       call_node(2, ten + R"(, 5, ["0", "default_pg"], 0)", "allreduce", "[], [], 0, 1, 1048577", ten)});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(spelled(trace, Rank{0}),
            (std::vector<std::string>(2, "all_reduce fp32 10->10 [ ] root -1 in -2147483648 ")));
  EXPECT_EQ(trace->groups.size(trace->op(trace->streams.at(0).events.at(0).op).group), 1'048'577);
}

TEST(TorchGroupsOfOneProcess, ListNoMoreThan2To24StridedRanks) {
  TorchGroups groups;
  const std::int64_t size = std::int64_t{1} << 20;
  for (int group = 0; group < 17; ++group) {
    groups.add(std::to_string(group), StridedGroup{.start = 0, .stride = 2, .size = size});
  }
  EXPECT_EQ(groups.find("15").global(size - 1), 2 * (size - 1));
  EXPECT_EQ(groups.find("16").ranks.size(), 0U);
  EXPECT_EQ(groups.find("16").size, size);
}

TEST(TorchGroupsOfOneProcess, ParseNoJsonThatNestsDeeperThan64) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_FALSE(shallow_json(nested(64)).is_discarded());
  EXPECT_TRUE(shallow_json(nested(65)).is_discarded());
  EXPECT_FALSE(shallow_json("[\"\\\"" + std::string(100, '[') + "\"]").is_discarded());
  EXPECT_TRUE(shallow_json("[").is_discarded());
}

TEST(ReadPytorchEt, CountsWhatItCannotUse) {
  const std::string one = R"([[1, 2, 0, 1, 4, "cpu"]])";
  const Result<Trace> trace =
      read_nodes({call_node(1, one + R"(, 1, ["0", "pg"], 0)", "_allgather_base", "[], []",
                            ""),  // group of unknown size
                  call_node(2, R"([[1, 2, 0, 4611686018427387904, 4, "cpu"]], 1, ["0", "pg"], 0)",
                            "allreduce", "[], []", ""),
                  R"({"name": "record_param_comms", "id": 3, "inputs": {"values": [1, 2]}})",
                  R"({"name": "record_param_comms", "id": })",
                  R"({"id": 4, "name": "## process_group:init ##", "inputs": {"values": ["[{\"pg_na..."]}})",
                  call_node(5, one + R"(, 1, ["0", "pg"], 9000000000)", "allreduce", "[], []", "")},
                 "no number.json");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped,
            (std::map<std::string, std::int64_t>{{"call whose size cannot be determined", 1},
                                                 {"list of process groups that cannot be read", 1},
                                                 {"node that cannot be read", 3}}));
  EXPECT_EQ(trace->provenance.assumed.at("rank not reported, numbered by file or process"), 1);
  EXPECT_EQ(spelled(trace, Rank{0}).size(), 1U);
}

TEST(ReadPytorchEt, SaysWhatIsWrongWithAFile) {
  const ScratchDirectory directory;
  const auto error = [&directory](const std::string& text) {
    const Result<Trace> trace = read(directory.write("f", text));
    return trace ? std::string("no error") : trace.error().message;
  };
  EXPECT_NE(error(nodes_text({})).find("no nodes"), std::string::npos);
  EXPECT_NE(error("").find("f:"), std::string::npos);
  EXPECT_NE(error("hello").find("f:"), std::string::npos);
  const std::string whole = nodes_text({step_node(1, 1), step_node(2, 2)});
  const Result<Trace> cut = read(directory.write("f", whole.substr(0, whole.size() - 40)));
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(skipped_nodes(*cut, "node that the end of the file cuts off"), 1);
}

TEST(ReadPytorchEt, SurvivesEveryDamagedByte) {
  const ScratchDirectory directory;
  const std::string good = nodes_text(
      {std::string(k_groups), call_node(30, R"([[1, 2, 0, 10, 4, "cuda:3"]], 5, ["0", "default_pg"], 3)",
                                        "all_gather", "[], [], 0, 1, 4", "[]")});
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string text = good;
    text[at] = static_cast<char>(text[at] ^ 0x81);
    static_cast<void>(read(directory.write("f", text)));
    static_cast<void>(read(directory.write("f", good.substr(0, at))));
  }
}

TEST(TorchEtNodes, AreFoundWhateverTheirStringsHold) {
  EXPECT_EQ(elements_of(R"([ {"a": "]}\"["}, {"b": [1, {"c": "\\"}]} ,{}])"),
            (std::vector<std::string_view>{R"({"a": "]}\"["})", R"({"b": [1, {"c": "\\"}]})", "{}"}));
}

class RealExecutionTrace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("COMMLENS_TEST_DATA") == nullptr) {
      GTEST_SKIP() << "COMMLENS_TEST_DATA is not set";
    }
  }
  static std::filesystem::path file(std::string_view name) {
    return std::filesystem::path(std::getenv("COMMLENS_TEST_DATA")) / "golden/foreign" / name;
  }
  static nlohmann::json json_of(const std::filesystem::path& path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
  }

  /// Counts and input bytes by op, as the answer file has them by PyTorch's names.
  static void expect_answer(const nlohmann::json& answer, const Trace& trace) {
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected;
    for (const auto& [name, row] : answer.at("by_name").items()) {
      const std::string op = name == "allreduce" ? "all_reduce" : name == "all_to_allv" ? "all_to_all" : name;
      if (op == "wait") {
        EXPECT_EQ(skipped_nodes(trace, "wait or set-up of a collective"), row.at("count"));
        continue;
      }
      expected[op].first += row.at("count").get<std::int64_t>();
      expected[op].second += row.at("input_tensor_bytes").get<std::int64_t>();
    }
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> got;
    for (const CommEvent& event : trace.streams.at(0).events) {
      const CommOp& op = trace.op(event.op);
      auto& [count, bytes] = got[std::string(name_of(op.kind))];
      ++count;
      bytes += (op.input * op.dtype).value;
    }
    EXPECT_EQ(got, expected);
  }
};

TEST_F(RealExecutionTrace, OfDlrmOnEightRanksMeetsItsAnswers) {
  const nlohmann::json answers = json_of(file("pytorch_et/dlrm_et_8rank/ground_truth.json"));
  ASSERT_EQ(answers.size(), 8U);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const std::string name = answers[rank].at("file");
    const Result<Trace> trace = read(file("pytorch_et/dlrm_et_8rank/" + name));
    ASSERT_TRUE(trace) << trace.error().message;
    SCOPED_TRACE(name);
    expect_answer(answers[rank], *trace);
    EXPECT_EQ(trace->streams.at(0).ranks.first, Rank{static_cast<std::int64_t>(rank)});
    EXPECT_EQ(trace->groups.size(trace->op(trace->streams[0].events.at(0).op).group), 8);
  }
}

TEST_F(RealExecutionTrace, OfSchema102MeetsItsAnswer) {
  const Result<Trace> trace = read(file("chakra/pytorch_et_1.0.2-chakra.0.0.4.json"));
  ASSERT_TRUE(trace) << trace.error().message;
  expect_answer(json_of(file("chakra/ground_truth.json")), *trace);
  const SpelledCall call = spelled_calls(*trace, Rank{0}).at(0);
  EXPECT_EQ(spelled(call), "all_gather fp32 1->2 [ 0 1 ] root -1 in -2147483648 ");
}

TEST_F(RealExecutionTrace, OfAResnetHasItsStepsRootsAndRank) {
  // Rank 1 of 2, three steps of two broadcasts and five all_reduces; read off the file with a text search.
  const Result<Trace> trace = read(file("pytorch_et/resnet_2gpu_et_1.1.0.json.gz"));
  ASSERT_TRUE(trace) << trace.error().message;
  const std::vector<std::string> calls = spelled(trace, Rank{1});
  ASSERT_EQ(calls.size(), 21U);
  EXPECT_EQ(calls[0], "broadcast fp32 53120->53120 [ 0 1 ] root 0 in 4 ");
  EXPECT_EQ(calls[1], "broadcast int64 53->53 [ 0 1 ] root 0 in 4 ");
  EXPECT_EQ(calls[2], "all_reduce fp32 2049000->2049000 [ 0 1 ] root -1 in 4 ");
  EXPECT_EQ(trace->iterations(), (std::vector<Iteration>{4, 5, 6}));
  EXPECT_EQ(skipped_nodes(*trace, "wait or set-up of a collective"), 6);
}

TEST_F(RealExecutionTrace, OfOneProcessHasNoCalls) {
  for (const char* const name : {"pytorch_et/pt2_et.json", "pytorch_et/linear_et.json.gz"}) {
    const Result<Trace> trace = read(file(name));
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_TRUE(trace->ops().empty());
  }
}

}  // namespace
}  // namespace commlens::formats::pytorch_et
