// Jobs with planted faults, looked at by `commlens hang` while they are stuck: verdict and culprits must be
// exact.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "record_job.hpp"

namespace commlens::test {
namespace {

using Ranks = std::vector<std::int64_t>;

struct Fault {
  std::string mpi;
  std::string name;
  std::string verdict;
  Ranks culprits;
  std::string flags = "";  // of record
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) {
  return out << fault.mpi << " " << fault.name;
}

/// Runs the fault until it is made, looks, and ends the job. MPICH's launcher would end it when a rank dies.
std::string script_of(const Fault& fault) {
  const JobOptions options = {.mpi = fault.mpi, .ranks = 4, .flags = fault.flags};
  const std::string keep = fault.mpi == "mpich" ? "-disable-auto-cleanup " : "";
  return fmt::format(
      R"({} {} {}{}/faults_{} {} & job=$!
for try in $(seq 300); do [ -e faulty ] && break; sleep 0.1; done
sleep 0.3
"$COMMLENS_BINARY" hang trace --unchanged-for 0.5 --format json >found.json; echo $? >code
kill -TERM $job; wait $job)",
      recording(options), launcher(options), keep, COMMLENS_CAPTURE_PROGRAMS, fault.mpi, fault.name);
}

class HungJob : public testing::TestWithParam<Fault> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam().mpi)) {
      GTEST_SKIP() << "no mpirun of " << GetParam().mpi;
    }
  }
};

TEST_P(HungJob, IsExplainedByTheRanksAtFault) {
  const Fault& fault = GetParam();
  const JobDirectory directory;
  const RecordedJob job = directory.run(script_of(fault));
  ASSERT_TRUE(std::filesystem::exists(directory.path() / "faulty")) << job.err;
  const std::string text = content_of(directory.path() / "found.json");
  ASSERT_EQ(content_of(directory.path() / "code"), "1\n") << text << job.err;
  const nlohmann::json found = nlohmann::json::parse(text);
  EXPECT_EQ(found.at("verdict"), fault.verdict) << text;
  Ranks culprits;
  for (const nlohmann::json& culprit : found.at("culprits")) {
    culprits.push_back(culprit.at("rank"));
    EXPECT_GT(culprit.at("pid"), 0) << text;
    EXPECT_FALSE(culprit.at("host").get<std::string>().empty()) << text;
  }
  EXPECT_EQ(culprits, fault.culprits) << text;
}

std::string name_of(const testing::TestParamInfo<Fault>& fault) {
  return fault.param.mpi + "_" + fault.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, HungJob,
    testing::Values(Fault{"openmpi", "pause", "missing", {2}}, Fault{"openmpi", "stop", "missing", {2}},
                    Fault{"openmpi", "finish", "missing", {2}},
                    Fault{"openmpi", "deadlock", "deadlock", {0, 1, 2, 3}},
                    Fault{"openmpi", "count", "mismatch", {2}}, Fault{"openmpi", "send", "missing", {2}},
                    Fault{"openmpi", "any", "missing", {2}}, Fault{"mpich", "pause", "missing", {2}},
                    Fault{"mpich", "kill", "missing", {2}}, Fault{"mpich", "kind", "mismatch", {2}},
                    Fault{"mpich", "circle", "deadlock", {2, 3}}),
    name_of);

// Ranks made other numbers of calls of each communicator since their rings were full.
INSTANTIATE_TEST_SUITE_P(FaultsInRings, HungJob,
                         testing::Values(Fault{"openmpi", "pause", "missing", {2}, "--ring 7"},
                                         Fault{"openmpi", "deadlock", "deadlock", {0, 1, 2, 3}, "--ring 7"},
                                         Fault{"openmpi", "count", "mismatch", {2}, "--ring 7"},
                                         Fault{"openmpi", "send", "missing", {2}, "--ring 7"},
                                         Fault{"openmpi", "any", "missing", {2}, "--ring 7"},
                                         Fault{"mpich", "pause", "missing", {2}, "--ring 7"},
                                         Fault{"mpich", "kind", "mismatch", {2}, "--ring 7"},
                                         Fault{"mpich", "circle", "deadlock", {2, 3}, "--ring 7"}),
                         name_of);

TEST(WellJob, IsNotStuck) {
  const std::string mpi = has_mpi("openmpi") ? "openmpi" : "mpich";
  if (!has_mpi(mpi)) {
    GTEST_SKIP() << "no mpirun";
  }
  const JobDirectory directory;
  const RecordedJob job = directory.record(fmt::format("{}/faults_{} well", COMMLENS_CAPTURE_PROGRAMS, mpi),
                                           {.mpi = mpi, .ranks = 4});
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const RecordedJob look = directory.run("\"$COMMLENS_BINARY\" hang trace");
  EXPECT_EQ(look.exit_code, 0) << look.out << look.err;
  EXPECT_EQ(look.out, "nothing is stuck: no rank waits for another\nall ranks have ended\n");
}

}  // namespace
}  // namespace commlens::test
