#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/base/test_support.hpp"
#include "commlens/cli/test_support.hpp"

namespace commlens {
namespace {

using test_support::run_with;

std::vector<std::string> cost_words(std::vector<std::string> more) {
  std::vector<std::string> words = {"cost", "all_reduce"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The one line of a refusal, without "commlens: ".
std::string refused(const std::vector<std::string>& words) {
  const test_support::Outcome outcome = run_with(words);
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  return outcome.err.substr(outcome.err.find(": ") + 2, outcome.err.size() - outcome.err.find(": ") - 3);
}

TEST(CostVerb, PrintsTimeIntervalAlgorithmAndProvenance) {
  const test_support::Outcome outcome = run_with(
      cost_words({"--machine", "dgx_a100", "--library", "nccl:2.27.3", "--ranks", "2", "--bytes", "524288"}));
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_EQ(outcome.out.substr(0, outcome.out.find('\n')),
            "all_reduce of fp16 on 2 ranks, 1 node, dgx_a100 (NVIDIA DGX A100 80 GB), nccl 2.27.3");
  EXPECT_NE(outcome.out.find("ring       LL        measured"), std::string::npos) << outcome.out;
}

// time_model test values 1 and 2: what the library itself expects.
TEST(CostVerb, ExplainsEveryCandidate) {
  const test_support::Outcome outcome =
      run_with(cost_words({"--machine", "dgx_a100", "--library", "nccl:2.27.3", "--ranks", "2", "--bytes",
                           "524288,1MiB", "--explain", "--format", "json"}));
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("schema"), "commlens.cost/1");
  std::map<std::int64_t, std::pair<std::string, double>> chosen;
  for (const nlohmann::json& row : json.at("rows")) {
    if (row.at("chosen").get<bool>()) {
      chosen[row.at("message_bytes")] = {row.at("protocol"), row.at("library_time_s").get<double>() * 1e6};
    }
  }
  EXPECT_EQ(json.at("rows").size(), 12U);
  EXPECT_EQ(chosen.at(524'288).first, "LL");
  EXPECT_NEAR(chosen.at(524'288).second, 13.7782, 1e-4);
  EXPECT_EQ(chosen.at(1 << 20).first, "Simple");
  EXPECT_NEAR(chosen.at(1 << 20).second, 19.5691, 1e-4);
}

TEST(CostVerb, TakesRangesOfSizes) {
  const test_support::Outcome outcome = run_with(cost_words(
      {"--machine", "hgx_b200", "--ranks", "16", "--bytes", "1KiB..8KiB,1MiB", "--format", "csv"}));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 6) << outcome.err;
}

TEST(CostVerb, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refused(cost_words(
                {"--machine", "dgx_h100", "--library", "nccl:2.31", "--ranks", "8", "--bytes", "1MiB"})),
            "NCCL '2.31' has no table here; known are 2.18 to 2.30");
  EXPECT_EQ(
      refused(cost_words({"--machine", "dgx_h100", "--ranks", "8", "--bytes", "1MiB", "--algo", "mesh"})),
      "algorithm 'mesh' is not known; choose of tree, ring, nvls, nvls_tree, pat");
  EXPECT_EQ(refused(cost_words(
                {"--machine", "dgx_h100", "--ranks", "8", "--bytes", "1MiB", "--algo", "CollnetDirect"})),
            "algorithm 'CollnetDirect' has no time model here (CollNet adds in the switches)");
  EXPECT_EQ(refused(cost_words({"--machine", "dgx_h100", "--ranks", "12", "--bytes", "1MiB"})),
            "--ranks 12: is no multiple of the 8 ranks of a node");
  EXPECT_EQ(refused(cost_words(
                {"--machine", "dgx_h100", "--ranks", "16", "--gpus-per-node", "16", "--bytes", "1MiB"})),
            "--gpus-per-node 16: a node of dgx_h100 has 8");
  EXPECT_EQ(refused(cost_words({"--machine", "vista_gh200", "--ranks", "601", "--bytes", "1MiB"})),
            "601 nodes: vista_gh200 has 600");
  EXPECT_EQ(
      refused({"cost", "barrier", "--machine", "dgx_h100", "--ranks", "8", "--bytes", "1"}),
      "'barrier' is no operation with a time; choose all_reduce, all_gather, reduce_scatter, all_to_all, "
      "broadcast, reduce, send or recv");
}

TEST(CostVerb, ChoosesByATuningLog) {
  const test_support::ScratchDirectory scratch;
  const std::string log = (scratch / "job.log").string();
  write_file_atomically(log,
                        "NCCL INFO Algorithm | Tree | Ring |\n"
                        "NCCL INFO AllReduce | 1.0/ 300.0 | 31.5/ 51.5 | 64.4/ 55.2 | 15.0/ 50.1 | 40.6/ "
                        "126.2 | 56.0/ 137.1 |\n");
  const test_support::Outcome outcome = run_with(cost_words(
      {"--machine", "dgx_a100", "--ranks", "8", "--bytes", "1MiB", "--tuning", log, "--format", "csv"}));
  EXPECT_NE(outcome.out.find(",tree,LL,"), std::string::npos) << outcome.out << outcome.err;
}

/// A variable of the environment while a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(CostVerb, TakesWhatTheFlagsLeaveOpenFromTheEnvironment) {
  const Variable algorithm("NCCL_ALGO", "^nvls");
  const Variable protocol("NCCL_PROTO", "LL128");
  const std::vector<std::string> words =
      cost_words({"--machine", "dgx_h100", "--ranks", "8", "--bytes", "256MiB"});
  const test_support::Outcome outcome = run_with(words);
  EXPECT_NE(outcome.out.find("\nfrom the environment: NCCL_ALGO=^nvls, NCCL_PROTO=LL128\n"),
            std::string::npos)
      << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("ring       LL128"), std::string::npos) << outcome.out;
  std::vector<std::string> with_flags = words;
  with_flags.insert(with_flags.end(), {"--algo", "tree", "--format", "json"});
  const nlohmann::json json = nlohmann::json::parse(run_with(with_flags).out);
  EXPECT_EQ(json.at("from_environment"), nlohmann::json::array({"NCCL_PROTO=LL128"}));
  EXPECT_EQ(json.at("rows").at(0).at("algorithm"), "tree");
}

TEST(CostVerb, SaysWhichVariableOfTheEnvironmentItRefuses) {
  const Variable algorithm("NCCL_ALGO", "CollnetChain");
  EXPECT_EQ(
      refused(cost_words({"--machine", "dgx_h100", "--ranks", "8", "--bytes", "1MiB"})),
      "NCCL_ALGO of the environment: algorithm 'CollnetChain' has no time model here (CollNet adds in the "
      "switches)");
}

TEST(MachinesVerb, ListsMachinesAndShowsOne) {
  EXPECT_NE(run_with({"machines"}).out.find("frontier"), std::string::npos);
  EXPECT_TRUE(
      run_with({"machines", "frontier"}).out.starts_with("{\n \"schema\": \"commlens.machine/1\",\n"));
  EXPECT_EQ(refused({"machines", "nowhere"}),
            "machine 'nowhere' is no file and none of the known ones; commlens machines lists them");
}

/// Where hwloc is not, the refusal says so.
TEST(DoctorVerb, WritesAMachineFileThatMachinesAndCostRead) {
  const test_support::ScratchDirectory scratch;
  const std::string machine = (scratch / "here.json").string();
  const test_support::Outcome outcome = run_with({"doctor", "--machine", machine});
  if (outcome.code == ExitCode::bad_input && outcome.err.find("hwloc") != std::string::npos) {
    GTEST_SKIP() << outcome.err;
  }
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  const test_support::Outcome shown = run_with({"machines", machine});
  EXPECT_EQ(shown.code, ExitCode::done) << shown.err;
  EXPECT_NE(shown.out.find("\"host\": {"), std::string::npos) << shown.out;
  const nlohmann::json json = nlohmann::json::parse(shown.out);
  EXPECT_GE(json.at("ranks_per_node").at("value").get<int>(), 1);
  EXPECT_FALSE(json.at("ranks_per_node").at("source").get<std::string>().empty());
  const test_support::Outcome times = run_with(
      {"cost", "all_reduce", "--machine", machine, "--library", "mpi", "--ranks", "1", "--bytes", "1MiB"});
  EXPECT_NE(times.code, ExitCode::system_failed) << times.err;
}

/// A sweep of a machine that is named by its device; the file made of it gives the same times.
TEST(CalibrateVerb, WritesAMachineThatCostReads) {
  const test_support::ScratchDirectory scratch;
  const std::string sweep = (scratch / "sweep.csv").string();
  const std::string machine = (scratch / "mine.json").string();
  std::string rows =
      "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n";
  for (const int ranks : {2, 8}) {
    for (int elements = 256; elements <= (1 << 20); elements *= 4) {
      rows += "X,2.27.3,NVIDIA A100-SXM4-80GB,all_gather,NCCL,half," + std::to_string(ranks) + "," +
              std::to_string(elements) + "," + std::to_string(.02 + elements * 1e-8 * ranks) + "\n";
    }
  }
  write_file_atomically(sweep, rows);
  const test_support::Outcome outcome = run_with({"calibrate", sweep, "-o", machine, "--format", "csv"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  EXPECT_NE(outcome.out.find("fitted,nccl,all_gather,ring,LL,false"), std::string::npos) << outcome.out;
  const test_support::Outcome times = run_with(
      {"cost", "all_gather", "--machine", machine, "--ranks", "8", "--bytes", "512", "--format", "json"});
  const nlohmann::json json = nlohmann::json::parse(times.out);
  // 256 elements: 0.02 ms + 2.56e-6 ms * 8, printed with six digits.
  EXPECT_NEAR(json.at("rows").at(0).at("time_s").get<double>(), 20.02e-6, .01e-6);
  EXPECT_EQ(json.at("rows").at(0).at("provenance"), "measured");
}

TEST(CalibrateVerb, RefusesFilesWithoutTimes) {
  const test_support::ScratchDirectory scratch;
  const std::string sweep = (scratch / "sweep.csv").string();
  const std::string machine = (scratch / "mine.json").string();
  std::ofstream(sweep).close();
  EXPECT_EQ(refused({"calibrate", sweep, "-o", machine}), sweep + ": is empty");
  write_file_atomically(
      sweep, "machine,library,op,ranks,nodes,ranks_per_node,dtype,bytes,time_us,algbw,busbw,source\n");
  EXPECT_EQ(refused({"calibrate", sweep, "-o", machine}),
            sweep + ": no row with a time of a known collective");
  EXPECT_EQ(refused({"calibrate", sweep, sweep, "-o", machine}), sweep + ": is given twice");
}

TEST(Cost, RefusesBothNamesOfAFlag) {
  const Outcome outcome = run_with({"cost", "all_gather", "--machine", "dgx_h100", "--ranks", "8", "--bytes",
                                    "1MiB", "--gpus-per-node", "8", "--ranks-per-node", "4"});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  EXPECT_EQ(outcome.err,
            "commlens: --ranks-per-node excludes --gpus-per-node; see "
            "commlens cost --help\n");
}

}  // namespace
}  // namespace commlens
