#include "commlens/report/coverage_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

TEST(ReasonsText, NamesEveryReasonInItsNumber) {
  EXPECT_EQ(reasons_text({}), "");
  EXPECT_EQ(reasons_text({{"unfinished call", 4}, {"torn record", 1}}), "1 torn record, 4 unfinished calls");
  EXPECT_EQ(reasons_text({{"unfinished call", 1}}), "1 unfinished call");
  EXPECT_EQ(reasons_text({{"lines without a size", 1}}), "1 line without a size");
  EXPECT_EQ(reasons_text({{"lines without a size", 1200}}), "1,200 lines without a size");
  EXPECT_EQ(reasons_text({{"call not recorded, disk full", 2}}), "2 calls not recorded, disk full");
  EXPECT_EQ(reasons_text({{"group whose ranks are taken to be those that called on it", 3}}),
            "3 groups whose ranks are taken to be those that called on it");
  EXPECT_EQ(reasons_text({{"odd\x1b[31m thing", 2}}), "2 odd?[31m thing");
}

TEST(CoverageText, SaysThatNothingIsMissing) {
  EXPECT_EQ(coverage_text(Trace(), Summary(), {}), "covered: every record\n");
}

TEST(CoverageText, HasALineForEachThingThatIsMissing) {
  Trace trace;
  Summary summary;
  summary.calls = 10;
  summary.coverage.unclassified = {{trace.names.intern("MPI_Scan"), 3}, {NameId{}, 1}};
  summary.coverage.without_bytes = 2;
  summary.coverage.without_times = 5;
  summary.coverage.skipped = {{"unfinished call", 4}};
  EXPECT_EQ(coverage_text(trace, summary, {}),
            "covered: all but 4 unfinished calls\n"
            "not classified: 3 calls of MPI_Scan, 1 call of an unknown name\n"
            "without bytes: 2 calls (barriers not counted)\n"
            "times: all but 5 calls (50.0 %)\n");
  summary.coverage.without_times = 10;
  EXPECT_NE(coverage_text(trace, summary, {}).find("times: none\n"), std::string::npos);
}

TEST(CoverageText, DistinguishesAssumedFromSkippedRecords) {
  Summary summary;
  summary.coverage.assumed = {{"rank not reported, numbered by file or process", 2}};
  EXPECT_EQ(coverage_text(Trace(), summary, {}),
            "covered: every record\nassumed: 2 ranks not reported, numbered by file or process\n");
  summary.coverage.skipped = {{"torn record", 1}};
  EXPECT_EQ(coverage_text(Trace(), summary, {}),
            "covered: all but 1 torn record\nassumed: 2 ranks not reported, numbered by file or process\n");
  const nlohmann::ordered_json json = coverage_json(Trace(), summary.coverage);
  EXPECT_EQ(json["skipped_records_whole_trace"], (nlohmann::ordered_json{{"torn record", 1}}));
  EXPECT_EQ(json["assumed_whole_trace"],
            (nlohmann::ordered_json{{"rank not reported, numbered by file or process", 2}}));
}

TEST(CoverageText, SaysThatTimesAreAverages) {
  Summary summary;
  summary.coverage.averaged_times = true;
  EXPECT_EQ(
      coverage_text(Trace(), summary, {}),
      "covered: every record\n"
      "times: averages over several calls each, placed end to end, so times of single calls and overlap "
      "are not known\n");
  EXPECT_EQ(coverage_json(Trace(), summary.coverage)["averaged_times"], true);
}

TEST(CoverageText, AddsUpNamesAfterTheFifth) {
  Trace trace;
  Summary summary;
  for (const char* const name : {"a", "b", "c", "d", "e", "f", "g"}) {
    summary.coverage.unclassified.push_back({trace.names.intern(name), 2});
  }
  EXPECT_NE(coverage_text(trace, summary, {}).find("2 calls of e, 4 calls of 2 other names\n"),
            std::string::npos);
}

TEST(CoverageJson, KeysSayTheirScope) {
  Coverage coverage;
  coverage.unfinished = 4;
  coverage.without_bytes = 2;
  coverage.without_iteration = 3;
  const nlohmann::ordered_json json = coverage_json(Trace(), coverage);
  EXPECT_EQ(json["unfinished_calls_whole_trace"], 4);
  EXPECT_EQ(json["calls_without_bytes_all_ranks"], 2);
  EXPECT_EQ(json["calls_without_iteration_all_ranks"], 3);
}

}  // namespace
}  // namespace commlens
