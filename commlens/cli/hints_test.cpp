#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

// What an error or a help text tells the user to write is accepted.
namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;
using Words = std::vector<std::string>;

constexpr const char* k_llama_for_hints =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
"max_position_embeddings": 32, "torch_dtype": "bfloat16"})";

/// The names behind "--framework " at the end of a message: "a, b or c".
Words named_frameworks(const std::string& message) {
  const std::size_t begin = message.rfind("--framework ");
  Words names;
  const std::regex word("[a-z0-9@.-]+");
  const std::string list = begin == std::string::npos ? "" : message.substr(begin + 12);
  for (std::sregex_iterator at(list.begin(), list.end(), word); at != std::sregex_iterator(); ++at) {
    if (at->str() != "or") {
      names.push_back(at->str());
    }
  }
  return names;
}

/// The command without the --framework that was refused.
Words without_framework(const Words& command) {
  Words rest;
  for (std::size_t at = 0; at < command.size(); ++at) {
    if (command[at] == "--framework") {
      ++at;
    } else {
      rest.push_back(command[at]);
    }
  }
  return rest;
}

class Hints : public testing::Test {
 protected:
  void SetUp() override { llama_ = directory_.write("llama.json", k_llama_for_hints); }
  test_support::ScratchDirectory directory_;
  std::string llama_;
};

TEST_F(Hints, FrameworksThatAreNamedTakeTheJob) {
  const std::vector<Words> refused = {
      {"predict", llama_},
      {"predict", llama_, "--ranks", "4", "--zero", "3"},
      {"predict", llama_, "--framework", "hf", "--cp", "2"},
      {"predict", llama_, "--framework", "hf", "--pp", "2"},
      {"predict", "19M", "--framework", "hf", "--ranks", "2"},
      {"predict", "19M", "--cp", "2"},
      {"predict", "19M", "--framework", "paper", "--cp", "2"},
      {"predict", "19M", "--framework", "paper", "--tp", "2", "--sp"},
      {"predict", "19M", "--framework", "paper", "--layers", "4", "--pp", "2", "--schedule", "interleaved",
       "--virtual-stages", "2", "--micro-batches", "2"},
      {"predict", "19M", "--framework", "deepspeed", "--tp", "2"},
      {"predict", "19M", "--framework", "megatron", "--ranks", "4", "--zero", "3"},
      {"predict", "19M", "--framework", "megatron@0.7.0", "--cp", "2"},
      {"predict", "19M", "--framework", "megatron", "--ranks", "4", "--zero", "3", "--hpz", "2"},
      {"predict", "19M", "--framework", "megatron", "--ranks", "2", "--deepspeed-like"},
      {"predict", "19M", "--framework", "torch-ddp@1.13", "--tp", "2"},
      {"predict", "19M", "--framework", "torchtitan", "--ranks", "2"},
      {"advise", "19M", "--framework", "paper", "--ranks", "4"},
  };
  for (const Words& command : refused) {
    const Outcome outcome = run_with(command);
    SCOPED_TRACE(testing::PrintToString(command) + outcome.err);
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    const Words names = named_frameworks(outcome.err);
    EXPECT_FALSE(names.empty());
    for (const std::string& name : names) {
      Words accepted = without_framework(command);
      accepted.insert(accepted.end(), {"--framework", name});
      EXPECT_EQ(run_with(accepted).code, ExitCode::done) << name << ": " << run_with(accepted).err;
    }
  }
}

TEST_F(Hints, AModelThatTheDefaultRulesLackSaysWhichHaveIt) {
  EXPECT_EQ(
      run_with({"predict", llama_}).err,
      "commlens: the commlens rules have models of family gpt only (LayerNorm, biases, as many key/value "
      "heads as heads); use --framework deepspeed, neox, megatron, torch-ddp, torch-fsdp, torch-tp, "
      "torch-pipeline, torchtitan or hf\n");
}

TEST_F(Hints, TheTrainerNamesNoRulesThatItDoesNotTake) {
  EXPECT_EQ(named_frameworks(run_with({"train", llama_, "--ranks", "2"}).err), Words());
}

TEST_F(Hints, PredictIsNamedForWhatItPredicts) {
  const std::string gpt = directory_.write(
      "gpt2.json", R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32,
"vocab_size": 256})");
  EXPECT_EQ(run_with({"summary", gpt}).err,
            "commlens: " + gpt + " is a configuration, not a trace; try commlens predict " + gpt + "\n");
  EXPECT_EQ(run_with({"predict", gpt}).code, ExitCode::done);
  const std::string settings = directory_.write("ds.json", R"({"zero_optimization": {"stage": 2}})");
  EXPECT_EQ(run_with({"summary", settings}).err,
            "commlens: " + settings + " is a configuration, not a trace\n");
}

