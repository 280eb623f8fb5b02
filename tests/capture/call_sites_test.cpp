// Where a program makes its calls: recorded on demand, shown by `summary --call-sites`.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "commlens/trace/trace_file.hpp"
#include "record_job.hpp"

namespace commlens::test {
namespace {

using Json = nlohmann::json;

class CallSites : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_mpi(GetParam())) {
      GTEST_SKIP() << "no mpirun of " << GetParam();
    }
  }
  JobOptions with(const std::string& flags) const { return {.mpi = GetParam(), .ranks = 2, .flags = flags}; }
  std::string program(const std::string& name) const {
    return fmt::format("{}/{}_{}", COMMLENS_CAPTURE_PROGRAMS, name, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Mpi, CallSites, testing::Values("openmpi", "mpich"));

std::string commlens() {
  const char* const path = std::getenv("COMMLENS_BINARY");
  return path == nullptr ? "build/release/commlens" : path;
}

/// "op place" of each row to its calls and message bytes, of both ranks together.
std::map<std::string, std::pair<int, int>> rows_of(const JobDirectory& directory, const std::string& flags) {
  const RecordedJob shown = directory.run(commlens() + " summary trace --call-sites --format json " + flags);
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(shown.err, "");
  std::map<std::string, std::pair<int, int>> rows;
  const Json summary = Json::parse(shown.out);
  for (const Json& row : summary.at("ops")) {
    rows[row.at("op").get<std::string>() + " " + row.at("site").get<std::string>()] = {
        row.at("calls_all_ranks"), row.at("message_bytes_all_ranks")};
  }
  return rows;
}

// sites.c: five steps of two ranks; 8 doubles are 64 bytes, 16 are 128. The two ranks have their code at
// different addresses, so each row is the sum of both only if sites are places in files.
TEST_P(CallSites, AreFunctionsAndLinesOfTheProgram) {
  const JobDirectory directory;
  const RecordedJob job = directory.record(program("sites"), with("--call-sites --no-summary"));
  ASSERT_EQ(job.exit_code, 0) << job.err;
  EXPECT_EQ(rows_of(directory, ""),
            (std::map<std::string, std::pair<int, int>>{{"all_reduce sites.c:7 sum_twice", {10, 640}},
                                                        {"all_reduce sites.c:8 sum_twice", {10, 640}},
                                                        {"recv sites.c:13 exchange", {10, 1280}},
                                                        {"send sites.c:14 exchange", {10, 1280}}}));
  EXPECT_EQ(rows_of(directory, "--rank 1").at("send sites.c:14 exchange"), std::pair(5, 640));
}

TEST_P(CallSites, StayUnknownUnlessAskedFor) {
  const JobDirectory directory;
  ASSERT_EQ(directory.record(program("sites"), with("--no-summary")).exit_code, 0);
  const RecordedJob shown = directory.run(commlens() + " summary trace --call-sites");
  EXPECT_EQ(shown.exit_code, 2);
  EXPECT_NE(shown.err.find("does not say where calls were made; record it with commlens record --call-sites"),
            std::string::npos)
      << shown.err;
  EXPECT_EQ(content_of(directory.trace() / "rank-0.jsonl").find("\"site\""), std::string::npos);
}

// The file and the offset of the place that the call returns to; nothing of where the process had loaded it.
TEST_P(CallSites, AreOffsetsInTheFileOfTheCode) {
  const JobDirectory directory;
  ASSERT_EQ(directory.record(program("sites"), with("--call-sites --no-summary")).exit_code, 0);
  const Result<Trace> trace = read_trace(directory.trace());
  ASSERT_TRUE(trace);
  std::set<std::string> sites;
  for (const CommOp& op : trace->ops()) {
    sites.insert(trace->names.text(op.site));
  }
  EXPECT_EQ(sites.size(), 4U);
  const std::uintmax_t size = std::filesystem::file_size(program("sites"));
  for (const std::string& site : sites) {
    const std::string start = std::filesystem::canonical(program("sites")).string() + "+0x";
    ASSERT_TRUE(site.starts_with(start)) << site;
    EXPECT_LT(std::stoull(site.substr(start.size()), nullptr, 16), size) << site;
  }
}

// The bindings of Fortran lie between the program and the recorder: the site is the program's.
TEST_P(CallSites, OfFortranAreThoseOfTheProgramAndNotOfItsBindings) {
  for (const char* module : {"fortran_mpi", "fortran_f08"}) {
    if (!std::filesystem::exists(program(module))) {
      GTEST_SKIP() << "no Fortran compiler of " << GetParam();
    }
    const JobDirectory directory;
    ASSERT_EQ(directory.record(program(module), with("--call-sites --no-summary")).exit_code, 0);
    const Result<Trace> trace = read_trace(directory.trace());
    ASSERT_TRUE(trace);
    const std::string start = std::filesystem::canonical(program(module)).string() + "+0x";
    EXPECT_FALSE(trace->ops().empty());
    for (const CommOp& op : trace->ops()) {
      EXPECT_TRUE(trace->names.text(op.site).starts_with(start))
          << module << ": " << trace->names.text(op.name) << " " << trace->names.text(op.site);
    }
  }
}

TEST_P(CallSites, OfAProgramThatIsGoneAreItsOffsets) {
  const JobDirectory directory;
  const std::string copy = (directory.path() / "copy").string();
  std::filesystem::copy_file(program("sites"), copy);
  ASSERT_EQ(directory.record(copy, with("--call-sites --no-summary")).exit_code, 0);
  std::filesystem::remove(copy);
  const RecordedJob shown = directory.run(commlens() + " summary trace --call-sites");
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.err.find("copy: not here as it was recorded, so its functions and lines are not known"),
            std::string::npos)
      << shown.err;
  EXPECT_NE(shown.out.find("copy+0x"), std::string::npos) << shown.out;
}

}  // namespace
}  // namespace commlens::test
