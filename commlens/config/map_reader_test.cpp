#include "commlens/config/map_reader.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/config/yaml_document.hpp"

namespace commlens {
namespace {

ConfigNode yaml(const std::string& text) { return parse_yaml("f.yml", text).value(); }

TEST(MapReader, KeepsValuesOfAbsentAndNullKeys) {
  const ConfigNode map = yaml("a: null\nb: 7\n");
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  MapReader reader(map, {warnings, unmodelled});
  std::int64_t a = 1;
  std::int64_t b = 2;
  std::int64_t c = 3;
  reader.read("a", a);
  reader.read("b", b);
  reader.read("c", c);
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(std::vector<std::int64_t>({a, b, c}), std::vector<std::int64_t>({1, 7, 3}));
  EXPECT_TRUE(warnings.empty());
}

TEST(MapReader, WarnsOfUnknownKeysWithTheNearestOne) {
  const ConfigNode map = yaml("layers: 4\nhiden: 128\nzzz: 1\n");
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  MapReader reader(map, {warnings, unmodelled});
  std::int64_t value = 0;
  reader.read("layers", value);
  reader.read("hidden", value);
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(warnings, std::vector<std::string>({"f.yml:2: unknown key 'hiden'; did you mean 'hidden'?",
                                                "f.yml:3: unknown key 'zzz'"}));
  EXPECT_EQ(unmodelled,
            std::vector<std::string>({"unknown key 'hiden' (f.yml:2)", "unknown key 'zzz' (f.yml:3)"}));
}

TEST(MapReader, WarnsOfRepeatedKeysAndTakesTheLast) {
  const ConfigNode map = yaml("a: 1\na: 2\n");
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  MapReader reader(map, {warnings, unmodelled});
  std::int64_t value = 0;
  reader.read("a", value);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(warnings, std::vector<std::string>({"f.yml:2: 'a' repeats line 1; the last one counts"}));
}

TEST(MapReader, KeepsTheFirstMistake) {
  const ConfigNode map = yaml("a: x\nb: y\n");
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  MapReader reader(map, {warnings, unmodelled});
  std::int64_t value = 5;
  reader.read("a", value);
  reader.read("b", value);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(reader.finish().error().message, "f.yml:1: 'a' must be an integer, it is 'x'");
}

TEST(MapReader, ReportsRangesChoicesAndMissingKeys) {
  const auto error_of = [](const std::string& text, auto use) {
    const ConfigNode map = yaml(text);
    std::vector<std::string> warnings;
    std::vector<std::string> unmodelled;
    MapReader reader(map, {warnings, unmodelled});
    use(reader);
    return reader.finish().error().message;
  };
  std::int64_t number = 0;
  bool flag = false;
  EXPECT_EQ(error_of("a: 0", [&](MapReader& reader) { reader.read("a", number); }),
            "f.yml:1: 'a' is 0; it must be at least 1");
  EXPECT_EQ(error_of("a: c", [&](MapReader& reader) { reader.choose("a", {{"x", 1}, {"y", 2}}, number); }),
            "f.yml:1: 'a' is 'c', which is not supported; choose from x, y");
  EXPECT_EQ(error_of("\nb: 1", [&](MapReader& reader) { reader.require("a", number); }),
            "f.yml:2: 'a' is missing");
  EXPECT_EQ(error_of("a: [1]", [&](MapReader& reader) { reader.read("a", flag); }),
            "f.yml:1: 'a' must be true or false, it is a list");
  EXPECT_EQ(error_of("a: 1", [&](MapReader& reader) { reader.map("a"); }),
            "f.yml:1: 'a' must hold keys with values");
  EXPECT_EQ(error_of("a: true", [&](MapReader& reader) { reader.refuse_true("a", "is off limits"); }),
            "f.yml:1: 'a' is off limits");
  EXPECT_EQ(error_of("- 1", [](MapReader&) {}), "f.yml:1: keys with values are expected here");
}

TEST(MapReader, StopsWarningAfterTwentyUnknownKeys) {
  std::string text;
  for (int key = 0; key < 1000; ++key) {
    text += "key" + std::to_string(key) + ": 1\n";
  }
  const ConfigNode map = yaml(text);
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  EXPECT_TRUE(MapReader(map, {warnings, unmodelled}).finish());
  ASSERT_EQ(warnings.size(), 21U);
  EXPECT_EQ(warnings.back(), "f.yml:1: 980 more unknown keys");
  ASSERT_EQ(unmodelled.size(), 21U);
  EXPECT_EQ(unmodelled.back(), "980 more unknown keys (f.yml:1)");
}

TEST(MapReader, NotesAnUnknownKeyThatAsksForNothingAsAWarningAlone) {
  const ConfigNode map = yaml("zzz: null\n");
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  EXPECT_TRUE(MapReader(map, {warnings, unmodelled}).finish());
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(unmodelled.empty());
}

TEST(MapReader, LeavesOutWhatIsSwitchedOnAndNotesItOnce) {
  const ConfigNode map =
      yaml("on: true\noff: false\nzero: 0\nnone: none\nlist: []\nmap: {enabled: false}\none: 1\ntwo: 2\n");
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  MapReader reader(map, {warnings, unmodelled});
  reader.skip_unless_off("on off zero none list map absent");
  reader.skip_unless_off("on");
  reader.skip_unless_one("one");
  reader.skip_unless_one("two");
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(unmodelled,
            std::vector<std::string>({"'on' (f.yml:1) has no rules", "'two' (f.yml:8) has no rules"}));
  EXPECT_EQ(warnings.front(), "f.yml:1: 'on' has no rules here; it is skipped, unverified");
  EXPECT_EQ(warnings.size(), 2U);
}

TEST(IsOneOf, ComparesWholeWords) {
  EXPECT_TRUE(is_one_of("load", "save load"));
  EXPECT_TRUE(is_one_of("save", "save load"));
  EXPECT_FALSE(is_one_of("loa", "save load"));
  EXPECT_FALSE(is_one_of("oad", "save load"));
  EXPECT_FALSE(is_one_of("save load", "save load"));
  EXPECT_FALSE(is_one_of("", "save load"));
}

}  // namespace
}  // namespace commlens
