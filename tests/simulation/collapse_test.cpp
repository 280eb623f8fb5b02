// Simulating one rank for all that do the same changes no number, and numbers obey what time does.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/app/layout_options.hpp"
#include "commlens/app/simulate.hpp"
#include "commlens/base/modules.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

struct NamedJob {
  const char* name;
  std::vector<std::string> config;
  std::string framework;
  LayoutValues settings;
  std::string machine;
  bool is_long = false;
};

const std::vector<NamedJob>& jobs() {
  static const std::vector<NamedJob> all = {
      {"tensor_and_pipeline",
       {"13B"},
       "megatron",
       {{"--ranks", "256"}, {"--tp", "8"}, {"--pp", "4"}, {"--global-batch", "256"}},
       "dgx_h100"},
      {"stages_within_a_node",
       {"1.3B"},
       "megatron",
       {{"--ranks", "256"}, {"--tp", "2"}, {"--pp", "8"}, {"--global-batch", "512"}},
       "dgx_a100"},
      {"zero3", {"1.3B"}, "deepspeed", {{"--ranks", "256"}, {"--zero", "3"}}, "frontier"},
      {"zero1", {"1.3B"}, "deepspeed", {{"--ranks", "256"}, {"--zero", "1"}}, "frontier"},
      {"replicas", {"1.3B"}, "torch-ddp", {{"--ranks", "256"}}, "dgx_a100"},
      {"interleaved_with_context", {"megatron/llama3-70b"}, "", {{"--ranks", "256"}}, "dgx_h100", true},
      {"experts", {"megatron/mixtral-8x7b"}, "", {{"--ranks", "256"}}, "dgx_h100", true},
      {"uneven_nodes",
       {"1.3B"},
       "megatron",
       {{"--ranks", "24"}, {"--tp", "2"}, {"--pp", "6"}, {"--global-batch", "24"}},
       "aws_p5"}};
  return all;
}

Result<SimulatedJob> simulated_job(const NamedJob& job, bool collapse, double jitter = 0,
                                   Contention contention = Contention::none) {
  SimulateRequest request;
  request.config = job.config;
  request.framework = job.framework;
  request.machine = job.machine;
  request.collapse = collapse;
  request.jitter = jitter;
  request.contention = contention;
  return overrides_of(job.settings).and_then([&](const Overrides& overrides) {
    request.overrides = overrides;
    return simulate(request);
  });
}

class OfEveryJob : public ::testing::TestWithParam<std::size_t> {
 protected:
  const NamedJob& job() const { return jobs()[GetParam()]; }
};

void expect_equal(const Estimate& a, const Estimate& b) {
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
}

/// Means over ranks add up in another order.
void expect_near(const Estimate& a, const Estimate& b) {
  EXPECT_NEAR(a.value, b.value, 1e-9 * a.value);
  EXPECT_NEAR(a.low, b.low, 1e-9 * a.low);
  EXPECT_NEAR(a.high, b.high, 1e-9 * a.high);
}

/// One rank for all that do the same, or every rank: the same numbers.
void expect_same(const SimulatedJob& once, const SimulatedJob& all) {
  EXPECT_LT(once.simulation.classes, all.simulation.classes);
  EXPECT_EQ(all.simulation.classes, all.job.layout.ranks);
  expect_equal(once.simulation.seconds, all.simulation.seconds);
  expect_equal(once.simulation.tokens_per_second, all.simulation.tokens_per_second);
  expect_near(once.simulation.compute, all.simulation.compute);
  expect_near(once.simulation.exposed, all.simulation.exposed);
  expect_near(once.simulation.waiting, all.simulation.waiting);
  for (std::int64_t rank = 0; rank < all.job.layout.ranks; ++rank) {
    const RankStream* const first = once.simulation.trace.stream_of(Rank{rank});
    const RankStream* const second = all.simulation.trace.stream_of(Rank{rank});
    ASSERT_TRUE(first != nullptr && second != nullptr) << rank;
    EXPECT_EQ(first->times, second->times) << rank;
    EXPECT_EQ(first->compute, second->compute) << rank;
  }
}

TEST_P(OfEveryJob, RanksThatDoTheSameAreSimulatedOnceWithoutChange) {
  for (const Contention contention : {Contention::none, Contention::flows}) {
    if (contention == Contention::flows && job().is_long) {
      continue;  // minutes, rank by rank
    }
    SCOPED_TRACE(name_of(contention));
    const Result<SimulatedJob> once = simulated_job(job(), true, 0, contention);
    const Result<SimulatedJob> all = simulated_job(job(), false, 0, contention);
    ASSERT_TRUE(once) << once.error().message;
    ASSERT_TRUE(all) << all.error().message;
    expect_same(*once, *all);
  }
}

