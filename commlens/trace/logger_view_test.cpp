#include "commlens/trace/logger_view.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

bool sees(const char* source) { return logger_sees({.name = "rule", .source = source}); }

TEST(LoggerView, SeesWhatDeepSpeedItselfAsksFor) {
  EXPECT_TRUE(sees("deepspeed 0.14.0 runtime/zero/stage3.py:1221"));
  EXPECT_TRUE(sees("deepspeed 0.17.1 runtime/zero/stage3.py:1221"));
}

TEST(LoggerView, SeesNoCallOfAnotherLibrary) {
  for (const char* other :
       {"neox 4bc66703 megatron/utils.py:47", "gpt-neox 8b43196f megatron/mpu/mappings.py:116",
        "megatron core_v0.7.0 tensor_parallel/layers.py:441", "torch 1.13 csrc/distributed/c10d/reducer.cpp",
        "torchtitan 0.1 train.py:1", "transformers 5.23 trainer.py:1", "deepspeed-mii 0.2 x.py:1"}) {
    EXPECT_FALSE(sees(other)) << other;
  }
}

TEST(LoggerView, TakesCallsOfNoLibraryAsSeen) {
  for (const char* own : {"", "docs/training.md#data-parallel", "arXiv 2408.10197 Eq. 2 (DDP)"}) {
    EXPECT_TRUE(sees(own)) << own;
  }
}

}  // namespace
}  // namespace commlens
