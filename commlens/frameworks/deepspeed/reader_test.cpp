#include "commlens/frameworks/deepspeed/reader.hpp"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/config/json_document.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/tensor_split.hpp"

namespace commlens {
namespace {

Result<Job> read_deepspeed(const std::string& text) {
  Job job;
  const Result<void> ok = read_deepspeed(parse_json("ds.json", text).value(), job);
  return ok ? Result<Job>(job) : tl::unexpected(ok.error());
}

std::string deepspeed_error_of(const std::string& text) {
  const Result<Job> job = read_deepspeed(text);
  return job ? "no error" : job.error().message;
}

TEST(DeepSpeedJson, AnEmptyMapKeepsTheDefaultsOfTheVersion) {  // runtime/config.py of 0.14.0
  const Job job = read_deepspeed("{}").value();
  EXPECT_EQ(job.train.zero_stage, 0);
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 500'000'000);
  EXPECT_EQ(deepspeed::options(job).sub_group_size, 1'000'000'000);
  EXPECT_TRUE(deepspeed::options(job).pipe_partitioned);
  EXPECT_TRUE(job.warnings.empty());
}

TEST(DeepSpeedJson, ReadsStage3UnderBothNames) {
  const Job job = read_deepspeed(R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 0,
                           "stage3_param_persistence_threshold": 1e4, "max_live_parameters": 7,
                           "stage3_max_reuse_distance": 8, "stage3_model_persistence_threshold": 9,
                           "sub_group_size": 1e8, "zero_hpz_partition_size": 4, "reduce_scatter": false}})")
                      .value();
  EXPECT_EQ(job.train.zero_stage, 3);
  EXPECT_TRUE(deepspeed::options(job).overlap_comm);
  EXPECT_EQ(deepspeed::options(job).prefetch_bucket_size, 0);
  EXPECT_EQ(job.train.persistence_threshold, 10'000);
  EXPECT_EQ(deepspeed::options(job).max_live_parameters, 7);
  EXPECT_EQ(deepspeed::options(job).max_reuse_distance, 8);
  EXPECT_EQ(deepspeed::options(job).model_persistence_threshold, 9);
  EXPECT_EQ(deepspeed::options(job).sub_group_size, 100'000'000);
  EXPECT_EQ(job.train.hpz, 4);
  EXPECT_FALSE(deepspeed::options(job).reduce_scatter);
}

TEST(DeepSpeedJson, OverlapIsOffForStages1And2UnlessAskedFor) {
  const auto overlaps = [](const char* zero) {
    return deepspeed::options(read_deepspeed(std::string(R"({"zero_optimization": )") + zero + "}").value())
        .overlap_comm;
  };
  EXPECT_FALSE(overlaps(R"({"stage": 2})"));
  EXPECT_TRUE(overlaps(R"({"stage": 2, "overlap_comm": true})"));
  EXPECT_FALSE(overlaps(R"({"stage": 3, "overlap_comm": false})"));
}

TEST(DeepSpeedJson, ReadsPrecisionAndDataTypes) {
  EXPECT_EQ(read_deepspeed(R"({"fp16": {"enabled": true}})")->train.dtype, DType::fp16);
  EXPECT_EQ(read_deepspeed(R"({"bfloat16": {"enabled": true}})")->train.dtype, DType::bf16);
  EXPECT_EQ(read_deepspeed(R"({"fp16": {"enabled": false}})")->train.dtype, DType::fp32);
  const Job job = read_deepspeed(R"({"bf16": {"enabled": true}, "communication_data_type": "fp32",
                           "data_types": {"grad_accum_dtype": "fp32"}})")
                      .value();
  EXPECT_EQ(deepspeed::options(job).communication_dtype, DType::fp32);
  EXPECT_EQ(deepspeed::options(job).grad_accumulation_dtype, DType::fp32);
  EXPECT_EQ(deepspeed_error_of("{\n\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}"),
            "ds.json:2: 'fp16' and bf16 are both enabled; switch one off");
}

TEST(DeepSpeedJson, ReadsThePipelineSwitches) {
  const Job job =
      read_deepspeed(R"({"pipeline": {"pipe_partitioned": false, "grad_partitioned": false}})").value();
  EXPECT_FALSE(deepspeed::options(job).pipe_partitioned);
  EXPECT_FALSE(deepspeed::options(job).grad_partitioned);
}

TEST(DeepSpeedJson, LeavesOpenWhatTheGlobalBatchDecides) {
  const Job steps =
      read_deepspeed(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})").value();
  EXPECT_EQ(steps.global_batch, 64);
  EXPECT_EQ(steps.train.micro_batches, 0);
  const Job micro = read_deepspeed(R"({"train_batch_size": 64, "gradient_accumulation_steps": 2})").value();
  EXPECT_EQ(micro.train.micro_batch, 0);
  EXPECT_EQ(micro.train.micro_batches, 2);
  EXPECT_EQ(read_deepspeed(R"({"train_micro_batch_size_per_gpu": 4})")->global_batch, 0);
}

