// What a recording of NCCL says while the job runs: which ranks are stuck, and which only compute.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "nccl_job.hpp"

namespace commlens::test {
namespace {

using Ranks = std::vector<int>;

/// How the programs are recorded.
struct Recorded {
  const char* name;
  int version;  // of the plug-in's interface; 0: by the shim
};

void PrintTo(const Recorded& recorded, std::ostream* out) { *out << recorded.name; }

std::string hanging(const Recorded& recorded, const std::string& scenario) {
  return recorded.version == 0
             ? fmt::format("LD_PRELOAD={} {} {} ready go", library("commlens-nccl"),
                           program("shim_program_cuda"), scenario)
             : fmt::format("NCCL_PROFILER_PLUGIN={} {} {} {} ready go", library("commlens-nccl-profiler"),
                           program("plugin_program"), recorded.version, scenario);
}

/// `command` opens the pipe `ready` when it has made its calls. Looks at it then, again and again, until what
/// `commlens hang` reports contains `awaited` (without spaces), and opens the pipe `go`, for which it waits.
std::string watched(const std::string& command, const std::string& awaited) {
  return fmt::format(
      "mkfifo ready go; ( {0} ) & job=$!; read nothing <ready; "
      "for look in $(seq 600); do {1} hang trace --unchanged-for 0 --format json >now; tr -d ' \\n' <now "
      ">packed; "
      "grep -qF '{2}' packed && break; sleep 0.1; done; : >go; wait $job || exit 9; cat now",
      command, binary(), awaited);
}

nlohmann::json report_of(const NcclJob& job) {
  nlohmann::json report = nlohmann::json::parse(job.out, nullptr, false);
  EXPECT_TRUE(report.is_object()) << job.out << job.err;
  return report.is_object() ? report : nlohmann::json::object();
}

Ranks culprits_of(const nlohmann::json& report) {
  Ranks ranks;
  for (const nlohmann::json& culprit : report.at("culprits")) {
    ranks.push_back(culprit.at("rank"));
  }
  return ranks;
}

/// The all-reduce of 777 elements is the second call of a communicator of ranks 0 to 3.
void expect_second_call(const nlohmann::json& report) {
  const nlohmann::json& call = report.at("stuck_call");
  EXPECT_EQ(call.at("op"), "all_reduce");
  EXPECT_EQ(call.at("number"), 2);
  EXPECT_EQ(call.at("message_bytes"), 777 * 4);
  EXPECT_EQ(call.at("group").get<Ranks>(), (Ranks{0, 1, 2, 3}));
}

class NcclHang : public testing::TestWithParam<Recorded> {};
INSTANTIATE_TEST_SUITE_P(Recorders, NcclHang,
                         testing::Values(Recorded{"shim", 0}, Recorded{"v4", 4}, Recorded{"v5", 5},
                                         Recorded{"v6", 6}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(NcclHang, IsAllInsideWhereAKernelNeverEnds) {
  const NcclJob job(watched(hanging(GetParam(), "hangs kernel"), R"("on_device":[0,1,2,3])"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const nlohmann::json report = report_of(job);
  EXPECT_EQ(report.at("verdict"), "all_inside");
  EXPECT_EQ(report.at("job"), "running");
  EXPECT_EQ(culprits_of(report), Ranks{});
  EXPECT_EQ(report.at("stuck_call").at("inside").get<Ranks>(), (Ranks{0, 1, 2, 3}));
  expect_second_call(report);
}

TEST_P(NcclHang, NamesTheRankWhoseKernelHasNotBegun) {
  const NcclJob job(watched(hanging(GetParam(), "hangs behind"), R"("on_device":[0,1,3])"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const nlohmann::json report = report_of(job);
  EXPECT_EQ(report.at("verdict"), "all_inside");
  EXPECT_EQ(culprits_of(report), Ranks{2});
  EXPECT_EQ(report.at("stuck_call").at("inside").get<Ranks>(), (Ranks{0, 1, 2, 3}));
  expect_second_call(report);
}

TEST_P(NcclHang, NamesTheRankThatDoesNotCall) {
  const NcclJob job(watched(hanging(GetParam(), "hangs absent"), R"("on_device":[0,1,3])"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  const nlohmann::json report = report_of(job);
  EXPECT_EQ(report.at("verdict"), "missing");
  EXPECT_EQ(culprits_of(report), Ranks{2});
  EXPECT_EQ(report.at("culprits").at(0).at("waiting_directly"), 3);
  EXPECT_EQ(report.at("stuck_call").at("missing").get<Ranks>(), Ranks{2});
  expect_second_call(report);
}

/// Without kernels a call is over when it is enqueued.
TEST(NcclPluginWithoutKernels, FindsNobodyWhoWaits) {
  for (const std::string& command :
       {hanging({"v1", 1}, "hangs absent"), hanging({"v2", 2}, "hangs absent"),
        "export COMMLENS_NCCL_PROFILER=light; " + hanging({"v6", 6}, "hangs absent")}) {
    const NcclJob job(watched(command, R"("verdict":)"));
    ASSERT_EQ(job.exit_code, 0) << job.err;
    const nlohmann::json report = report_of(job);
    EXPECT_EQ(report.at("verdict"), "none") << command;
    EXPECT_EQ(report.at("rows").at(0).at("doing"), "in no call") << command;
  }
}

TEST_P(NcclHang, FiresAnAlertOfTheOneThatFollows) {
  const NcclJob job(fmt::format(
      "mkfifo ready go; ( {0} ) & job=$!; {1} watch trace --hang-after 1s --interval 100ms >events & "
      "follower=$!; "
      "read nothing <ready; for look in $(seq 600); do grep -q missing events && break; sleep 0.1; done; "
      ": >go; wait $job || exit 9; kill $follower; cat events",
      hanging(GetParam(), "hangs absent"), binary()));
  EXPECT_EQ(job.exit_code, 0) << job.err;
  EXPECT_NE(job.out.find("missing: 3 ranks wait for rank 2"), std::string::npos) << job.out;
}

/// A call that is over looks so although the program does not call NCCL any more, and nothing else of the
/// process is touched for that (shim_calls.c, computes).
TEST(NcclShimOnAGpu, SeesTheEndOfACallWhileTheProgramComputes) {
  const NcclJob job(watched(hanging({"shim", 0}, "computes"), R"("doing":"innocall")"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(job.err, "");
  const nlohmann::json report = report_of(job);
  EXPECT_EQ(report.at("rows").at(0).at("doing"), "in no call");
  EXPECT_EQ(counted(calls_of(job.read())), (Counts{{"0 ncclAllReduce all_reduce fp32 91 91 0 -1", 1},
                                                   {"0 ncclAllReduce all_reduce fp32 92 92 0 -1", 1}}));
}

/// NCCL loses events of kernels; the 33rd collective after such a call ends it.
TEST(NcclPluginV6, ACallWhoseKernelIsLostDoesNotLookStuckForEver) {
  const NcclJob job(watched(hanging({"v6", 6}, "overtakes"), R"("doing":"innocall")"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(report_of(job).at("rows").at(0).at("doing"), "in no call");
  EXPECT_EQ(counted(calls_of(job.read())),
            (Counts{{"0 ncclAllReduce all_reduce fp32 31 31 0,1 -1 | enqueued only", 1},
                    {"0 ncclAllReduce all_reduce fp32 32 32 0,1 -1", 33}}));
}

}  // namespace
}  // namespace commlens::test
