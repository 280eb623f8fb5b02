#include "commlens/config/top_level_keys.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

using Keys = std::vector<std::string>;

TEST(TopLevelKeys, AreFoundInJsonAndFlowYaml) {
  EXPECT_EQ(top_level_keys("# c: d\n{ \"a-b\": {\"c\": 1}, 'd': [e, {f: 2}], g: 3 }"),
            Keys({"a_b", "d", "g"}));
}

TEST(TopLevelKeys, AreFoundInBlockYaml) {
  EXPECT_EQ(top_level_keys("framework: neox  # x: y\nneox:\n  layers: 4\nmodel: {a: 1}\n\"q\": 2\n"),
            Keys({"framework", "neox", "model", "q"}));
}

TEST(TopLevelKeys, AreFoundInTextThatIsCutOff) {
  EXPECT_EQ(top_level_keys("{\"a\": 1, \"b\": {\"c"), Keys({"a", "b"}));
  EXPECT_EQ(top_level_keys("{\"a\": 1, \"unclosed"), Keys({"a"}));
  EXPECT_TRUE(top_level_keys("").empty());
}

TEST(StartsWithArgument, SkipsCommentsAndSpace) {
  EXPECT_TRUE(starts_with_argument("\n# c\n  --num-layers 4"));
  EXPECT_FALSE(starts_with_argument("---\na: 1"));
  EXPECT_FALSE(starts_with_argument("num-layers: 4"));
  EXPECT_FALSE(starts_with_argument("--"));
}

TEST(TopLevelKeys, KnowsScriptsOfAShell) {
  EXPECT_TRUE(is_shell_script("run", "#!/usr/bin/env bash\nTP=2\n"));
  EXPECT_TRUE(is_shell_script("run.sh", "TP=2\n"));
  EXPECT_TRUE(is_shell_script("job.slurm", "# comment\ntorchrun x.py\n"));
  EXPECT_FALSE(is_shell_script("run.sh", "# of a script\n--num-layers 2\n"));
  EXPECT_FALSE(is_shell_script("run.py", "#!/usr/bin/env python3\n"));
  EXPECT_FALSE(is_shell_script("args.txt", "--num-layers 2\n"));
}

}  // namespace
}  // namespace commlens
