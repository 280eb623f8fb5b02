#include "commlens/model/version.hpp"

#include <array>
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

struct Row {
  const char* named;
  VersionChoice choice;
};

// Ranges as a library's behaviour changes, the oldest a line that is far from the others.
constexpr std::array k_lines = {recorded_version("1.13"),
                                KnownVersion{"2.6-2.7", "2.6", "2.7", "2.6.0 2.7.1"},
                                KnownVersion{"2.8", "2.8", "2.8", "2.8.0"},
                                KnownVersion{"2.9", "2.9", "2.9", "2.9"},
                                KnownVersion{"2.10-2.11", "2.10", "2.11", "2.10.0"},
                                KnownVersion{"2.12-2.14", "2.12", "2.14", "2.13.0"},
                                KnownVersion{"2.15", "2.15", "2.15", "2.15.0"}};

TEST(ChooseVersion, TakesTheNearestOlderOfLines) {
  using enum VersionMatch;
  const Row rows[] = {{"", {6, recorded}},  // the default
                      {"1.13", {0, recorded}},
                      {"1.13.1+cu117", {0, recorded}},
                      {"1.12.1", {0, oldest}},
                      {"0.4.1", {0, oldest}},
                      {"1.13.0rc1", {0, oldest}},
                      {"2.0.1", {0, nearest_older}},
                      {"2.5.1+cu124", {0, nearest_older}},
                      {"2.6", {1, in_range}},  // which release of 2.6 is not known
                      {"2.6.0+cpu", {1, recorded}},
                      {"v2.6.0", {1, recorded}},
                      {"2.6.1", {1, in_range}},
                      {"2.7.0", {1, in_range}},
                      {"2.7.1", {1, recorded}},
                      {"2.7.2", {1, in_range}},
                      {"2.8.0.dev20250601", {1, nearest_older}},
                      {"2.8.0a0+34c6371d24.nv25.08", {1, nearest_older}},
                      {"2.8.0-rc3", {1, nearest_older}},
                      {"2.8.0", {2, recorded}},
                      {"2.8.0.post1", {2, in_range}},
                      {"2.8", {2, recorded}},  // the name of the row
                      {"2.10-2.11", {4, recorded}},
                      {"2.9.0rc1", {2, nearest_older}},
                      {"2.9.1", {3, recorded}},
                      {"2.9.1a0+git7c98e70", {3, in_range}},
                      {"2.10.0", {4, recorded}},
                      {"2.10.0+git1234567", {4, in_range}},
                      {"2.11.1", {4, in_range}},
                      {"2.11.0.dev1", {4, in_range}},
                      {"2.12.0rc2", {4, nearest_older}},
                      {"2.14.9", {5, in_range}},
                      {"2.15.0", {6, recorded}},
                      {"2.16.0", {6, nearest_older}},
                      {"2.101", {6, nearest_older}},
                      {"3", {6, nearest_older}},
                      {"2", {0, nearest_older}},
                      {"4bc66703", {6, not_comparable}},
                      {"nightly", {6, not_comparable}},
                      {"2.9.0foo", {6, not_comparable}},
                      {"2..9", {6, not_comparable}},
                      {"99999999999999999999.1", {6, not_comparable}}};
  for (const auto& [named, choice] : rows) {
    const VersionChoice chosen = choose_version(k_lines, 6, named);
    EXPECT_EQ(chosen.index, choice.index) << named;
    EXPECT_EQ(chosen.match, choice.match) << named;
  }
}

TEST(ChooseVersion, TakesReleasesByTheirNumberWhateverTheirPrefix) {
  using enum VersionMatch;
  constexpr std::array known = {
      KnownVersion{"core_v0.7.0", "core_v0.7.0", "core_v0.7.0", "core_v0.7.0 core_r0.7.0 0.7.0"},
      recorded_version("core_v0.12.1")};
  const Row rows[] = {{"core_v0.7.0", {0, recorded}},
                      {"core_r0.7.0", {0, recorded}},
                      {"core_v0", {0, oldest}},
                      {"core_v0.7", {0, in_range}},
                      {"core_v0.7.1", {0, nearest_older}},
                      {"core_r0.12.0", {0, nearest_older}},
                      {"core_v0.12.1", {1, recorded}},
                      {"0.12.1", {1, in_range}},
                      {"core_v0.15.0rc7", {1, nearest_older}},
                      {"0123abcd", {0, not_comparable}}};
  for (const auto& [named, choice] : rows) {
    const VersionChoice chosen = choose_version(known, 0, named);
    EXPECT_EQ(chosen.index, choice.index) << named;
    EXPECT_EQ(chosen.match, choice.match) << named;
  }
}

TEST(ChooseVersion, TakesTheDefaultForACommitThatIsNotListed) {
  constexpr std::array known = {recorded_version("4bc66703"), recorded_version("8b43196f")};
  using enum VersionMatch;
  EXPECT_EQ(choose_version(known, 0, "8b43196"), (VersionChoice{1, recorded}));
  for (const char* other : {"deadbeef", "2.0", "v2.0.0", "main"}) {
    EXPECT_EQ(choose_version(known, 0, other), (VersionChoice{0, not_comparable})) << other;
    EXPECT_EQ(choose_version(known, 1, other), (VersionChoice{1, not_comparable})) << other;
  }
}

TEST(ChooseVersion, TakesAllOlderOnesWhereTheOldestHasNoFirst) {
  constexpr std::array known = {KnownVersion{"<=2.7", "", "2.7", "2.6.0"}, recorded_version("2.8.0")};
  EXPECT_EQ(choose_version(known, 0, "1.13.1"), (VersionChoice{0, VersionMatch::in_range}));
  EXPECT_EQ(choose_version(known, 0, "2.8.0rc1"), (VersionChoice{0, VersionMatch::nearest_older}));
}

TEST(BehaviourOf, TakesTheRowOfTheVersion) {
  struct Behaviour {
    KnownVersion version;
    int value;
  };
  constexpr std::array known = {Behaviour{recorded_version("0.14.0"), 1},
                                Behaviour{recorded_version("0.17.0"), 2}};
  EXPECT_EQ(behaviour_of(known, "0.13.5").value, 1);
  EXPECT_EQ(behaviour_of(known, "0.16.9").value, 1);
  EXPECT_EQ(behaviour_of(known, "0.17.1").value, 2);
  EXPECT_EQ(behaviour_of(known, "", 1).value, 2);
}

}  // namespace
}  // namespace commlens
