// Runs of torchtitan that differ in one setting: `compare` names that setting.
#include <algorithm>
#include <array>
#include <cctype>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"
#include "tests/golden/golden_cases.hpp"

namespace commlens::titan_settings {
namespace {

using Json = nlohmann::json;
using test_support::run_with;

std::string file_of(const std::string& name, const char* file) {
  return (golden_directory() / (name.find('/') == std::string::npos ? "torchtitan/" + name : name) / file)
      .string();
}

Json compared(const std::string& config, const std::string& calls) {
  const test_support::Outcome outcome = run_with({"compare", config, calls, "--format", "json"});
  Json json = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << outcome.err;
  return json.is_object() ? json : Json::object();
}

/// One setting explains all that differs, and no call is left without a cause.
void expect_one(const Json& json, std::string_view setting, std::string_view value) {
  const Json found = json.value("looks_like", Json::array());
  ASSERT_EQ(found.size(), 1U) << found.dump(1);
  EXPECT_EQ(found[0].at("setting"), setting);
  EXPECT_EQ(found[0].at("value"), value);
  EXPECT_EQ(found[0].at("remaining_calls_all_ranks"), 0);
  EXPECT_EQ(json.value("unexplained", Json::array()).size(), 0U) << json.at("unexplained").dump(1);
}

/// Recordings: the case of one against the calls of another, which differ in this setting alone.
struct Recorded {
  const char* config;
  const char* recording;
  const char* setting;
  const char* value;
};

void PrintTo(const Recorded& run, std::ostream* out) { *out << run.config << " against " << run.recording; }

class RecordedTitanSettings : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedTitanSettings, AreNamed) {
  const Recorded& run = GetParam();
  expect_one(compared(file_of(run.config, "case.yaml"), file_of(run.recording, "calls.jsonl.gz")),
             run.setting, run.value);
}

// Selective and full recomputation send the same; of the two the default is named.
constexpr Recorded k_recorded[] = {
    {"075_llama_fsdp4_ce", "076_llama_fsdp4_chunked_acnone", "loss.num_chunks", "8"},
    {"076_llama_fsdp4_chunked_acnone", "075_llama_fsdp4_ce", "loss.chunked", "false"},
    {"081_llama_fsdp2_tp2_selective", "115_llama_fsdp2_tp2_acnone", "activation_checkpoint.mode", "none"},
    {"115_llama_fsdp2_tp2_acnone", "081_llama_fsdp2_tp2_selective", "activation_checkpoint.mode",
     "selective"},
    {"130_dsv3_fsdp2_ep2_acnone", "129_dsv3_fsdp2_ep2_fullac", "activation_checkpoint.mode", "selective"},
    {"129_dsv3_fsdp2_ep2_fullac", "130_dsv3_fsdp2_ep2_acnone", "activation_checkpoint.mode", "none"},
    {"078_llama_tp2", "079_llama_tp2_nosp", "parallelism.enable_sequence_parallel", "false"},
    {"079_llama_tp2_nosp", "078_llama_tp2", "parallelism.enable_sequence_parallel", "true"},
    {"081_llama_fsdp2_tp2_selective", "114_llama_fsdp2_tp2_nosp", "parallelism.enable_sequence_parallel",
     "false"},
    {"076_llama_fsdp4_chunked_acnone", "133_llama_fsdp4_fp32", "training.mixed_precision_param", "float32"},
    {"115_llama_fsdp2_tp2_acnone", "076_llama_fsdp4_chunked_acnone", "parallelism.tensor_parallel_degree",
     "1"},
    {"133_llama_fsdp4_fp32", "076_llama_fsdp4_chunked_acnone", "training.mixed_precision_param", "bfloat16"},
};

INSTANTIATE_TEST_SUITE_P(Torchtitan, RecordedTitanSettings, testing::ValuesIn(k_recorded),
                         [](const auto& run) {
                           return std::to_string(run.index) + "_" + run.param.recording;
                         });

/// A recording against its own case with other values in it.
struct Edited {
  const char* name;
  std::vector<std::pair<std::string_view, std::string_view>> edits;  // each text occurs in the case
  const char* setting;
  const char* value;
};

void PrintTo(const Edited& run, std::ostream* out) { *out << run.name << " without its " << run.setting; }

class EditedTitanSettings : public testing::TestWithParam<Edited> {
 protected:
  const test_support::ScratchDirectory directory_;
};

TEST_P(EditedTitanSettings, AreNamed) {
  const Edited& run = GetParam();
  std::string text = test_support::content_of(file_of(run.name, "case.yaml"));
  for (const auto& [was, is] : run.edits) {
    const std::size_t at = text.rfind(was);  // the map of values stands behind the arguments and wins
    ASSERT_NE(at, std::string::npos) << was;
    text.replace(at, was.size(), is);
  }
  expect_one(compared(directory_.write("case.yaml", text), file_of(run.name, "calls.jsonl.gz")), run.setting,
             run.value);
}

std::vector<Edited> edited() {
  return {
      {"087_llama_hsdp2x2_noseed", {{"seed: null", "seed: 1"}}, "debug.seed", "None"},
      {"076_llama_fsdp4_chunked_acnone",
       {{"--debug.seed, '1', ", ""}, {"seed: 1", "seed: null"}},
       "debug.seed",
       "1"},
      {"105_llama3_8b_hsdp16x8",
       {{"data_parallel_replicate_degree: 16", "data_parallel_replicate_degree: 1"},
        {"data_parallel_shard_degree: 8", "data_parallel_shard_degree: 128"}},
       "parallelism.data_parallel_replicate_degree",
       "16"},
      {"104_llama3_8b_fsdp64",
       {{"data_parallel_replicate_degree: 1", "data_parallel_replicate_degree: 8"},
        {"data_parallel_shard_degree: 64", "data_parallel_shard_degree: 8"}},
       "parallelism.data_parallel_replicate_degree",
       "1"},
      // The last rank recorded is 48, of 64.
      {"142_llama3_8b_pp4_fsdp16_1f1b",
       {{"fsdp_reshard_after_forward: default", "fsdp_reshard_after_forward: always"}},
       "parallelism.fsdp_reshard_after_forward",
       "default"},
      {"104_llama3_8b_fsdp64", {{"log_freq: 10", "log_freq: 1"}}, "metrics.log_freq", "10"},
      {"084_llama_pp2_fsdp2_1f1b",
       {{"pipeline_parallel_schedule: 1F1B", "pipeline_parallel_schedule: GPipe"}},
       "parallelism.pipeline_parallel_schedule",
       "1F1B"},
      {"111_llama_pp2_fsdp2_gpipe_m2",
       {{"pipeline_parallel_schedule: GPipe", "pipeline_parallel_schedule: 1F1B"}},
       "parallelism.pipeline_parallel_schedule",
       "GPipe"},
      {"122_llama_pp2_interleaved_fsdp2",
       {{"pipeline_parallel_schedule: Interleaved1F1B", "pipeline_parallel_schedule: 1F1B"}},
       "parallelism.pipeline_parallel_schedule",
       "Interleaved1F1B"},
      {"123_llama_pp2_zbv",
       {{"pipeline_parallel_schedule: ZBVZeroBubble", "pipeline_parallel_schedule: 1F1B"}},
       "parallelism.pipeline_parallel_schedule",
       "ZBVZeroBubble"},
      {"084_llama_pp2_fsdp2_1f1b",
       {{"pipeline_parallel_first_stage_less_layers: 1", "pipeline_parallel_first_stage_less_layers: 3"}},
       "parallelism.pipeline_parallel_first_stage_less_layers",
       "1"},
      {"133_llama_fsdp4_fp32",
       {{"mixed_precision_param: float32", "mixed_precision_param: bfloat16"}},
       "training.mixed_precision_param",
       "float32"},
      {"141_llama_fsdp2_checkpoint",
       {{"checkpoint: {enable: true", "checkpoint: {enable: false"}},
       "checkpoint.enable",
       "true with interval 2"},
      {"141_llama_fsdp2_checkpoint", {{"interval: 2", "interval: 1"}}, "checkpoint.interval", "2"},
      {"077_llama_fsdp2_ga3",
       {{"global_batch_size: 12", "global_batch_size: 4"}},
       "training.global_batch_size",
       "12"},
      {"089_dsv3_fsdp4_ep2_balanced",
       {{"load_balance_coeff: 0.001", "load_balance_coeff: 0"}},
       "load_balance_coeff",
       "0.001"},
      {"089_dsv3_fsdp4_ep2_balanced",
       {{"expert_parallel_degree: 2", "expert_parallel_degree: 4"}},
       "parallelism.expert_parallel_degree",
       "2"},
      {"089_dsv3_fsdp4_ep2_balanced",
       {{"dispatcher: all_to_all", "dispatcher: deepep"}},
       "dispatcher",
       "all_to_all"},
      {"torchtitan_recorded/llama_dp2_never",
       {{"fsdp_reshard_after_forward: never", "fsdp_reshard_after_forward: default"}},
       "parallelism.fsdp_reshard_after_forward",
       "never"},
      {"torchtitan_recorded/llama_dp2_always",
       {{"fsdp_reshard_after_forward: always", "fsdp_reshard_after_forward: default"}},
       "parallelism.fsdp_reshard_after_forward",
       "always"},
      {"torchtitan_recorded/llama_pp2_dp2_always",
       {{"fsdp_reshard_after_forward: always", "fsdp_reshard_after_forward: default"}},
       "parallelism.fsdp_reshard_after_forward",
       "always"},
      {"torchtitan_recorded/llama_dp2_bf16",
       {{" dtype: bfloat16", " dtype: float32"}},
       "training.dtype",
       "bfloat16"},
      {"torchtitan_recorded/llama_dp2_log5", {{"log_freq: 5", "log_freq: 1"}}, "metrics.log_freq", "5"},
      {"torchtitan_recorded/llama_pp2_dp2_ga2",
       {{"global_batch_size: 16", "global_batch_size: 8"}},
       "training.global_batch_size",
       "16"},
      {"torchtitan_recorded/llama_pp2_dp2_zbv",
       {{"pipeline_parallel_schedule: ZBVZeroBubble", "pipeline_parallel_schedule: LoopedBFS"}},
       "parallelism.pipeline_parallel_schedule",
       "ZBVZeroBubble"},
      {"torchtitan_recorded/llama_ce_tp2", {{"chunked: false", "chunked: true"}}, "loss.chunked", "false"},
      {"torchtitan_recorded/dsv3_hsdp2x2_ep2",
       {{"data_parallel_replicate_degree: 2", "data_parallel_replicate_degree: 1"},
        {"data_parallel_shard_degree: 2", "data_parallel_shard_degree: 4"}},
       "parallelism.data_parallel_replicate_degree",
       "2"},
      {"076_llama_fsdp4_chunked_acnone", {{"fused_qkv: true", "fused_qkv: false"}}, "fused_qkv", "true"},
  };
}

std::string letters_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Torchtitan, EditedTitanSettings, testing::ValuesIn(edited()), [](const auto& run) {
  return letters_of(fmt::format("{}_{}", run.index, run.param.setting));
});

