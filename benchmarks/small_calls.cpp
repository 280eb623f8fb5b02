// Measures run() of a small all_reduce against MPI_Allreduce in one process, under mpirun of the MPI that it
// is linked with:
//   small_calls_openmpi [BYTES [ROUNDS]]
// A round makes each variant once, in an order that is drawn anew, after a barrier; its time is from the
// first rank's entry to the last rank's exit, on the clock that the processes of a machine share. Each
// variant is there twice, so that the ratio of two that are the same shows what a ratio means here.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "commlens/transport/mpi_world.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr int k_in_a_row = 20;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

struct Variant {
  const char* name;
  std::function<void()> call;
};

/// The median of the rounds' spans, of one variant, on rank 0.
double median_span(std::vector<std::int64_t> entries, std::vector<std::int64_t> exits) {
  const int rounds = static_cast<int>(entries.size());
  std::vector<std::int64_t> first(entries.size());
  std::vector<std::int64_t> last(exits.size());
  MPI_Reduce(entries.data(), first.data(), rounds, MPI_INT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(exits.data(), last.data(), rounds, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  std::vector<double> spans;
  for (std::size_t round = 0; round < first.size(); ++round) {
    spans.push_back(static_cast<double>(last[round] - first[round]));
  }
  std::nth_element(spans.begin(), spans.begin() + rounds / 2, spans.end());
  return spans[spans.size() / 2];
}

void measure(const std::vector<Variant>& variants, std::int64_t rounds, const char* title) {
  std::vector<std::vector<std::int64_t>> entries(variants.size());
  std::vector<std::vector<std::int64_t>> exits(variants.size());
  std::vector<std::size_t> order;
  for (std::size_t variant = 0; variant < variants.size(); ++variant) {
    order.push_back(variant);
  }
  std::mt19937 random(1);
  constexpr std::int64_t k_warm_up = 20;
  for (std::int64_t round = -k_warm_up; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t variant : order) {
      MPI_Barrier(MPI_COMM_WORLD);
      const std::int64_t entry = now_ns();
      variants[variant].call();
      const std::int64_t exit = now_ns();
      if (round >= 0) {
        entries[variant].push_back(entry);
        exits[variant].push_back(exit);
      }
    }
  }
  std::vector<double> medians;
  for (std::size_t variant = 0; variant < variants.size(); ++variant) {
    medians.push_back(median_span(entries[variant], exits[variant]));
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (std::size_t variant = 0; rank == 0 && variant < variants.size(); ++variant) {
    fmt::print("{:12} {:28} {:10.0f} ns  x {:.3f}\n", title, variants[variant].name, medians[variant],
               medians[variant] / medians.front());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t bytes = argc > 1 ? std::atoll(argv[1]) : 8;
  const std::int64_t rounds = argc > 2 ? std::atoll(argv[2]) : 3000;
  auto world = open_mpi_world("", false);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 2;
  }
  const std::int64_t count = std::max<std::int64_t>(1, bytes / 4);
  std::vector<float> input(static_cast<std::size_t>(count), 1.0F);
  std::vector<float> output(static_cast<std::size_t>(count));
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  const CommCall call{.kind = CommKind::all_reduce,
                      .dtype = DType::fp32,
                      .input_buffer = input.data(),
                      .output_buffer = output.data(),
                      .input = {count},
                      .output = {count}};
  const auto of_mpi = [&] {
    MPI_Allreduce(input.data(), output.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, copy);
  };
  const auto of_transport = [&] { (*world)->run(call); };
  const auto in_a_row = [](const auto& once) {
    return [once] {
      for (int i = 0; i < k_in_a_row; ++i) {
        once();
      }
    };
  };
  measure({{"MPI_Allreduce", of_mpi},
           {"MPI_Allreduce again", of_mpi},
           {"run()", of_transport},
           {"run() again", of_transport}},
          rounds, "one call");
  measure({{"MPI_Allreduce", in_a_row(of_mpi)},
           {"MPI_Allreduce again", in_a_row(of_mpi)},
           {"run()", in_a_row(of_transport)},
           {"run() again", in_a_row(of_transport)}},
          rounds / 4, "20 in a row");
  return 0;
}
