#include "commlens/frameworks/huggingface/training_arguments.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/config/json_document.hpp"
#include "commlens/config/yaml_document.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/huggingface/accelerate.hpp"
#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::huggingface {
namespace {

Result<Job> read_arguments(const std::string& text) {
  Job job;
  const Result<void> ok = read_training_arguments(parse_json("a.json", text).value(), job);
  return ok ? Result<Job>(job) : tl::unexpected(ok.error());
}

std::string error_of_arguments(const std::string& text) {
  const Result<Job> job = read_arguments(text);
  return job ? "no error" : job.error().message;
}

Result<Job> read_launcher(const std::string& text) {
  Job job;
  const Result<void> ok = read_accelerate(parse_yaml("d.yaml", text).value(), job);
  return ok ? Result<Job>(job) : tl::unexpected(ok.error());
}

TEST(TrainingArgumentsFile, HasTheDefaultsOfTheTrainer) {
  const Job job = read_arguments("{}").value();
  EXPECT_EQ(job.train.micro_batch, 8);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.gradient_clipping, 1);
  EXPECT_FALSE(options(job).fsdp.is_used);
  EXPECT_EQ(options(job).logging, (Logging{Interval::steps, 500, false}));
  EXPECT_TRUE(options(job).averages_tokens);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(TrainingArgumentsFile, ReadsWhatSendsMessages) {
  const Job job = read_arguments(
                      R"({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "bf16": true,
                          "max_steps": 100, "logging_steps": 0.1, "save_strategy": "no", "report_to": [],
                          "ddp_find_unused_parameters": false, "ddp_bucket_cap_mb": 50,
                          "average_tokens_across_devices": false, "learning_rate": 1e-5})")
                      .value();
  EXPECT_EQ(job.train.micro_batch, 2);
  EXPECT_EQ(job.train.micro_batches, 4);
  EXPECT_EQ(options(job).mixed_precision, DType::bf16);
  EXPECT_EQ(options(job).max_steps, 100);
  EXPECT_EQ(options(job).logging.steps, 0.1);
  EXPECT_EQ(options(job).saving.strategy, Interval::never);
  EXPECT_EQ(options(job).ddp.find_unused_parameters, false);
  EXPECT_EQ(options(job).ddp.bucket_cap, Bytes{50 << 20});
  EXPECT_FALSE(options(job).averages_tokens);
}

TEST(TrainingArgumentsFile, TakesWordsOfFsdpWhereItsMapSaysNothing) {
  const auto fsdp = [](const std::string& text) { return options(read_arguments(text).value()).fsdp; };
  EXPECT_EQ(fsdp(R"({"fsdp": "shard_grad_op auto_wrap offload"})").sharding, Sharding::grad_op);
  EXPECT_TRUE(fsdp(R"({"fsdp": ["full_shard", "offload"]})").is_offloaded);
  EXPECT_EQ(fsdp(R"({"fsdp": "shard_grad_op", "fsdp_config": {"reshard_after_forward": true}})").sharding,
            Sharding::full_shard);
  EXPECT_FALSE(fsdp(R"({"fsdp_config": {"version": 1}})").is_used);
  EXPECT_FALSE(fsdp(R"({"fsdp": ""})").is_used);
  EXPECT_EQ(fsdp(R"({"fsdp": true, "fsdp_config": {"fsdp_version": 1}})").version, 1);
}

TEST(TrainingArgumentsFile, IsRecognisedByAnyKeyOfItsOwn) {
  const auto is_recognised = [](const std::string& path, const std::vector<std::string>& keys) {
    return training_arguments_reader().recognises({.path = path, .keys = keys});
  };
  EXPECT_TRUE(is_recognised("a.json", {"bf16", "learning_rate", "max_steps"}));
  EXPECT_TRUE(is_recognised("a.json", {"bf16", "fsdp"}));
  EXPECT_TRUE(is_recognised("a.yaml", {"fp16", "ddp_bucket_cap_mb"}));
  EXPECT_TRUE(is_recognised("a.json", {"bf16", "deepspeed"}));
  EXPECT_FALSE(is_recognised("a.yml", {"deepspeed", "num_layers"}));
  EXPECT_FALSE(is_recognised("ds.json", {"bf16", "zero_optimization", "gradient_clipping"}));
  EXPECT_FALSE(is_recognised("ds.json", {"train_batch_size", "gradient_accumulation_steps"}));
  EXPECT_FALSE(is_recognised("config.json", {"model_type", "gradient_checkpointing"}));
  EXPECT_FALSE(is_recognised("d.yaml", {"distributed_type", "fsdp_config", "mixed_precision"}));
}

