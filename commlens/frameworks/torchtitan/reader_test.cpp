#include "commlens/frameworks/torchtitan/reader.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/case_file.hpp"
#include "commlens/frameworks/torchtitan/arguments.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens::torchtitan {
namespace {

namespace fs = std::filesystem;

Result<Job> of_case(const std::string& text) {
  const Result<ConfigNode> document = parse_yaml("case.yaml", text);
  return document ? job_from_case(*document) : tl::unexpected(document.error());
}

Result<Job> of_arguments(const std::string& text) {
  const auto words = argument_words("run.args", text);
  if (!words) {
    return tl::unexpected(words.error());
  }
  const Result<ConfigNode> settings = settings_of_arguments("run.args", *words);
  return settings ? job_of_arguments(*settings) : tl::unexpected(settings.error());
}

std::string error_of(const std::string& arguments) {
  const Result<Job> job = of_arguments("--module llama3 --config llama3_8b " + arguments);
  return job ? "" : job.error().message;
}

const std::string k_llama = "--module llama3 --config llama3_8b ";

/// The effective values were printed by torchtitan's own ConfigManager.
TEST(TitanArguments, AreThoseOfTheConfigurationUnlessGiven) {
  const Result<Job> job = of_arguments(
      "--module llama3 --config llama3_70b --training.local-batch-size 2\n"
      "--parallelism.data_parallel_replicate_degree=4 "
      "--parallelism.no-enable-sequence-parallel activation-checkpoint:none");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->framework, "torchtitan");
  EXPECT_EQ(job->model.name, "llama3 70B");
  EXPECT_EQ(job->model.sequence, 8192);
  EXPECT_EQ(job->layout.tp, 8);
  EXPECT_EQ(job->layout.dp, 0);
  EXPECT_FALSE(job->layout.sequence_parallel);
  EXPECT_EQ(job->train.micro_batch, 2);
  EXPECT_EQ(job->train.micro_batches, 1);
  EXPECT_EQ(job->train.recompute, Recompute::none);
  EXPECT_EQ(job->train.dtype, DType::fp32);
  EXPECT_EQ(job->train.gradient_clipping, 1.0);
  EXPECT_EQ(options(*job).replicate, 4);
  EXPECT_EQ(options(*job).param_dtype, DType::bf16);
  EXPECT_EQ(options(*job).loss_chunks, 8);
  EXPECT_EQ(options(*job).log_frequency, 10);
  EXPECT_EQ(options(*job).flavour, "70B");
  EXPECT_TRUE(job->warnings.empty());
  EXPECT_TRUE(job->unmodelled.empty());
}

/// --module llama3 --config llama3_debugmodel, then each line: what tyro made of it.
TEST(TitanArguments, AreUnderstoodAsTyroDoes) {
  EXPECT_EQ(of_arguments(k_llama + "--training.local_batch_size 1_024")->train.micro_batch, 1024);
  EXPECT_EQ(of_arguments(k_llama + "--training.max_norm 1e-1")->train.gradient_clipping, 0.1);
  EXPECT_EQ(options(*of_arguments(k_llama + "--debug.seed 1 --debug.seed 2")).seed, 2);
  EXPECT_EQ(options(*of_arguments(k_llama + "--debug.seed None")).seed, std::nullopt);
  EXPECT_TRUE(options(*of_arguments(k_llama + "--checkpoint.enable")).checkpoints.is_used);
  EXPECT_FALSE(options(*of_arguments(k_llama + "--checkpoint.no-enable")).checkpoints.is_used);
  EXPECT_EQ(of_arguments(k_llama + "activation_checkpoint:full")->train.recompute, Recompute::full);
  EXPECT_EQ(of_arguments(k_llama + "--loss.num-chunks 4 --dataloader.dataset c4")->warnings.size(), 0U);
  EXPECT_EQ(of_arguments(k_llama + "activation-checkpoint:full --activation-checkpoint.no-preserve-rng-state")
                ->train.recompute,
            Recompute::full);
  EXPECT_TRUE(of_arguments("--config=llama3_8b --module=torchtitan.models.llama3"));
}

