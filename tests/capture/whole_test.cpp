// Data that `record` adds to the calls: iterations, clocks, its own cost; and the programs in examples/.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/trace/manifest.hpp"
#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

using CallsOfIteration = std::map<Iteration, std::int64_t>;  // of one rank

struct Recorded {
  RecordedJob job;
  Trace trace;
};

Recorded recorded(const std::string& program, const JobOptions& options) {
  const JobDirectory directory;
  RecordedJob job = directory.record(program, options);
  EXPECT_EQ(job.exit_code, 0) << job.err;
  Result<Trace> trace = read_trace(directory.trace());
  EXPECT_TRUE(trace.has_value()) << trace.error().message << job.err;
  return {std::move(job), trace ? std::move(*trace) : Trace{}};
}

CallsOfIteration calls_of_iterations(const RankStream& stream) {
  CallsOfIteration calls;
  for (const CommEvent& event : stream.events) {
    ++calls[event.iteration];
  }
  return calls;
}

/// `before` calls of initialisation and `each` in every iteration.
CallsOfIteration regular(std::int64_t before, Iteration iterations, std::int64_t each) {
  CallsOfIteration calls{{k_init_iteration, before}};
  for (Iteration iteration = 0; iteration < iterations; ++iteration) {
    calls[iteration] = each;
  }
  return calls;
}

class Example : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
};

// Of three ranks the one in the middle has two neighbours: 4 messages and a sum each step; the others 2 and a
// sum.
TEST_P(Example, TheStepsThatACProgramMarksAreItsIterations) {
  const Recorded heat = recorded(fmt::format("{}/heat_{}", COMMLENS_CAPTURE_PROGRAMS, GetParam()),
                                 {.mpi = GetParam(), .ranks = 3});
  ASSERT_EQ(heat.trace.streams.size(), 3U);
  EXPECT_EQ(calls_of_iterations(heat.trace.streams[0]), regular(1, 10, 3));
  EXPECT_EQ(calls_of_iterations(heat.trace.streams[1]), regular(1, 10, 5));
  EXPECT_EQ(calls_of_iterations(heat.trace.streams[2]), regular(1, 10, 3));
  EXPECT_NE(heat.job.err.find("iterations marked by the program"), std::string::npos) << heat.job.err;
  EXPECT_TRUE(heat.trace.provenance.skipped.empty());
}

TEST_P(Example, AProgramThatMarksIsUnharmedWithoutARecorder) {
  const JobDirectory directory;
  const RecordedJob alone = directory.run(fmt::format("{}/heat_{}", COMMLENS_CAPTURE_PROGRAMS, GetParam()));
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_EQ(alone.out.substr(0, 11), "changed by ");
}

INSTANTIATE_TEST_SUITE_P(Mpi, Example, testing::Values("openmpi", "mpich"),
                         [](const auto& mpi) { return mpi.param; });

// One broadcast, then 20 times a sum and a gather, which the recorder must find.
TEST(Example, TheStepsOfAPythonProgramAreFoundByTheirRepetition) {
  const std::string python = python_with_mpi4py();
  if (python.empty() || !has_mpi("openmpi")) {
    GTEST_SKIP() << "python3-mpi4py is not installed";
  }
  const Recorded power = recorded(fmt::format("{} {}/power_iteration.py", python, COMMLENS_EXAMPLES),
                                  {.mpi = "openmpi", .ranks = 2});
  EXPECT_EQ(power.job.out.substr(0, 23),
            "largest eigenvalue: 4.9");  // on its way to 3 + 2 cos(pi/65) = 4.998
  ASSERT_EQ(power.trace.streams.size(), 2U);
  EXPECT_EQ(calls_of_iterations(power.trace.streams[0]), regular(1, 20, 2));
  EXPECT_EQ(calls_of_iterations(power.trace.streams[1]), regular(1, 20, 2));
  EXPECT_NE(power.job.err.find("20 iterations found by repetition: the same 2 calls"), std::string::npos)
      << power.job.err;
}

TEST(Record, StatesWhatThisRunCost) {
  const std::string mpi = has_mpi("openmpi") ? "openmpi" : "mpich";
  const Recorded heat =
      recorded(fmt::format("{}/heat_{}", COMMLENS_CAPTURE_PROGRAMS, mpi), {.mpi = mpi, .ranks = 3});
  EXPECT_NE(heat.job.err.find("recording cost at least "), std::string::npos) << heat.job.err;
  EXPECT_NE(heat.job.err.find("for the 51 calls of the"), std::string::npos)
      << heat.job.err;  // the rank in the middle
  ASSERT_TRUE(heat.trace.provenance.recorder.has_value());
  EXPECT_GT(heat.trace.provenance.recorder->cost_per_call.count(), 0);
}