TEST(TrainingArgumentsFile, RefusesByName) {
  const std::pair<std::string, std::string> rows[] = {
      {R"({"bf16": true, "fp16": true})", "a.json:1: 'fp16' and bf16 cannot both be true"},
      {R"({"torch_compile": true})",
       "a.json:1: 'torch_compile' has no rules: compiled graphs have buckets of their own; use false"},
      {R"({"deepspeed": "ds.json"})",
       "a.json:1: 'deepspeed' has no hf rules; give its JSON beside config.json with --framework deepspeed, "
       "which does not count what the Trainer adds"},
      {R"({"fsdp": "zero3"})",
       "a.json:1: 'fsdp' has 'zero3'; expected true, full_shard, shard_grad_op, offload, auto_wrap, with "
       "version 1 also no_shard, hybrid_shard, hybrid_shard_zero2"},
      {R"({"fsdp": true, "fsdp_config": {"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 10}})",
       "a.json:1: 'auto_wrap_policy' is SIZE_BASED_WRAP, which has no rules; use TRANSFORMER_BASED_WRAP"},
      {R"({"logging_steps": 0})",
       "a.json:1: 'logging_steps' must be more than 0: a number of steps, or a part of max_steps below 1"},
      {R"({"parallelism_config": {"cp_size": 2}})", "a.json:1: 'cp_size' has no hf rules; use 1"},
      {R"({"accelerator_config": {"dispatch_batches": true}})",
       "a.json:1: 'dispatch_batches' is true: rank 0 reads all batches and sends them, which has no rules; "
       "use "
       "false"},
      {R"({"accelerator_config": {"use_seedable_sampler": false}})",
       "a.json:1: 'use_seedable_sampler' is false: the state of a generator is broadcast at the start of "
       "every "
       "epoch, which has no rules; use true"},
      {R"({"fsdp": true, "fsdp_config": {"version": 1, "backward_prefetch": "typo"}})",
       "a.json:1: 'backward_prefetch' is 'typo'; expected BACKWARD_PRE, BACKWARD_POST or NO_PREFETCH"},
      {R"({"fsdp": true, "fsdp_config": {"state_dict_type": "FOO"}})",
       "a.json:1: 'state_dict_type' is 'FOO'; expected FULL_STATE_DICT, SHARDED_STATE_DICT or "
       "LOCAL_STATE_DICT"},
      {R"({"fsdp": true, "fsdp_config": {"state_dict_type": "LOCAL_STATE_DICT"}})",
       "a.json:1: 'state_dict_type' LOCAL_STATE_DICT fails with version 2; use FULL_STATE_DICT or "
       "SHARDED_STATE_DICT"},
      {R"({"fsdp": true, "fsdp_config": {"auto_wrap_policy": "SIZE_BASED_WRAP",
          "transformer_layer_cls_to_wrap": "LlamaDecoderLayer"}})",
       "a.json:1: 'auto_wrap_policy' is SIZE_BASED_WRAP, which has no rules; use TRANSFORMER_BASED_WRAP"}};
  for (const auto& [text, message] : rows) {
    EXPECT_EQ(error_of_arguments(text), message) << text;
  }
}

TEST(TrainingArgumentsFile, NamesEvaluationsAsNotModelled) {
  const Job job = read_arguments(R"({"eval_strategy": "steps", "label_smoothing_factor": 0.1})").value();
  ASSERT_EQ(job.unmodelled.size(), 2U);
  EXPECT_EQ(job.unmodelled[0], "'an evaluation between training steps' (a.json:1) has no rules");
}

