#include "commlens/frameworks/megatron/argument_lists.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/config/argument_words.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/planner.hpp"

namespace commlens::megatron {
namespace {

namespace fs = std::filesystem;

fs::path facts() {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  const fs::path source = directory == nullptr
                              ? fs::path(__FILE__).parent_path().parent_path().parent_path().parent_path()
                              : fs::path(directory);
  return source / "tests" / "facts" / "megatron_arguments_0.19.2.txt";
}

/// Every argument of core 0.19.2, with underscores.
std::vector<std::string> all_arguments() { return argument_names(read_text_file(facts(), 1 << 20).value()); }

const std::string k_small_gpt =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 ";

Result<Job> read_with(const std::string& more) {
  const Result<ConfigNode> map = parse_megatron_arguments("a.txt", k_small_gpt + more);
  return map ? job_from_megatron(*map, 0) : tl::unexpected(map.error());
}

std::vector<std::string> list_of(std::string_view words) {
  std::vector<std::string> all;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    all.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return all;
}

TEST(ArgumentLists, KnowEveryArgumentOfToday) {
  const std::vector<std::string> all = all_arguments();
  EXPECT_EQ(all.size(), 845U);
  for (const std::string& name : all) {
    const Result<Job> job = read_with("--" + name + (takes_no_value(name) ? "" : " 1"));
    const std::vector<std::string> unmodelled = job ? job->unmodelled : std::vector<std::string>{};
    for (const std::string& note : unmodelled) {
      EXPECT_FALSE(note.starts_with("unknown key")) << name << ": " << note;
    }
    EXPECT_TRUE(job || job.error().message.find("'" + name + "'") != std::string::npos)
        << name << ": " << job.error().message;
  }
}

TEST(ArgumentLists, WhatChangesNoMessagePassesWhateverItSays) {
  for (const std::string& name : list_of(inert_arguments())) {
    const Result<Job> job = read_with("--" + name + (takes_no_value(name) ? "" : " 7"));
    ASSERT_TRUE(job) << name << ": " << job.error().message;
    EXPECT_TRUE(job->unmodelled.empty()) << name << ": " << job->unmodelled.front();
    EXPECT_TRUE(job->warnings.empty()) << name << ": " << job->warnings.front();
    EXPECT_TRUE(is_inert(name)) << name;
  }
}

/// All of them at once, beside the job without them.
TEST(ArgumentLists, WhatChangesNoMessageChangesNone) {
  const auto plan_with = [](const std::string& more) {
    const Job job =
        validated(read_with("--micro-batch-size 1 --global-batch-size 4 --pipeline-model-parallel-size 2 "
                            "--log-interval 1 --eval-interval 2 " +
                            more)
                      .value())
            .value();
    return make_plan(job).value();
  };
  std::string all;
  for (const std::string& name : list_of(inert_arguments())) {
    all += "--" + name + (takes_no_value(name) ? " " : " 7 ");
  }
  const Plan plan = plan_with(all);
  const Plan plain = plan_with("");
  ASSERT_EQ(plan.classes.size(), 2U);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    for (const Iteration iteration : {-1, 0, 1, 2}) {
      EXPECT_GT(plain.classes[stage].at(iteration).steps.size(), 10U);
      EXPECT_EQ(plan.classes[stage].at(iteration), plain.classes[stage].at(iteration)) << iteration;
    }
  }
}

TEST(ArgumentLists, WhatHasNoRulesClearsVerifiedByName) {
  for (const std::string& name : list_of(unmodelled_arguments())) {
    const Result<Job> job = read_with("--" + name + (takes_no_value(name) ? "" : " 7"));
    ASSERT_TRUE(job) << name << ": " << job.error().message;
    ASSERT_EQ(job->unmodelled.size(), 1U) << name;
    EXPECT_EQ(job->unmodelled.front(), "'" + name + "' (a.txt:1) has no rules");
  }
}

TEST(ArgumentLists, NoArgumentStandsInTwoOfThem) {
  std::set<std::string> seen;
  std::vector<std::string> all = list_of(inert_arguments());
  for (const std::string& name : list_of(unmodelled_arguments())) {
    all.push_back(name);
  }
  for (const NeutralArgument& one : neutral_arguments()) {
    all.emplace_back(one.name);
  }
  for (const RefusedArgument& one : refused_arguments()) {
    all.emplace_back(one.name);
  }
  for (const std::string& name : all) {
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
}

TEST(ArgumentLists, RefusedOnesAreRefusedUnlessSwitchedOff) {
  for (const RefusedArgument& one : refused_arguments()) {
    const std::string name(one.name);
    const Result<Job> job = read_with("--" + name + (takes_no_value(name) ? "" : " 7"));
    ASSERT_FALSE(job) << name;
    EXPECT_EQ(job.error().message, "a.txt:1: '" + name + "' " + std::string(one.reason));
    EXPECT_TRUE(read_with("--" + name + "=false")) << name;
  }
}

TEST(ArgumentLists, TodaysNamesOfOlderOnesAndOfFields) {
  const auto renamed = [](const std::string& key, const std::string& value) {
    ConfigNode map = parse_megatron_arguments("a.txt", "--" + key + "=" + value).value();
    use_todays_names(map);
    return map.keys[0] + "=" + map.items[0].text;
  };
  EXPECT_EQ(renamed("layernorm-epsilon", "1e-6"), "norm_epsilon=1e-6");
  EXPECT_EQ(renamed("overlap_p2p_comm", "false"), "no_overlap_p2p_communication=true");
  EXPECT_EQ(renamed("disable-align-grad-reduce", "true"), "no_align_grad_reduce=true");
  EXPECT_EQ(renamed("mmap_bin_files", "true"), "no_mmap_bin_files=false");
  EXPECT_EQ(renamed("share_embeddings_and_output_weights", "false"),
            "untie_embeddings_and_output_weights=true");
  EXPECT_EQ(renamed("disable-bias-linear", "true"), "disable_bias_linear=true");
  EXPECT_EQ(renamed("something", "x"), "something=x");
}

}  // namespace
}  // namespace commlens::megatron
