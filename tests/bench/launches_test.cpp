// Launches: how far apart they begin, and the files that several jobs add theirs to.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_reader.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using namespace std::chrono_literals;
using test_support::ScratchDirectory;

/// Calls of 8 bytes between two ranks.
BenchRequest brief_request(std::vector<std::string> ops) {
  BenchRequest request;
  request.ops = std::move(ops);
  request.sizes = "8";
  request.ranks = 2;
  request.time = 1ms;
  request.seed = 1;
  return request;
}

BenchResult measured_by(const BenchRequest& request) {
  Result<BenchResult> result = bench_calls(request);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : BenchResult();
}

// A clock that goes on by 100 ms whenever it is asked.
TEST(BenchCalls, SpreadTheirLaunches) {
  BenchRequest request = brief_request({"barrier"});
  request.launches = 3;
  request.launch_clock = [time = std::make_shared<std::int64_t>(0)] { return *time += 100'000'000; };
  const BenchResult result = measured_by(request);
  ASSERT_EQ(result.run.launches.size(), 3U);
  for (std::size_t launch = 1; launch < 3; ++launch) {
    EXPECT_EQ(*result.run.launches[launch].began_ns - *result.run.launches[launch - 1].began_ns, 500'000'000);
  }
  request.check = "base.json";
  request.launch_every = 200ms;
  EXPECT_NE(
      bench_calls(request).error().message.find("--launch-every: launches that begin less than 250 ms apart"),
      std::string::npos);
}

TEST(BenchText, SaysHowManyRanksThereAre) {
  BenchRequest request = brief_request({"barrier"});
  EXPECT_EQ(rendered(measured_by(request), Format::table).substr(0, 21), "2 ranks over threads,");
  request.ranks = 1;
  EXPECT_EQ(rendered(measured_by(request), Format::table).substr(0, 20), "1 rank over threads,");
}

TEST(BenchDocument, TakesTheLaunchesOfJobsAtOnce) {
  const ScratchDirectory directory;
  const std::string file = directory.path("result.json");
  {
    std::array<std::jthread, 2> jobs;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      jobs.at(job) = std::jthread([&file, job] {
        for (std::uint64_t launch = 0; launch < 5; ++launch) {
          BenchRequest request = brief_request({"barrier"});
          request.seed = 10 * job + launch;
          request.append = file;
          EXPECT_EQ(measured_by(request).unwritten, "");
        }
      });
    }
  }
  std::set<std::uint64_t> seeds;
  const Result<BenchRun> run = read_bench(file);
  ASSERT_TRUE(run) << run.error().message;
  for (const BenchLaunch& launch : run->launches) {
    seeds.insert(launch.seed);
  }
  EXPECT_EQ(seeds, (std::set<std::uint64_t>{0, 1, 2, 3, 4, 10, 11, 12, 13, 14}));
}

TEST(BenchDocument, ThatCannotBeWrittenLeavesTheResult) {
  BenchRequest request = brief_request({"all_reduce"});
  request.json = "/dev/full";
  const BenchResult result = measured_by(request);
  EXPECT_EQ(result.unwritten, "cannot write /dev/full: No space left on device");
  EXPECT_EQ(combined_rows(result.run).size(), 1U);
}

}  // namespace
}  // namespace commlens
