#include "commlens/model/model_config.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(PaddedVocab,
     FollowsGptNeox) {  // rules/neox_megatron.md §6.2: 50304 / 50432 / 50688 / 51200 for t = 1 / 2 / 4 / 8
  ModelConfig model;
  model.raw_vocab = 50257;
  model.vocab_multiple = 128;
  EXPECT_EQ(with_padded_vocab(model, 1).vocab, 50304);
  EXPECT_EQ(with_padded_vocab(model, 2).vocab, 50432);
  EXPECT_EQ(with_padded_vocab(model, 4).vocab, 50688);
  EXPECT_EQ(with_padded_vocab(model, 8).vocab, 51200);
}

TEST(PaddedVocab, IsComputedFromTheRawOneEachTime) {
  ModelConfig model;
  model.raw_vocab = 50257;
  model.vocab_multiple = 128;
  EXPECT_EQ(with_padded_vocab(with_padded_vocab(model, 8), 1).vocab, 50304);
}

TEST(PaddedVocab, LeavesAGivenVocabularyAlone) {
  ModelConfig model;
  model.vocab = 251;
  EXPECT_EQ(with_padded_vocab(model, 4).vocab, 251);
  model.vocab = model.raw_vocab = 512;
  model.vocab_multiple = 128;
  model.vocab_is_padded = true;
  EXPECT_EQ(with_padded_vocab(model, 8).vocab, 512);
}

}  // namespace
}  // namespace commlens
