#include "commlens/frameworks/megatron/layer_pattern.hpp"

#include <string>

#include <gtest/gtest.h>

namespace commlens::megatron {
namespace {

std::string pattern_of(const std::string& text, std::int64_t layers) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.text = text;
  const Result<std::vector<bool>> pattern = layer_pattern(node, layers);
  if (!pattern) {
    return pattern.error().message;
  }
  std::string digits;
  for (const bool is_mixture : *pattern) {
    digits += is_mixture ? '1' : '0';
  }
  return digits;
}

TEST(LayerPattern, EveryNthLayerFromTheFirstOn) {
  EXPECT_EQ(pattern_of("1", 4), "1111");
  EXPECT_EQ(pattern_of("2", 5), "10101");
}

TEST(LayerPattern, ReadsListsAsPythonWritesThem) {
  EXPECT_EQ(pattern_of("([0]*3+[1]*5)", 8), "00011111");
  EXPECT_EQ(pattern_of("[0]+([1] * 2+[0]*1)*2", 7), "0110110");
  EXPECT_EQ(pattern_of("[0,1, 1]", 3), "011");
}

TEST(LayerPattern, RefusesWhatFitsNoModel) {
  EXPECT_EQ(pattern_of("[1]*3", 4), "has 3 entries for 4 layers");
  EXPECT_EQ(pattern_of("[2]", 1), "has the entry 2; entries are 0 and 1");
  EXPECT_EQ(pattern_of("0", 4), "is 0; it must be at least 1");
  EXPECT_EQ(pattern_of("([0]*3", 3), "is '([0]*3'; write a number or a list such as ([0]*3+[1]*58)");
  EXPECT_EQ(pattern_of("[1]*999999*999999", 3),
            "is '[1]*999999*999999'; write a number or a list such as ([0]*3+[1]*58)");
}

}  // namespace
}  // namespace commlens::megatron