TEST(DeepSpeedJson, RefusesABatchThatNoNumberOfRanksMakes) {
  const auto of_total = [](int total) {
    return read_deepspeed(fmt::format(R"({{"train_batch_size": {}, "train_micro_batch_size_per_gpu": 4,
                                          "gradient_accumulation_steps": 2}})",
                                      total));
  };
  EXPECT_EQ(of_total(64)->global_batch, 64);
  for (const int total : {100, 4}) {
    ASSERT_FALSE(of_total(total)) << total;
    EXPECT_NE(
        of_total(total).error().message.find("no number of ranks makes of 4 sequences and 2 steps each"),
        std::string::npos)
        << of_total(total).error().message;
  }
}

TEST(DeepSpeedJson, SeesOffloadInEveryForm) {
  const auto offloads = [](const std::string& section) {
    const std::string text = R"({"zero_optimization": {"stage": 2, )" + section + "}}";
    const Job job = read_deepspeed(text).value();
    return deepspeed::options(job).offloads_optimizer || deepspeed::options(job).offloads_parameters;
  };
  for (const char* section : {R"("offload_optimizer": {"device": "cpu"})",
                              R"("offload_param": {"device": "nvme"})", R"("cpu_offload": true)"}) {
    EXPECT_TRUE(offloads(section)) << section;
  }
  EXPECT_FALSE(offloads(R"("offload_optimizer": {"device": "none"})"));
}

TEST(DeepSpeedJson, RefusesByNameWhatHasNoRules) {
  EXPECT_EQ(deepspeed_error_of(R"({"optimizer": {"type": "OneBitAdam"}})"),
            "ds.json:1: 'optimizer' is onebitadam, whose compressed all_reduce has no rules here (DeepSpeed "
            "0.19.7 removed it)");
  EXPECT_EQ(deepspeed_error_of(R"({"zero_optimization": {"legacy_stage1": true}})"),
            "ds.json:1: 'legacy_stage1' is refused by DeepSpeed since 0.5.9; leave it out");
}

TEST(DeepSpeedJson, ReadsHowTheModelIsSplit) {
  const Job tensor =
      read_deepspeed(R"({"tensor_parallel": {"autotp_size": 4, "partition_config": {"layer_specs":
      [{"patterns": [".*up.weight$"], "partition_type": "column"}]}}})")
          .value();
  EXPECT_EQ(tensor.layout.tp, 4);
  ASSERT_EQ(deepspeed::options(tensor).tensor_specs->size(), 1U);
  EXPECT_EQ(deepspeed::TensorSplits(tensor).of("layers.0.up.weight"), TensorSplit::column);
  EXPECT_EQ(deepspeed::TensorSplits(tensor).of("layers.0.down.weight"), TensorSplit::replicated);
  const Job sequence = read_deepspeed(R"({"sequence_parallel_size": 2, "data_parallel_size": 2})").value();
  EXPECT_EQ(sequence.layout.cp, 2);
  EXPECT_EQ(deepspeed::options(sequence).sequence_groups, deepspeed::SequenceGroups::mesh);
  const Job experts = read_deepspeed(R"({"expert_parallel": {"enabled": true, "autoep_size": 2}})").value();
  EXPECT_EQ(experts.layout.ep, 2);
  EXPECT_EQ(deepspeed_error_of(R"({"tensor_parallel": {"autotp_size": 2, "partition_config": {"layer_specs":
      [{"patterns": ["("]}]}}})"),
            "ds.json:2: 'patterns' '(' is not a regular expression of up to 200 characters");
}

TEST(DeepSpeedJson, RefusesPatternsThatTakeTooLong) {
  Job job;
  deepspeed::options(job).auto_tp = true;
  deepspeed::options(job).tensor_specs = {{{"(a|aa)+$"}, TensorSplit::column}};
  EXPECT_TRUE(deepspeed::check_patterns(job, {"head.weight"}).has_value());
  EXPECT_EQ(
      deepspeed::check_patterns(job, {std::string(60, 'a') + "!"}).error().message,
      "tensor_parallel.partition_config: the pattern '(a|aa)+$' takes too long on "
      "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'; write one that does not repeat a "
      "repetition");
}

/// The first spec that matches decides, and one that leaves a linear whole does so for those behind it.
TEST(DeepSpeedJson, LeavesWholeWhatASpecSkips) {
  const Job job = read_deepspeed(R"({"tensor_parallel": {"autotp_size": 2, "partition_config": {"layer_specs":
      [{"patterns": [".*0.up"], "partition_type": "skip"}, {"patterns": [".*up"]}]}}})")
                      .value();
  EXPECT_EQ(deepspeed::TensorSplits(job).of("layers.0.up.weight"), TensorSplit::replicated);
  EXPECT_EQ(deepspeed::TensorSplits(job).of("layers.1.up.weight"), TensorSplit::column);
}

