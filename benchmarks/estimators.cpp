// What one call looks like by the estimators of other benchmarks, of the same samples and of the loops that
// these make, under mpirun:
//   estimators OP BYTES [ROUNDS]
// OP: broadcast, all_reduce, all_gather. Loop with a barrier between calls, each rank timing its own call:
// the mean of all ranks' means, the largest rank's mean, the P50 of the longest call of each round; and of
// the same rounds the P50 of last exit - first entry and of last entry - first entry. Loop without barriers:
// the time of a call by the whole loop's. Prints one line, in microseconds.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/bench/bench_case.hpp"
#include "commlens/bench/clock_sync.hpp"
#include "commlens/bench/median.hpp"
#include "commlens/transport/mpi_world.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

std::vector<std::int64_t> gathered(Communicator& world, const std::vector<std::int64_t>& own) {
  const auto count = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(world.size()));
  world.run({.kind = CommKind::all_gather,
             .dtype = DType::int64,
             .input_buffer = own.data(),
             .output_buffer = all.data(),
             .input = {count},
             .output = {count * world.size()}});
  return all;
}

struct Loops {
  std::vector<std::int64_t> entries;  // of all ranks, one rank after the other
  std::vector<std::int64_t> exits;
  double chained_us = 0;  // of a call, of the slowest rank
};

Loops timed_loops(Communicator& world, bench::CaseCalls& call, std::int64_t rounds) {
  for (std::int64_t warm = 0; warm < 100; ++warm) {
    call.run();
  }
  std::vector<std::int64_t> entries;
  std::vector<std::int64_t> exits;
  for (std::int64_t round = 0; round < rounds; ++round) {
    world.barrier();
    entries.push_back(bench::monotonic_ns());
    call.run();
    exits.push_back(bench::monotonic_ns());
  }
  world.barrier();
  const std::int64_t began = bench::monotonic_ns();
  for (std::int64_t round = 0; round < rounds; ++round) {
    call.run();
  }
  const std::vector<std::int64_t> took = gathered(world, {bench::monotonic_ns() - began});
  return {
      gathered(world, entries), gathered(world, exits),
      1e-3 * static_cast<double>(*std::max_element(took.begin(), took.end())) / static_cast<double>(rounds)};
}

void print_estimates(const std::string& op, std::int64_t bytes, std::int64_t ranks, const Loops& loops) {
  const std::size_t rounds = loops.entries.size() / static_cast<std::size_t>(ranks);
  std::vector<double> means(static_cast<std::size_t>(ranks), 0);
  std::vector<double> longest;
  std::vector<double> spans;
  std::vector<double> skews;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::int64_t first = INT64_MAX;
    std::int64_t last_entry = INT64_MIN;
    std::int64_t last = INT64_MIN;
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < means.size(); ++rank) {
      const std::int64_t entry = loops.entries[rank * rounds + round];
      const std::int64_t exit = loops.exits[rank * rounds + round];
      means[rank] += 1e-3 * static_cast<double>(exit - entry) / static_cast<double>(rounds);
      first = std::min(first, entry);
      last_entry = std::max(last_entry, entry);
      last = std::max(last, exit);
      most = std::max(most, exit - entry);
    }
    longest.push_back(1e-3 * static_cast<double>(most));
    spans.push_back(1e-3 * static_cast<double>(last - first));
    skews.push_back(1e-3 * static_cast<double>(last_entry - first));
  }
  double of_ranks = 0;
  for (const double mean : means) {
    of_ranks += mean / static_cast<double>(ranks);
  }
  fmt::print(
      "{} {} n={}: mean of ranks' means {:.2f}, the slowest rank's mean {:.2f}, P50 of the longest call "
      "{:.2f}, "
      "chained {:.2f}, P50 of last exit - first entry {:.2f}, of the entry skew {:.2f}\n",
      op, bytes, ranks, of_ranks, *std::max_element(means.begin(), means.end()),
      bench::quantile(longest, 0.5), loops.chained_us, bench::quantile(spans, 0.5),
      bench::quantile(skews, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto op = given.empty() ? std::nullopt : bench::bench_op_from(given[0]);
  const auto world = open_mpi_world("");
  if (!op || given.size() < 2 || !world) {
    fmt::print(stderr, "usage: mpirun -n N estimators OP BYTES [ROUNDS]\n");
    return 2;
  }
  const std::int64_t bytes = std::stoll(given[1]);
  const std::int64_t ranks = (*world)->size();
  const bench::BenchCase timed{.op = *op, .dtype = DType::fp32, .message = {bytes / 4}, .ranks = ranks};
  bench::Arena arena(bench::arena_bytes(timed, (*world)->rank().value), {});
  bench::CaseCalls call(timed, **world, arena);
  const Loops loops = timed_loops(**world, call, given.size() > 2 ? std::stoll(given[2]) : 1000);
  if ((*world)->rank().value == 0) {
    print_estimates(given[0], bytes, ranks, loops);
  }
  return 0;
}
