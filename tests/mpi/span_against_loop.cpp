// Times MPI_Allreduce by timed_rounds and by a loop that is written out here, as variants of one shuffled
// run, both by the last exit minus the first entry. For each size: the median over rounds of the ratio of the
// two in a round. Ratios of a round, because others who use the machine change both; how much of a ratio is
// theirs is seen by timing the loop twice: the ratio must be within P10 to P90 of the ratios of the two
// equal loops, or 5 %. Where their quartiles are that narrow, a tenth more must be seen.
// Prints "SIZE RATIO LOW HIGH PLANTED ok|apart" on the first rank.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include <mpi.h>

#include "commlens/bench/clock_sync.hpp"
#include "commlens/bench/median.hpp"
#include "commlens/bench/rounds.hpp"
#include "commlens/transport/mpi_world.hpp"

namespace {

using namespace commlens;

/// Entries and exits of a hand-written loop.
struct HandWritten {
  std::vector<std::int64_t> entries;
  std::vector<std::int64_t> exits;

  /// Last exit - first entry of each call, in seconds, on the first rank. The first call is no sample.
  std::vector<double> spans() const {
    std::vector<std::int64_t> first(entries.size());
    std::vector<std::int64_t> last(exits.size());
    const int count = static_cast<int>(entries.size());
    MPI_Reduce(entries.data(), first.data(), count, MPI_INT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(exits.data(), last.data(), count, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    std::vector<double> spans;
    for (std::size_t at = 1; at < first.size(); ++at) {
      spans.push_back(1e-9 * static_cast<double>(last[at] - first[at]));
    }
    return spans;
  }
};

/// A row's times over the loop's, of the rounds that have both.
std::vector<double> ratios_in_rounds(const bench::RowSamples& row,
                                     const std::map<std::int64_t, double>& loop) {
  std::vector<double> ratios;
  for (std::size_t at = 0; at < row.round.size(); ++at) {
    const auto other = loop.find(row.round[at]);
    if (other != loop.end()) {
      ratios.push_back(row.span_s[at] / other->second);
    }
  }
  return ratios;
}

/// Spans by the round in which they were taken.
std::map<std::int64_t, double> by_round(const bench::RowSamples& row, const std::vector<double>& spans) {
  std::map<std::int64_t, double> found;
  for (std::size_t at = 0; at < spans.size(); ++at) {
    found[row.round[at]] = spans[at];
  }
  return found;
}

/// Prints whether the first row is as the loop, by what two equal loops differ.
void print_verdict(int bytes, const bench::RoundResult& result, const std::vector<double>& spans,
                   const std::vector<double>& spans_again) {
  constexpr double k_low = 0.95;
  constexpr double k_high = 1.05;
  const std::map<std::int64_t, double> loop = by_round(result.rows[1], spans);
  bench::RowSamples again = result.rows[3];
  again.span_s = spans_again;
  const std::vector<double> equal = ratios_in_rounds(again, loop);
  const double low = bench::quantile(equal, 0.1);
  const double high = bench::quantile(equal, 0.9);
  const double ratio = bench::quantile(ratios_in_rounds(result.rows[0], loop), 0.5);
  const double planted = bench::quantile(ratios_in_rounds(result.rows[2], loop), 0.5);
  const bool is_quiet = bench::quantile(equal, 0.25) >= k_low && bench::quantile(equal, 0.75) <= k_high;
  const bool is_as_expected =
      ratio >= std::min(low, k_low) && ratio <= std::max(high, k_high) && (!is_quiet || planted > k_high);
  std::printf("%d %.3f %.3f %.3f %.3f %s\n", bytes, ratio, low, high, planted,
              is_as_expected ? "ok" : "apart");
}

void spin(double seconds) {
  const std::int64_t until = bench::monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9);
  while (bench::monotonic_ns() < until) {
  }
}

bench::RoundOptions rounds_of(std::int64_t rounds, std::chrono::milliseconds time) {
  return {.seed = 7, .least_rounds = rounds, .most_rounds = rounds, .time = time, .settled = 0};
}

void compare_size(Communicator& world, int floats) {
  std::vector<float> input(static_cast<std::size_t>(floats), 1);
  std::vector<float> output(static_cast<std::size_t>(floats));
  const auto all_reduce = [&] {
    MPI_Allreduce(input.data(), output.data(), floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  const auto barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  double typical = 0;
  const bench::RoundResult before =
      timed_rounds(world, {{"before", all_reduce, barrier}}, rounds_of(100, std::chrono::milliseconds(500)));
  if (world.rank().value == 0) {
    typical = bench::quantile(before.rows[0].span_s, 0.5);
  }
  MPI_Bcast(&typical, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  HandWritten loop;
  HandWritten again;
  const auto hand_written = [&](HandWritten& times) {
    MPI_Barrier(MPI_COMM_WORLD);
    times.entries.push_back(bench::monotonic_ns());
    all_reduce();
    times.exits.push_back(bench::monotonic_ns());
  };
  // Each variant passes two barriers: the loop has one of its own.
  const std::vector<bench::TimedRow> rows = {{"timed_rounds", all_reduce, barrier},
                                             {"loop", [&] { hand_written(loop); }},
                                             {"planted",
                                              [&] {
                                                all_reduce();
                                                spin(0.1 * typical);
                                              },
                                              barrier},
                                             {"the loop again", [&] { hand_written(again); }}};
  const bench::RoundResult result = timed_rounds(world, rows, rounds_of(300, std::chrono::seconds(3)));
  const std::vector<double> spans = loop.spans();
  const std::vector<double> spans_again = again.spans();
  if (world.rank().value == 0) {
    print_verdict(floats * 4, result, spans, spans_again);
  }
}

}  // namespace

int main() {
  const auto world = commlens::open_mpi_world("openmpi");
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().message.c_str());
    return 2;
  }
  for (const int floats : {2, 16 * 1024, 256 * 1024}) {
    compare_size(**world, floats);
  }
}