/// Defaults of `accelerate launch`: FSDP1, nothing wrapped, weights loaded on rank 0.
TEST(AccelerateFile, HasTheDefaultsOfTheLauncher) {
  const Job job = read_launcher("distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n").value();
  const Fsdp& fsdp = options(job).fsdp;
  EXPECT_TRUE(fsdp.is_used);
  EXPECT_EQ(fsdp.version, 1);
  EXPECT_EQ(fsdp.wrap, WrapPolicy::none);
  EXPECT_TRUE(fsdp.loads_on_rank0);
  EXPECT_EQ(job.layout.ranks, 8);
  EXPECT_EQ(options(job).mixed_precision, DType::bf16);
}

TEST(AccelerateFile, ReadsFsdp2AndReplicas) {
  const Job job =
      read_launcher(
          "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: "
          "false\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  "
          "fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  fsdp_cpu_ram_efficient_loading: "
          "false\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  "
          "parallelism_config_dp_shard_size: 4\n")
          .value();
  EXPECT_EQ(options(job).fsdp.version, 2);
  EXPECT_EQ(options(job).fsdp.sharding, Sharding::grad_op);
  EXPECT_EQ(options(job).fsdp.wrapped, std::vector<std::string>{"LlamaDecoderLayer"});
  EXPECT_FALSE(options(job).fsdp.loads_on_rank0);
  EXPECT_EQ(options(job).replicate, 2);
  EXPECT_EQ(job.layout.dp, 8);
  EXPECT_TRUE(job.warnings.empty());
}

/// In accelerate 1.15 the strategy of FSDP1 comes from its own file alone.
TEST(AccelerateFile, DecidesTheStrategyOfFsdp1) {
  const Job launched =
      read_launcher("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\n").value();
  EXPECT_EQ(options(launched).fsdp.sharding, Sharding::grad_op);
  const Job job =
      read_arguments(R"({"fsdp": true, "fsdp_config": {"version": 1, "reshard_after_forward": "no_shard"}})")
          .value();
  EXPECT_EQ(options(job).fsdp.sharding, Sharding::full_shard);
  ASSERT_EQ(job.warnings.size(), 1U);
}

/// accelerate saves whole states by default with version 1 alone; TrainingArguments do with both.
TEST(AccelerateFile, SavesShardsOfFsdp2) {
  const auto saves_whole = [](const std::string& text) {
    return options(read_launcher("distributed_type: FSDP\nfsdp_config: {" + text + "}\n").value())
        .fsdp.saves_whole;
  };
  EXPECT_TRUE(saves_whole("fsdp_version: 1"));
  EXPECT_TRUE(saves_whole("fsdp_cpu_ram_efficient_loading: true"));
  EXPECT_FALSE(saves_whole("fsdp_version: 2"));
  EXPECT_TRUE(saves_whole("fsdp_version: 2, fsdp_state_dict_type: FULL_STATE_DICT"));
  EXPECT_TRUE(options(read_arguments(R"({"fsdp": true})").value()).fsdp.saves_whole);
}

/// parallelism_config.py:372 and :381 of accelerate 1.15.
TEST(AccelerateFile, RefusesSizesThatAreNotTheRanks) {
  const auto error = [](const std::string& sizes, const std::string& type) {
    Job job = read_launcher("distributed_type: " + type + "\nparallelism_config: {" + sizes + "}\n").value();
    job.framework = k_name;
    job.model.heads = job.model.kv_heads = 4;
    job.model.hidden = 128;
    job.model.layers = 2;
    job.model.vocab = job.model.raw_vocab = 1000;
    job.model.family = Family::llama;
    job.model.positions = Positions::rotary;
    job.model.ffn_hidden = 256;
    job.model.sequence = 64;
    options(job).fsdp.version = 2;
    options(job).fsdp.wrap = WrapPolicy::transformer;
    options(job).fsdp.loads_on_rank0 = false;
    job.layout.ranks = 8;
    const Result<Job> valid = validated(job);
    if (!valid) {
      return valid.error().message;
    }
    const Result<void> ok = check_job(*valid);
    return ok ? std::string("no error") : ok.error().message;
  };
  const std::string no_shards =
      "parallelism_config: dp_shard_size 1 leaves FSDP no ranks to shard over, which accelerate refuses; "
      "dp_replicate_size times dp_shard_size is to be 8 ranks";
  const std::string two =
      "parallelism_config: dp_replicate_size 2 times dp_shard_size 1 is not 8 ranks, which accelerate "
      "refuses";
  EXPECT_EQ(error("dp_replicate_size: 2", "FSDP"), two);
  EXPECT_EQ(error("dp_replicate_size: 2, dp_shard_size: 1", "MULTI_GPU"), two);
  EXPECT_EQ(error("dp_replicate_size: 8", "FSDP"), no_shards);
  EXPECT_EQ(error("dp_shard_size: 1", "FSDP"), no_shards);
  EXPECT_NE(error("dp_replicate_size: 2, dp_shard_size: 2", "FSDP"), "no error");
  EXPECT_EQ(error("dp_replicate_size: 2, dp_shard_size: 4", "FSDP"), "no error");
  EXPECT_EQ(error("dp_replicate_size: 8", "MULTI_GPU"), "no error");
}

