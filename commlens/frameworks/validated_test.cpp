#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

/// The error of `validated` for a preset after a change.
std::string error_of(const char* name, const std::function<void(Job&)>& change) {
  Job job = preset(name).value();
  change(job);
  const Result<Job> result = validated(job);
  return result ? "no error" : result.error().message;
}

TEST(Validated, PadsTheVocabularyForTensorParallelism) {
  Job job = preset("1.3B").value();
  job.layout.tp = 8;
  EXPECT_EQ(validated(job).value().model.vocab, 51200);
}

TEST(Validated, ChangesNothingTheSecondTime) {
  Job job = preset("13B").value();
  job.layout = {.ranks = 64, .tp = 4, .pp = 2};
  job.global_batch = 256;
  job.train.micro_batches = 0;
  const Job once = validated(job).value();
  const Job twice = validated(once).value();
  EXPECT_EQ(once.train.micro_batches, 8);
  EXPECT_EQ(twice.train.micro_batches, 8);
  EXPECT_EQ(twice.layout.dp, 8);
  EXPECT_EQ(twice.model.vocab, 50688);
}

TEST(Validated, NamesTheDegreesThatWork) {  // the paper's footnote 4: 125M cannot run with tp 8
  EXPECT_EQ(error_of("125M", [](Job& job) { job.layout.tp = 8; }),
            "12 heads are not divisible by tp 8; use tp 1, 2, 3, 4, 6 or 12");
}

TEST(Validated, RefusesSizesThatAreNotPositive) {
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.layers = 0; }), "layers is 0; it must be at least 1");
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.hidden = -1; }), "hidden is -1; it must be at least 1");
  EXPECT_EQ(error_of("19M", [](Job& job) { job.train.micro_batch = 0; }),
            "micro_batch is 0; it must be at least 1");
  EXPECT_EQ(error_of("19M", [](Job& job) { job.train.micro_batches = 0; }),
            "micro_batches is 0; it must be at least 1");
  EXPECT_EQ(error_of("19M", [](Job& job) { job.iterations = -3; }),
            "iterations is -3; it must be at least 1");
  EXPECT_EQ(error_of("19M", [](Job& job) { job.train.zero_stage = 4; }),
            "ZeRO stage 4 does not exist; use 0, 1, 2 or 3");
}

TEST(Validated, RefusesHiddenThatHeadsDoNotDivide) {
  EXPECT_EQ(error_of("19M",
                     [](Job& job) {
                       job.model.heads = 7;
                       job.model.head_dim = 0;
                     }),
            "hidden 512 is not divisible by 7 heads; change one, or give head_dim");
}

TEST(Validated, RefusesProductsThatOverflow) {
  constexpr std::int64_t huge = INT64_MAX;
  const std::string parameters =
      "the model has more than 2^54 parameters; check layers, hidden, ffn_hidden, vocab and experts";
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.raw_vocab = huge; }), parameters);
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.ffn_hidden = huge; }), parameters);
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.head_dim = huge; }), parameters);
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.vocab_multiple = huge; }), parameters);
  const std::string activations =
      "an iteration moves more than 2^54 activations; check sequence, micro_batch and micro_batches";
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.sequence = huge; }), activations);
  EXPECT_EQ(error_of("19M", [](Job& job) { job.train.micro_batch = huge; }), activations);
  EXPECT_EQ(error_of("19M", [](Job& job) { job.train.micro_batches = huge; }), activations);
  EXPECT_EQ(error_of("19M", [](Job& job) { job.model.layers = huge; }),
            "layers is 9223372036854775807; at most 10000 are supported");
}

TEST(Validated, RefusesScoresAndLogitsThatOverflow) {
  EXPECT_EQ(error_of("19M",
                     [](Job& job) {  // 8 x 10^16 scores of 8 heads
                       job.model.layers = job.train.micro_batch = 1;
                       job.model.sequence = job.model.max_positions = 100'000'000;
                     }),
            "a layer has more than 2^54 attention scores; check sequence, heads and micro_batch");
  EXPECT_EQ(error_of("19M",
                     [](Job& job) {  // 8 x 10^16 logits of 8192 tokens
                       job.model.raw_vocab = 10'000'000'000;
                       job.train.micro_batches = 1'000;
                     }),
            "an iteration has more than 2^54 logits; check vocab, sequence, micro_batch and micro_batches");
}

TEST(Validated, RefusesPipelinesThatLayersDoNotFill) {
  EXPECT_EQ(error_of("19M", [](Job& job) { job.layout.pp = 12; }),
            "6 layers do not fill 12 pipeline stages; use a smaller --pp");
}

TEST(Validated, RefusesOtherDTypes) {
  EXPECT_EQ(error_of("19M", [](Job& job) { job.train.dtype = DType::fp64; }),
            "a model is trained in fp32, fp16 or bf16, not in fp64");
}

TEST(Validated, RefusesExpertParallelismOfADenseModel) {
  EXPECT_EQ(error_of("19M", [](Job& job) { job.layout = {.ranks = 4, .ep = 2}; }),
            "ep 2 needs a mixture of experts; this model is dense");
}

TEST(Validated, DerivesTheMicroBatchesFromTheGlobalBatch) {
  Job job = preset("19M").value();
  job.layout.ranks = 8;
  job.global_batch = 64;
  job.train.micro_batches = 0;
  EXPECT_EQ(validated(job).value().train.micro_batches, 2);
  job.train.micro_batch = 0;
  job.train.micro_batches = 4;
  EXPECT_EQ(validated(job).value().train.micro_batch, 2);
  job.global_batch = 65;
  EXPECT_FALSE(validated(job));
}

TEST(Validated, RefusesAGlobalBatchThatDisagrees) {
  EXPECT_EQ(
      error_of("19M", [](Job& job) { job.global_batch = 8; }),
      "the global batch 8 is not micro-batch 4 x 1 micro-batches x dp 1; change one of them or --ranks");
}

TEST(Validated, TurnsThePipelineEngineOn) {
  Job job = preset("19M").value();
  EXPECT_FALSE(deepspeed::options(validated(job).value()).pipeline_engine);
  job.layout.pp = 2;
  EXPECT_TRUE(deepspeed::options(validated(job).value()).pipeline_engine);
  job.layout.pp = 1;
  job.framework_version = "8b43196f";
  EXPECT_TRUE(deepspeed::options(validated(job).value()).pipeline_engine);
}

}  // namespace
}  // namespace commlens
