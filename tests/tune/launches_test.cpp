// Launches of tune: over threads, one after the other and in a file that several jobs add to.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/tune.hpp"
#include "commlens/app/tune_launches.hpp"
#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using namespace std::chrono_literals;
using test_support::ScratchDirectory;

/// A few small messages of a narrow model, of two threads.
TuneRequest brief_tuning() {
  TuneRequest request;
  request.messages.input = {"19M"};
  request.messages.framework = "commlens";
  Overrides& overrides = request.messages.overrides;
  overrides.layers = 1;
  overrides.hidden = 32;
  overrides.heads = 2;
  overrides.vocab = 64;
  overrides.seq = 16;
  overrides.dp = 2;
  request.most_rounds = 60;
  request.time = 20ms;
  request.launch_every = 0ns;
  return request;
}

TuneResult tuned_by(const TuneRequest& request) {
  Result<TuneResult> result = tune_calls(request);
  EXPECT_TRUE(result) << result.error().message;
  return result ? std::move(*result) : TuneResult();
}

std::string refusal_of(const TuneRequest& request) {
  const Result<TuneResult> result = tune_calls(request);
  return result ? "" : result.error().message;
}

/// Writes into a file of launches that they began a second apart, long ago.
void move_apart(const std::string& file) {
  nlohmann::json document = nlohmann::json::parse(std::ifstream(file));
  std::int64_t began_ns = 0;
  for (nlohmann::json& launch : document.at("launches")) {
    launch["began_unix_ns"] = began_ns += 1'000'000'000;
  }
  std::ofstream(file) << document;
}

TEST(TuneLaunches, AreOneOfManyInAFile) {
  const ScratchDirectory directory;
  TuneRequest request = brief_tuning();
  request.time = 10min;  // so that all 60 rounds are made, however busy the machine is
  request.append = directory.path("launches.json");
  for (std::uint64_t launch = 1; launch <= 6; ++launch) {
    request.seed = launch;
    const TuneResult result = tuned_by(request);
    move_apart(request.append);
    EXPECT_EQ(result.tuned.launches, static_cast<std::int64_t>(launch));
    EXPECT_EQ(result.tuned.has_enough_launches(), launch == 1 || launch == 6) << launch;
    EXPECT_EQ(rendered(result, Format::table).find("are the least to decide by") != std::string::npos,
              launch > 1 && launch < 6)
        << launch;
  }
  const auto launches = tune_launches_in(request.append, tuned_by(request));
  ASSERT_TRUE(launches) << launches.error().message;
  ASSERT_EQ(launches->size(), 7U);
  EXPECT_EQ(launches->at(3).seed, 4U);
  for (const TuneLaunch& launch : *launches) {
    ASSERT_FALSE(launch.rows.empty());
    for (const TuneLaunchRow& row : launch.rows) {
      EXPECT_EQ(row.medians.even.rounds, 30) << row.op << " " << row.algorithm;
      EXPECT_EQ(row.medians.odd.rounds, 30) << row.op << " " << row.algorithm;
      EXPECT_GT(row.medians.even.time_s, 0) << row.op << " " << row.algorithm;
      EXPECT_GT(row.medians.odd.default_s, 0) << row.op << " " << row.algorithm;
    }
  }
}

TEST(TuneLaunches, OfJobsAtOnceAreAllInTheFile) {
  const ScratchDirectory directory;
  const std::string file = directory.path("launches.json");
  {
    std::array<std::jthread, 2> jobs;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      jobs.at(job) = std::jthread([&file, job] {
        for (std::uint64_t launch = 0; launch < 3; ++launch) {
          TuneRequest request = brief_tuning();
          request.seed = 10 * job + launch;
          request.append = file;
          tuned_by(request);
        }
      });
    }
  }
  std::vector<std::uint64_t> seeds;
  TuneRequest last = brief_tuning();
  last.seed = 99;
  last.append = file;
  for (const TuneLaunch& launch : tuned_by(last).launches) {
    seeds.push_back(launch.seed);
  }
  std::ranges::sort(seeds);
  EXPECT_EQ(seeds, (std::vector<std::uint64_t>{0, 1, 2, 10, 11, 12, 99}));
}

