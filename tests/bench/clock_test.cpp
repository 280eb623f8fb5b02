// What a benchmark's time is of: a transport that delays a rank by a known time, on a clock that else stands,
// says so.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/bench/measure.hpp"
#include "commlens/transport/thread_ranks.hpp"
#include "tests/bench/fault_transport.hpp"

namespace commlens {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t k_delay_ns = 2'000'000;

/// A clock of both ranks that stands but for the delays of the second one.
struct PlantedClock {
  std::atomic<std::int64_t> now_ns = 0;
  std::atomic<std::int64_t> entered = 0;  // calls that the first rank has entered
};

/// Samples of all_reduce of 8 bytes on two ranks, of which the second has the faults.
bench::RowSamples samples_with(PlantedClock& clock, const faults::Faults& faults) {
  bench::RoundOptions rounds{.least_rounds = 31, .most_rounds = 31, .time = 10min, .settled = 0};
  rounds.clock = [&] { return clock.now_ns.load(); };
  bench::RowSamples samples;
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    const bool is_first = world->rank().value == 0;
    faults::Faults counts;
    counts.issuing = [&](std::int64_t, const CommCall& call) { clock.entered += call.dtype == DType::fp32; };
    const std::unique_ptr<Communicator> used = faults::faulty(std::move(world), is_first ? counts : faults);
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
    if (is_first) {
      samples = result.rows.at(0);
    }
  });
  EXPECT_EQ(samples.span_s.size(), 31U);
  return samples;
}

void expect_all(const std::vector<double>& times, double expected_s) {
  for (const double time : times) {
    EXPECT_NEAR(time, expected_s, 1e-12);
  }
}

TEST(BenchClock, CountsALateEntryAsTimeAndAsSkew) {
  PlantedClock clock;
  std::int64_t late = 0;
  const bench::RowSamples samples = samples_with(clock, {.after_barrier = [&] {
                                                   for (++late; clock.entered < late;) {
                                                     std::this_thread::yield();
                                                   }
                                                   clock.now_ns += k_delay_ns;
                                                 }});
  expect_all(samples.span_s, 0.002);
  expect_all(samples.skew_s, 0.002);
  expect_all(samples.local_s, 0.002);  // the other rank waits
}

TEST(BenchClock, CountsALateExitAsTime) {
  PlantedClock clock;
  const bench::RowSamples samples = samples_with(clock, {.waited = [&](std::int64_t, const CommCall& call) {
                                                   clock.now_ns += call.dtype == DType::fp32 ? k_delay_ns : 0;
                                                 }});
  expect_all(samples.span_s, 0.002);
  expect_all(samples.skew_s, 0);
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