TEST(TitanArguments, AreRefusedAsTyroDoes) {
  EXPECT_EQ(error_of("--checkpoint.enable True"),
            "run.args:1: '--checkpoint.enable' takes no value; write --checkpoint.enable or "
            "--checkpoint.no_enable");
  EXPECT_EQ(error_of("--checkpoint.enable=True").substr(0, 57),
            "run.args:1: '--checkpoint.enable=True' takes no value; wr");
  EXPECT_EQ(error_of("--training.seq_len"), "run.args:1: '--training.seq_len' needs a value");
  EXPECT_EQ(error_of("foo"), "run.args:1: 'foo' belongs to no option");
  EXPECT_EQ(error_of("activation-checkpoint:full activation-checkpoint:none"),
            "run.args:1: 'activation-checkpoint:none' is a second choice of recomputation; give one");
  EXPECT_EQ(error_of("activation-checkpoint:full --training.seq_len 2"),
            "run.args:1: '--training.seq_len' stands behind the choice of recomputation; torchtitan takes it "
            "before that");
  EXPECT_EQ(error_of("--activation-checkpoint.no-preserve-rng-state"),
            "run.args:1: '--activation-checkpoint.no-preserve-rng-state' stands before "
            "activation-checkpoint:MODE; torchtitan takes it behind that");
}

TEST(TitanArguments, WithoutRulesAreRefusedByName) {
  EXPECT_EQ(error_of("--parallelism.spmd_backend full_dtensor"),
            "run.args:1: 'spmd_backend' full_dtensor has no rules here; use spmd_types");
  EXPECT_EQ(error_of("--parallelism.enable_fsdp_symm_mem"),
            "run.args:1: 'enable_fsdp_symm_mem' has no rules here; leave it out");
  EXPECT_EQ(error_of("--compile.enable --compile.enable_async_tensor_parallel"),
            "run.args:1: 'enable_async_tensor_parallel' has no rules here; leave it out");
  EXPECT_EQ(error_of("--comm.mode torchcomms"),
            "run.args:1: 'mode' torchcomms has no rules here; use default");
  EXPECT_EQ(error_of("--validator.enable"),
            "run.args:1: 'enable' has no rules: validation sends messages of its own; leave it out");
  EXPECT_EQ(error_of("--parallelism.module_fqns_per_model_part a b"),
            "run.args:1: 'module_fqns_per_model_part' has no rules here; use "
            "pipeline_parallel_layers_per_stage or leave it out");
  EXPECT_EQ(error_of("activation-checkpoint:memory-budget"),
            "run.args:1: 'mode' memory_budget has no rules here; use none, selective or full");
  EXPECT_EQ(error_of("--training.num_tokens_per_train_step 4096"),
            "run.args:1: 'num_tokens_per_train_step' is of sources after torchtitan 0.3.0; use "
            "global_batch_size");
  EXPECT_EQ(of_arguments("--module llama3 --config llama3_405b").error().message,
            "run.args:1: the configuration llama3_405b has Float8 linear layers and asynchronous tensor "
            "parallelism, for which there are no rules");
  EXPECT_EQ(of_arguments("--module qwen3_5 --config qwen35_9b").error().message,
            "run.args:1: the configuration qwen35_9b has gated delta net, for which there are no rules");
}

TEST(TitanArguments, OfUnknownEffectAreNoted) {
  const Result<Job> job = of_arguments(k_llama + "--compile.enable --training.local_batch_siz 2");
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->unmodelled.size(), 2U);
  EXPECT_EQ(job->warnings[0], "run.args:1: unknown key 'local_batch_siz'; did you mean 'local_batch_size'?");
  EXPECT_EQ(job->unmodelled[1], "'compile.enable' (run.args:1) has no rules");
  // of the configuration, the loss alone is compiled
  EXPECT_TRUE(of_arguments("--module deepseek_v3 --config deepseek_v3_16b")->unmodelled.empty());
}

