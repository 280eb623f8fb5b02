#include "commlens/frameworks/presets.hpp"

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

TEST(Presets, AreFoundUnderEverySpelling) {
  for (const char* name : {"1.3B", "1-3B", "1.3b", "1-3b"}) {
    ASSERT_TRUE(preset(name)) << name;
    EXPECT_EQ(preset(name).value().model.name, "1.3B") << name;
  }
  EXPECT_FALSE(preset("1.4B"));
  EXPECT_FALSE(preset(""));
}

TEST(Presets, AllValidate) {
  for (const std::string_view name : preset_names()) {
    EXPECT_TRUE(validated(preset(name).value())) << name;
  }
}

TEST(Presets, CarryTheSettingsOfTheirFiles) {  // gpt-neox configs/*.yml
  const Job job = preset("20B").value();
  EXPECT_EQ(job.framework, "neox");
  EXPECT_EQ(job.framework_version, "4bc66703");
  EXPECT_EQ(job.model.vocab, 50304);
  EXPECT_EQ(job.model.sequence, 2048);
  EXPECT_TRUE(job.model.parallel_residual);
  EXPECT_FALSE(job.model.tied_embeddings);
  EXPECT_EQ(job.train.micro_batch, 4);
  EXPECT_EQ(job.train.micro_batches, 1);
  EXPECT_EQ(job.train.dtype, DType::fp16);
  EXPECT_EQ(job.train.zero_stage, 1);
  EXPECT_EQ(job.train.recompute, Recompute::full);
  EXPECT_EQ(job.train.gradient_clipping, 1.0);
  EXPECT_EQ(deepspeed::options(job).reduce_bucket_size, 1'260'000'000);
  EXPECT_FALSE(job.train.partition_activations);
  EXPECT_TRUE(preset("13B").value().train.partition_activations);
  EXPECT_EQ(deepspeed::options(preset("13B").value()).reduce_bucket_size, 500'000'000);
  EXPECT_TRUE(preset("49M").value().model.parallel_residual);
}

}  // namespace
}  // namespace commlens
