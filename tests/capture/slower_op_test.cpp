// A job in which one op of one kind of group takes longer than in an earlier recording, followed by `commlens
// watch --baseline` while it runs: an alert for this op along its axis, and for nothing else.
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "record_job.hpp"

namespace commlens::test {
namespace {

using Json = nlohmann::json;
using OpAlongAxis = std::pair<std::string, std::string>;

class SlowerOp : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  /// A recording of so many steps of delays.c over slow_network.c.
  std::string job(int steps, const std::string& trace) const {
    const JobOptions options = {.mpi = GetParam(), .ranks = 4};
    return fmt::format(
        "LD_PRELOAD={0}/libcapture_network_{1}.so \"$COMMLENS_BINARY\" record --no-summary -o {2} -- {3} "
        "{0}/delays_{1} {4}",
        COMMLENS_CAPTURE_PROGRAMS, GetParam(), trace, launcher(options), steps);
  }
  /// The earlier job has 19 steps that are warm, this one lasts longer than the 13 s in which 13 iterations
  /// are seen.
  std::string script() const {
    return fmt::format(
        R"({} && ( "$COMMLENS_BINARY" watch trace --baseline earlier --json --until-end --interval 0.1 >events & watch=$!
SLOWER_PAIRS=1 {}; wait $watch; echo $? >code ))",
        job(20, "earlier"), job(80, "trace"));
  }
};

std::set<OpAlongAxis> slower_rows(const Json& baseline) {
  std::set<OpAlongAxis> rows;
  for (const Json& row : baseline.at("rows")) {
    if (row.at("slower").get<bool>()) {
      rows.emplace(row.at("op"), row.at("axis"));
    }
  }
  return rows;
}

TEST_P(SlowerOp, FiresForItsRowAlone) {
  const JobDirectory directory;
  const RecordedJob job = directory.run(script());
  std::vector<Json> alerts;
  Json last;
  std::istringstream lines(content_of(directory.path() / "events"));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event.at("event") == "alert") {
      alerts.push_back(event.at("alert"));
    } else if (event.at("event") == "state") {
      last = event;
    }
  }
  ASSERT_EQ(alerts.size(), 1U) << job.err << last;
  EXPECT_EQ(alerts[0].at("kind"), "slower") << alerts[0];
  const std::string text = alerts[0].at("sentence");
  EXPECT_NE(text.find("all_reduce along unknown"), std::string::npos) << text;
  EXPECT_EQ(last.at("job"), "ended");
  const Json& baseline = last.at("baseline");
  EXPECT_EQ(slower_rows(baseline), (std::set<OpAlongAxis>{{"all_reduce", "unknown"}})) << baseline;
  // all_reduce and broadcast of all, all_reduce and all_gather of pairs; iterations apart have no length
  EXPECT_EQ(baseline.at("rows").size(), 4U) << baseline;
  EXPECT_EQ(content_of(directory.path() / "code"), "1\n") << job.err;
}

INSTANTIATE_TEST_SUITE_P(Mpi, SlowerOp, testing::Values("openmpi", "mpich"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace commlens::test
