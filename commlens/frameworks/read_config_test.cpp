#include "commlens/frameworks/read_config.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

/// A directory that exists as long as the test.
class ReadConfig : public testing::Test {
 protected:
  ReadConfig()
      : directory_(std::filesystem::temp_directory_path() /
                   ("commlens_read_config_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~ReadConfig() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = directory_ / name;
    std::ofstream(path) << content;
    return path.string();
  }
  std::string error_of(const std::vector<std::string>& config) const {
    const Result<Job> job = read_config(config, "");
    std::string error = job ? "no error" : job.error().message;
    for (std::size_t at = error.find(directory_.string()); at != std::string::npos;
         at = error.find(directory_.string())) {
      error.erase(at, directory_.string().size() + 1);
    }
    return error;
  }

  std::filesystem::path directory_;
};

const std::string k_neox =
    "{ num_layers: 6, hidden_size: 512, num_attention_heads: 8, seq_length: 2048, max_position_embeddings: "
    "2048,\n"
    "  pos_emb: rotary, no_weight_tying: True, train_micro_batch_size_per_gpu: 4, }\n";
const std::string k_zero3 = R"({"zero_optimization": {"stage": 3}})";
const std::string k_gpt2_config =
    R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})";

TEST_F(ReadConfig, ReadsTheSameCaseAsYamlAndToml) {
  const std::string yaml =
      "framework: torch-ddp\nranks: 4\nprecision: fp32\nmicro_batch: 2\n"
      "model: {family: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, vocab: 32, positions: learned}\n"
      "ddp: {bucket_cap_mb: 1}\n";
  const std::string toml =
      "framework = 'torch-ddp'\nranks = 4\nprecision = 'fp32'\nmicro_batch = 2\n"
      "[model]\nfamily = 'gpt'\nlayers = 2\nhidden = 16\nheads = 2\nsequence = 8\nvocab = 32\n"
      "positions = 'learned'\n[ddp]\nbucket_cap_mb = 1\n";
  const Result<Job> a = read_config({file("case.yaml", yaml)}, "");
  const Result<Job> b = read_config({file("case.toml", toml)}, "");
  ASSERT_TRUE(a.has_value()) << a.error().message;
  ASSERT_TRUE(b.has_value()) << b.error().message;
  EXPECT_EQ(b->framework, "torch-ddp");
  EXPECT_EQ(b->model.layers, a->model.layers);
  EXPECT_EQ(b->model.positions, Positions::learned);
  EXPECT_EQ(pytorch::options(*b).ddp.bucket_cap, Bytes{1 << 20});
  std::string wrong = toml;
  wrong.replace(wrong.find("hidden = 16"), 11, "hidden = 'x'");
  EXPECT_EQ(error_of({file("wrong.toml", wrong)}), "wrong.toml:8: 'hidden' must be an integer, it is \"x\"");
  EXPECT_EQ(error_of({file("broken.toml", "framework = \n")}).substr(0, 14), "broken.toml:1:");
}

TEST_F(ReadConfig, TakesPresetsAndAFrameworkForThem) {
  EXPECT_EQ(read_config({"1-3B"}, "").value().framework, "neox");
  EXPECT_EQ(read_config({"1.3B"}, "paper").value().framework, "paper");
  EXPECT_FALSE(read_config({"1.3B"}, "papers"));
  EXPECT_EQ(error_of({"1.4B"}), "'1.4B' is neither a file nor a built-in model; did you mean 1.3B?");
  const std::string unknown = error_of({"no/such/file"});
  EXPECT_NE(unknown.find(" 19M 49M 125M 350M 760M 1.3B 2.7B 6.7B 13B 20B 175B megatron/deepseek-v3 "),
            std::string::npos);
  EXPECT_TRUE(unknown.ends_with(" megatron/qwen3-235b-a22b")) << unknown;
  EXPECT_EQ(read_config({"megatron/llama3-70b"}, "").value().layout.virtual_stages, 5);
  EXPECT_EQ(read_config({"Llama3-8B"}, "").value().framework, "torch-fsdp");
}

TEST_F(ReadConfig, PutsADeepSpeedJsonBesideAModel) {
  const std::string zero3 = file("ds.json", k_zero3);
  EXPECT_EQ(read_config({"1.3B", zero3}, "").value().train.zero_stage, 3);
  EXPECT_EQ(read_config({"1.3B", zero3}, "").value().framework, "neox");
  EXPECT_EQ(read_config({file("19M.yml", k_neox), zero3}, "").value().train.zero_stage, 3);
  const Job job = read_config({file("config.json", k_gpt2_config), zero3}, "").value();
  EXPECT_EQ(job.framework, "deepspeed");
  EXPECT_EQ(job.train.zero_stage, 3);
  EXPECT_EQ(error_of({zero3}),
            "ds.json: a DeepSpeed JSON holds no model; name a built-in model or a Hugging Face config.json "
            "beside it");
}

