// Measures the time of a prediction. Goals: one rank of 13B tp8 pp2 dp2 with 32 micro-batches in less than 10
// ms; all classes of 175B on 102,400 ranks in less than 5 s.
#include <optional>
#include <string_view>

#include <benchmark/benchmark.h>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/planner.hpp"
#include "commlens/frameworks/presets.hpp"

namespace {

using namespace commlens;

Job neox_job(std::string_view model, const ParallelLayout& layout, std::int64_t micro_batches) {
  std::optional<Job> job = preset(model);
  COMMLENS_CHECK(job.has_value(), "the benchmark names a preset");
  job->layout = layout;
  job->train.micro_batches = micro_batches;
  const Result<Job> checked = validated(*job);
  COMMLENS_CHECK(checked.has_value(), "the benchmark's layout is possible");
  return *checked;
}

void plan(benchmark::State& state, const Job& job, std::optional<Rank> only) {
  std::size_t calls = 0;
  for ([[maybe_unused]] auto _ : state) {
    const Result<Plan> plan = make_plan(job, only);
    COMMLENS_CHECK(plan.has_value(), "the rules cover the benchmark's job");
    calls = 0;
    for (const RankClass& ranks : plan->classes) {
      calls += static_cast<std::size_t>(ranks.iterations.back().calls());
    }
    benchmark::DoNotOptimize(calls);
  }
  state.counters["calls"] = static_cast<double>(calls);
}

void one_rank_of_13b(benchmark::State& state) {
  plan(state, neox_job("13B", {.ranks = 32, .dp = 2, .tp = 8, .pp = 2}, 32), Rank{0});
}

void call_list_of_one_rank_of_13b(benchmark::State& state) {
  const Job job = neox_job("13B", {.ranks = 32, .dp = 2, .tp = 8, .pp = 2}, 32);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(make_plan(job, Rank{0})->trace(3));
  }
}

void all_ranks_of_13b_on_1024(benchmark::State& state) {
  plan(state, neox_job("13B", {.ranks = 1024, .dp = 16, .tp = 8, .pp = 8}, 1), std::nullopt);
}

void all_ranks_of_175b_on_102400(benchmark::State& state) {
  plan(state, neox_job("175B", {.ranks = 102400, .dp = 800, .tp = 8, .pp = 16}, 1), std::nullopt);
}

BENCHMARK(one_rank_of_13b)->Unit(benchmark::kMillisecond);
BENCHMARK(call_list_of_one_rank_of_13b)->Unit(benchmark::kMillisecond);
BENCHMARK(all_ranks_of_13b_on_1024)->Unit(benchmark::kMillisecond);
BENCHMARK(all_ranks_of_175b_on_102400)->Unit(benchmark::kMillisecond);

}  // namespace
