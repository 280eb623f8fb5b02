#include "commlens/network/flows.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr double k_rate = 12.5e9;
constexpr double k_latency = 1e-6;

/// Hosts of a star: link 2h is host h's way out, 2h + 1 its way in.
std::vector<double> star(int hosts) {
  return std::vector<double>(static_cast<std::size_t>(2 * hosts), k_rate);
}

TimedFlow star_flow(LinkId from, LinkId to, double bytes) {
  return {.flow = {.links = {2 * from, 2 * to + 1}, .bytes = bytes, .latency_seconds = k_latency}};
}

TEST(Flows, OfAStarEndWhenWorkedOutByHand) {
  // 0 and 1 send two each, 2 and 3 receive two each: all at half the rate. When the half message 0 -> 3 is
  // through, 1 -> 2 still holds 0 -> 2 to half.
  const std::vector<TimedFlow> flows = {star_flow(0, 2, 12.5e6), star_flow(1, 2, 12.5e6),
                                        star_flow(1, 3, 12.5e6), star_flow(4, 5, 12.5e6),
                                        star_flow(0, 3, 6.25e6)};
  const std::vector<double> times = finish_times(star(6), flows);
  ASSERT_EQ(times.size(), 5u);
  EXPECT_DOUBLE_EQ(times[0], 2.001e-3);
  EXPECT_DOUBLE_EQ(times[1], 2.001e-3);
  EXPECT_DOUBLE_EQ(times[2], 2.001e-3);
  EXPECT_DOUBLE_EQ(times[3], 1.001e-3);
  EXPECT_DOUBLE_EQ(times[4], 1.001e-3);
}

TEST(Flows, OneThatBeginsLaterSlowsTheOtherFromThenOn) {
  // Alone for 1 s (4 of 8 bytes), together at half speed: the second's 2 bytes take 1 s, of the first 2 are
  // left.
  const std::vector<TimedFlow> flows = {{.flow = {.links = {0}, .bytes = 8}},
                                        {.start_seconds = 1, .flow = {.links = {0}, .bytes = 2}}};
  EXPECT_EQ(finish_times({4}, flows), (std::vector<double>{2.5, 2}));
}

TEST(Flows, WithoutLinksOrBytesTakeTheirLatency) {
  const std::vector<TimedFlow> flows = {
      {.start_seconds = 1, .flow = {.bytes = 8, .latency_seconds = 0.5}},
      {.start_seconds = 2, .flow = {.links = {0}, .latency_seconds = 0.25}}};
  EXPECT_EQ(finish_times({4}, flows), (std::vector<double>{1.5, 2.25}));
}

TEST(Flows, OfAClassEndTogether) {
  const std::vector<TimedFlow> flows = {{.flow = {.links = {0}, .bytes = 2, .messages = 3}},
                                        {.flow = {.links = {0}, .bytes = 4}}};
  // Four at 1 byte a second; at 2 s three are through and the last has the link.
  EXPECT_EQ(finish_times({4}, flows), (std::vector<double>{2, 2.5}));
}

TEST(Flows, WithWeightsShareByThem) {
  const std::vector<TimedFlow> flows = {{.flow = {.links = {0}, .bytes = 6, .weight = 3}},
                                        {.flow = {.links = {0}, .bytes = 6}}};
  // 3 and 1 bytes a second; at 2 s 4 are left of the second.
  EXPECT_EQ(finish_times({4}, flows), (std::vector<double>{2, 3}));
}

TEST(GroupedFlows, AreOneClassWhateverTheOrderOfTheirLinks) {
  const std::vector<TimedFlow> flows = {{.flow = {.links = {0, 1}, .bytes = 2}},
                                        {.flow = {.links = {1, 0}, .bytes = 2, .messages = 2}},
                                        {.flow = {.links = {1, 0}, .bytes = 3}},
                                        {.flow = {.links = {0, 1, 1}, .bytes = 2}}};
  const GroupedFlows groups = grouped(flows);
  EXPECT_EQ(groups.class_of, (std::vector<std::size_t>{0, 0, 1, 2}));
  ASSERT_EQ(groups.classes.size(), 3u);
  EXPECT_EQ(groups.classes[0].flow.messages, 3);
}