TEST_F(ReadConfig, MergesNeoxFiles) {
  const std::string model = file("19M.yml", k_neox);
  const std::string local = file("local.yml", "{\n\"data-path\": \"x\",\n\"vocab-file\": \"y\" }\n");
  const Job job = validated(read_config({model, local}, "").value()).value();
  EXPECT_EQ(job.model.name, "19M");
  EXPECT_EQ(parameter_count(job.model).value, 70'426'624);
  EXPECT_EQ(error_of({model, file("again.yml", "hidden_size: 4\n")}),
            "again.yml:1: 'hidden_size' is at 19M.yml:1 too; GPT-NeoX takes a key from one file only");
}

TEST_F(ReadConfig, MegatronsScriptReducesBf16GradientsInFp32) {
  const Job job = read_config({file("args.sh",
                                    "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 8 "
                                    "--max-position-embeddings 8 --micro-batch-size 1 --bf16\n")},
                              "")
                      .value();
  EXPECT_EQ(job.framework, "megatron");
  EXPECT_TRUE(megatron::options(validated(job).value()).gradients_in_fp32);
  EXPECT_EQ(job.model.name, "args");
  EXPECT_FALSE(megatron::options(validated(with_overrides(job, {.dtype = DType::fp16}).value()).value())
                   .gradients_in_fp32);
}

TEST_F(ReadConfig, MegatronsScriptReducesBf16GradientsOfOtherConfigurationsInFp32) {
  const std::string config = file(
      "config.json",
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 8, "vocab_size": 128,
               "torch_dtype": "bfloat16"})");
  Job job = read_config({config}, "megatron").value();
  EXPECT_TRUE(megatron::options(validated(job).value()).gradients_in_fp32);
  job.framework_version = "core_v0.7.0";
  job = validated(job).value();
  EXPECT_TRUE(megatron::options(job).gradients_in_fp32);
  EXPECT_EQ(job.warnings, std::vector<std::string>(
                              {"bf16 switches accumulate-allreduce-grads-in-fp32 on, as Megatron does"}));
  const Job preset = read_config({"19M"}, "megatron").value();
  EXPECT_FALSE(megatron::options(validated(preset).value()).gradients_in_fp32) << "fp16";
  EXPECT_TRUE(megatron::options(validated(with_overrides(preset, {.dtype = DType::bf16}).value()).value())
                  .gradients_in_fp32);
}

TEST_F(ReadConfig, RefusesFilesThatDoNotBelongTogether) {
  const std::string neox = file("m.yml", k_neox);
  const std::string two_jobs =
      "these files describe more than one job; give one built-in model, the GPT-NeoX yml files of one job, "
      "or "
      "one other "
      "file";
  EXPECT_EQ(error_of({"1.3B", neox}), two_jobs);
  EXPECT_EQ(error_of({neox, file("config.json", k_gpt2_config)}), two_jobs);
  EXPECT_EQ(error_of({}), "no configuration: give a built-in model such as 1.3B, or a file");
  EXPECT_EQ(error_of({"1.3B", "13B"}), "13B: one built-in model is enough");
}