TEST_P(OfEveryJob, CallsThatShareLinksAreNeverFaster) {
  const Result<SimulatedJob> alone = simulated_job(job(), true);
  const Result<SimulatedJob> shared = simulated_job(job(), true, 0, Contention::flows);
  ASSERT_TRUE(alone && shared);
  EXPECT_GE(shared->simulation.seconds.value, alone->simulation.seconds.value * (1 - 1e-9));
}

/// 1.3B on eight DGX H100, of which two share a leaf that carries a quarter of what their NICs send.
NamedJob narrow_job(const std::string& machine) {
  return {"narrow",
          {"1.3B"},
          "megatron",
          {{"--ranks", "64"}, {"--tp", "2"}, {"--pp", "4"}, {"--global-batch", "128"}},
          machine};
}

/// The file of that machine.
std::string narrow_machine(const test_support::ScratchDirectory& directory, int nodes_per_leaf = 2) {
  for (const EmbeddedFile& machine : built_in_machines()) {
    if (machine.stem() == "dgx_h100") {
      nlohmann::json file = nlohmann::json::parse(machine.text);
      for (const auto& [name, value] :
           {std::pair("nodes per leaf", nodes_per_leaf), std::pair("oversubscription", 4)}) {
        file["scale_out"]["shape"][name] = {
            {"value", value}, {"unit", "count"}, {"source", "this test"}, {"confidence", "C"}};
      }
      directory.write("narrow.json", file.dump());
    }
  }
  return (directory.path() / "narrow.json").string();
}

TEST(Contention, OfAnOversubscribedTreeMakesAnIterationLonger) {
  const test_support::ScratchDirectory directory;
  const NamedJob job = narrow_job(narrow_machine(directory));
  const Result<SimulatedJob> alone = simulated_job(job, true);
  const Result<SimulatedJob> shared = simulated_job(job, true, 0, Contention::flows);
  const Result<SimulatedJob> all = simulated_job(job, false, 0, Contention::flows);
  ASSERT_TRUE(alone && shared && all);
  EXPECT_GT(shared->simulation.seconds.value, 1.04 * alone->simulation.seconds.value);
  expect_same(*shared, *all);
}

// 32 nodes on leaves of 5, which neither the 8 nodes of a stage nor the job fill.
TEST(Contention, OfLeavesThatNoGroupFillsIsThatOfAllRanks) {
  const test_support::ScratchDirectory directory;
  const NamedJob job = {"unfilled",
                        {"1.3B"},
                        "megatron",
                        {{"--ranks", "256"}, {"--tp", "8"}, {"--pp", "4"}, {"--global-batch", "32"}},
                        narrow_machine(directory, 5)};
  const Result<SimulatedJob> shared = simulated_job(job, true, 0, Contention::flows);
  const Result<SimulatedJob> all = simulated_job(job, false, 0, Contention::flows);
  ASSERT_TRUE(shared) << shared.error().message;
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_LT(shared->simulation.classes, 256);
  expect_same(*shared, *all);
}

TEST(Contention, OfSimGridIsOurs) {
  // Modules lie beside the program, not beside this one.
  if (const char* const program = std::getenv("COMMLENS_BINARY"); program != nullptr) {
    setenv("COMMLENS_MODULE_PATH", std::filesystem::path(program).parent_path().c_str(), 0);
  }
  if (!module_file("libcommlens-simgrid.so")) {
    GTEST_SKIP() << "built without SimGrid";
  }
  const test_support::ScratchDirectory directory;
  const NamedJob job = narrow_job(narrow_machine(directory));
  const Result<SimulatedJob> ours = simulated_job(job, true, 0, Contention::flows);
  const Result<SimulatedJob> theirs = simulated_job(job, true, 0, Contention::simgrid);
  ASSERT_TRUE(ours);
  ASSERT_TRUE(theirs) << theirs.error().message;
  const double seconds = ours->simulation.seconds.value;
  EXPECT_NEAR(theirs->simulation.seconds.value, seconds, 1e-3 * seconds);
}