TEST(FlowNetwork, IsPlayedStepByStep) {
  FlowNetwork network({4});
  const FlowId first = network.add(0, {.links = {0}, .bytes = 8});
  EXPECT_EQ(network.next_change_seconds(), 0.0);
  EXPECT_TRUE(network.advance(0).empty());
  EXPECT_EQ(network.rate(first), 4);
  EXPECT_EQ(network.next_change_seconds(), 2.0);
  // The caller has an event of its own at 1 s and starts another message.
  EXPECT_TRUE(network.advance(1).empty());
  const FlowId second = network.add(1, {.links = {0}, .bytes = 2});
  EXPECT_TRUE(network.advance(1).empty());
  EXPECT_EQ(network.rate(first), 2);
  EXPECT_EQ(network.next_change_seconds(), 2.0);
  const std::vector<FlowEnd> ends = network.advance(2);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].flow, second);
  EXPECT_EQ(ends[0].seconds, 2);
  EXPECT_EQ(network.rate(second), 0);
  EXPECT_EQ(network.next_change_seconds(), 2.5);
  ASSERT_EQ(network.advance(2.5).size(), 1u);
  EXPECT_EQ(network.next_change_seconds(), std::nullopt);
}

TEST(FlowNetwork, EndsOfOneTimeComeTogetherByNumber) {
  FlowNetwork network({3, 3});
  network.add(0, {.links = {0}, .bytes = 1});
  network.add(0, {.links = {1}, .bytes = 1});
  network.advance(0);
  const std::vector<FlowEnd> ends = network.advance(network.next_change_seconds().value());
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].flow, 0u);
  EXPECT_EQ(ends[1].flow, 1u);
}

TEST(FlowNetwork, WorksOutTheRatesOfThoseThatShareLinksOnly) {
  FlowNetwork network({4, 4, 4});
  network.add(0, {.links = {0, 1}, .bytes = 8});
  network.add(0, {.links = {1}, .bytes = 8});
  network.add(0, {.links = {2}, .bytes = 80});
  network.advance(0);
  EXPECT_EQ(network.next_change_seconds(), 4.0);
  EXPECT_EQ(network.solved_rates(), 3);
  network.add(1, {.links = {0}, .bytes = 2});
  EXPECT_TRUE(network.advance(1).empty());
  EXPECT_EQ(network.next_change_seconds(), 2.0);
  EXPECT_EQ(network.solved_rates(), 6);
}

double times_on(const TimedFlow& timed, std::size_t link) {
  return static_cast<double>(std::ranges::count(timed.flow.links, static_cast<LinkId>(link)));
}

constexpr double k_never = 1e300;

/// The link with the least room for each of the open flows on it, and that room; k_never where no flow is
/// open.
std::pair<std::size_t, double> narrowest(const std::vector<double>& room, const std::vector<TimedFlow>& flows,
                                         const std::vector<bool>& is_open) {
  std::pair<std::size_t, double> best = {0, k_never};
  for (std::size_t link = 0; link < room.size(); ++link) {
    double users = 0;
    for (std::size_t at = 0; at < flows.size(); ++at) {
      users += is_open[at] ? times_on(flows[at], link) : 0;
    }
    if (users > 0 && room[link] / users < best.second) {
      best = {link, room[link] / users};
    }
  }
  return best;
}

/// Rates of the flows that are open, by a plain method: each link is looked at in turn for the narrowest.
std::vector<double> plain_rates(std::vector<double> room, const std::vector<TimedFlow>& flows,
                                std::vector<bool> is_open) {
  std::vector<double> rates(flows.size(), 0);
  while (true) {
    const auto [link, rate] = narrowest(room, flows, is_open);
    if (rate == k_never) {
      return rates;
    }
    for (std::size_t at = 0; at < flows.size(); ++at) {
      if (!is_open[at] || times_on(flows[at], link) == 0) {
        continue;
      }
      is_open[at] = false;
      rates[at] = rate;
      for (const LinkId taken : flows[at].flow.links) {
        room[static_cast<std::size_t>(taken)] -= rate;
      }
    }
  }
}

