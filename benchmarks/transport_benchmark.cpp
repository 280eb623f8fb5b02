// Measures calls over ranks as threads, compared with a copy of the same size by one thread. Every rank times
// its own loop; the figure is that of rank 0, per call.
#include <chrono>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_small = 8;
constexpr std::int64_t k_large = 64 << 20;

void copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy)->Arg(k_small)->Arg(k_large)->UseRealTime();

/// `calls` calls in a row, on rank 0's clock.
double seconds_of(std::int64_t ranks, std::int64_t bytes, DType type, std::int64_t calls) {
  double seconds = 0;
  run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> world) {
    std::vector<char> buffer(static_cast<std::size_t>(bytes), 0);
    const Elements count{bytes / size_of(type)};
    const CommCall call{.kind = CommKind::all_reduce,
                        .dtype = type,
                        .input_buffer = buffer.data(),
                        .output_buffer = buffer.data(),
                        .input = count,
                        .output = count};
    world->run(call);
    world->barrier();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < calls; ++i) {
      world->run(call);
    }
    if (world->rank() == GroupRank{0}) {
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  });
  return seconds / static_cast<double>(calls);
}

void all_reduce(benchmark::State& state, DType type) {
  const std::int64_t bytes = state.range(1);
  const std::int64_t calls = bytes == k_small ? 10'000 : 5;
  for ([[maybe_unused]] auto _ : state) {
    state.SetIterationTime(seconds_of(state.range(0), bytes, type, calls));
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK_CAPTURE(all_reduce, fp32, DType::fp32)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4}, {k_small, k_large}})
    ->UseManualTime()
    ->Iterations(5);
BENCHMARK_CAPTURE(all_reduce, bf16, DType::bf16)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4}, {k_large}})
    ->UseManualTime()
    ->Iterations(5);
BENCHMARK_CAPTURE(all_reduce, fp16, DType::fp16)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4}, {k_large}})
    ->UseManualTime()
    ->Iterations(5);

}  // namespace
}  // namespace commlens
