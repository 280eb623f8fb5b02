// Jobs with planted faults, followed by `commlens watch` from before they begin until they are ended: one
// alert, with the verdict and the culprits of `hang`; those with bad habits, one of that kind. A healthy job
// fires none, and what was counted while it ran is what `summary` counts.
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/trace/trace.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

using Json = nlohmann::json;
using Ranks = std::vector<std::int64_t>;

struct WatchedFault {
  std::string mpi;
  std::string name;
  std::string verdict;
  Ranks culprits;
};

std::ostream& operator<<(std::ostream& out, const WatchedFault& fault) {
  return out << fault.mpi << " " << fault.name;
}

/// Starts the watch, then the job; ends the job some seconds after the alert.
std::string watched_script(const WatchedFault& fault) {
  const JobOptions options = {.mpi = fault.mpi, .ranks = 4};
  const std::string keep = fault.mpi == "mpich" ? "-disable-auto-cleanup " : "";
  return fmt::format(
      R"("$COMMLENS_BINARY" watch trace --json --until-end --interval 0.2 --hang-after 4 \
  --on-alert 'cat >>commanded' >events & watch=$!
{} {} {}{}/faults_{} {} & job=$!
for try in $(seq 900); do grep -q '"event":"alert"' events && break; sleep 0.1; done
sleep 1
kill -TERM $job; wait $job
wait $watch; echo $? >code)",
      recording(options), launcher(options), keep, COMMLENS_CAPTURE_PROGRAMS, fault.mpi, fault.name);
}

std::vector<Json> lines_of(const std::filesystem::path& file, const std::string& event = {}) {
  std::vector<Json> lines;
  std::istringstream in(content_of(file));
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    if (event.empty() || json.at("event") == event) {
      lines.push_back(std::move(json));
    }
  }
  return lines;
}

class WatchedJob : public testing::TestWithParam<WatchedFault> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam().mpi)) {
      GTEST_SKIP() << "no mpirun of " << GetParam().mpi;
    }
  }
};

TEST_P(WatchedJob, FiresOnceAndNamesTheRanksAtFault) {
  const WatchedFault& fault = GetParam();
  const JobDirectory directory;
  const RecordedJob job = directory.run(watched_script(fault));
  const std::vector<Json> alerts = lines_of(directory.path() / "events", "alert");
  ASSERT_EQ(alerts.size(), 1U) << job.out << job.err;
  EXPECT_EQ(alerts[0].at("alert").at("verdict"), fault.verdict) << alerts[0];
  EXPECT_EQ(alerts[0].at("alert").at("culprit_ranks").get<Ranks>(), fault.culprits) << alerts[0];
  EXPECT_EQ(alerts[0].at("hang").at("verdict"), fault.verdict);
  EXPECT_GT(alerts[0].at("hang").at("culprits").at(0).at("pid"), 0) << alerts[0];
  EXPECT_EQ(lines_of(directory.path() / "events", "rank_joined").size(), 4U);
  EXPECT_EQ(lines_of(directory.path() / "events", "ended").size(), 1U);
  EXPECT_EQ(content_of(directory.path() / "code"), "1\n") << job.err;
  EXPECT_EQ(Json::parse(content_of(directory.path() / "commanded")), alerts[0]);
}

INSTANTIATE_TEST_SUITE_P(Faults, WatchedJob,
                         testing::Values(WatchedFault{"openmpi", "pause", "missing", {2}},
                                         WatchedFault{"openmpi", "stop", "missing", {2}},
                                         WatchedFault{"openmpi", "finish", "missing", {2}},
                                         WatchedFault{"openmpi", "deadlock", "deadlock", {0, 1, 2, 3}},
                                         WatchedFault{"openmpi", "kind", "mismatch", {2}},
                                         WatchedFault{"openmpi", "send", "missing", {2}},
                                         WatchedFault{"openmpi", "any", "missing", {2}},
                                         WatchedFault{"mpich", "pause", "missing", {2}},
                                         WatchedFault{"mpich", "finish", "missing", {2}},
                                         WatchedFault{"mpich", "kind", "mismatch", {2}},
                                         WatchedFault{"mpich", "circle", "deadlock", {2, 3}}),
                         [](const auto& test) { return test.param.mpi + "_" + test.param.name; });

/// The alerts of a job of `habits`, as it was followed.
std::vector<Json> alerts_of(const std::string& habit, const JobOptions& options,
                            const std::string& flags = {}) {
  const JobDirectory directory;
  const RecordedJob job = directory.run(fmt::format(
      R"("$COMMLENS_BINARY" watch trace --json --until-end --interval 0.2 {} >events & watch=$!
{}{} {} {}/habits_{} {}; wait $watch; echo $? >code)",
      flags, options.before, recording(options), launcher(options), COMMLENS_CAPTURE_PROGRAMS, options.mpi,
      habit));
  std::vector<Json> alerts;
  for (const Json& event : lines_of(directory.path() / "events", "alert")) {
    alerts.push_back(event.at("alert"));
  }
  EXPECT_EQ(content_of(directory.path() / "code"), alerts.empty() ? "0\n" : "1\n") << job.err;
  EXPECT_EQ(lines_of(directory.path() / "events", "ended").size(), 1U) << job.err;
  return alerts;
}

class WatchedHabits : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
};

