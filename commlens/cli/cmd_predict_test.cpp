// The head of `predict`, and errors about files that are missing or no configuration.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

constexpr const char* k_small_llama =
    R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":128,"vocab_size":256,"max_position_embeddings":64})";

TEST(CommandPredict, ShowsRecomputationAndAttentionUnlessTheyAreTheDefault) {
  const ScratchDirectory scratch;
  const auto layout_line = [](std::vector<std::string> arguments) {
    const std::string out = run_with(arguments).out;
    const std::size_t first = out.find('\n') + 1;
    return out.substr(first, out.find('\n', first) - first);
  };
  EXPECT_TRUE(layout_line({"predict", "19M"}).ends_with(", fp16, recompute full"));
  EXPECT_TRUE(layout_line({"predict", "19M", "--recompute", "none"}).ends_with(", 1 micro-batch, fp16"));
  EXPECT_TRUE(layout_line({"predict", "19M", "--attention", "flash"})
                  .ends_with(", fp16, recompute full, flash attention"));
  // Models of the Llama family have fused attention by default.
  const std::string llama = scratch.write("config.json", k_small_llama);
  EXPECT_TRUE(layout_line({"predict", llama, "--framework", "torch-ddp", "--attention", "eager"})
                  .ends_with(", eager attention"));
  const Outcome outcome = run_with({"predict", "19M", "--attention", "flash", "--format", "json"});
  const nlohmann::json layout = nlohmann::json::parse(outcome.out)["layout"];
  EXPECT_EQ(layout["recompute"], "full");
  EXPECT_EQ(layout["attention"], "flash");
}

TEST(MissingFiles, AreReportedInOneWording) {
  const ScratchDirectory scratch;
  const std::string missing = scratch.path("missing");
  const std::string expected = "commlens: " + missing + ": no such file or directory; check the path\n";
  EXPECT_EQ(run_with({"summary", missing}).err, expected);
  EXPECT_EQ(run_with({"import", missing, "-o", scratch.path("trace")}).err, expected);
}

TEST(CommandPredict, TheErrorForAnUnknownConfigurationMentionsTheSuffixOfToml) {
  const ScratchDirectory scratch;
  const std::string file = scratch.write("case.cfg", "framework = \"deepspeed\"\nranks = 4\n");
  EXPECT_NE(run_with({"predict", file}).err.find("TOML in a file named *.toml"), std::string::npos);
}

TEST(CommandPredict, ShowsThePapersEquationsOfJobsThatTheyDescribe) {
  const auto has = [](const std::vector<std::string>& arguments, const char* formula) {
    return run_with(arguments).out.find(formula) != std::string::npos;
  };
  const std::vector<std::string> dense = {"predict", "19M", "--framework", "megatron",
                                          "--ranks", "4",   "--tp",        "2"};
  std::vector<std::string> with_context = dense;
  with_context.insert(with_context.end(), {"--cp", "2"});
  for (const char* const formula : {"2 P (d-1)/d", "(12L + 2) b s h (t-1)/t"}) {
    EXPECT_TRUE(has(dense, formula));
    EXPECT_FALSE(has(with_context, formula));
  }
  EXPECT_FALSE(has({"predict", "megatron/mixtral-8x7b"}, "the paper's formula"));
}

// Each of 102,400 ranks names the 102,400 of its group in hundreds of lines: petabytes. Of one rank it is a
// gigabyte and a half; a thousand iterations of it are too many too.
TEST(CommandPredict, WritesNoFileThatWouldFillADisk) {
  const ScratchDirectory directory;
  const std::string file = directory.path("calls.jsonl");
  std::vector<std::string> job = {"predict", "1.3B", "--ranks", "102400", "--zero", "3", "--calls", file};
  const Outcome refused = run_with(job);
  EXPECT_EQ(refused.code, ExitCode::bad_input);
  EXPECT_NE(refused.err.find("--calls: the calls of 102,400 ranks would take about "), std::string::npos)
      << refused.err;
  EXPECT_NE(
      refused.err.find(" GB, and a file gets at most 20; choose one rank with --rank, lower --iterations, or "
                       "write to standard output\n"),
      std::string::npos)
      << refused.err;
  job.insert(job.end(), {"--rank", "7", "--iterations", "1000"});
  EXPECT_NE(run_with(job).err.find("--calls: the calls of rank 7 would take about "), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(run_with({"predict", "19M", "--ranks", "2", "--calls", file}).code, ExitCode::done);
}

}  // namespace
}  // namespace commlens
