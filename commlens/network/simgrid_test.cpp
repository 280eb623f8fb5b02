#include "commlens/network/simgrid.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/modules.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/network/flows.hpp"
#include "commlens/network/simgrid_session.hpp"
#include "commlens/network/topology.hpp"

namespace commlens {
namespace {

using test_support::ScopedVariable;
using test_support::ScratchDirectory;

constexpr double k_star_rate = 12.5e9;
constexpr double k_hop_latency = 0.5e-6;  // two of them on each way

/// Whether this build has the module.
bool has_simgrid() { return module_file("libcommlens-simgrid.so").has_value(); }

SimgridJob star_of(std::int32_t hosts) {
  return {.links =
              std::vector<SimgridLink>(static_cast<std::size_t>(2 * hosts), {k_star_rate, k_hop_latency})};
}

SimgridFlow star_message(std::int32_t from, std::int32_t to, double bytes) {
  return {.from = from, .to = to, .links = {2 * from, 2 * to + 1}, .bytes = bytes};
}

TEST(Simgrid, RefusesMoreHostsThanItPlaysInTime) {
  SimgridJob job = star_of(257);
  job.waves = {{star_message(256, 0, 1)}};
  const Result<std::vector<double>> times = simgrid_finish_times(job);
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().message,
            "SimGrid is asked for 257 hosts; it plays up to 256: use commlens' own flows");
}

TEST(Simgrid, RefusesTwoWaysBetweenTwoHosts) {
  SimgridJob job = star_of(3);
  job.waves = {{star_message(0, 1, 1), star_message(0, 1, 1)}};
  job.waves[0][1].links = {0, 5};
  const Result<std::vector<double>> times = simgrid_finish_times(job);
  ASSERT_FALSE(times.has_value());
  EXPECT_EQ(times.error().message,
            "hosts 0 and 1 have no way, or several, over the links that are given to SimGrid");
}

TEST(Simgrid, SaysWhichFileWouldBeLoaded) {
  const ScratchDirectory directory;
  directory.write("libcommlens-simgrid.so", "no library");
  const ScopedVariable path("COMMLENS_MODULE_PATH", directory.path().string());
  SimgridJob job = star_of(2);
  job.waves = {{star_message(0, 1, 1)}};
  const Result<std::vector<double>> times = simgrid_finish_times(job);
  ASSERT_FALSE(times.has_value());
  EXPECT_TRUE(times.error().message.starts_with("cannot load " + directory.path("libcommlens-simgrid.so")))
      << times.error().message;
}

TEST(Simgrid, TakesTheClosedFormForARing) {
  if (!has_simgrid()) {
    GTEST_SKIP() << "built without SimGrid";
  }
  SimgridJob job = star_of(64);
  std::vector<SimgridFlow> step;
  for (std::int32_t host = 0; host < 64; ++host) {
    step.push_back(star_message(host, (host + 1) % 64, 16384));
  }
  job.waves.assign(126, step);
  const Result<std::vector<double>> times = simgrid_finish_times(job);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  EXPECT_NEAR(times->back() * 1e6, 291.150720, 1e-6);
}

TEST(Simgrid, EndsFlowsOfAStarWhenWorkedOutByHand) {
  if (!has_simgrid()) {
    GTEST_SKIP() << "built without SimGrid";
  }
  SimgridJob job = star_of(6);
  job.waves = {{star_message(0, 2, 12.5e6), star_message(1, 2, 12.5e6), star_message(1, 3, 12.5e6),
                star_message(4, 5, 12.5e6), star_message(0, 3, 6.25e6)}};
  const Result<std::vector<double>> times = simgrid_finish_times(job);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  const std::vector<double> by_hand = {2.001e-3, 2.001e-3, 2.001e-3, 1.001e-3, 1.001e-3};
  for (std::size_t at = 0; at < by_hand.size(); ++at) {
    EXPECT_NEAR((*times)[at], by_hand[at], 1e-9) << at;
  }
}

/// The same flows for SimGrid and for FlowNetwork. The latter shares as CM02 does if `cm02`.
struct BothForms {
  SimgridJob job;
  std::vector<TimedFlow> flows;
};

BothForms both_forms(const Topology& topology, std::vector<SimgridFlow> wave, bool cm02) {
  BothForms both;
  for (const double capacity : topology.capacities()) {
    both.job.links.push_back({capacity, k_hop_latency});
  }
  for (SimgridFlow& flow : wave) {
    flow.links = topology.route(Rank{flow.from}, Rank{flow.to});
    const double latency = k_hop_latency * static_cast<double>(flow.links.size());
    both.flows.push_back({.start_seconds = flow.start_seconds,
                          .flow = {.links = flow.links,
                                   .bytes = flow.bytes,
                                   .messages = flow.messages,
                                   .latency_seconds = latency,
                                   .weight = cm02 ? 1 / latency : 1}});
  }
  both.job.waves = {std::move(wave)};
  return both;
}

/// 200 messages between random ranks that begin within 5 ms, of 1 to 50 MB.
std::vector<SimgridFlow> random_messages(std::uint64_t seed, std::int32_t ranks) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int32_t> rank(0, ranks - 1);
  std::vector<SimgridFlow> wave;
  while (wave.size() < 200) {
    SimgridFlow flow{.from = rank(random), .to = rank(random)};
    flow.bytes = static_cast<double>(1'000'000 + random() % 49'000'000);
    flow.start_seconds = static_cast<double>(random() % 5'000'000) * 1e-9;
    if (flow.from != flow.to) {
      wave.push_back(flow);
    }
  }
  return wave;
}

