// The paper's equations against recorded runs of the real frameworks: every byte that differs has a cause.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/test_support.hpp"
#include "commlens/trace/test_support.hpp"
#include "tests/golden/golden_cases.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;

using test_support::Outcome;
using test_support::run_with;

std::string file_of(const std::string& name, const char* file) {
  return (golden_directory() / name / file).string();
}

Json against_paper(const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"compare",
                                        file_of(name, "case.yaml"),
                                        file_of(name, "calls.jsonl.gz"),
                                        "--framework",
                                        "paper",
                                        "--format",
                                        "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_with(arguments);
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  return Json::parse(outcome.out);
}

/// Calls and bytes that B has more than A, per axis and op.
using Volumes = std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>>;

void add_row(const Json& row, Volumes& volumes) {
  auto& [calls, bytes] = volumes[{row.at("axis"), row.at("op")}];
  calls += row.at("calls_only_b_all_ranks").get<std::int64_t>() -
           row.at("calls_only_a_all_ranks").get<std::int64_t>();
  bytes += row.at("message_bytes_only_b_all_ranks").get<std::int64_t>() -
           row.at("message_bytes_only_a_all_ranks").get<std::int64_t>();
}

Volumes by_causes(const Json& compared) {
  Volumes volumes;
  for (const Json& group : compared.at("explained")) {
    for (const Json& row : group.at("rows")) {
      add_row(row, volumes);
    }
  }
  for (const Json& row : compared.at("unexplained")) {
    add_row(row, volumes);
  }
  std::erase_if(volumes,
                [](const auto& entry) { return entry.second == std::pair<std::int64_t, std::int64_t>{}; });
  return volumes;
}

Volumes in_all(const Json& compared) {
  Volumes volumes;
  for (const Json& row : compared.at("rows")) {
    volumes[{row.at("axis"), row.at("op")}] = {
        row.at("calls_b_all_ranks").get<std::int64_t>() - row.at("calls_a_all_ranks").get<std::int64_t>(),
        row.at("message_bytes_b_all_ranks").get<std::int64_t>() -
            row.at("message_bytes_a_all_ranks").get<std::int64_t>()};
  }
  std::erase_if(volumes,
                [](const auto& entry) { return entry.second == std::pair<std::int64_t, std::int64_t>{}; });
  return volumes;
}

/// The equations speak of none of these: experts, sequence parallelism, interleaved stages.
const std::set<std::string>& without_equations() {
  static const std::set<std::string> names = {"megatron/ep2_a2a", "megatron/ep2_ag",       "megatron/p4vp2",
                                              "megatron/t2_sp",   "megatron/t2ep2_a2a_sp", "neox/sp_t2"};
  return names;
}

class ExplainedGolden : public testing::TestWithParam<std::string> {};

