// The layouts of public recipes in examples/megatron, and the recorded cases, as their readers take them.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

fs::path repository() {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  return directory == nullptr ? fs::path(__FILE__).parent_path().parent_path().parent_path().parent_path()
                              : fs::path(directory);
}

struct PublicLayout {
  const char* file;
  std::int64_t ranks, tp, pp, cp, ep, virtual_stages, dp, micro_batches, parameters;
};

// Parameters: what the model is published with, and the rows that padding to 128 x tp adds to both tables. Of
// DeepSeek-V3 671,026,419,200 are published, with the 58 x 256 corrections of its router, which are buffers.
const PublicLayout k_public_layouts[] = {
    // 96 (12h^2 + 13h) + 2 x 50688 h + 2048 h + 2h
    {"gpt3-175b.sh", 32, 4, 8, 1, 1, 6, 1, 1024, 175'232'409'600},
    {"mixtral-8x7b.sh", 32, 1, 4, 1, 8, 8, 8, 32, 46'702'792'704},
    {"llama3-70b.yaml", 64, 4, 4, 2, 1, 5, 2, 64, 70'553'706'496 + 2 * 256 * 8192},
    {"llama3.1-405b.yaml", 1024, 8, 8, 2, 1, 8, 8, 64, 405'853'388'800 + 2 * 768 * 16384},
    {"qwen3-235b-a22b.yaml", 256, 2, 8, 1, 32, 4, 16, 128, 235'093'634'560 + 2 * 128 * 4096},
    {"deepseek-v3.yaml", 1024, 2, 8, 1, 64, 4, 64, 128, 671'026'419'200 - 58 * 256},
};

TEST(MegatronExamples, AreTheLayoutsOfTheirRecipes) {
  for (const PublicLayout& wanted : k_public_layouts) {
    const fs::path file = repository() / "examples" / "megatron" / wanted.file;
    const Result<Job> read = read_config({file.string()}, "");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(read->unmodelled.empty()) << wanted.file << ": " << read->unmodelled.front();
    EXPECT_TRUE(read->warnings.empty()) << wanted.file << ": " << read->warnings.front();
    const Result<Job> job = validated(*read);
    ASSERT_TRUE(job) << wanted.file << ": " << job.error().message;
    EXPECT_EQ(job->framework, "megatron");
    EXPECT_EQ(job->layout.ranks, wanted.ranks) << wanted.file;
    EXPECT_EQ(job->layout.tp, wanted.tp) << wanted.file;
    EXPECT_EQ(job->layout.pp, wanted.pp) << wanted.file;
    EXPECT_EQ(job->layout.cp, wanted.cp) << wanted.file;
    EXPECT_EQ(job->layout.ep, wanted.ep) << wanted.file;
    EXPECT_EQ(job->layout.virtual_stages, wanted.virtual_stages) << wanted.file;
    EXPECT_EQ(job->layout.dp, wanted.dp) << wanted.file;
    EXPECT_EQ(job->train.micro_batches, wanted.micro_batches) << wanted.file;
    EXPECT_EQ(parameter_count(job->model).value, wanted.parameters) << wanted.file;
    const Result<Plan> plan = make_plan(*job);
    EXPECT_TRUE(plan) << wanted.file << ": " << plan.error().message;
    const Result<Job> built_in = read_config({"megatron/" + file.stem().string()}, "");
    ASSERT_TRUE(built_in) << built_in.error().message;
    EXPECT_EQ(built_in->model.name, read->model.name);
    EXPECT_EQ(validated(*built_in)->layout.ranks, wanted.ranks) << wanted.file;
  }
}

TEST(MegatronExamples, RecordedCasesAreReadWithoutARest) {
  int cases = 0;
  for (const char* const folder : {"megatron", "megatron_0.19", "megatron_versions", "megatron_recorded"}) {
    const fs::path directory = repository() / "tests" / "golden" / folder;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const Result<Job> job = read_config({(entry.path() / "case.yaml").string()}, "");
      ASSERT_TRUE(job) << entry.path() << ": " << job.error().message;
      EXPECT_TRUE(job->unmodelled.empty()) << entry.path() << ": " << job->unmodelled.front();
      EXPECT_TRUE(job->warnings.empty()) << entry.path() << ": " << job->warnings.front();
      ++cases;
    }
  }
  EXPECT_EQ(cases, 10 + 76 + 37 + 111);
}

}  // namespace
}  // namespace commlens