/// Arguments of a small job, and what is different in the other one.
struct Predicted {
  std::string job;   // ranks, and lines of the torchtitan map
  std::string more;  // arguments
  const char* setting;
  const char* value;
  std::string model = {};  // keys of the other one's model
};

void PrintTo(const Predicted& run, std::ostream* out) { *out << run.setting << ' ' << run.value; }

class PredictedTitanSettings : public testing::TestWithParam<Predicted> {
 protected:
  std::string write_case(const char* file, const std::string& job, const std::string& more,
                         const std::string& model) const {
    std::string text = "framework: torchtitan\nframework_version: 0.3.0\niterations: 4\n";
    text += (model.empty() ? "" : "model: {" + model + "}\n") + job;
    text.insert(text.rfind(']'), more.empty() ? "" : ", " + more);
    return directory_.write(file, text);
  }

  const test_support::ScratchDirectory directory_;
};

TEST_P(PredictedTitanSettings, AreNamed) {
  const Predicted& run = GetParam();
  const std::string now = write_case("now.yaml", run.job, "", "");
  const std::string then = write_case("then.yaml", run.job, run.more, run.model);
  const std::string calls = (directory_ / "calls.jsonl").string();
  const test_support::Outcome outcome = run_with({"predict", then, "--calls", calls});
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.err;
  expect_one(compared(now, calls), run.setting, run.value);
}