TEST(Contention, OfSimGridIsRefusedBeyond256Ranks) {
  const NamedJob job{"many",
                     {"1.3B"},
                     "megatron",
                     {{"--ranks", "264"}, {"--tp", "8"}, {"--global-batch", "264"}},
                     "dgx_h100"};
  const Result<SimulatedJob> result = simulated_job(job, true, 0, Contention::simgrid);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "--contention simgrid plays up to 256 ranks, not 264: take --contention flows");
}

TEST_P(OfEveryJob, EveryMomentIsComputingExposedOrWaiting) {
  const Result<SimulatedJob> result = simulated_job(job(), true);
  ASSERT_TRUE(result) << result.error().message;
  const Simulation& simulation = result->simulation;
  const double sum = simulation.compute.value + simulation.exposed.value + simulation.waiting.value;
  EXPECT_NEAR(sum, simulation.seconds.value, 1e-9 * simulation.seconds.value);
  EXPECT_LE(simulation.seconds.low, simulation.seconds.value);
  EXPECT_GE(simulation.seconds.high, simulation.seconds.value);
  EXPECT_GT(simulation.mfu.value, 0);
  EXPECT_LT(simulation.mfu.high, 1);
  double exposed = 0;
  for (const SimulatedCalls& calls : simulation.calls) {
    EXPECT_LE(calls.exposed.value, calls.moving.value * (1 + 1e-9)) << name_of(calls.op);
    exposed += calls.exposed.value;
  }
  EXPECT_NEAR(exposed, simulation.exposed.value, 1e-9 * simulation.seconds.value);
}

TEST_P(OfEveryJob, IsTheSameEachTimeAndLongerWithJitter) {
  const Result<SimulatedJob> first = simulated_job(job(), true);
  const Result<SimulatedJob> again = simulated_job(job(), true);
  const Result<SimulatedJob> uneven = simulated_job(job(), true, .1);
  ASSERT_TRUE(first && again && uneven);
  EXPECT_EQ(rendered(*first, Format::json), rendered(*again, Format::json));
  EXPECT_GT(uneven->simulation.seconds.value, first->simulation.seconds.value);
}

TEST(Simulation, HasATimeOnEveryMachine) {
  for (const EmbeddedFile& machine : built_in_machines()) {
    SCOPED_TRACE(machine.stem());
    for (const Contention contention : {Contention::none, Contention::flows}) {
      const NamedJob job{"replicas", {"1.3B"}, "deepspeed", {{"--ranks", "24"}}, std::string(machine.stem())};
      const Result<SimulatedJob> result = simulated_job(job, true, 0, contention);
      if (contention == Contention::flows && machine.stem() == "tpu_v5p") {
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().message,
                  "tpu_v5p: ways between nodes are known of fat trees, rails and dragonflies, not of "
                  "scale_out.kind \"torus\"");
        continue;
      }
      ASSERT_TRUE(result) << result.error().message;
      EXPECT_GT(result->simulation.seconds.low, 0);
    }
  }
}

TEST(Simulation, OfALibraryWithoutTimesIsAnError) {
  SimulateRequest request;
  request.config = {"1.3B"};
  request.machine = "dgx_h100";
  request.library = "mpi";
  request.overrides.ranks = 16;
  const Result<SimulatedJob> result = simulate(request);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("machine dgx_h100: no MPI time of "), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Simulation, OfEveryJob, ::testing::Range(std::size_t{0}, std::size_t{8}),
                         [](const auto& parameter) { return std::string(jobs()[parameter.param].name); });

/// Two stages are each other's next one both ways: messages meet by direction all the same.
TEST(Timeline, OfTwoStagesOfEveryScheduleEnds) {
  int simulated = 0;
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}) {
    for (const char* const framework : {"torch-pipeline", "torchtitan", "megatron"}) {
      SimulateRequest request;
      request.config = {"llama3-8b"};
      request.framework = framework;
      request.machine = "dgx_h100";
      request.overrides.ranks = 2;
      request.overrides.pp = 2;
      request.overrides.micro_batches = 4;
      request.overrides.schedule = schedule;
      if (schedule == Schedule::interleaved) {
        request.overrides.virtual_stages = 2;
      }
      const Result<SimulatedJob> job = simulate(request);
      if (!job && job.error().message.find("the plan does not end") == std::string::npos) {
        continue;  // a schedule or a model that the framework does not have
      }
      ASSERT_TRUE(job) << framework << ": " << job.error().message;
      EXPECT_GT(job->simulation.waiting.value, 0) << framework;
      ++simulated;
    }
  }
  EXPECT_GE(simulated, 5);  // of 9; a schedule that a framework lacks is refused
}

}  // namespace
}  // namespace commlens