/// Frontier over three groups of two nodes, or a tree of four leaves of two nodes with a quarter of the
/// bandwidth above.
Topology narrow_topology(bool dragonfly) {
  Machine machine = find_machine(dragonfly ? "frontier" : "marenostrum5").value();
  if (dragonfly) {
    machine.out.shape = {{"nodes per group", Quantity{.value = 2}},
                         {"links per pair of groups", Quantity{.value = 1}}};
    return Topology::of(machine, 6, {.minimal_routing = true}).value();
  }
  machine.out.shape = {{"nodes per leaf", Quantity{.value = 2}}, {"oversubscription", Quantity{.value = 4}}};
  return Topology::of(machine, 8).value();
}

// With CM02's weights each flow ends when SimGrid's does; with equal shares flows differ, the last end
// hardly.
TEST(Simgrid, EndsRandomContendedFlowsWhenOursEnd) {
  if (!has_simgrid()) {
    GTEST_SKIP() << "built without SimGrid";
  }
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    const Topology topology = narrow_topology(seed % 2 == 0);
    const std::vector<SimgridFlow> wave = random_messages(seed, static_cast<std::int32_t>(topology.ranks()));
    const BothForms both = both_forms(topology, wave, true);
    const Result<std::vector<double>> theirs = simgrid_finish_times(both.job);
    ASSERT_TRUE(theirs.has_value()) << theirs.error().message;
    const std::vector<double> ours = finish_times(topology.capacities(), both.flows);
    for (std::size_t at = 0; at < ours.size(); ++at) {
      EXPECT_NEAR(ours[at], (*theirs)[at], 1e-6 * (*theirs)[at]) << at;
    }
    const std::vector<double> equal =
        finish_times(topology.capacities(), both_forms(topology, wave, false).flows);
    const double makespan = std::ranges::max(*theirs);
    EXPECT_NEAR(std::ranges::max(equal), makespan, 1e-3 * makespan);
  }
}

/// Two hosts, with a way from the first to the second alone.
Result<SimgridSession> two_hosts() {
  return SimgridSession::start(
      {.hosts = 2, .capacities = {1e9}, .ways = {{.from = 0, .to = 1, .links = {0}}}});
}

TEST(SimgridSession, EndsCallsWhenTheirBytesAreOver) {
  if (!has_simgrid()) {
    GTEST_SKIP() << "built without SimGrid";
  }
  Result<SimgridSession> session = two_hosts();
  ASSERT_TRUE(session.has_value()) << session.error().message;
  const SimgridStream stream{.from = 0, .to = 1, .bytes = 2e9, .bytes_per_second = 1e9};
  session->begin(7, 1, {&stream, 1});
  EXPECT_FALSE(session->next_end(2).has_value());
  const std::optional<SimgridSession::End> end = session->next_end(10);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->call, 7);
  EXPECT_NEAR(end->seconds, 3, 1e-9);
}

TEST(SimgridSession, SaysWhatSimGridRefusesAfterItsFirstAnswers) {
  if (!has_simgrid()) {
    GTEST_SKIP() << "built without SimGrid";
  }
  Result<SimgridSession> session = two_hosts();
  ASSERT_TRUE(session.has_value()) << session.error().message;
  const SimgridStream known{.from = 0, .to = 1, .bytes = 1e9, .bytes_per_second = 1e9};
  const SimgridStream unknown{.from = 1, .to = 0, .bytes = 1e9, .bytes_per_second = 1e9};
  session->begin(1, 0, {&known, 1});
  ASSERT_TRUE(session->next_end(10).has_value());
  session->begin(2, 2, {&unknown, 1});
  try {
    session->next_end(10);
    FAIL() << "an answer was read where there is none";
  } catch (const SystemError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 17), "SimGrid refuses: ");
  }
}

}  // namespace
}  // namespace commlens