std::string job_of(int ranks, const std::string& module, const std::string& arguments) {
  return "ranks: " + std::to_string(ranks) + "\ntorchtitan:\n  module: " + module + "\n  config: " + module +
         "_debugmodel\n  args: [--debug.seed, 1, --training.seq_len, 128, --training.local_batch_size, 4, "
         "--training.disable_cuda_graphs" +
         arguments + "]\n";
}

std::vector<Predicted> predicted() {
  const std::string data = job_of(4, "llama3", "");
  const std::string tensor = job_of(4, "llama3", ", --parallelism.tensor_parallel_degree, 2");
  const std::string context = job_of(4, "llama3", ", --parallelism.context_parallel_degree, 2");
  const std::string pipeline =
      job_of(4, "llama3",
             ", --parallelism.pipeline_parallel_degree, 2, --parallelism.pipeline_parallel_schedule, 1F1B");
  const std::string three_stages =
      job_of(6, "llama3",
             ", --parallelism.pipeline_parallel_degree, 3, --parallelism.pipeline_parallel_schedule, 1F1B");
  // 14 layers, and one each for embedding and head: four stages of four, or eight of two.
  const std::string looped =
      "model: {layers: 14}\n" +
      job_of(2, "llama3",
             ", --parallelism.pipeline_parallel_degree, 2, --parallelism.pipeline_parallel_schedule, "
             "Interleaved1F1B");
  const std::string experts = job_of(4, "deepseek_v3", ", --parallelism.expert_parallel_degree, 4");
  return {
      {data, "--debug.seed, None", "debug.seed", "None"},
      {data, "--metrics.log_freq, 2", "metrics.log_freq", "2"},
      {data, "--metrics.log_freq, 10", "metrics.log_freq", "10"},
      {data, "--parallelism.fsdp_reshard_after_forward, never", "parallelism.fsdp_reshard_after_forward",
       "never"},
      {data, "--parallelism.fsdp_reshard_after_forward, always", "parallelism.fsdp_reshard_after_forward",
       "always"},
      {pipeline, "--parallelism.fsdp_reshard_after_forward, always", "parallelism.fsdp_reshard_after_forward",
       "always"},
      {data, "--parallelism.data_parallel_replicate_degree, 2", "parallelism.data_parallel_replicate_degree",
       "2"},
      {data, "--parallelism.data_parallel_replicate_degree, 4", "parallelism.data_parallel_replicate_degree",
       "4"},
      {data, "--training.mixed_precision_param, float32", "training.mixed_precision_param", "float32"},
      {data, "--training.dtype, bfloat16", "training.dtype", "bfloat16"},
      {data, "--training.global_batch_size, 48", "training.global_batch_size", "48"},
      {data, "--checkpoint.enable, --checkpoint.interval, 3", "checkpoint.enable", "true with interval 3"},
      {data, "", "fused_qkv", "false", "fused_qkv: false"},
      {tensor, "--loss.num_chunks, 4", "loss.num_chunks", "4"},
      {tensor, "--parallelism.no-enable-sequence-parallel", "parallelism.enable_sequence_parallel", "false"},
      {tensor, "activation-checkpoint:none", "activation_checkpoint.mode", "none"},
      {tensor, "--training.local_batch_size, 2", "training.local_batch_size", "2"},
      {context, "activation-checkpoint:none", "activation_checkpoint.mode", "none"},
      {pipeline, "--parallelism.pipeline_parallel_schedule, GPipe", "parallelism.pipeline_parallel_schedule",
       "GPipe"},
      {pipeline, "--parallelism.pipeline_parallel_schedule, LoopedBFS",
       "parallelism.pipeline_parallel_schedule", "LoopedBFS"},
      {pipeline, "--parallelism.pipeline_parallel_microbatch_size, 2",
       "parallelism.pipeline_parallel_microbatch_size", "2"},
      {pipeline, "--training.local_batch_size, 8", "training.local_batch_size", "8"},
      {pipeline, "--training.global_batch_size, 16", "training.global_batch_size", "16"},
      {pipeline, "--parallelism.pipeline_parallel_first_stage_less_layers, 3",
       "parallelism.pipeline_parallel_first_stage_less_layers", "3"},
      {three_stages, "--parallelism.pipeline_parallel_last_stage_less_layers, 0",
       "parallelism.pipeline_parallel_last_stage_less_layers", "0"},
      {looped, "--parallelism.pipeline_parallel_layers_per_stage, 2",
       "parallelism.pipeline_parallel_layers_per_stage", "2"},
      {data, "--parallelism.tensor_parallel_degree, 2", "parallelism.tensor_parallel_degree", "2"},
      {data, "--parallelism.context_parallel_degree, 4", "parallelism.context_parallel_degree", "4"},
      {pipeline, "--parallelism.pipeline_parallel_degree, 1", "parallelism.pipeline_parallel_degree", "1"},
      {experts, "", "load_balance_coeff", "0", "load_balance_coeff: 0"},
      {experts, "", "dispatcher", "deepep", "dispatcher: deepep"},
      {experts, "--parallelism.expert_parallel_degree, 2", "parallelism.expert_parallel_degree", "2"},
      {experts, "activation-checkpoint:none", "activation_checkpoint.mode", "none"},
  };
}

