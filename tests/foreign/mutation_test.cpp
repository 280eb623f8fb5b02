// Every verb on real files of other tools with faults put in. A few of each run with the tests; all of a long
// run:
//
//   COMMLENS_MUTATIONS=10000 COMMLENS_TEST_DATA=DIRECTORY build/fuzz/tests/tests_foreign
//   --gtest_filter='Mutations.*'
//
// Mutation N of a file has the seed COMMLENS_MUTATION_SEED + N (both numbers are printed), and
// COMMLENS_MUTATION_FIRST starts at another than 0. A crash leaves the file that caused it in the directory
// that was printed.
#include "tests/foreign/mutation.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/base/text.hpp"
#include "tests/foreign/every_verb.hpp"
#include "tests/foreign/foreign_files.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  const Result<std::int64_t> number = parse_integer(text == nullptr ? "" : text);
  return number ? *number : otherwise;
}

/// In memory where there is a file system in memory.
fs::path work_directory() {
  const fs::path memory = "/dev/shm";
  std::error_code status;
  return (fs::is_directory(memory, status) ? memory : fs::temp_directory_path()) /
         fmt::format("commlens-mutations-{}", getpid());
}

void write_file(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
}

struct Campaign {
  std::int64_t mutations = number_from("COMMLENS_MUTATIONS", 2);
  std::int64_t first = number_from("COMMLENS_MUTATION_FIRST", 0);
  std::int64_t seed = number_from("COMMLENS_MUTATION_SEED", 20261122);
  fs::path directory = work_directory();
};

struct Tally {
  std::int64_t verbs = 0;
  std::int64_t readable = 0;
  double slowest_s = 0;
  std::uint64_t slowest_seed = 0;
};

/// Runs the verbs on one mutation; returns the errors.
std::string try_mutation(const ForeignSample& sample, std::uint64_t seed, const Campaign& campaign,
                         Tally& tally) {
  const auto started = std::chrono::steady_clock::now();
  const fs::path original = campaign.directory / "original" / sample.name;
  const fs::path file = campaign.directory / sample.name;
  write_file(file, mutated(sample.text, seed));
  const std::vector<VerbRun> runs = EveryVerb(campaign.directory / "scratch", original).run_fast_on(file);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  tally.verbs += std::ssize(runs);
  tally.readable += runs.size() > 1 ? 1 : 0;
  if (seconds > tally.slowest_s) {
    tally.slowest_s = seconds;
    tally.slowest_seed = seed;
  }
  return faults_of(runs);
}

TEST(Mutations, OfRealFilesAreReadOrRefused) {
  if (foreign_directory().empty()) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with golden/foreign";
  }
  find_modules_beside_program();
  const Campaign campaign;
  fs::create_directories(campaign.directory / "original");
  const std::vector<fs::path> files = sampled_files();
  std::cout << fmt::format("{} files, mutations {} to {} of each, seed {}; a crash leaves its file in {}\n",
                           files.size(), campaign.first, campaign.first + campaign.mutations - 1,
                           campaign.seed, campaign.directory.string())
            << std::flush;
  for (const fs::path& real : files) {
    SCOPED_TRACE(real.string());
    const ForeignSample sample = foreign_sample(real);
    write_file(campaign.directory / "original" / sample.name, sample.text);
    Tally tally;
    for (std::int64_t at = campaign.first; at < campaign.first + campaign.mutations; ++at) {
      const auto seed = static_cast<std::uint64_t>(campaign.seed + at);
      EXPECT_EQ(try_mutation(sample, seed, campaign, tally), "") << "mutation " << at;
    }
    std::cout << fmt::format(
                     "{}: {} bytes, {} mutations, {} readable, {} verbs, slowest {:.2f} s (seed {})\n",
                     sample.name, sample.text.size(), campaign.mutations, tally.readable, tally.verbs,
                     tally.slowest_s, tally.slowest_seed)
              << std::flush;
  }
  fs::remove_all(campaign.directory);
}

TEST(Mutation, IsTheSameForTheSameSeed) {
  const std::string text = "rank 0, count 12\nrank 1, count 13\n{\"a\": [1, 2]}\n";
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string result = mutated(text, seed);
    EXPECT_EQ(result, mutated(text, seed));
    changed += result == text ? 0 : 1;
  }
  EXPECT_GT(changed, 900);
  EXPECT_EQ(mutated("", 1), "");
}

}  // namespace
}  // namespace commlens
