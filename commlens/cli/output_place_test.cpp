#include "commlens/app/output_place.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::Outcome;
using test_support::run_with;

class OutputPlace : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_ / "directory" / "full");
    std::ofstream(directory_ / "file") << "x";
    std::ofstream(directory_ / "calls.jsonl")
        << R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":8,"output_bytes":8,"group":[0,1]})"
        << '\n';
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  /// Each verb with all arguments but the output path, which comes last.
  std::vector<std::vector<std::string>> verbs_with_files() const {
    return {{"predict", "19M", "-o"},
            {"predict", "19M", "--calls"},
            {"compare", "19M", "19M", "-o"},
            {"advise", "19M", "--ranks", "2", "-o"},
            {"summary", path("calls.jsonl"), "-o"},
            {"report", path("calls.jsonl"), "-o"},
            {"export", path("calls.jsonl"), "--to", "calls", "-o"},
            {"export", path("calls.jsonl"), "--to", "sqlite", "-o"},
            {"cost", "all_gather", "--machine", "dgx_h100", "--ranks", "8", "--bytes", "1MiB", "-o"},
            {"machines", "-o"},
            {"doctor", "-o"},
            {"doctor", "--machine"}};
  }
  std::vector<std::vector<std::string>> verbs_with_directories() const {
    return {{"import", path("calls.jsonl"), "-o"},
            {"train", "19M", "--ranks", "1", "--dtype", "bf16", "-o"},
            {"simulate", "19M", "--ranks", "8", "--machine", "dgx_a100", "--trace"},
            {"report", path("calls.jsonl"), "-o", "/dev/null", "--data"},
            {"export", path("calls.jsonl"), "--to", "chakra", "-o"}};
  }

  static void expect_refused(std::vector<std::string> arguments, const std::string& place,
                             const std::string& why) {
    const std::string shown = arguments.front() + " " + arguments.back() + " " + place;
    const std::string flag = arguments.back();
    arguments.push_back(place);
    const Outcome outcome = run_with(arguments);
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << shown;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_EQ(outcome.err.substr(0, outcome.err.find(": ", 12)), "commlens: " + flag + " " + place) << shown;
    EXPECT_NE(outcome.err.find(why), std::string::npos) << shown << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find(".tmp"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << shown << outcome.err;
  }

  test_support::ScratchDirectory scratch_;
  std::filesystem::path directory_ = scratch_.path();
};

TEST_F(OutputPlace, EveryVerbThatWritesAFileRefusesTheSamePlaces) {
  for (const std::vector<std::string>& verb : verbs_with_files()) {
    expect_refused(verb, path("directory"), "is a directory; give the name of a file");
    expect_refused(verb, path("new/"), "is a directory; give the name of a file");
    expect_refused(verb, path("no/such/x"), "there is no directory " + path("no/such") + "; make it");
    expect_refused(verb, path("file/x"), "nothing can be made in " + path("file") + " (Not a directory)");
    expect_refused(verb, "/proc/x", "nothing can be made in /proc (");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 3) << "a file remains";
}

TEST_F(OutputPlace, EveryVerbThatWritesADirectoryRefusesTheSamePlaces) {
  for (const std::vector<std::string>& verb : verbs_with_directories()) {
    expect_refused(verb, path("file/x/y"), "nothing can be made in " + path("file") + " (Not a directory)");
    expect_refused(verb, "/proc/x/y", "nothing can be made in /proc (");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 3) << "a file remains";
}

TEST_F(OutputPlace, DirectoriesAreMadeWithThoseTheyStandIn) {
  for (std::vector<std::string> verb : verbs_with_directories()) {
    if (verb.front() != "train") {
      const std::string place = path("made by " + verb.front() + "/a/b");
      verb.push_back(place);
      EXPECT_EQ(run_with(verb).code, ExitCode::done) << verb.front();
      EXPECT_FALSE(std::filesystem::is_empty(place)) << place;
    }
  }
}