/// Ends of the flows: all rates are worked out at each beginning and end.
std::vector<double> plain_ends(const std::vector<double>& capacities, const std::vector<TimedFlow>& flows) {
  std::vector<double> ends(flows.size(), k_never);
  std::vector<double> left;
  for (const TimedFlow& timed : flows) {
    left.push_back(timed.flow.bytes);
  }
  for (double now = 0; std::ranges::count(ends, k_never) > 0;) {
    std::vector<bool> under_way;
    double next = k_never;
    for (std::size_t at = 0; at < flows.size(); ++at) {
      under_way.push_back(ends[at] == k_never && flows[at].start_seconds <= now);
      next = flows[at].start_seconds > now ? std::min(next, flows[at].start_seconds) : next;
    }
    const std::vector<double> rates = plain_rates(capacities, flows, under_way);
    for (std::size_t at = 0; at < flows.size(); ++at) {
      next = under_way[at] ? std::min(next, now + left[at] / rates[at]) : next;
    }
    for (std::size_t at = 0; at < flows.size(); ++at) {
      left[at] -= rates[at] * (next - now);
      if (under_way[at] && left[at] <= 1e-9 * flows[at].flow.bytes) {
        ends[at] = next;
      }
    }
    now = next;
  }
  return ends;
}

TEST(FlowNetwork, EndsFlowsWhenAPlainMethodDoes) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<double> capacities(2 + random() % 12);
    for (double& capacity : capacities) {
      capacity = 1 + static_cast<double>(random() % 100);
    }
    std::vector<TimedFlow> flows(1 + random() % 25);
    for (TimedFlow& timed : flows) {
      timed.start_seconds = static_cast<double>(random() % 50);
      timed.flow.bytes = 1 + static_cast<double>(random() % 1000);
      for (std::uint64_t uses = 1 + random() % 3; uses > 0; --uses) {
        timed.flow.links.push_back(static_cast<LinkId>(random() % capacities.size()));
      }
    }
    const std::vector<double> ours = finish_times(capacities, flows);
    const std::vector<double> plain = plain_ends(capacities, flows);
    for (std::size_t at = 0; at < flows.size(); ++at) {
      EXPECT_NEAR(ours[at], plain[at], 1e-9 * plain[at]) << at;
    }
  }
}

TEST(FlowNetwork, PlaysARingStepByStepInTheTimeOfTheClosedForm) {
  // 126 steps of 1 us and 16,384 B at 12.5 GB/s.
  FlowNetwork network(star(64));
  for (int step = 0; step < 126; ++step) {
    for (LinkId host = 0; host < 64; ++host) {
      network.add(network.now_seconds(), star_flow(host, (host + 1) % 64, 16384).flow);
    }
    std::size_t ends = 0;
    while (const std::optional<double> change = network.next_change_seconds()) {
      ends += network.advance(*change).size();
    }
    ASSERT_EQ(ends, 64u) << step;
  }
  EXPECT_NEAR(network.now_seconds() * 1e6, 291.150720, 1e-9);
}

TEST(FlowNetwork, PlaysTransfersAtTheirSpeeds) {
  // Two that fill a link for 2 s each, and one of 3 s elsewhere; the second begins at 1 s. From then on both
  // have half the speed: at 3 s the first is through its second half, the second has one of its two seconds
  // left.
  FlowNetwork network({8, 8});
  const ActiveTransfer fills{.uses = {{0, 4, 2}}};
  network.add(0, fills, 2);
  network.add(1, fills, 2);
  network.add(0, {.uses = {{1, 8, 1}}}, 3.5);
  network.add(0, {.uses = {}}, 4.5);
  std::vector<FlowEnd> all;
  while (const std::optional<double> change = network.next_change_seconds()) {
    const std::vector<FlowEnd> ends = network.advance(*change);
    all.insert(all.end(), ends.begin(), ends.end());
    if (*change == 1) {
      EXPECT_EQ(network.rate(0), 0.5);
      EXPECT_EQ(network.rate(1), 0.5);
      EXPECT_EQ(network.rate(2), 1);
    }
  }
  ASSERT_EQ(all.size(), 4u);
  const std::vector<FlowId> order = {all[0].flow, all[1].flow, all[2].flow, all[3].flow};
  EXPECT_EQ(order, (std::vector<FlowId>{0, 2, 1, 3}));
  EXPECT_EQ(all[0].seconds, 3);
  EXPECT_EQ(all[1].seconds, 3.5);
  EXPECT_EQ(all[2].seconds, 4);
  EXPECT_EQ(all[3].seconds, 4.5);
}

TEST(FlowNetworkDeathTest, RefusesToPassOverAnEnd) {
  FlowNetwork network({4});
  network.add(0, {.links = {0}, .bytes = 8});
  network.advance(0);
  EXPECT_DEATH(network.advance(3), "no end is passed over");
}

}  // namespace
}  // namespace commlens