TEST(TitanArguments, CutTheBatchOfAPipeline) {
  const std::string pipeline =
      k_llama + "--training.disable_cuda_graphs --parallelism.pipeline_parallel_degree 4 ";
  const Result<Job> job = of_arguments(
      pipeline + "--training.local_batch_size 8 --parallelism.pipeline_parallel_microbatch_size 2");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->train.micro_batch, 2);
  EXPECT_EQ(job->train.micro_batches, 4);
  EXPECT_EQ(job->layout.virtual_stages, 1);
  EXPECT_TRUE(job->warnings.empty());
  EXPECT_EQ(of_arguments(pipeline + "--training.local_batch_size 3 "
                                    "--parallelism.pipeline_parallel_microbatch_size 2")
                .error()
                .message,
            "run.args:1: local_batch_size 3 is not divisible by pipeline_parallel_microbatch_size 2");
  // 32 layers + 1 + 1 = 34 in stages of 4: 9, not 8
  EXPECT_EQ(
      of_arguments(pipeline + "--parallelism.pipeline_parallel_layers_per_stage 4 "
                              "--parallelism.pipeline_parallel_schedule Interleaved1F1B")
          .error()
          .message,
      "run.args:1: pipeline_parallel_layers_per_stage 4 does not give two or more stages of 32 layers to "
      "each of 4 pipeline ranks");
  EXPECT_EQ(of_arguments(pipeline + "--parallelism.pipeline_parallel_layers_per_stage 3 "
                                    "--parallelism.pipeline_parallel_schedule Interleaved1F1B")
                ->layout.virtual_stages,
            3);  // 34 / 3 = 12 stages
}

TEST(TitanArguments, OfAGlobalBatchLeaveTheMicroBatchesOpen) {
  const Result<Job> job = of_arguments(k_llama + "--training.global_batch_size 48");
  EXPECT_EQ(job->global_batch, 48);
  EXPECT_EQ(job->train.micro_batches, 0);
  EXPECT_EQ(of_arguments(k_llama + "--training.global_batch_size -1")->global_batch, 0);
}

const std::string k_debug = "framework: torchtitan\nframework_version: 0.3.0\nranks: 4\niterations: 3\n";