TEST(HfCase, OtherVersionsAreUnverified) {
  Job job;
  options(job).torch_version = "2.15.0+cu130";
  options(job).accelerate_version = "1.15.0";
  EXPECT_TRUE(never_recorded(job).empty());
  options(job).torch_version = "2.9.0";
  options(job).accelerate_version = "1.2.0";
  EXPECT_EQ(never_recorded(job), (std::vector<std::string>{"PyTorch 2.9.0 under transformers",
                                                           "accelerate 1.2.0 under transformers"}));
}

Job published(const std::string& framework) {
  Job job = job_from_hf(parse_json("m/config.json", R"({"model_type": "llama", "num_hidden_layers": 2,
                "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256,
                "max_position_embeddings": 64})")
                            .value())
                .value();
  job.layout.ranks = 4;
  return with_framework(std::move(job), framework);
}

/// per_device_train_batch_size is 8 where nothing says another one; a model that is split by its plan has no
/// Trainer.
TEST(HfJob, HasTheBatchOfTheTrainer) {
  const auto batches = [](Job job, const Overrides& flags) {
    const Job valid = validated(with_overrides(std::move(job), flags).value()).value();
    return std::pair(valid.train.micro_batch, valid.train.micro_batches);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(batches(published("hf"), {}), Pair(8, 1));
  EXPECT_EQ(batches(published("hf"), {.micro_batch = 1}), Pair(1, 1));
  EXPECT_EQ(batches(published("hf"), {.micro_batches = 3}), Pair(8, 3));
  EXPECT_EQ(batches(published("hf"), {.global_batch = 64}), Pair(8, 2));
  EXPECT_EQ(batches(published("hf"), {.global_batch = 8}), Pair(2, 1));
  EXPECT_EQ(batches(published("hf"), {.tp = 4}), Pair(1, 1));
  EXPECT_EQ(batches(published("torch-fsdp"), {}), Pair(1, 1));
  Job launched = published("commlens");
  ASSERT_TRUE(read_accelerate(parse_yaml("d.yaml", "distributed_type: MULTI_GPU\n").value(), launched));
  EXPECT_EQ(batches(with_framework(launched, "hf"), {}), Pair(8, 1));
  EXPECT_EQ(batches(with_framework(launched, "hf"), {.micro_batch = 2}), Pair(2, 1));
  ASSERT_TRUE(read_training_arguments(parse_json("a.json", R"({"per_device_train_batch_size": 1})").value(),
                                      launched));
  EXPECT_EQ(batches(with_framework(launched, "hf"), {}), Pair(1, 1));
}

TEST(HfJob, NamesTheSequenceThatWasTaken) {
  const auto warnings = [](const std::string& framework, const Overrides& flags) {
    return validated(with_overrides(published(framework), flags).value()).value().warnings;
  };
  EXPECT_EQ(warnings("hf", {}),
            std::vector<std::string>{"the sequence is max_position_embeddings, 64; set --seq for another"});
  EXPECT_TRUE(warnings("hf", {.seq = 32}).empty());
  EXPECT_TRUE(warnings("torch-fsdp", {}).empty());
}

TEST(AccelerateFile, RefusesOtherEngines) {
  const Result<Job> job = read_launcher("distributed_type: DEEPSPEED\n");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message,
            "d.yaml:1: 'distributed_type' DEEPSPEED has rules of its own; leave this file out and use "
            "--framework deepspeed");
}

}  // namespace
}  // namespace commlens::huggingface
