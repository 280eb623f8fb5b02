// Times MPI_Allreduce by timed_rounds and by a loop that is written out here, as variants of one shuffled
// run, both by the last exit minus the first entry. For each size: the median over rounds of the ratio of the
// two in a round, and that of timed_rounds with a tenth more, which must be seen. Ratios of a round, because
// others who use the machine change both. Prints "SIZE RATIO PLANTED ok|apart" on the first rank.
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

/// The median over rounds of a row's time over the loop's.
double ratio_in_rounds(const bench::RowSamples& row, const std::map<std::int64_t, double>& loop) {
  std::vector<double> ratios;
  for (std::size_t at = 0; at < row.round.size(); ++at) {
    const auto other = loop.find(row.round[at]);
    if (other != loop.end()) {
      ratios.push_back(row.span_s[at] / other->second);
    }
  }
  return bench::quantile(ratios, 0.5);
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
  // Each variant passes two barriers: the loop has one of its own.
  const std::vector<bench::TimedRow> rows = {{"timed_rounds", all_reduce, barrier},
                                             {"loop",
                                              [&] {
                                                MPI_Barrier(MPI_COMM_WORLD);
                                                loop.entries.push_back(bench::monotonic_ns());
                                                all_reduce();
                                                loop.exits.push_back(bench::monotonic_ns());
                                              }},
                                             {"planted",
                                              [&] {
                                                all_reduce();
                                                spin(0.1 * typical);
                                              },
                                              barrier}};
  const bench::RoundResult result = timed_rounds(world, rows, rounds_of(400, std::chrono::seconds(5)));
  const std::vector<double> spans = loop.spans();
  if (world.rank().value == 0) {
    std::map<std::int64_t, double> by_loop;
    for (std::size_t at = 0; at < spans.size(); ++at) {
      by_loop[result.rows[1].round[at]] = spans[at];
    }
    const double ratio = ratio_in_rounds(result.rows[0], by_loop);
    const double planted = ratio_in_rounds(result.rows[2], by_loop);
    const bool is_as_expected = ratio >= 0.95 && ratio <= 1.05 && planted > 1.05;
    std::printf("%d %.3f %.3f %s\n", floats * 4, ratio, planted, is_as_expected ? "ok" : "apart");
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