TEST(TitanCase, NeedsTheArgumentsAlone) {
  const Result<Job> job =
      of_case(k_debug +
              "torchtitan: {module: deepseek_v3, config: deepseek_v3_debugmodel, args: ["
              "--training.disable_cuda_graphs, --parallelism.expert_parallel_degree, 2]}\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(parameter_count(job->model).value, 33'014'016);
  EXPECT_EQ(job->layout.ep, 2);
  EXPECT_EQ(job->layout.ranks, 4);
  EXPECT_TRUE(options(*job).balances_experts);
  EXPECT_EQ(options(*job).log_frequency, 1);
  EXPECT_TRUE(job->warnings.empty());
}

TEST(TitanCase, TheMapWinsOverTheArguments) {
  const Result<Job> job = of_case(
      k_debug +
      "torchtitan: {module: llama3, config: llama3_8b, args: [--training.seq_len, 2048, "
      "'activation-checkpoint:none'], training: {seq_len: 4096}, activation_checkpoint: {mode: full}}\n"
      "model: {layers: 16, fused_qkv: false}\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->model.sequence, 4096);
  EXPECT_EQ(job->model.layers, 16);
  EXPECT_EQ(job->model.hidden, 4096);
  EXPECT_EQ(job->train.recompute, Recompute::full);
  EXPECT_FALSE(options(*job).fuses_qkv);
}

TEST(TitanCase, TakesAnotherFlavourAndModelsOfOnesOwn) {
  const Result<Job> flavour =
      of_case(k_debug + "torchtitan: {module: llama3, config: llama3_8b}\nmodel: {flavor: 3B}\n");
  ASSERT_TRUE(flavour) << flavour.error().message;
  EXPECT_EQ(parameter_count(flavour->model).value, 3'212'749'824);
  const std::string own =
      "torchtitan: {module: mine, config: my_model}\nmodel: {hidden: 256, heads: 4, vocab: 512, ";
  const Result<Job> job = of_case(k_debug + own + "layers: 2, ffn_hidden: 512}\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->model.layers, 2);
  EXPECT_EQ(job->unmodelled.size(), 1U);
  EXPECT_EQ(of_case(k_debug + own + "layers: 2}\n").error().message,
            "case.yaml:6: 'ffn_hidden' is missing, of a model that torchtitan does not come with");
  EXPECT_EQ(of_case(k_debug + own + "}\n").error().message,
            "case.yaml:5: torchtitan 0.3.0 has no module 'mine'; choose from llama3, qwen3, deepseek_v3, "
            "gpt_oss, kimi_k2_7, muse_glimmer, qwen3_5, flux");
}

/// The recorded cases, or none without them.
std::vector<ConfigNode> recorded_cases() {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  const fs::path golden = fs::path(data == nullptr ? "" : data) / "golden" / "torchtitan";
  std::vector<ConfigNode> cases;
  if (fs::exists(golden)) {
    for (const auto& folder : fs::directory_iterator(golden)) {
      const std::string file = (folder.path() / "case.yaml").string();
      cases.push_back(parse_yaml(file, read_text_file(file, 1 << 20).value()).value());
    }
  }
  return cases;
}

/// As the harness of the recordings wrote them: the effective value of each key beside the arguments.
TEST(TitanCase, RecordedOnesAreReadWithoutAWarning) {
  const std::vector<ConfigNode> cases = recorded_cases();
  if (cases.empty()) {
    GTEST_SKIP() << "no recordings in COMMLENS_TEST_DATA";
  }
  EXPECT_GE(cases.size(), 37U);
  for (const ConfigNode& document : cases) {
    const Result<Job> job = job_from_case(document);
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_TRUE(job->warnings.empty()) << job->warnings.front();
    EXPECT_TRUE(job->unmodelled.empty()) << job->unmodelled.front();
    EXPECT_EQ(options(*job).torch_version, "2.15.0");
  }
}

/// The map without what torchtitan itself made of the arguments.
ConfigNode arguments_alone(const ConfigNode& document) {
  ConfigNode reduced = document;
  reduced.keys.clear();
  reduced.items.clear();
  for (std::size_t i = 0; i < document.keys.size(); ++i) {
    const std::string& key = document.keys[i];
    if (key == "model") {
      continue;
    }
    append(reduced, key, document.items[i]);
    if (key == "torchtitan") {
      ConfigNode& map = reduced.items.back();
      for (const char* const kept : {"module", "config", "args"}) {
        append(map, kept, *find(document.items[i], kept));
      }
      map.keys.erase(map.keys.begin(), map.keys.end() - 3);
      map.items.erase(map.items.begin(), map.items.end() - 3);
    }
  }
  return reduced;
}

TEST(TitanCase, ArgumentsAloneMeanWhatTorchtitanMadeOfThem) {
  for (const ConfigNode& document : recorded_cases()) {
    const Result<Job> whole = job_from_case(document);
    const Result<Job> job = job_from_case(arguments_alone(document));
    ASSERT_TRUE(whole && job) << document.file;
    if (options(*whole).flavour != options(*job).flavour) {
      continue;  // put into another configuration
    }
    EXPECT_EQ(options(*job), options(*whole)) << document.file;
    EXPECT_EQ(job->model.sequence, whole->model.sequence) << document.file;
    EXPECT_EQ(parameter_count(job->model), parameter_count(whole->model)) << document.file;
    const auto degrees = [](const Job& one) {
      return std::array{one.layout.dp,         one.layout.tp,
                        one.layout.pp,         one.layout.cp,
                        one.layout.ep,         one.layout.virtual_stages,
                        one.train.micro_batch, one.train.micro_batches,
                        one.global_batch,      std::int64_t{one.layout.sequence_parallel}};
    };
    EXPECT_EQ(degrees(*job), degrees(*whole)) << document.file;
    EXPECT_EQ(job->train.recompute, whole->train.recompute) << document.file;
    EXPECT_EQ(job->train.schedule, whole->train.schedule) << document.file;
  }
}

}  // namespace
}  // namespace commlens::torchtitan
