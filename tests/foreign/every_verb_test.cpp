// Every verb on every real file of other tools and on every seed of the fuzz targets: for any file, a verb
// succeeds or refuses it in one line.
#include "tests/foreign/every_verb.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "commlens/trace/test_support.hpp"
#include "tests/foreign/foreign_files.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using test_support::content_of;
using test_support::ScratchDirectory;

/// Calls that know their ranks and iterations, to be compared with.
constexpr const char* k_other =
    R"({"rank":0,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2048,"output_bytes":2048,"group":[0,1]}
{"rank":1,"iteration":0,"op":"all_reduce","dtype":"fp16","input_bytes":2048,"output_bytes":2048,"group":[0,1]}
{"rank":0,"iteration":1,"op":"send","dtype":"fp32","input_bytes":4,"output_bytes":0,"group":[0,1],"peer":1}
{"rank":1,"iteration":1,"op":"recv","dtype":"fp32","input_bytes":0,"output_bytes":4,"group":[0,1],"peer":0}
)";

class EveryVerbOn : public testing::Test {
 protected:
  EveryVerbOn() : other_(directory_.write("other.jsonl", k_other)), verbs_(directory_ / "scratch", other_) {
    find_modules_beside_program();
  }

  ScratchDirectory directory_;
  fs::path other_;
  EveryVerb verbs_;
};

bool all_done(const std::vector<VerbRun>& runs, const std::string& verb) {
  return std::all_of(runs.begin(), runs.end(), [&](const VerbRun& run) {
    return !run.command.starts_with(verb) || run.code == ExitCode::done;
  });
}

TEST_F(EveryVerbOn, RealFilesOfOtherTools) {
  if (foreign_directory().empty()) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with golden/foreign";
  }
  // JSON of other programs about OSU's benchmarks, and a graph that is no Chakra trace.
  const std::vector<std::string> foreign_to_us = {"small_chakra.0.json", "metrics.json",
                                                  "metrics-multiple.json", "mpitrace_metrics.json"};
  for (const fs::path& file : foreign_files()) {
    SCOPED_TRACE(file.string());
    const std::vector<VerbRun> runs = verbs_.run_on(file);
    EXPECT_EQ(faults_of(runs), "");
    const bool is_known = std::find(foreign_to_us.begin(), foreign_to_us.end(), file.filename().string()) ==
                          foreign_to_us.end();
    EXPECT_EQ(all_done(runs, "summary"), is_known);
    EXPECT_EQ(all_done(runs, "report"), is_known);
  }
}

// The same files made short, for the sanitizers, under which the long ones take minutes.
TEST_F(EveryVerbOn, BeginningsOfRealFiles) {
  if (foreign_directory().empty()) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with golden/foreign";
  }
  for (const fs::path& file : foreign_files()) {
    SCOPED_TRACE(file.string());
    const ForeignSample sample = foreign_sample(file);
    EXPECT_EQ(faults_of(verbs_.run_on(directory_.write(sample.name, sample.text))), "");
  }
}

/// A seed of fuzz_native_trace as the directory that it encodes (see there).
fs::path native_directory(const ScratchDirectory& directory, const std::string& name,
                          std::string_view input) {
  const fs::path path = directory / ("native-" + name);
  fs::create_directories(path);
  const auto put = [&](const char* file, std::string_view content) {
    std::ofstream(path / file, std::ios::binary) << content;
  };
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view texts = input.substr(0, end);
  const std::size_t manifest = std::min(texts.find('\1'), end);
  put("manifest.json", texts.substr(0, manifest));
  put("rank-0.jsonl", texts.substr(std::min(manifest + 1, end)));
  const std::string_view records = input.substr(std::min(end + 1, input.size()));
  const std::size_t compute = std::min(records.find("commcomp"), records.size());
  put("stream-0.bin", records.substr(0, compute));
  put("stream-0.compute.bin", records.substr(compute));
  return path;
}

TEST_F(EveryVerbOn, SeedsOfTheFuzzTargets) {
  const char* const source = std::getenv("COMMLENS_SOURCE_DIR");
  const fs::path corpus = fs::path(source == nullptr ? "." : source) / "tests/fuzz/corpus";
  int seeds = 0;
  for (const auto& entry : fs::recursive_directory_iterator(corpus)) {
    const std::string target = entry.path().parent_path().filename().string();
    if (!entry.is_regular_file() || target == "text") {  // of which each is a number or two
      continue;
    }
    SCOPED_TRACE(entry.path().string());
    ++seeds;
    const fs::path file =
        target == "native_trace"
            ? native_directory(directory_, entry.path().filename().string(), content_of(entry.path()))
            : entry.path();
    EXPECT_EQ(faults_of(verbs_.run_on(file)), "");
  }
  EXPECT_GT(seeds, 40);
}

}  // namespace
}  // namespace commlens
