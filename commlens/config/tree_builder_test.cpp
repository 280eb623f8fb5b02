#include "commlens/config/tree_builder.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

using Kind = ConfigNode::Kind;

TEST(TreeBuilder, AlternatesKeysAndValuesInAMap) {
  TreeBuilder builder("f");
  builder.begin(Kind::map, 1);
  builder.scalar("key", false, 2);
  builder.scalar("value", true, 3);
  builder.end();
  ASSERT_TRUE(builder.has_root());
  ASSERT_EQ(builder.root().keys.size(), 1U);
  EXPECT_EQ(builder.root().keys[0], "key");
  EXPECT_EQ(builder.root().items[0].text, "value");
  EXPECT_EQ(builder.root().items[0].where(), "f:3");
}

TEST(TreeBuilder, RefusesDeepNesting) {
  TreeBuilder builder("f");
  for (int depth = 0; depth < 100'000; ++depth) {
    builder.begin(Kind::list, depth + 1);
  }
  EXPECT_EQ(builder.error(), "f:65: nested deeper than 64 levels");
}

TEST(TreeBuilder, CountsCopiesTowardsTheLimit) {
  TreeBuilder builder("f");
  ConfigNode list;
  list.kind = Kind::list;
  list.items.resize(999);
  builder.begin(Kind::list, 1);
  for (int copy = 0; copy < 99; ++copy) {
    builder.copy(list, 2);
  }
  EXPECT_FALSE(builder.failed());
  builder.copy(list, 3);
  EXPECT_EQ(builder.error(),
            "f:3: more than 100000 values (aliases expanded); no configuration is that large");
}

TEST(TreeBuilder, RefusesKeysThatAreNoText) {
  TreeBuilder builder("f");
  builder.begin(Kind::map, 1);
  builder.begin(Kind::list, 2);
  builder.end();
  EXPECT_EQ(builder.error(), "f:2: a key must be plain text");
}

TEST(TreeBuilder, IgnoresEverythingAfterAMistake) {
  TreeBuilder builder("f");
  builder.begin(Kind::map, 1);
  builder.null(2);
  builder.end();
  builder.end();
  builder.scalar("x", false, 3);
  EXPECT_EQ(builder.error(), "f:2: a key must be plain text");
}

}  // namespace
}  // namespace commlens
