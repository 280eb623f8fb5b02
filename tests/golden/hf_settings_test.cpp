// Runs of transformers' Trainer that differ in one setting: `compare` names it.
#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using test_support::run_with;

/// Two cases of four ranks with TrainingArguments of the tests.
struct HfRun {
  std::string now;
  std::string then;
  const char* setting;
  const char* value;
};

void PrintTo(const HfRun& run, std::ostream* out) { *out << run.setting << ' ' << run.value; }

std::string hf_case(const std::string& arguments) {
  return "framework: hf\nframework_version: 5.23.0\nranks: 4\niterations: 6\nsequence: 32\nhf_config: "
         "{model_type: llama, hidden_size: 512, intermediate_size: 1376, num_hidden_layers: 4, "
         "num_attention_heads: 8, num_key_value_heads: 4, vocab_size: 1000, max_position_embeddings: 64}\n"
         "training_arguments: {per_device_train_batch_size: 2, save_strategy: 'no'" +
         arguments + "}\n";
}

class HfSettings : public testing::TestWithParam<HfRun> {
 protected:
  const test_support::ScratchDirectory directory_;
};

TEST_P(HfSettings, AreNamed) {
  const HfRun& run = GetParam();
  const std::string now = directory_.write("now.yaml", hf_case(run.now));
  const std::string then = directory_.write("then.yaml", hf_case(run.then));
  const std::string calls = (directory_ / "calls.jsonl").string();
  const test_support::Outcome predicted = run_with({"predict", then, "--calls", calls});
  ASSERT_EQ(predicted.code, ExitCode::done) << predicted.err;
  const test_support::Outcome outcome = run_with({"compare", now, calls, "--format", "json"});
  const Json compared = Json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(compared.is_object() && compared.contains("looks_like")) << outcome.out << outcome.err;
  const Json& found = compared.at("looks_like");
  ASSERT_EQ(found.size(), 1U) << found.dump(1);
  EXPECT_EQ(found[0].at("setting"), run.setting);
  EXPECT_EQ(found[0].at("value"), run.value);
  EXPECT_EQ(found[0].at("remaining_calls_all_ranks"), 0);
}

std::vector<HfRun> runs() {
  const std::string fsdp = ", fsdp: true, fsdp_config: {version: 2}";
  const auto with = [](const std::string& keys) { return ", fsdp: true, fsdp_config: {" + keys + "}"; };
  const std::string first = "version: 1, sync_module_states: false";
  const std::string steps = ", gradient_accumulation_steps: 2";
  const std::string each =
      ", accelerator_config: {gradient_accumulation_kwargs: {sync_each_batch: true}}, "
      "gradient_accumulation_steps: 2";
  return {
      {"", ", average_tokens_across_devices: false", "average_tokens_across_devices", "false"},
      {"", ", logging_steps: 2", "logging_steps", "2"},
      {", logging_steps: 1", "", "logging_strategy", "no"},
      {"", ", logging_first_step: true", "logging_first_step", "true"},
      {"", ", include_num_input_tokens_seen: all", "include_num_input_tokens_seen", "true"},
      {"", ", max_steps: 6", "max_steps", "6"},
      {"", ", ddp_find_unused_parameters: false", "ddp_find_unused_parameters", "false"},
      {", ddp_find_unused_parameters: false", "", "ddp_find_unused_parameters", "true"},
      {"", ", ddp_broadcast_buffers: false", "ddp_broadcast_buffers", "false"},
      {"", ", ddp_bucket_cap_mb: 1", "ddp_bucket_cap_mb", "1"},
      {"", fsdp, "fsdp", "true"},
      {fsdp, "", "fsdp", "false"},
      {fsdp, with("reshard_after_forward: false"), "fsdp_config.reshard_after_forward", "false"},
      {fsdp, with("cpu_ram_efficient_loading: true"), "fsdp_config.cpu_ram_efficient_loading", "true"},
      {fsdp, with("auto_wrap_policy: NO_WRAP"), "fsdp_config.auto_wrap_policy", "NO_WRAP"},
      {fsdp, fsdp + ", bf16: true", "mixed_precision", "bf16"},
      {fsdp, fsdp + ", parallelism_config: {dp_replicate_size: 2, dp_shard_size: 2}", "dp_replicate_size",
       "2"},
      {with(first), with("version: 2"), "fsdp_config.version", "2"},
      {with(first), with("version: 1"), "fsdp_config.sync_module_states", "true"},
      {fsdp + steps, fsdp + each, "sync_each_batch", "true"},
      {fsdp, fsdp + steps, "micro-batches", "2"},
  };
}

INSTANTIATE_TEST_SUITE_P(Hf, HfSettings, testing::ValuesIn(runs()), [](const auto& run) {
  std::string name = std::to_string(run.index) + "_" + run.param.setting;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace commlens
