#include "commlens/model/version.hpp"

#include <string>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(IsSameVersion, ComparesEveryPartOfARelease) {
  for (const char* same : {"0.14.0", "v0.14.0", "0.14.0+cpu", "0.14.0+cu118", "0.14.0+rocm5.2"}) {
    EXPECT_TRUE(is_same_version(same, "0.14.0")) << same;
  }
  for (const char* other : {"",
                            "0",
                            "0.14",
                            "0.14.",
                            "0.14.0.",
                            "0.14.0.1",
                            "0.14.00x",
                            "0.14.01",
                            "0.14.1",
                            "0.14.10",
                            "0.14.0rc9",
                            "0.14.0.post1",
                            "0.14.0+4bc6670",
                            "0.14.0+",
                            "0.14.0+cu",
                            "00.14.0 ",
                            "-0.14.0",
                            "1.14.0",
                            "core_v0.14.0",
                            "99999999999999999999.14.0"}) {
    EXPECT_FALSE(is_same_version(other, "0.14.0")) << other;
  }
}

TEST(IsSameVersion, TakesEveryReleaseOfALineOfTwoParts) {
  for (const char* same : {"1.13", "1.13.0", "1.13.1", "1.13.1+cu117", "v1.13"}) {
    EXPECT_TRUE(is_same_version(same, "1.13")) << same;
  }
  for (const char* other :
       {"1", "1.1", "1.131", "1.14", "11.13", "1.13.0a0", "1.13a", "1.13.0a0+git7c98e70"}) {
    EXPECT_FALSE(is_same_version(other, "1.13")) << other;
  }
}

TEST(IsSameVersion, TakesThePrefixForAPartOfTheName) {
  EXPECT_TRUE(is_same_version("core_v0.7.0", "core_v0.7.0"));
  for (const char* other :
       {"core_v0", "core_v0.7", "core_v", "core_v0.7.01", "core_r0.7.0", "0.7.0", "core_v0.7.0rc0"}) {
    EXPECT_FALSE(is_same_version(other, "core_v0.7.0")) << other;
  }
}

TEST(IsSameVersion, TakesACommitOfAtLeastSevenDigits) {
  for (const char* same : {"4bc66703", "4bc6670", "4bc667031d1b0c4d7a3c2f5e6a7b8c9d0e1f2a3b"}) {
    EXPECT_TRUE(is_same_version(same, "4bc66703")) << same;
  }
  for (const char* other : {"4bc667", "4bc66704", "4bc66703z", "v4bc66703", "", "2.0"}) {
    EXPECT_FALSE(is_same_version(other, "4bc66703")) << other;
  }
}

// git abbreviates commits to seven digits or more; fewer name too many commits, whichever side has them.
TEST(IsSameVersion, TakesNoShorterCommitOnEitherSide) {
  EXPECT_TRUE(is_same_version("4bc6670", "4bc6670"));
  EXPECT_TRUE(is_same_version("4bc66703", "4bc6670"));
  EXPECT_FALSE(is_same_version("4bc667", "4bc667"));
  EXPECT_FALSE(is_same_version("4bc66703", "4bc667"));
}

TEST(IsSameVersion, TakesNamesOfUpToAHundredLetters) {
  const std::string longest = "4bc66703" + std::string(92, '0');
  EXPECT_TRUE(is_same_version(longest, "4bc66703"));
  EXPECT_FALSE(is_same_version(longest + "0", "4bc66703"));
}

}  // namespace
}  // namespace commlens