TEST(DeepSpeedJson, PutsSpecsBeforeThoseOfAPreset) {
  const auto specs = [](const char* rest) {
    return *deepspeed::options(
                read_deepspeed(std::string(R"({"tensor_parallel": {"autotp_size": 2, )") + rest).value())
                .tensor_specs;
  };
  EXPECT_EQ(specs(R"("preset_model": "llama"}})").size(), 4U);
  EXPECT_EQ(specs(R"("preset_model": "llama", "partition_config": {"layer_specs": [{"patterns": ["x"]}]}}})")
                .size(),
            5U);
  EXPECT_EQ(specs(R"("preset_model": "llama", "partition_config": {"use_default_specs": false}}})").size(),
            0U);
}

TEST(DeepSpeedJson, RefusesWrongValues) {
  EXPECT_EQ(deepspeed_error_of(R"({"zero_optimization": {"stage": 4}})"),
            "ds.json:1: 'stage' is 4; ZeRO has stages 0 to 3");
  EXPECT_EQ(deepspeed_error_of(R"({"zero_optimization": {"reduce_bucket_size": 0}})"),
            "ds.json:1: 'reduce_bucket_size' is 0; it must be at least 1");
  EXPECT_EQ(deepspeed_error_of(R"({"zero_optimization": [1]})"),
            "ds.json:1: keys with values are expected here");
  EXPECT_EQ(deepspeed_error_of(R"({"gradient_clipping": "x"})"),
            "ds.json:1: 'gradient_clipping' must be a number, it is \"x\"");
}

TEST(DeepSpeedJson, WarnsOfUnknownKeysAtBothLevels) {
  const Job job = read_deepspeed(R"({"zero_optimisation": {}, "zero_optimization": {"stages": 1}})").value();
  ASSERT_EQ(job.warnings.size(), 2U);
  EXPECT_EQ(job.warnings[0], "ds.json:1: unknown key 'stages'; did you mean 'stage'?");
  EXPECT_EQ(job.warnings[1], "ds.json:1: unknown key 'zero_optimisation'; did you mean 'zero_optimization'?");
  EXPECT_EQ(job.unmodelled, std::vector<std::string>({"unknown key 'stages' (ds.json:1)",
                                                      "unknown key 'zero_optimisation' (ds.json:1)"}));
}

TEST(DeepSpeedJson, NamesWhatItLeavesOut) {
  const auto skipped = [](const std::string& text) {
    const Job job = read_deepspeed("{" + text + "}").value();
    return job.unmodelled.empty() ? "" : job.unmodelled.front();
  };
  const std::pair<std::string, std::string> rows[] = {
      {R"("compile": {"deepcompile": true})", "compile.deepcompile"},
      {R"("compile": {"enabled": true})", "compile"},
      {R"("autotuning": {"enabled": true})", "autotuning"},
      {R"("data_efficiency": {"enabled": true})", "data_efficiency"},
      {R"("hybrid_engine": {"enabled": true})", "hybrid_engine"},
      {R"("optimizer": {"type": "Muon"})", "optimizer Muon"},
      {R"("pipeline": {"activation_checkpoint_interval": 1})", "activation_checkpoint_interval"},
      {R"("fp16": {"enabled": true, "fp16_master_weights_and_grads": true})",
       "fp16_master_weights_and_grads"},
      {R"("zero_optimization": {"zenflow": {"topk_ratio": 0.1}})", "zenflow"}};
  for (const auto& [text, name] : rows) {
    EXPECT_EQ(skipped(text), "'" + name + "' (ds.json:1) has no rules") << text;
  }
}

TEST(DeepSpeedJson, WhatIsSwitchedOffOrChangesNoMessagePassesSilently) {
  const Job job = read_deepspeed(R"({"tensor_parallel": {"autotp_size": 1}, "sequence_parallel_size": 1,
      "compile": {"enabled": false, "deepcompile": false}, "autotuning": {"enabled": false},
      "data_efficiency": {}, "progressive_layer_drop": {"enabled": false}, "weight_quantization": null,
      "wall_clock_breakdown": true, "steps_per_print": 10, "aio": {"block_size": 1}, "flops_profiler": {"enabled": true},
      "comms_logger": {"enabled": true}, "optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR"},
      "zero_optimization": {"stage": 3, "zenflow": null, "allgather_partitions": true, "sub_group_size": 1e9,
                            "stage3_gather_16bit_weights_on_model_save": true}})")
                      .value();
  EXPECT_TRUE(job.unmodelled.empty()) << job.unmodelled.front();
  EXPECT_TRUE(job.warnings.empty()) << job.warnings.front();
}

}  // namespace
}  // namespace commlens