/// Verbs, each with its inputs, that would write over a file they read, named with the flag last.
std::vector<std::vector<std::string>> verbs_that_read(const std::string& config, const std::string& calls,
                                                      const std::string& trace) {
  return {{"predict", config, "-o"},
          {"predict", config, "--calls"},
          {"compare", config, trace, "-o"},
          {"compare", trace, config, "-o"},
          {"advise", config, trace, "-o"},
          {"summary", calls, "-o"},
          {"summary", trace, "-o"},
          {"report", config, calls, trace, "--force", "-o"},
          {"import", calls, trace, "-o"},
          {"export", calls, "--to", "csv", "-o"},
          {"export", trace, "--to", "csv", "-o"},
          {"export", trace, "--to", "chakra", "-o"}};
}

TEST_F(OutputPlace, NoVerbWritesOverWhatItReads) {
  namespace fs = std::filesystem;
  const std::string config = path("job.yaml");
  const std::string calls = path("calls.jsonl");
  const std::string trace = path("trace");
  std::ofstream(config)
      << "framework: deepspeed\nranks: 2\nmodel: {family: gpt, layers: 1, hidden: 8, heads: 1, "
         "sequence: 4, vocab: 16}\nmicro_batch: 1\n";
  ASSERT_EQ(run_with({"import", calls, "-o", trace}).code, ExitCode::done);
  fs::create_directory_symlink(trace, path("linked"));
  fs::create_symlink(config, path("linked.yaml"));
  fs::create_hard_link(config, path("second.yaml"));
  fs::create_hard_link(calls, path("second.jsonl"));
  fs::create_hard_link(trace + "/manifest.json", path("second.json"));
  const std::string part = "that is part of the trace " + trace + " to be read; choose another place";
  const std::string itself = "that is the file to be read; choose another name";
  const auto has = [](const std::vector<std::string>& verb, const std::string& word) {
    return std::find(verb.begin(), verb.end(), word) != verb.end();
  };
  for (const std::vector<std::string>& verb : verbs_that_read(config, calls, trace)) {
    const bool makes_directory = has(verb, "import") || has(verb, "chakra");
    for (const std::string& place : {config, path("linked.yaml"), path("second.yaml")}) {
      if (has(verb, config)) {
        expect_refused(verb, place, itself);
      }
    }
    for (const std::string& place : {calls, path("second.jsonl")}) {
      if (has(verb, calls) && !makes_directory) {
        expect_refused(verb, place, itself);
      }
    }
    for (const std::string& place : {trace + "/manifest.json", path("second.json"), trace + "/new",
                                     path("linked/manifest.json"), path("directory/../linked/new")}) {
      if (has(verb, trace) && (!makes_directory || place.ends_with("new"))) {
        expect_refused(verb, place, part);
      }
    }
    if (has(verb, trace) && makes_directory) {
      expect_refused(verb, trace, "that is the trace to be read; choose another name");
    }
  }
  EXPECT_EQ(run_with({"report", trace, "-o", "/dev/null", "--data", trace}).code, ExitCode::bad_input);
  EXPECT_EQ(run_with({"summary", trace}).code, ExitCode::done) << "the trace was harmed";
  EXPECT_EQ(run_with({"predict", config, "-o", path("result")}).code, ExitCode::done);
}

// It would open the pipe and wait for a writer, which is itself.
TEST_F(OutputPlace, APipeThatIsReadIsNotWritten) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"summary", path("pipe"), "-o"},
                                             {"report", path("pipe"), "-o"},
                                             {"compare", "19M", path("pipe"), "-o"},
                                             {"export", path("pipe"), "--to", "calls", "-o"}}) {
    expect_refused(verb, path("pipe"), "that is the pipe to be read; choose another name");
  }
}

TEST_F(OutputPlace, FiguresAreNotWrittenOverWhatTheReportReads) {
  std::filesystem::copy_file(path("calls.jsonl"), path("index.json"));
  const Outcome outcome = run_with({"report", path("index.json"), "-o", "/dev/null", "--data", path("")});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err, "commlens: --data " + path("index.json") +
                             ": that is the file to be read; choose another name\n");
}

TEST_F(OutputPlace, ADiskThatIsFullIsTheSystemsFault) {
  for (std::vector<std::string> verb : verbs_with_files()) {
    if (std::find(verb.begin(), verb.end(), "sqlite") == verb.end()) {  // which replaces files only
      verb.emplace_back("/dev/full");
      EXPECT_THROW(run_with(verb), SystemError) << verb.front();
    }
  }
}

}  // namespace
}  // namespace commlens