TEST_F(Hints, HelpSaysWhichRulesHaveContextParallelism) {
  const std::string help = run_with({"predict", "--help"}).out;
  const std::string begin = "--cp N                          Context-parallel degree: ";
  const std::size_t at = help.find(begin);
  ASSERT_NE(at, std::string::npos) << help;
  const std::string line =
      "--framework " + help.substr(at + begin.size(), help.find('\n', at) - at - begin.size());
  EXPECT_EQ(named_frameworks(line),
            (Words{"deepspeed", "megatron", "torch-fsdp", "torch-tp", "torch-pipeline", "torchtitan"}));
  for (const std::string& name : named_frameworks(line)) {
    EXPECT_EQ(run_with({"predict", llama_, "--cp", "2", "--framework", name}).code, ExitCode::done) << name;
  }
  for (const char* const name : {"paper", "neox", "torch-ddp", "hf", "commlens"}) {
    EXPECT_EQ(run_with({"predict", llama_, "--cp", "2", "--dp", "2", "--framework", name}).code,
              ExitCode::bad_input)
        << name;
  }
  EXPECT_EQ(run_with({"train", "--help"}).out.find("--cp"), std::string::npos);
}

TEST_F(Hints, NamesOfOtherProgramsAreKnown) {
  const std::vector<std::pair<std::string, std::string>> meant = {
      {"--seq-len", "--seq"},
      {"--global-batch-size", "--global-batch"},
      {"--nnodes", "--ranks (nodes x GPUs of a node)"},
      {"--bf16", "--dtype bf16"},
      {"--tensor-model-parallel-size", "--tp"},
      {"--nproc_per_node", "--gpus-per-node (all GPUs: --ranks)"},
      {"--micro_batch_size", "--micro-batch"},
      {"-np", "--ranks"},
      {"--ZeRO-stage", "--zero"}};
  for (const auto& [name, flag] : meant) {
    const Outcome outcome = run_with({"predict", "19M", name, "4"});
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    EXPECT_EQ(outcome.err, "commlens: there is no option " + name + "; did you mean " + flag +
                               "?; see commlens predict --help\n");
  }
  EXPECT_EQ(
      run_with({"train", "19M", "--nproc-per-node", "4"}).err,
      "commlens: there is no option --nproc-per-node; did you mean --ranks (nodes x GPUs of a node)?; see "
      "commlens train --help\n");
  EXPECT_EQ(run_with({"summary", "x", "--seq-len", "4"}).err,
            "commlens: there is no option --seq-len; see commlens summary --help\n");
}

// The names of other programs in every verb that takes a configuration; `search` says how many GPUs.
TEST_F(Hints, NamesOfOtherProgramsAreKnownToEveryVerb) {
  const std::vector<Words> verbs = {{"predict", "19M"}, {"train", "19M"},  {"compare", "19M", "19M"},
                                    {"report", "19M"},  {"export", "19M"}, {"simulate", "19M"},
                                    {"advise", "19M"},  {"search", "19M"}};
  for (const Words& verb : verbs) {
    const bool searches = verb.front() == "search";
    const std::string nodes =
        searches ? "--gpus (nodes x GPUs of a node)" : "--ranks (nodes x GPUs of a node)";
    const bool splits = verb.front() == "predict" || verb.front() == "report" || verb.front() == "advise";
    std::vector<std::pair<std::string, std::string>> meant = {
        {"--nnodes", nodes},
        {"--seq-len", "--seq"},
        {"--global-batch-size", "--global-batch"},
        {"--nproc-per-node", splits ? "--gpus-per-node (all GPUs: --ranks)" : nodes}};
    if (searches) {  // which chooses the degrees
      meant.push_back({"--bf16", "--precision bf16"});
    } else {
      meant.insert(meant.end(), {{"--bf16", "--dtype bf16"}, {"--tensor-model-parallel-size", "--tp"}});
    }
    for (const auto& [name, flag] : meant) {
      Words command = verb;
      command.insert(command.end(), {name, "4"});
      const Outcome outcome = run_with(command);
      EXPECT_EQ(outcome.code, ExitCode::bad_input);
      EXPECT_EQ(outcome.err, "commlens: there is no option " + name + "; did you mean " + flag +
                                 "?; see commlens " + verb.front() + " --help\n");
    }
  }
}

TEST_F(Hints, RankMeansTheSameInEveryVerb) {
  const std::regex line("--rank R[^\n]* Only this rank");
  for (const char* const verb : {"predict", "summary", "compare", "report", "export"}) {
    EXPECT_TRUE(std::regex_search(run_with({verb, "--help"}).out, line)) << verb;
  }
}

TEST_F(Hints, IterationChoosesAndIterationsCounts) {
  const std::string calls = directory_.path("calls.jsonl");
  EXPECT_EQ(run_with({"predict", "19M", "--ranks", "2", "--iterations", "3", "--calls", calls}).code,
            ExitCode::done);
  for (const char* const flag : {"--iteration", "--iterations"}) {  // the latter as it was called
    EXPECT_NE(run_with({"summary", calls, flag, "1-"}).out.find("2 iterations (1 to 2)"), std::string::npos);
  }
  const Outcome both = run_with({"summary", calls, "--iteration", "1-", "--iterations", "2-"});
  EXPECT_EQ(both.code, ExitCode::bad_input);
  EXPECT_EQ(both.err,
            "commlens: --iterations excludes --iteration; see commlens "
            "summary --help\n");
  for (const char* const verb : {"summary", "compare", "report"}) {
    const std::string help = run_with({verb, "--help"}).out;
    EXPECT_NE(help.find("--iteration FIRST-[LAST]"), std::string::npos) << verb;
    EXPECT_EQ(help.find("--iterations "), std::string::npos) << verb;
  }
}

}  // namespace
}  // namespace commlens
