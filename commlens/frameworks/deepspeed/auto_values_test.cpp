#include "commlens/frameworks/deepspeed/auto_values.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/config/json_document.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {
namespace {

/// A model of width 4096 in bf16, as a checkpoint's config.json would describe it, with these settings.
Job wide_job(const std::string& settings, const TrainingArguments& given = {}) {
  Job job;
  job.framework = "commlens";
  job.is_converted = true;
  job.model.hidden = 4096;
  job.model.heads = 32;
  job.train.dtype = DType::bf16;
  EXPECT_TRUE(read_deepspeed(parse_json("ds.json", settings).value(), job, given));
  return with_framework(job, "deepspeed");
}

const std::string k_auto_sizes =
    R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
                             "stage3_param_persistence_threshold": "auto"}})";

// Expected: transformers 5.23 integrations/deepspeed.py trainer_config_finalize, by hand for 4096:
// 4096 x 4096 = 16,777,216; 0.9 x 16,777,216 = 15,099,494.4; 10 x 4096 = 40,960.
TEST(DeepSpeedAuto, SizesFollowTheWidthOfTheModel) {
  const Job job = wide_job(k_auto_sizes);
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 16'777'216);
  EXPECT_EQ(deepspeed::options(job).prefetch_bucket_size, 15'099'494);
  EXPECT_EQ(job.train.persistence_threshold, 40'960);
  EXPECT_EQ(job.warnings,
            std::vector<std::string>(
                {"ds.json: \"auto\" becomes what transformers sets: reduce_bucket_size 16777216 "
                 "(hidden^2), stage3_prefetch_bucket_size 15099494 (0.9 hidden^2), "
                 "stage3_param_persistence_threshold 40960 (10 hidden); other training arguments are "
                 "--micro-batch, --micro-batches, --clip and --dtype"}));
}

TEST(DeepSpeedAuto, SizesFollowAWidthThatAFlagChanges) {
  const Job job = with_overrides(wide_job(k_auto_sizes), {.hidden = 1000, .heads = 10}).value();
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 1'000'000);
  EXPECT_EQ(deepspeed::options(job).prefetch_bucket_size, 900'000);
  EXPECT_EQ(job.train.persistence_threshold, 10'000);
}

TEST(DeepSpeedAuto, AFlagOutweighsTheSize) {
  const Job job = with_overrides(wide_job(k_auto_sizes),
                                 {.dtype = DType::fp16, .bucket = Bytes{2000}, .persistence_threshold = 7})
                      .value();
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 1000);
  EXPECT_EQ(job.train.persistence_threshold, 7);
}

TEST(DeepSpeedAuto, OurTrainerTakesThePersistenceThresholdAlong) {
  const Job job = with_overrides(wide_job(k_auto_sizes), {.framework = "commlens", .hidden = 2048}).value();
  EXPECT_EQ(job.train.persistence_threshold, 20'480);
}

// training_args.py: per_device_train_batch_size 8, gradient_accumulation_steps 1, max_grad_norm 1.0, neither
// fp16 nor bf16.
TEST(DeepSpeedAuto, TheRestIsWhatTheTrainingArgumentsSayByDefault) {
  const Job job =
      wide_job(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
                              "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
                              "gradient_accumulation_steps": "auto",
                              "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}})");
  EXPECT_EQ(job.train.dtype, DType::fp32);
  EXPECT_EQ(job.train.gradient_clipping, 1.0);
  EXPECT_EQ(job.train.micro_batch, 8);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.global_batch, 0);
  EXPECT_TRUE(job.unmodelled.empty());
}

TEST(DeepSpeedAuto, OnePrecisionThatIsAutoDecidesForBoth) {
  EXPECT_EQ(wide_job(R"({"fp16": {"enabled": "auto"}})").train.dtype, DType::fp32);
  EXPECT_EQ(wide_job(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": true}})").train.dtype, DType::bf16);
}

TEST(DeepSpeedAuto, TrainingArgumentsThatAreGivenComeFirst) {
  const Job job = wide_job(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
                              "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"})",
                           {.micro_batch = 2, .micro_batches = 4, .dtype = DType::fp16});
  EXPECT_EQ(job.train.dtype, DType::fp16);
  EXPECT_EQ(job.train.micro_batch, 2);
  EXPECT_EQ(job.train.micro_batches, 4);
}

TEST(DeepSpeedAuto, ATotalOfItsOwnDecidesTheRest) {  // DeepSpeed derives what is missing of the three
  const Job job = wide_job(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
                              "gradient_accumulation_steps": "auto"})");
  EXPECT_EQ(job.global_batch, 64);
  EXPECT_EQ(job.train.micro_batch, 4);
  EXPECT_EQ(job.train.micro_batches, 0) << "open";
}

TEST(DeepSpeedAuto, AnotherAutoIsDeepSpeedsDefaultAndUnverified) {
  const Job job = wide_job(R"({"zero_optimization": {"stage": 2, "overlap_comm": "auto"}})");
  EXPECT_FALSE(deepspeed::options(job).overlap_comm);
  ASSERT_EQ(job.warnings.size(), 1U);
  EXPECT_NE(job.warnings[0].find("'zero_optimization.overlap_comm' is \"auto\""), std::string::npos);
  EXPECT_EQ(job.unmodelled, std::vector<std::string>{"ds.json: 'zero_optimization.overlap_comm' \"auto\""});
}

TEST(DeepSpeedAuto, SizesOfAnImpossibleWidthAreLeftToTheCheck) {
  Job job;
  job.model.hidden = INT64_MAX;
  EXPECT_TRUE(read_deepspeed(parse_json("ds.json", k_auto_sizes).value(), job));
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 500'000'000);
}

}  // namespace
}  // namespace commlens