INSTANTIATE_TEST_SUITE_P(Torchtitan, PredictedTitanSettings, testing::ValuesIn(predicted()),
                         [](const auto& run) {
                           return letters_of(fmt::format("{}_{}", run.index, run.param.setting));
                         });

/// What a release of PyTorch sends otherwise, torchtitan being the same.
TEST(TitanSettings, NameTheReleaseOfPyTorch) {
  const std::string config = file_of("084_llama_pp2_fsdp2_1f1b", "case.yaml");
  std::string text = test_support::content_of(config);
  const std::string_view was = "torch_version: 2.15.0";
  ASSERT_NE(text.rfind(was), std::string::npos);
  text.replace(text.rfind(was), was.size(), "torch_version: 2.12.1");
  const test_support::ScratchDirectory directory;
  expect_one(
      compared(directory.write("case.yaml", text), file_of("084_llama_pp2_fsdp2_1f1b", "calls.jsonl.gz")),
      "torch_version", "2.15");
}

std::string unpacked(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  std::array<char, 1 << 16> part = {};
  for (int count = 0; (count = gzread(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  gzclose(file);
  return text;
}

/// A log that does not say which sizes depend on data, as those of libraries, shows them all the same.
TEST(TitanSettings, NameForcedBalanceWhereSizesContradictIt) {
  const std::string name = "torchtitan_recorded/dsv3_dp2_ep2_unbalanced";
  std::string calls = unpacked(file_of(name, "calls.jsonl.gz"));
  const std::string_view mark = ",\"match\":\"count\"";
  ASSERT_NE(calls.find(mark), std::string::npos);
  for (std::size_t at = 0; (at = calls.find(mark, at)) != std::string::npos;) {
    calls.erase(at, mark.size());
  }
  std::string text = test_support::content_of(file_of(name, "case.yaml"));
  const std::string_view was = "moe_force_load_balance: false";
  ASSERT_NE(text.rfind(was), std::string::npos);
  text.replace(text.rfind(was), was.size(), "moe_force_load_balance: true");
  const test_support::ScratchDirectory directory;
  expect_one(compared(directory.write("case.yaml", text), directory.write("calls.jsonl", calls)),
             "debug.moe_force_load_balance", "false");
}

/// 075 and 076 differ in the loss: what the extra gathers and reductions are for.
TEST(TitanSettings, SayWhatTheCallsOfTheChunkedLossAreFor) {
  const Json json = compared(file_of("075_llama_fsdp4_ce", "case.yaml"),
                             file_of("076_llama_fsdp4_chunked_acnone", "calls.jsonl.gz"));
  ASSERT_EQ(json.at("explained").size(), 1U);
  EXPECT_EQ(json.at("explained").at(0).at("cause"), "units");
}

}  // namespace
}  // namespace commlens::titan_settings
