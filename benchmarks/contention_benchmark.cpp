// Measures flows that share links. Goals: a ring of 8,192 ranks with staggered starts in less than 1 s and
// 100 MiB; max-min rates of a million flows a second.
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "commlens/base/check.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/network/contention.hpp"
#include "commlens/network/flows.hpp"
#include "commlens/network/ring.hpp"
#include "commlens/network/simgrid.hpp"
#include "commlens/network/topology.hpp"
#include "commlens/network/transfers.hpp"

namespace {

using namespace commlens;

/// Most memory of this process so far; of one benchmark where it runs alone.
double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// A fat tree with half the bandwidth above its leaves: four ranks and NICs a node, 32 nodes a leaf.
Topology tree_of(std::int64_t ranks) {
  Machine machine = find_machine("marenostrum5").value();
  machine.out.shape = {{"nodes per leaf", Quantity{.value = 32}}, {"oversubscription", Quantity{.value = 2}}};
  return Topology::of(machine, ranks / 4).value();
}

/// A message of each rank to a random one, of 1 to 50 MB.
std::vector<TimedFlow> random_flows(const Topology& topology) {
  std::mt19937_64 random(1);
  std::vector<TimedFlow> flows;
  for (std::int64_t from = 0; from < topology.ranks(); ++from) {
    const auto away =
        1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(topology.ranks() - 1));
    flows.push_back({.flow = {.links = topology.route(Rank{from}, Rank{(from + away) % topology.ranks()}),
                              .bytes = static_cast<double>(1'000'000 + random() % 49'000'000)}});
  }
  return flows;
}

/// Rates of one message of each rank, all under way.
void rates(benchmark::State& state) {
  const Topology topology = tree_of(state.range(0));
  const std::vector<TimedFlow> flows = random_flows(topology);
  MaxMin links(topology.capacities());
  std::vector<LinkUse> uses;
  for ([[maybe_unused]] auto _ : state) {
    links.clear();
    for (const TimedFlow& timed : flows) {
      uses.clear();
      for (const LinkId link : timed.flow.links) {
        uses.push_back({.link = link, .amount = 1});
      }
      links.add(uses);
    }
    benchmark::DoNotOptimize(links.solve().data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(flows.size()));
  state.counters["peak_MiB"] = peak_mebibytes();
}

/// All ends of these messages: as many solutions as there are ends.
void ends(benchmark::State& state) {
  const Topology topology = tree_of(state.range(0));
  const std::vector<TimedFlow> flows = random_flows(topology);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(finish_times(topology.capacities(), flows));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(flows.size()));
}

void staggered_ring(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> late(0, 1e-3);
  std::vector<double> starts(static_cast<std::size_t>(state.range(0)));
  for (double& start : starts) {
    start = late(random);
  }
  const std::vector<double> hop = {hop_seconds({.latency_seconds = 1e-6, .bandwidth = {12.5e9}}, 128)};
  const std::int64_t steps = ring_all_reduce_steps(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(staggered_ring_ends(starts, hop, steps));
  }
  state.SetItemsProcessed(state.iterations() * steps * state.range(0));
  state.counters["peak_MiB"] = peak_mebibytes();
}

/// Speeds of eight rings, each over a rail of all nodes, and of a job-wide ring of eight channels beside
/// them.
void speeds(benchmark::State& state) {
  const Topology topology = Topology::of(find_machine("dgx_h100").value(), state.range(0) / 8).value();
  std::vector<ActiveTransfer> transfers;
  std::vector<Rank> all;
  for (std::int64_t rail = 0; rail < 8; ++rail) {
    std::vector<Rank> group;
    for (std::int64_t node = 0; node < topology.nodes(); ++node) {
      group.push_back(Rank{8 * node + rail});
    }
    transfers.push_back(ring_transfer(topology, group, 40e9));
  }
  for (std::int64_t rank = 0; rank < topology.ranks(); ++rank) {
    all.push_back(Rank{rank});
  }
  transfers.push_back(ring_transfer(topology, all, 320e9, 8));
  SharedLinks links(topology.capacities());
  std::int64_t uses = 0;
  for (const ActiveTransfer& transfer : transfers) {
    uses += static_cast<std::int64_t>(transfer.uses.size());
  }
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(links.speeds(std::span<const ActiveTransfer>(transfers)).data());
  }
  state.SetItemsProcessed(state.iterations() * uses);
}

/// An all_reduce over a star, step by step, through SimGrid: the child process and its loading are in it.
void simgrid_ring(benchmark::State& state) {
  const auto hosts = static_cast<std::int32_t>(state.range(0));
  SimgridJob job{.links = std::vector<SimgridLink>(static_cast<std::size_t>(2 * hosts), {12.5e9, 0.5e-6})};
  std::vector<SimgridFlow> step;
  for (std::int32_t host = 0; host < hosts; ++host) {
    const std::int32_t next = (host + 1) % hosts;
    step.push_back({.from = host, .to = next, .links = {2 * host, 2 * next + 1}, .bytes = 1048576.0 / hosts});
  }
  job.waves.assign(2 * (static_cast<std::size_t>(hosts) - 1), step);
  for ([[maybe_unused]] auto _ : state) {
    const Result<std::vector<double>> times = simgrid_finish_times(job);
    if (!times) {
      state.SkipWithError(times.error().message.c_str());
      return;
    }
  }
  state.SetItemsProcessed(state.iterations() * 2 * (hosts - 1) * hosts);
}

BENCHMARK(rates)->Arg(64)->Arg(1024)->Arg(8192)->Arg(98304)->Unit(benchmark::kMillisecond);
BENCHMARK(ends)->Arg(64)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(staggered_ring)->Arg(64)->Arg(1024)->Arg(8192)->Unit(benchmark::kMillisecond);
BENCHMARK(speeds)->Arg(64)->Arg(1024)->Arg(8192)->Unit(benchmark::kMillisecond);
BENCHMARK(simgrid_ring)->Arg(64)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