TEST_P(WatchedHabits, NewCommunicatorsInEachIterationFire) {
  const std::vector<Json> alerts = alerts_of("cold", {.mpi = GetParam(), .ranks = 2});
  ASSERT_FALSE(alerts.empty());  // a busy machine may make later calls slow, too, and it begins anew
  for (const Json& alert : alerts) {
    EXPECT_EQ(alert.at("kind"), "cold");
    const std::string text = alert.at("sentence");
    EXPECT_NE(text.find("most in all_reduce"), std::string::npos) << text;
  }
}

// The file may have 524,286 records: the calls of 26 bursts.
TEST_P(WatchedHabits, LostCallsFireWhileTheJobRuns) {
  const std::vector<Json> alerts =
      alerts_of("flood", {.mpi = GetParam(), .ranks = 1, .before = "prlimit --fsize=16777216 "});
  ASSERT_EQ(alerts.size(), 1U);
  EXPECT_EQ(alerts[0].at("id"), "lost-1");
  const std::string text = alerts[0].at("sentence");
  EXPECT_NE(text.find(std::string(k_skipped_disk_full)), std::string::npos) << text;
}

// Three times as long as what counts as hung.
TEST_P(WatchedHabits, APauseThatWasAnnouncedFiresNothing) {
  EXPECT_TRUE(alerts_of("pause", {.mpi = GetParam(), .ranks = 2}, "--hang-after 3").empty());
}

INSTANTIATE_TEST_SUITE_P(Mpi, WatchedHabits, testing::Values("openmpi", "mpich"),
                         [](const auto& test) { return test.param; });

using RowKey = std::tuple<std::string, std::string, std::string, std::int64_t>;

/// Calls, message bytes and wire bytes by row.
std::map<RowKey, Json> sums_by_row(const Json& result) {
  std::map<RowKey, Json> sums;
  for (const Json& row : result.at(result.contains("rows") ? "rows" : "ops")) {
    const RowKey key(row.at("op"), row.value("name", ""), row.at("axis"), row.at("group_size"));
    sums[key] = {row.at("calls_all_ranks"), row.at("message_bytes_all_ranks"),
                 row.at("wire_bytes_all_ranks")};
  }
  return sums;
}

void expect_sums_of_summary(const JobDirectory& directory, const Json& watched) {
  const RecordedJob asked = directory.run("\"$COMMLENS_BINARY\" summary trace --format json");
  ASSERT_EQ(asked.exit_code, 0) << asked.err;
  const Json summary = Json::parse(asked.out);
  EXPECT_EQ(watched.at("calls_all_ranks"), summary.at("calls_all_ranks"));
  EXPECT_EQ(watched.at("totals").at("message_bytes_all_ranks"),
            summary.at("totals").at("message_bytes_all_ranks"));
  EXPECT_EQ(watched.at("totals").at("wire_bytes_all_ranks"), summary.at("totals").at("wire_bytes_all_ranks"));
  EXPECT_EQ(sums_by_row(watched), sums_by_row(summary));
  EXPECT_GT(sums_by_row(watched).size(), 2U);
}

TEST(WatchedWell, FiresNothingAndCountsWhatSummaryCounts) {
  for (const std::string mpi : {"openmpi", "mpich"}) {
    if (!has_mpi(mpi)) {
      continue;
    }
    const JobDirectory directory;
    const JobOptions options = {.mpi = mpi, .ranks = 4};
    const RecordedJob job = directory.run(fmt::format(
        R"("$COMMLENS_BINARY" watch trace --json --until-end --interval 0.1 >events & watch=$!
{} {} {}/faults_{} well; wait $watch; echo $? >code)",
        recording(options), launcher(options), COMMLENS_CAPTURE_PROGRAMS, mpi));
    ASSERT_EQ(content_of(directory.path() / "code"), "0\n") << mpi << job.err;
    EXPECT_TRUE(lines_of(directory.path() / "events", "alert").empty());
    const std::vector<Json> states = lines_of(directory.path() / "events", "state");
    ASSERT_FALSE(states.empty());
    EXPECT_EQ(states.back().at("job"), "ended");
    expect_sums_of_summary(directory, states.back());
    const RecordedJob once = directory.run("\"$COMMLENS_BINARY\" watch trace --once --json");
    ASSERT_EQ(once.exit_code, 0) << once.err;
    expect_sums_of_summary(directory, Json::parse(once.out));
  }
}

TEST(WatchedWell, CountsEveryKindOfCall) {
  if (!has_mpi("openmpi")) {
    GTEST_SKIP() << "no mpirun of openmpi";
  }
  for (const auto& [program, ranks] : {std::pair("calls", 2), std::pair("more_calls", 3)}) {
    const JobDirectory directory;
    const JobOptions options = {.mpi = "openmpi", .ranks = ranks};
    const RecordedJob job = directory.run(fmt::format(
        R"("$COMMLENS_BINARY" watch trace --json --until-end --interval 0.1 >events & watch=$!
{} {} {}/{}_openmpi {}; wait $watch; echo $? >code)",
        recording(options), launcher(options), COMMLENS_CAPTURE_PROGRAMS, program,
        directory.path().string()));
    ASSERT_EQ(content_of(directory.path() / "code"), "0\n") << program << job.err;
    expect_sums_of_summary(directory, lines_of(directory.path() / "events", "state").back());
  }
}

}  // namespace
}  // namespace commlens::test