TEST(Doctor, SaysThatBothMpisOfThisBuildCanBeRecorded) {
  const JobDirectory directory;
  const RecordedJob doctor = directory.run("$COMMLENS_BINARY doctor --format csv");
  EXPECT_EQ(doctor.exit_code, 0) << doctor.err;
  for (const auto& [mpi, title] : {std::pair("openmpi", "Open MPI"), std::pair("mpich", "MPICH")}) {
    const std::string row = fmt::format("record {} programs,{}", title, has_mpi(mpi) ? "true" : "false");
    EXPECT_NE(doctor.out.find(row), std::string::npos) << doctor.out;
  }
}

TEST(Doctor, SaysWhyALibraryThatDoesNotLoadCannotRecord) {
  const JobDirectory directory;
  std::ofstream(directory.path() / "libcommlens-capture-mpi-openmpi.so") << "no library";
  const RecordedJob doctor = directory.run(
      fmt::format("COMMLENS_MODULE_PATH={} $COMMLENS_BINARY doctor --format csv", directory.path().string()));
  EXPECT_EQ(doctor.exit_code, 0) << doctor.err;
  EXPECT_NE(doctor.out.find("record Open MPI programs,false,"), std::string::npos) << doctor.out;
  EXPECT_NE(doctor.out.find("does not load"), std::string::npos) << doctor.out;
}

TEST(Record, RanksOfOneMachineShareTheirClock) {
  const std::string mpi = has_mpi("openmpi") ? "openmpi" : "mpich";
  const JobDirectory directory;
  const RecordedJob job =
      directory.record(fmt::format("{}/heat_{}", COMMLENS_CAPTURE_PROGRAMS, mpi), {.mpi = mpi, .ranks = 2});
  const Result<Manifest> manifest = read_manifest(directory.trace() / k_manifest_name);
  ASSERT_TRUE(manifest.has_value()) << job.err;
  for (const StreamEntry& stream : manifest->streams) {
    ASSERT_TRUE(stream.clock.has_value());
    EXPECT_LE(std::abs(stream.clock->offset.count()), 1000 + stream.clock->error.count()) << "ns";
  }
}

// Two machines are one whose second rank has a boot id and a time namespace of its own (needs root).
TEST(Record, FindsHowFarTheClockOfAnotherMachineIsAhead) {
  const JobDirectory directory;
  std::ofstream(directory.path() / "other_boot") << "11111111-2222-3333-4444-555555555555\n";
  const std::string script = fmt::format("sh {}/other_machine.sh ", COMMLENS_CAPTURE_SOURCES);
  if (!has_mpi("openmpi") || directory.run("OMPI_COMM_WORLD_RANK=1 " + script + "true").exit_code != 0) {
    GTEST_SKIP() << "no Open MPI, or no right to make a time namespace";
  }
  const RecordedJob job = directory.record(
      fmt::format("{}{}/heat_openmpi", script, COMMLENS_CAPTURE_PROGRAMS), {.mpi = "openmpi", .ranks = 2});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const Result<Manifest> manifest = read_manifest(directory.trace() / k_manifest_name);
  ASSERT_TRUE(manifest.has_value());
  ASSERT_TRUE(manifest->streams.at(1).clock.has_value());
  const ClockAlignment clock = *manifest->streams[1].clock;
  EXPECT_GT(clock.error.count(), 0);
  EXPECT_LT(clock.error.count(), 10'000'000);
  // The bound holds for the exchange; each process measures its own counter against the kernel as well.
  EXPECT_LE(std::abs(clock.offset.count() + 100'000'000'000), clock.error.count() + 1000);
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace.has_value());
  const auto first =
      trace->streams.at(0).times.at(0);  // a broadcast from rank 0, which rank 1 cannot leave earlier
  const auto second = trace->streams.at(1).times.at(0);
  EXPECT_GE((second.finished - first.started).count(), -clock.error.count());
  EXPECT_LT((second.finished - first.started).count(), 60'000'000'000);  // not 100 s apart
}

}  // namespace
}  // namespace commlens::test