TEST_F(ReadConfig, RefusesWhatIsNoConfiguration) {
  EXPECT_EQ(error_of({file("empty.yml", "")}), "empty.yml: the file is empty");
  EXPECT_EQ(error_of({file("binary.yml", std::string("a\0b", 3))}),
            "binary.yml:1: not a text file (byte 0x00)");
  EXPECT_TRUE(
      error_of({file("cut.json", k_gpt2_config.substr(0, 30))}).starts_with("cut.json:1: not valid JSON: "));
  EXPECT_TRUE(
      error_of({file("trace.json", R"({"traceEvents": []})")}).starts_with("trace.json: no configuration: "));
  EXPECT_TRUE(error_of({file("list.yml", "- a\n")}).starts_with("list.yml: no configuration: "));
  EXPECT_EQ(error_of({file("deep.yml", std::string(100'000, '['))}),
            "deep.yml:1: nested deeper than 64 levels");
  EXPECT_NE(error_of({directory_.string()}), "no error");
  EXPECT_TRUE(error_of({file("huge.yml", std::string(2'000'000, '#'))}).starts_with("huge.yml: larger than"));
}

TEST_F(ReadConfig, SniffsEveryKind) {
  EXPECT_EQ(sniff_config("case.yaml", "framework: neox\nranks: 4\n"), k_case_file);
  EXPECT_EQ(sniff_config("19M.yml", k_neox), "a GPT-NeoX yml");
  EXPECT_EQ(sniff_config("local.yml", "{\"data_path\": \"x\"}"), "a GPT-NeoX yml");
  EXPECT_EQ(sniff_config("zero.yml", "zero_optimization: {stage: 1}"), "a GPT-NeoX yml");
  EXPECT_EQ(sniff_config("ds.json", k_zero3), "a DeepSpeed JSON");
  EXPECT_EQ(sniff_config("config.json", k_gpt2_config), "a Hugging Face config.json");
  EXPECT_EQ(sniff_config("args", "--num-layers 4"), "Megatron arguments");
  EXPECT_EQ(sniff_config("run.sh", "torchrun pretrain_gpt.py --num-layers 4"), "Megatron arguments");
  EXPECT_EQ(sniff_config("r.yaml", "ENV_VARS: {}\nMODEL_ARGS:\n  --num-layers: 4\n"), "Megatron arguments");
  EXPECT_EQ(sniff_config("b.yaml", "model:\n  num_layers: 4\ntrain: {}\n"), "Megatron arguments");
  EXPECT_EQ(sniff_config("m.yaml", "tensor-model-parallel-size: 2\nnum-layers: 4\n"), "Megatron arguments");
  EXPECT_EQ(sniff_config("calls.jsonl", R"({"rank":0,"iteration":-1,"op":"broadcast"})"), "");
  EXPECT_EQ(sniff_config("run.log", "[2023-01-01] [INFO] [logging.py:96] comm op: all_reduce | time (ms): 1"),
            "");
  EXPECT_EQ(sniff_config("trace.json", R"({"schemaVersion": 1, "traceEvents": [)"), "");
  EXPECT_EQ(sniff_config("empty", ""), "");
}

/// The directory of third-party files; empty if it is not available.
std::filesystem::path test_data() {
  const char* directory = std::getenv("COMMLENS_TEST_DATA");
  return directory == nullptr ? std::filesystem::path() : std::filesystem::path(directory);
}

TEST(ReadConfigOfRealFiles, LoadsTheGptNeoxConfigs) {
  const std::filesystem::path directory = test_data() / "golden" / "neox_configs";
  if (test_data().empty() || !std::filesystem::exists(directory)) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with golden/neox_configs";
  }
  const std::vector<std::pair<std::string, std::int64_t>>
      rows = {{"19M", 70'426'624},       {"49M", 113'625'600},    {"125M", 162'322'944},
              {"350M", 405'334'016},     {"760M", 834'493'440},   {"1-3B", 1'414'647'808},
              {"2-7B", 2'775'208'960},   {"6-7B", 6'856'253'440}, {"13B", 13'100'697'600},
              {"175B", 175'197'806'592}, {"20B", 20'554'567'680}};  // 20B: V = 50432 with its t = 2
  for (const auto& [name, parameters] : rows) {
    std::vector<std::string> files = {(directory / (name + ".yml")).string()};
    if (name != "20B") {  // it names its own data_path, which GPT-NeoX refuses beside local_setup.yml too
      files.push_back((directory / "local_setup.yml").string());
    }
    const Result<Job> job = read_config(files, "");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE(job->warnings.empty()) << job->warnings[0];
    const Result<Job> valid = validated(*job);
    ASSERT_TRUE(valid) << valid.error().message;
    EXPECT_EQ(parameter_count(valid->model).value, parameters) << name;
  }
}

TEST(ReadConfigOfRealFiles, LoadsEveryRecordedCase) {
  const std::filesystem::path directory = test_data() / "golden";
  if (test_data().empty() || !std::filesystem::exists(directory / "deepspeed")) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with golden/deepspeed";
  }
  int cases = 0;
  for (const char* framework : {"deepspeed", "neox", "megatron", "torch_ddp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory / framework)) {
      const Result<Job> job = read_config({(entry.path() / "case.yaml").string()}, "");
      ASSERT_TRUE(job) << job.error().message;
      EXPECT_TRUE(job->warnings.empty()) << job->warnings[0];
      const Result<Job> valid = validated(*job);
      EXPECT_TRUE(valid) << entry.path() << ": " << valid.error().message;
      ++cases;
    }
  }
  EXPECT_EQ(cases, 73);
}

}  // namespace
}  // namespace commlens
