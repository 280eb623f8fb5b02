// What a benchmark's time is of: a transport that delays a rank by a known time says so.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/bench/measure.hpp"
#include "commlens/bench/median.hpp"
#include "commlens/transport/thread_ranks.hpp"
#include "tests/bench/fault_transport.hpp"

namespace commlens {
namespace {

using namespace std::chrono_literals;

constexpr auto k_delay = 2ms;
constexpr double k_delay_s = 0.002;
constexpr double k_delay_and_5_percent_s = 0.0021;

/// Samples of all_reduce of 8 bytes on two ranks, of which the second has the faults.
bench::RowSamples samples_with(const faults::Faults& faults) {
  const bench::RoundOptions rounds{.least_rounds = 31, .most_rounds = 31, .time = 1min, .settled = 0};
  bench::RowSamples samples;
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    const bool is_faulty = world->rank().value == 1;
    const std::unique_ptr<Communicator> used =
        is_faulty ? faults::faulty(std::move(world), faults) : std::move(world);
    const std::array<float, 2> input{};
    std::array<float, 2> output{};
    const auto call = [&] {
      used->run({.kind = CommKind::all_reduce,
                 .dtype = DType::fp32,
                 .input_buffer = input.data(),
                 .output_buffer = output.data(),
                 .input = {2},
                 .output = {2}});
    };
    const bench::RoundResult result = timed_rounds(*used, {{"all_reduce", call}}, rounds);
    if (!is_faulty) {
      samples = result.rows.at(0);
    }
  });
  return samples;
}

double median(const std::vector<double>& values) { return bench::quantile(values, 0.5); }

/// The least of the values that have the delay: what it adds where nothing else held a core.
double least_delayed(std::vector<double> values) {
  std::erase_if(values, [](double value) { return value < 0.95 * k_delay_s; });
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

TEST(BenchClock, CountsALateEntryAsTimeAndAsSkew) {
  const bench::RowSamples samples = samples_with({.after_barrier = [] { faults::spin(k_delay); }});
  EXPECT_GE(median(samples.span_s), 0.95 * k_delay_s);
  EXPECT_LE(least_delayed(samples.span_s), k_delay_and_5_percent_s);
  EXPECT_GE(median(samples.skew_s), 0.95 * k_delay_s);
  EXPECT_LE(least_delayed(samples.skew_s), k_delay_and_5_percent_s);
  EXPECT_GE(median(samples.local_s), 0.95 * k_delay_s) << "the other rank waits";
}

TEST(BenchClock, CountsALateExitAsTime) {
  const bench::RowSamples samples =
      samples_with({.after = [](const CommCall&, auto, auto) { faults::spin(k_delay); }});
  EXPECT_GE(median(samples.span_s), 0.95 * k_delay_s);
  EXPECT_LE(least_delayed(samples.span_s), k_delay_and_5_percent_s);
  EXPECT_LE(*std::min_element(samples.skew_s.begin(), samples.skew_s.end()), 0.05 * k_delay_s);
}

// Where ranks leave the barrier one after the other, the local time of the first is next to nothing.
TEST(BenchClock, IsNeverBelowTheSkewOfTheEntries) {
  bench::MeasurePlan plan;
  plan.groups = {bench::world_groups(4)};
  plan.rows = {{{{{.op = bench::BenchOp::broadcast, .message = {2}, .ranks = 4}, 0}}}};
  bench::RoundOptions rounds{.least_rounds = 100, .most_rounds = 100, .time = 1min, .settled = 0};
  run_thread_ranks(4, [&](const std::unique_ptr<Communicator>& world) {
    const bench::Measured measured = bench::measure(*world, plan, rounds);
    const bench::RowSamples& samples = measured.rows.at(0).one;
    for (std::size_t at = 0; at < samples.span_s.size(); ++at) {
      EXPECT_GE(samples.span_s[at], samples.skew_s[at]);
    }
  });
}

}  // namespace
}  // namespace commlens
