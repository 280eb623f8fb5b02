// Runs of PyTorch that differ in one key of the case: `compare` names that key.
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"
#include "tests/golden/golden_cases.hpp"

namespace commlens {
namespace {

using Json = nlohmann::json;
using test_support::run_with;

std::string file_of(const char* name, const char* file) {
  return (golden_directory() / "torch" / name / file).string();
}

/// The settings that would make the run of `calls` of the job in `config`.
Json guesses(const std::string& config, const std::string& calls) {
  const test_support::Outcome outcome = run_with({"compare", config, calls, "--format", "json"});
  const Json compared = Json::parse(outcome.out, nullptr, false);
  return compared.is_object() && compared.contains("looks_like") ? compared.at("looks_like") : Json::array();
}

void expect_one(const Json& found, const std::string& setting, const std::string& value) {
  ASSERT_EQ(found.size(), 1U) << found.dump(1);
  EXPECT_EQ(found[0].at("setting"), setting);
  EXPECT_EQ(found[0].at("value"), value);
  EXPECT_EQ(found[0].at("remaining_calls_all_ranks"), 0);
}

/// Recordings: the case of one against the calls of the other, which differ in this key alone.
struct Recorded {
  const char* config;
  const char* recording;
  const char* setting;
  const char* value;
};

void PrintTo(const Recorded& run, std::ostream* out) { *out << run.config << " against " << run.recording; }

class RecordedSettings : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedSettings, AreNamed) {
  const Recorded& run = GetParam();
  expect_one(guesses(file_of(run.config, "case.yaml"), file_of(run.recording, "calls.jsonl.gz")), run.setting,
             run.value);
}

constexpr Recorded k_recorded[] = {
    {"ddp_S_w2", "ddp_S_w2_bf16", "precision", "bf16"},
    {"ddp_S_w2", "ddp_S_w2_bf16_compress", "hook", "bf16_compress_hook"},
    {"ddp_S_w2_bf16_compress", "ddp_S_w2", "hook", "allreduce_hook"},
    {"ddp_S_w2", "ddp_S_w2_buffers", "buffers: batch_norm", "true"},
    {"ddp_S_w2", "ddp_S_w2_join", "join", "inputs [3, 2]"},
    {"ddp_S_w2_join", "ddp_S_w2", "join", "absent"},
    {"ddp_S_w2", "ddp_S_w2_static_graph", "static_graph", "true"},
    {"ddp_S_w2_bf16", "ddp_S_w2_mixed_dtypes", "fp32_patterns", "[*norm*]"},
    {"ddp_S_w4_cap025", "ddp_S_w4_cap1", "bucket_cap_mb", "1"},
    {"ddp_S_w4_cap1", "ddp_S_w4_cap025", "bucket_cap_mb", "0.25"},
    {"fsdp2_S_w4_all_units", "fsdp2_S_w4_bf16_only", "param_dtype", "bf16"},
    {"fsdp2_S_w4_bf16_only", "fsdp2_S_w4_all_units", "param_dtype", "absent"},
    {"fsdp2_S_w4_all_units", "fsdp2_S_w4_frozen", "frozen", "[tok_embeddings.*, *norm*]"},
    {"fsdp2_S_w4_frozen", "fsdp2_S_w4_all_units", "frozen", "absent"},
    {"fsdp2_S_w4_all_units", "fsdp2_S_w4_no_reshard", "reshard_after_forward", "false"},
    {"fsdp2_S_w4_no_reshard", "fsdp2_S_w4_all_units", "reshard_after_forward", "auto"},
    {"fsdp2_S_w4_all_units", "fsdp2_S_w4_root_only", "units", "[root]"},
    {"fsdp2_S_w4_root_only", "fsdp2_S_w4_all_units", "units", "[embedding, blocks, head_with_norm, root]"},
    {"fsdp2_S_w4_all_units", "fsdp2_S_w4_ga2", "micro-batches", "2"},
    // Blocks of one size: the order of the calls says which one it was. A block that is not called at all
    // leaves no trace of its place: the first one is named.
    {"fsdp2_S_w4_unused_ffn", "fsdp2_S_w4_unused_block", "unused", "[layers.0]"},
    {"fsdp2_S_w4_clip", "fsdp2_S_w4_unused_ffn_clip", "unused", "[layers.1.feed_forward]"},
    {"fsdp2_S_w4_unused_ffn", "fsdp2_S_w4_unused_ffn_clip", "clip", "1"},
    {"pp2_S_1f1b_m4", "pp2_S_gpipe_m4", "schedule", "GPipe"},
    {"pp2_S_gpipe_m4", "pp2_S_1f1b_m4", "schedule", "1F1B"},
    {"pp2_S_interleaved_v2_m4", "pp2_S_interleavedzb_v2_m4", "schedule", "InterleavedZeroBubble"},
    {"pp2_S_interleaved_v2_m4", "pp2_S_loopedbfs_v2_m4", "schedule", "LoopedBFS"},
    {"pp2_S_interleaved_v2_m4", "pp2_S_zbv_m4", "schedule", "ZBVZeroBubble"},
    {"pp2_S_zbv_m4", "pp2_S_interleaved_v2_m4", "schedule", "Interleaved1F1B"},
    {"pp2_fsdp2_S_1f1b_m4", "pp2_fsdp2_S_1f1b_m4_reshard_auto", "reshard_after_forward", "auto"},
    {"tp2_S_no_sp", "tp2_S_no_sp_loss_parallel", "loss_parallel", "true"},
    {"tp2_S_no_sp", "tp2_S_sp", "sequence_parallel", "true"},
    {"tp2_S_sp", "tp2_S_no_sp", "sequence_parallel", "false"},
    {"tp2_S_sp", "tp2_S_real_weights", "init_from_rank0", "true"},
    {"tp2_S_sp", "tp2_S_sp_ac", "activation_checkpoint", "full"},
    {"tp2_S_sp", "tp2_S_sp_clip", "clip", "1"},
    {"tp2_S_sp", "tp2_S_sp_sgd", "optimizer", "sgd"},
    {"tp2_fsdp2_S_clip", "tp2_fsdp2_S", "clip", "0"},
};

INSTANTIATE_TEST_SUITE_P(Torch, RecordedSettings, testing::ValuesIn(k_recorded), [](const auto& run) {
  return std::to_string(run.index) + "_" + run.param.recording;
});

/// A case of four data ranks, with sections of the tests.
std::string small_case(const std::string& framework, const std::string& sections) {
  return "framework: " + framework +
         "\nframework_version: \"2.15.0\"\nranks: 4\niterations: 3\nprecision: fp32\nmicro_batch: 2\n" +
         sections;
}
std::string llama(const std::string& more = "") {
  return "model: {family: llama, layers: 4, hidden: 128, heads: 8, kv_heads: 4, head_dim: 16, ffn_hidden: "
         "344, "
         "vocab: 1000, sequence: 64" +
         more + "}\n";
}

/// The same, one key changed: predictions of one release.
struct Predicted {
  const char* framework;
  std::string now;
  std::string then;
  const char* setting;
  const char* value;
};

void PrintTo(const Predicted& run, std::ostream* out) { *out << run.setting << ' ' << run.value; }

class PredictedSettings : public testing::TestWithParam<Predicted> {
 protected:
  const test_support::ScratchDirectory directory_;
};

TEST_P(PredictedSettings, AreNamed) {
  const Predicted& run = GetParam();
  const std::string now = directory_.write("now.yaml", small_case(run.framework, run.now));
  const std::string then = directory_.write("then.yaml", small_case(run.framework, run.then));
  const std::string calls = (directory_ / "calls.jsonl").string();
  const test_support::Outcome outcome = run_with({"predict", then, "--calls", calls});
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.err;
  expect_one(guesses(now, calls), run.setting, run.value);
}

const std::string k_data4 = "layout: {data_replicate: 1, data_shard: 4}\n";
const std::string k_hybrid = "layout: {data_replicate: 2, data_shard: 2}\n";
std::string fsdp(const std::string& keys, const std::string& layout = k_data4,
                 const std::string& model = "") {
  return llama(model) + layout + "fsdp: {version: 2, units: [blocks, root]" + keys + "}\n";
}
std::string fsdp_1(const std::string& keys) { return llama() + k_data4 + "fsdp: {version: 1" + keys + "}\n"; }
std::string ddp(const std::string& keys, const std::string& model = "") {
  return llama(model) + "layout: {data_replicate: 4, data_shard: 1}\nddp: {" + keys + "}\n";
}
std::string tensor(const std::string& keys) {
  return llama() + "layout: {tensor: 4}\ntensor_parallel: {" + keys + "}\n";
}
std::string context(const std::string& keys) {
  return llama() + "layout: {context: 4}\nfsdp: {version: 2, units: [blocks, root]}\ncontext_parallel: {" +
         keys + "}\n";
}
std::string pipeline(const std::string& keys) {
  return llama() + "layout: {pipeline: 4}\nmicro_batches: 8\npipeline: {" + keys + "}\n";
}
const std::string k_batches = "micro_batches: 3\n";

std::vector<Predicted> predicted() {
  const char* const f = "torch-fsdp";
  const char* const d = "torch-ddp";
  const std::string buffers = ", buffers: batch_norm";
  const std::string unused = ", unused: [layers.1.feed_forward]";
  return {
      // fully_shard
      {f, fsdp(""), llama() + k_data4 + "fsdp: {units: [block_pairs, root]}\n", "units",
       "[block_pairs, root]"},
      {f, fsdp(""), llama() + k_data4 + "fsdp: {units: [embedding, blocks, root]}\n", "units",
       "[embedding, blocks, root]"},
      {f, fsdp(""), fsdp(", reshard_after_forward: 2"), "reshard_after_forward", "2"},
      {f, fsdp(""), fsdp(", reshard_after_forward: true"), "reshard_after_forward", "true"},
      {f, fsdp(", param_dtype: bf16"), fsdp(", param_dtype: bf16, reduce_dtype: bf16"), "reduce_dtype",
       "bf16"},
      {f, fsdp(""), fsdp(", divide_factor: 1.0"), "divide_factor", "1"},
      {f, fsdp(", divide_factor: 1.0"), fsdp(""), "divide_factor", "absent"},
      {f, fsdp(", backward_prefetch: 0"), fsdp(", backward_prefetch: 2"), "backward_prefetch", "2"},
      {f, fsdp("") + k_batches, fsdp(", sync_each_micro_batch: false") + k_batches, "sync_each_micro_batch",
       "false"},
      {f, fsdp("") + k_batches, fsdp(", reshard_after_backward: false") + k_batches, "reshard_after_backward",
       "false"},
      {f, fsdp("", k_hybrid) + k_batches, fsdp(", all_reduce_each_micro_batch: false", k_hybrid) + k_batches,
       "all_reduce_each_micro_batch", "false"},
      {f, fsdp(""), fsdp("", k_hybrid), "data_shard", "2"},
      {f, fsdp("", k_hybrid), fsdp(""), "data_shard", "4"},
      {f, fsdp(""), fsdp(", api: replicate", "layout: {data_replicate: 4, data_shard: 1}\n"), "api",
       "replicate"},
      {f, fsdp(""), fsdp("") + "trainer: {clip: 1.0}\n", "clip", "1"},
      {f, fsdp(""), fsdp_1(""), "fsdp.version", "1"},
      {f, fsdp(""), ddp(""), "section", "ddp"},
      {f, fsdp("", k_data4, unused), fsdp(", reduce_scatter_unused_params: true", k_data4, unused),
       "reduce_scatter_unused_params", "true"},
      // FullyShardedDataParallel
      {f, fsdp_1(""), fsdp_1(", strategy: SHARD_GRAD_OP"), "strategy", "SHARD_GRAD_OP"},
      {f, fsdp_1(""), fsdp_1(", strategy: NO_SHARD"), "strategy", "NO_SHARD"},
      {f, fsdp_1(""), fsdp_1(", sync_module_states: true"), "sync_module_states", "true"},
      // DistributedDataParallel
      {d, ddp(""), ddp("find_unused_parameters: true"), "find_unused_parameters", "true"},
      {d, ddp("", buffers), ddp("broadcast_buffers: false", buffers), "broadcast_buffers", "false"},
      {d, ddp("init_sync: false"), ddp(""), "init_sync", "true"},
      {d, ddp("") + k_batches, ddp("accumulation_sync: false") + k_batches, "accumulation_sync", "false"},
      {d, ddp(""), ddp("hook: fp16_compress_hook"), "hook", "fp16_compress_hook"},
      {d, ddp(""), ddp("bucket_cap_mb_list: [0.5, 1, 2]"), "bucket_cap_mb_list", "[0.5, 1, 2]"},
      // the others
      {"torch-tp", tensor("sequence_parallel: true"), tensor("sequence_parallel: true, loss_parallel: true"),
       "loss_parallel", "true"},
      {f, context("method: ring_all_gather"), context("method: ring_all_to_all"), "context_parallel.method",
       "ring_all_to_all"},
      {"torch-pipeline", pipeline("schedule: 1F1B"), pipeline("schedule: 1F1B, shapes: static"),
       "shapes: static", "true"},
  };
}

INSTANTIATE_TEST_SUITE_P(Torch, PredictedSettings, testing::ValuesIn(predicted()), [](const auto& run) {
  std::string name = std::to_string(run.index) + "_" + run.param.setting;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

/// A release changes several things; the one that a run shows is explained by it alone.
TEST(TorchSettings, NameTheReleaseOfARun) {
  const std::string config = file_of("pp2_S_1f1b_m4", "case.yaml");
  const test_support::ScratchDirectory directory;
  const std::string calls = (directory / "calls.jsonl").string();
  ASSERT_EQ(run_with({"predict", config, "--framework", "torch@2.9.1", "--calls", calls}).code,
            ExitCode::done);
  expect_one(guesses(config, calls), "framework_version", "2.9");
}

/// Two of 64 ranks were recorded: 3 iterations of 34 reductions each, which causes and rows count alike.
TEST(TorchSettings, CountTheRanksThatWereRecorded) {
  const test_support::ScratchDirectory directory;
  const std::string recorded = file_of("big_8B_fsdp64", "case.yaml");
  std::string text = test_support::content_of(recorded);
  const std::string_view was = "reduce_dtype: \"fp32\"";
  text.replace(text.find(was), was.size(), "reduce_dtype: \"bf16\"");
  const std::string changed = (directory / "case.yaml").string();
  std::ofstream(changed) << text;
  const Json compared = Json::parse(
      run_with({"compare", changed, file_of("big_8B_fsdp64", "calls.jsonl.gz"), "--format", "json"}).out);
  EXPECT_EQ(compared.at("resized_calls_all_ranks"), 2 * 3 * 34);
  std::int64_t explained = 0;
  for (const Json& row : compared.at("explained").at(0).at("rows")) {
    explained += row.at("calls_only_b_all_ranks").get<std::int64_t>();
  }
  EXPECT_EQ(explained, 2 * 3 * 34);
}

}  // namespace
}  // namespace commlens