TEST(TuneLaunches, FollowOneAnother) {
  TuneRequest request = brief_tuning();
  request.launches = 2;
  request.launch_every = 300ms;
  const TuneResult result = tuned_by(request);
  ASSERT_EQ(result.launches.size(), 2U);
  EXPECT_GE(result.launches[1].began_ns - result.launches[0].began_ns, 300'000'000);
  EXPECT_EQ(result.launches[1].seed, result.launches[0].seed + 1);
  request.launch_every = 100ms;
  EXPECT_NE(refusal_of(request).find("--launch-every: launches that begin less than 250 ms apart"),
            std::string::npos);
  request.transport = Transport::mpi;
  EXPECT_NE(refusal_of(request).find("--launches: mpirun starts the ranks"), std::string::npos);
}

TEST(TuneLaunches, AreRefusedWhereTheyAreOfOtherMessages) {
  const ScratchDirectory directory;
  TuneRequest request = brief_tuning();
  request.append = directory.path("launches.json");
  tuned_by(request);
  request.messages.overrides.hidden = 64;
  EXPECT_NE(refusal_of(request).find("holds launches of other messages, as reduce_scatter of "),
            std::string::npos);
  request.messages.overrides.dp = 4;
  EXPECT_NE(refusal_of(request).find("and this job has"), std::string::npos);
  request.append = directory.write("other.json", "{}");
  EXPECT_NE(refusal_of(request).find("is no result of tune"), std::string::npos);
  request.append = directory.write("damaged.json", R"({"schema": "commlens.tune/1", "launches": 7})");
  EXPECT_NE(refusal_of(request).find("is damaged: "), std::string::npos);
}

/// A message of one call with another way, whose time in each of ten launches is a share of the default's.
TunedMessages found_with(double share, std::vector<TuneLaunch>& launches,
                         std::int64_t began_apart_ns = 1'000'000'000) {
  TunedMessages found;
  TunedMessage& message = found.messages.emplace_back();
  message.timed.ranks = 2;
  message.calls_of_class = {1};
  message.variants = {{"", {}, {}}, {"ring", {}, {}}};
  for (int launch = 0; launch < 10; ++launch) {
    for (tune::Variant& variant : message.variants) {
      variant.rounds.clear();
      variant.times_s.clear();
      for (std::int64_t round = 1; round <= 20; ++round) {
        variant.rounds.push_back(round);
        variant.times_s.push_back((1 + 0.04 * launch) * (variant.algorithm.empty() ? 1 : share));
      }
    }
    launches.push_back(tune_launch_of(found, 1, launch * began_apart_ns));
  }
  return found;
}

// A message that was timed once says how long it takes, and nothing else.
TEST(TuneLaunches, KeepWhatWasTimedOnce) {
  const ScratchDirectory directory;
  TuneRequest request = brief_tuning();
  request.append = directory.path("launches.json");
  request.time = 1ns;
  request.messages.overrides.hidden = 64;
  for (int launch = 0; launch < 6; ++launch) {
    tuned_by(request);
    move_apart(request.append);
  }
  const TuneResult result = tuned_by(request);
  EXPECT_EQ(result.tuned.launches, 7);
  EXPECT_TRUE(result.tuned.rules().empty());
  for (const TunedMessage& message : result.tuned.messages) {
    EXPECT_GT(message.decision.default_s, 0);
  }
}

