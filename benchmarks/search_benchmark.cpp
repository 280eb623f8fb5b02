// How many layouts are evaluated in a second. The space of 64 devices has as many options as Calculon's has
// for GPT-3 175B there (5,231,232): context ranks down to 16 tokens, every shard group, overlaps of gradients
// and parameters apart.
#include <benchmark/benchmark.h>

#include "commlens/search/ranking.hpp"

namespace commlens {
namespace {

TrainingRun gpt3_on(std::int64_t ranks, std::int64_t sequences) {
  TrainingRun run;
  run.model.name = "GPT-3 175B";
  run.model.layers = 96;
  run.model.hidden = 12'288;
  run.model.heads = run.model.kv_heads = 96;
  run.model.head_dim = 128;
  run.model.ffn = 49'152;
  run.model.vocab = 51'200;
  run.model.sequence = 2048;
  run.hardware.gpu = "H100";
  run.hardware.memory_gb = 80;
  run.hardware.peak = 989e12;
  run.hardware.memory_bandwidth = 3350e9;
  run.hardware.processors = 132;
  run.hardware.link = 450e9;
  run.hardware.network = 50e9;
  run.layout.ranks = ranks;
  run.layout.global_batch = sequences;
  return run;
}

SearchSpace wide_space() {
  SearchSpace space;
  space.kinds = {DataParallelKind::replicated, DataParallelKind::optimizer, DataParallelKind::owners,
                 DataParallelKind::sharded, DataParallelKind::sharded_until_backward};
  space.largest_micro_batch = 1 << 20;
  space.shortest_context = 16;
  space.has_every_shard_group = true;
  space.has_separate_overlaps = true;
  return space;
}

/// Ranks all layouts; returns how many there are.
std::int64_t ranked(const TrainingRun& run) {
  const TimedSpace timed{
      .framework = "", .base = run, .space = wide_space(), .basis = {Coefficients(), 0.06, ""}};
  const Ranking ranking = ranked_layouts({&timed, 1}, {80.0 * 1024 * 1024 * 1024, 50});
  benchmark::DoNotOptimize(ranking.equal);
  return ranking.evaluated;
}

void search_64_devices(benchmark::State& state) {
  std::int64_t evaluated = 0;
  for (auto _ : state) {
    std::int64_t options = 0;
    for (const MatrixPrecision precision : {MatrixPrecision::bf16, MatrixPrecision::fp8}) {
      for (const bool has_graphs : {false, true}) {
        TrainingRun run = gpt3_on(64, 55'440);
        run.behaviour.precision = precision;
        run.behaviour.has_graphs = has_graphs;
        options += ranked(run);
      }
    }
    state.counters["options"] = static_cast<double>(options);
    evaluated += options;
  }
  state.SetItemsProcessed(evaluated);
}
BENCHMARK(search_64_devices)->Unit(benchmark::kMillisecond);

void search_1024_devices(benchmark::State& state) {
  std::int64_t evaluated = 0;
  for (auto _ : state) {
    const std::int64_t options = ranked(gpt3_on(1024, 1536));
    state.counters["options"] = static_cast<double>(options);
    evaluated += options;
  }
  state.SetItemsProcessed(evaluated);
}
BENCHMARK(search_1024_devices)->Unit(benchmark::kMillisecond);

/// The closed form of every layout by itself.
void naive_64_devices(benchmark::State& state) {
  std::int64_t evaluated = 0;
  double sum = 0;
  for (auto _ : state) {
    evaluated += for_each_layout(gpt3_on(64, 96), Coefficients(), SearchSpace{{DataParallelKind::optimizer}},
                                 [&](const EvaluatedLayout& layout) {
                                   sum += iteration_time(layout.run, Coefficients()).total();
                                   sum += memory_bytes_of(layout.run);
                                 });
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(evaluated);
}
BENCHMARK(naive_64_devices)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace commlens
