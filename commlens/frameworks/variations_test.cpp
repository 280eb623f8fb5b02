#include "commlens/frameworks/variations.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

Job job_of(const char* framework, int zero = 1) {
  Overrides flags;
  flags.framework = framework;
  flags.dp = 4;
  flags.zero = zero;
  return validated(with_overrides(*preset("19M"), flags).value()).value();
}

std::map<std::string, std::set<std::string>> values_of(const Job& job,
                                                       const std::vector<std::int64_t>& sizes = {}) {
  std::map<std::string, std::set<std::string>> values;
  for (const SettingChange& change : setting_changes(job, sizes)) {
    EXPECT_TRUE(values[change.setting].insert(change.value).second) << change.setting << ' ' << change.value;
  }
  return values;
}

TEST(SettingChanges, LeaveOutWhatTheJobHas) {
  const auto values = values_of(job_of("deepspeed"));
  EXPECT_EQ(values.at("reduce_scatter"), std::set<std::string>{"false"});
  EXPECT_FALSE(values.at("zero stage").contains("1"));
  EXPECT_FALSE(values.at("reduce_bucket_size").contains("500000000")) << "the default of 19M";
}

TEST(SettingChanges, TryBucketSizesThatWereSeenAfterRoundOnes) {
  const std::vector<SettingChange> changes = setting_changes(job_of("deepspeed"), {12345});
  const auto place = [&](std::string_view value) {
    return std::find_if(changes.begin(), changes.end(), [&](const SettingChange& change) {
      return change.setting == "reduce_bucket_size" && change.value == value;
    });
  };
  ASSERT_NE(place("12345"), changes.end());
  EXPECT_LT(place("20000"), place("12345"));
  EXPECT_EQ(deepspeed::options(place("12345")->job).reduce_bucket_size, 12345);
}

TEST(SettingChanges, AreThoseOfTheFramework) {
  const auto ddp = values_of(job_of("torch-ddp", 0));
  EXPECT_TRUE(ddp.contains("bucket_cap_mb"));
  EXPECT_FALSE(ddp.contains("reduce_scatter"));
  EXPECT_TRUE(values_of(job_of("deepspeed", 3)).contains("stage3_max_reuse_distance"));
  EXPECT_FALSE(values_of(job_of("deepspeed", 1)).contains("stage3_max_reuse_distance"));
  EXPECT_TRUE(values_of(job_of("commlens")).contains("--bucket"));
  EXPECT_TRUE(setting_changes(job_of("paper"), {}).empty());
}

}  // namespace
}  // namespace commlens