// Launches are up to 36 % longer than the first. What saves 30 % is a rule; what saves 6 % in each of them is
// less than they differ by.
TEST(TuneLaunches, DecideByWhatAJobGains) {
  for (const double share : {0.7, 0.94}) {
    std::vector<TuneLaunch> launches;
    TunedMessages found = found_with(share, launches);
    decide_over(found, launches, {.least_gain = 0.05});
    EXPECT_EQ(found.messages.front().decision.variant, 1U) << share;
    EXPECT_NEAR(found.messages.front().decision.gain.value, 1 - share, 1e-9);
    EXPECT_EQ(found.is_confirmed(), share == 0.7) << found.step.gain_s.low;
    EXPECT_EQ(found.rules().size(), share == 0.7 ? 1U : 0U);
  }
}

// The same ten launches, 100 ms after one another: one moment, of which no rule is known to hold.
TEST(TuneLaunches, OfOneMomentCountAsOne) {
  TuneResult result;
  result.tuned = found_with(0.7, result.launches, 100'000'000);
  decide_over(result.tuned, result.launches, {.least_gain = 0.05});
  EXPECT_EQ(result.tuned.timed_launches, 10);
  EXPECT_EQ(result.tuned.launches, 1);
  EXPECT_FALSE(result.tuned.has_enough_launches());
  EXPECT_FALSE(result.tuned.is_confirmed());
  EXPECT_TRUE(result.tuned.rules().empty());
  const std::string text = rendered(result, Format::table);
  EXPECT_NE(text.find(": 1 message on 1 rank over  (), 10 launches, the last of 0 rounds"), std::string::npos)
      << text;
  EXPECT_NE(text.find("these 10 launches count as 1: those that begin within 250 ms of another are one\n"
                      "no rule: 1 launch, and 6 are the least to decide by"),
            std::string::npos)
      << text;
}

// Six pairs, each a tenth of a second apart: by default 1 and 3 s, 2 s together, by the ring 0.5 and 2.7 s,
// 1.6 s together, a fifth less.
TEST(TuneLaunches, OfOneMomentCountWithTheirMedians) {
  std::vector<TuneLaunch> launches;
  TunedMessages found = found_with(1, launches);
  launches.clear();
  for (std::int64_t launch = 0; launch < 12; ++launch) {
    const bool is_first = launch % 2 == 0;
    for (tune::Variant& variant : found.messages.front().variants) {
      const bool is_default = variant.algorithm.empty();
      variant.times_s.assign(20, is_first ? (is_default ? 1 : 0.5) : (is_default ? 3 : 2.7));
    }
    launches.push_back(tune_launch_of(found, 1, launch / 2 * 1'000'000'000 + (is_first ? 0 : 100'000'000)));
  }
  decide_over(found, launches, {.least_gain = 0.05});
  EXPECT_EQ(found.launches, 6);
  EXPECT_EQ(found.messages.front().decision.variant, 1U);
  EXPECT_DOUBLE_EQ(found.messages.front().decision.default_s, 2);
  EXPECT_DOUBLE_EQ(found.messages.front().decision.chosen_s, 1.6);
  EXPECT_DOUBLE_EQ(found.messages.front().decision.gain.value, 0.2);
}

// What MPI libraries say of themselves; the file has all of it.
TEST(TuneText, NamesTheLibraryAndItsVersionInItsHead) {
  TuneResult result;
  result.classes.push_back({});
  for (const auto& [library, name] :
       {std::pair("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
                  "(Open MPI v4.1.4), "),
        std::pair("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n",
                  "(MPICH 4.0.2), "),
        std::pair("MPICH Version:      4.2.1\nMPICH Release date: unknown", "(MPICH 4.2.1), "),
        std::pair("threads of commlens 0.2.0", "(threads of commlens 0.2.0), ")}) {
    result.library = library;
    EXPECT_NE(rendered(result, Format::table).find(name), std::string::npos)
        << rendered(result, Format::table);
    EXPECT_NE(rendered(result, Format::json).find(nlohmann::json(library).dump()), std::string::npos);
  }
}

}  // namespace
}  // namespace commlens