TEST_P(ExplainedGolden, LeavesNoByteOfAnyIterationUnexplained) {
  if (without_equations().contains(GetParam())) {
    const Outcome outcome = run_with({"compare", file_of(GetParam(), "case.yaml"),
                                      file_of(GetParam(), "calls.jsonl.gz"), "--framework", "paper"});
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    EXPECT_NE(outcome.err.find("the paper has no equation for"), std::string::npos) << outcome.err;
    return;
  }
  for (const char* iteration : {"0", "1", ""}) {  // the last one in all cases
    SCOPED_TRACE(std::string("--iteration ") + iteration);
    const Json compared =
        against_paper(GetParam(), *iteration == '\0' ? std::vector<std::string>{}
                                                     : std::vector<std::string>{"--iteration", iteration});
    EXPECT_EQ(compared.at("unexplained"), Json::array());
    EXPECT_EQ(compared.at("unexplained_calls"), Json::array());
    EXPECT_EQ(compared.at("notes"), Json::array());
    EXPECT_FALSE(compared.at("explained").empty());
    EXPECT_EQ(by_causes(compared), in_all(compared));
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, ExplainedGolden,
                         testing::ValuesIn(golden_cases(golden_frameworks_of_2024())), golden_test_name);

/// Calls and bytes of one cause, over the rows of one op.
std::pair<std::int64_t, std::int64_t> of(const Json& compared, const std::string& cause,
                                         const std::string& op) {
  Volumes volumes;
  for (const Json& group : compared.at("explained")) {
    for (const Json& row : group.at("rows")) {
      if (group.at("cause") == cause && row.at("op") == op) {
        add_row(row, volumes);
      }
    }
  }
  std::pair<std::int64_t, std::int64_t> sum;
  for (const auto& [key, volume] : volumes) {
    sum.first += volume.first;
    sum.second += volume.second;
  }
  return sum;
}

using Change = std::pair<std::int64_t, std::int64_t>;

/// t = p = d = 2, L = 4, h = 128, s = 64, b = 2, m = 4 micro-batches, V = 512, fp16. An activation has
/// b s h = 16384 elements, 32768 bytes. Every number below is worked out by hand over the 8 ranks.
TEST(ExplainedNeox, MixedLayoutOfEightRanks) {
  const Json compared = against_paper("neox/t2p2d2");
  // Per boundary, micro-batch and rank: s^2 fp16 values, 8192 bytes, from the 4 ranks of stage 0.
  EXPECT_EQ(of(compared, "attention_mask", "send"), Change(16, 131072));
  EXPECT_EQ(of(compared, "attention_mask", "recv"), Change(16, 131072));
  // 7 + t int64 before each of 16 activations and 16 gradients.
  EXPECT_EQ(of(compared, "partition_meta", "send"), Change(32, 32 * 72));
  // Stage 0 two gathers per micro-batch (output and its gradient), stage 1 one (input).
  EXPECT_EQ(of(compared, "pipeline_gathers", "all_gather"), Change(48, 48 * 32768));
  // Two layers on each of 8 ranks, 4 micro-batches.
  EXPECT_EQ(of(compared, "partitioned_activations", "all_gather"), Change(64, 64 * 32768));
  // 13h instead of 8h in 4 layers: 5 * 128 * 4 / (t p) elements on each of 8 ranks.
  EXPECT_EQ(of(compared, "layer_parameters", "all_gather"), Change(0, 8 * 640 * 2));
  // No table of s h positions: 64 * 128 / (t p).
  EXPECT_EQ(of(compared, "position_embeddings", "all_gather"), Change(0, -8 * 2048 * 2));
  // 6h of a layer and the final norm's 2h are whole on both tensor ranks: (4 * 3h + h) / p more.
  EXPECT_EQ(of(compared, "replicated_tensors", "all_gather"), Change(0, 8 * 832 * 2));
  // What is left is the true count: 2 layers and V h / t on each rank, 2h more on the last stage:
  // 463872 bytes on average, all of it reduced by all_reduce.
  EXPECT_EQ(of(compared, "all_reduce_for_reduce_scatter", "reduce_scatter"), Change(-8, -3710976));
  EXPECT_EQ(of(compared, "all_reduce_for_reduce_scatter", "all_reduce"), Change(8, 3710976));
  // Eq. 5 has an embedding on either stage; the last one has the unembedding instead: 4 ranks x 4.
  EXPECT_EQ(of(compared, "first_stage_embedding", "all_reduce"), Change(-16, -16 * 32768));
  EXPECT_EQ(of(compared, "unembedding_all_reduce", "all_reduce"), Change(16, 16 * 32768));
  // 3 x b s fp32 on the last stage.
  EXPECT_EQ(of(compared, "cross_entropy", "all_reduce"), Change(48, 48 * 512));
  // Sizes (4 int64) and tokens (b (s + 1) int64), each micro-batch on each rank.
  EXPECT_EQ(of(compared, "batch_broadcasts", "broadcast"), Change(64, 8 * 4 * (32 + 1040)));
  // One byte over dp and one over the model ranks; a norm for either parameter group over both.
  EXPECT_EQ(of(compared, "overflow_flags", "all_reduce"), Change(16, 16));
  EXPECT_EQ(of(compared, "gradient_norms", "all_reduce"), Change(32, 128));
  EXPECT_EQ(of(compared, "loss", "all_reduce"), Change(4, 16));
  EXPECT_EQ(of(compared, "loss", "broadcast"), Change(8, 64));
}

TEST(ExplainedNeox, NamesTheSourceLineOfEveryRule) {
  const Json compared = against_paper("neox/t2p2d2");
  for (const Json& group : compared.at("explained")) {
    const std::string cause = group.at("cause");
    const bool is_term_of_eq1 =
        std::set<std::string>{"layer_parameters", "position_embeddings", "replicated_tensors"}.contains(
            cause);
    EXPECT_EQ(group.at("source").get<std::string>().empty(), is_term_of_eq1) << cause;
    EXPECT_FALSE(group.at("why").get<std::string>().empty()) << cause;
  }
}

/// One stage on one rank: 2 sequences of 64 tokens, 4 micro-batches; N = 462080 elements (neox_megatron
/// §6.1).
TEST(ExplainedNeox, GradientsOnOneRank) {
  const Json compared = against_paper("neox/p2");
  // Stage 0 reduces 924160 bytes; the last stage holds the final norm's 2h more.
  EXPECT_EQ(of(compared, "one_rank_gradients", "all_reduce"), Change(2, 924160 + 924160 + 2 * 256));
}

/// S: h 128, L 4, s 32, V 1000, learned positions: 1053440 parameters, fp32, 4 ranks (deepspeed §A).
TEST(ExplainedDeepSpeed, ZeroOneReducesByAllReduce) {
  const Json compared = against_paper("deepspeed/z1_S_w4_fp32");
  EXPECT_EQ(of(compared, "layer_parameters", "all_gather"), Change(0, 4 * 4 * (1053440 - 1050880)));
  EXPECT_EQ(of(compared, "all_reduce_for_reduce_scatter", "reduce_scatter"), Change(-4, -4 * 4213760));
  EXPECT_EQ(of(compared, "gradient_norms", "all_reduce"), Change(4, 16));
}

/// The same under ZeRO-3: nothing is released, so that backward gathers nothing; with a threshold of 200
/// elements the 26 norms and small biases (all tensors of h = 128 elements) are gathered one by one.
TEST(ExplainedDeepSpeed, ZeroThreeKeepsAndPersists) {
  const Json compared = against_paper("deepspeed/z3_S_w4_fp32_p200");
  EXPECT_EQ(of(compared, "parameters_kept", "all_gather").second, -4 * 4213760);
  EXPECT_EQ(of(compared, "persistent_parameters", "all_gather"), Change(4 * 26, 0));
}

TEST(ExplainedDeepSpeed, BucketsThatPartitionBordersCut) {
  const Json compared = against_paper("deepspeed/z1_S_w4_fp32_rb50000_ab50000");
  EXPECT_GT(of(compared, "gradient_buckets", "all_reduce").first, 0);
  EXPECT_GT(of(compared, "bucket_cut_at_partition", "all_reduce").first, 0);
  EXPECT_EQ(of(compared, "bucket_cut_at_partition", "all_reduce").second, 0);
}

TEST(ExplainedSides, MayStandEitherWay) {
  const std::string name = "deepspeed/z1_S_w4_fp32";
  const Outcome outcome = run_with({"compare", file_of(name, "calls.jsonl.gz"), file_of(name, "case.yaml"),
                                    "--framework", "paper", "--format", "json"});
  const Json compared = Json::parse(outcome.out);
  EXPECT_EQ(of(compared, "all_reduce_for_reduce_scatter", "reduce_scatter"), Change(4, 4 * 4213760));
  EXPECT_EQ(by_causes(compared), in_all(compared));
}

/// The case of one run against the recording of another that differs in one setting.
struct Toggle {
  const char* config;
  const char* recording;
  const char* setting;
  const char* value;
};

TEST(SettingSearch, NamesTheOneSettingThatDiffers) {
  const std::vector<Toggle> toggles = {
      {"z1_S_w4_fp32_rb50000_ab50000", "z1_S_w4_fp32_rb50000_noRS", "reduce_scatter", "false"},
      {"z1_S_w4_fp32_rb50000_noRS", "z1_S_w4_fp32_rb50000_ab50000", "reduce_scatter", "true"},
      {"z1_S_w4_fp32_rb50000_ab50000", "z1_S_w4_fp32_rb50000_nomultirank", "use_multi_rank_bucket_allreduce",
       "false"},
      {"z1_S_w4_fp32_rb50000_ab50000", "z1_S_w4_fp32_rb50000_overlap", "overlap_comm", "true"},
      {"z1_S_w4_fp32", "z1_S_w4_fp32_rb50000_ab50000", "reduce_bucket_size", "50000"},
      {"z2_S_w4_fp32_rb50000_ab50000", "z2_S_w4_fp32_rb50000_gas2", "micro-batches", "2"},
      {"z3_S_w4_fp32_p200", "z3_S_w4_fp32_p200_noRS", "reduce_scatter", "false"},
      {"z3_S_w4_fp32_p200", "z3_S_w4_fp32_p200_pf0", "stage3_prefetch_bucket_size", "0"},
      {"z3_S_w4_fp32_p200", "z3_S_w4_fp32_p200_zeroinit", "zero.Init", "true"},
      {"z3_S_w4_fp32_p200", "z3_S_w4_fp32_p0", "stage3_param_persistence_threshold", "0"},
      {"z0_S_w4_fp32", "z0_S_w4_fp32_clip", "gradient clipping", "1"},
  };
  for (const Toggle& toggle : toggles) {
    SCOPED_TRACE(std::string(toggle.config) + " against " + toggle.recording);
    const std::string config = std::string("deepspeed/") + toggle.config;
    const std::string recording = std::string("deepspeed/") + toggle.recording;
    const Outcome outcome = run_with(
        {"compare", file_of(config, "case.yaml"), file_of(recording, "calls.jsonl.gz"), "--format", "json"});
    ASSERT_EQ(outcome.code, ExitCode::differs) << outcome.err;
    const Json guesses = Json::parse(outcome.out).at("looks_like");
    ASSERT_EQ(guesses.size(), 1U) << guesses.dump(1);
    EXPECT_EQ(guesses[0].at("setting"), toggle.setting);
    EXPECT_EQ(guesses[0].at("value"), toggle.value);
    EXPECT_EQ(guesses[0].at("remaining_calls_all_ranks"), 0);
  }
}

/// The page and `compare` give the same causes: the setting that the recording had is found for both.
TEST(SettingSearch, ExplainsTheReportToo) {
  const test_support::ScratchDirectory directory;
  const Outcome outcome =
      run_with({"report", file_of("deepspeed/z1_S_w4_fp32_rb50000_ab50000", "case.yaml"),
                file_of("deepspeed/z1_S_w4_fp32_rb50000_nomultirank", "calls.jsonl.gz"), "-o",
                (directory / "page.html").string(), "--data", (directory / "figures").string()});
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.err;
  const Json figure = Json::parse(test_support::content_of(directory / "figures/differences.json"));
  const std::string text = figure.dump();
  EXPECT_NE(text.find("gradients reduced to their owner"), std::string::npos) << text;
  EXPECT_EQ(text.find("unexplained\""), std::string::npos) << text;
  ASSERT_EQ(figure.at("notes").size(), 1U);
  EXPECT_NE(figure.at("notes")[0].get<std::string>().find("use_multi_rank_bucket_allreduce were false"),
            std::string::npos)
      << figure.at("notes");
}

/// M has rotary positions and buckets of 25 MiB, M_cap5 learned positions and buckets of 5 MiB.
TEST(SettingSearch, NamesTwoSettingsOneAfterTheOther) {
  const Outcome outcome = run_with({"compare", file_of("torch_ddp/M", "case.yaml"),
                                    file_of("torch_ddp/M_cap5", "calls.jsonl.gz"), "--format", "json"});
  const Json compared = Json::parse(outcome.out);
  const Json& guesses = compared.at("looks_like");
  ASSERT_EQ(guesses.size(), 2U) << guesses.dump(1);
  EXPECT_EQ(guesses[0].at("setting"), "bucket_cap_mb");
  EXPECT_EQ(guesses[0].at("value"), "5");
  EXPECT_EQ(guesses[1].at("setting"), "positions");
  EXPECT_EQ(guesses[1].at("value"), "learned");
  EXPECT_EQ(guesses[1].at("remaining_calls_all_ranks"), 0);
  EXPECT_EQ(compared.at("unexplained_calls"), Json::array());
}

}  // namespace
}  // namespace commlens
