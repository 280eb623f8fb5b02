// Invalid requests that only a program can make, not the command line: each is one error, and nothing is
// written.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "commlens/app/advise.hpp"
#include "commlens/app/compare.hpp"
#include "commlens/app/export_trace.hpp"
#include "commlens/app/import_files.hpp"
#include "commlens/app/record.hpp"
#include "commlens/app/report.hpp"
#include "commlens/app/summarise.hpp"
#include "commlens/app/train.hpp"

namespace commlens {
namespace {

template <typename Value>
std::string error_of(const Result<Value>& result) {
  return result ? "no error" : result.error().message;
}

TEST(EmptyRequests, AreRefused) {
  EXPECT_EQ(error_of(advise(AdviseRequest{})),
            "no configuration is given; name a file, or a model such as 1.3B");
  EXPECT_EQ(error_of(train(TrainRequest{})),
            "no configuration is given; name a file, or a model such as 1.3B");
  EXPECT_EQ(error_of(report(ReportRequest{})),
            "nothing to report on is given; name a trace or a configuration");
  EXPECT_EQ(error_of(import_files(ImportRequest{})), "no file to import is given");
  EXPECT_EQ(error_of(export_trace(ExportRequest{})), "--to : there is no such format");
  EXPECT_EQ(error_of(record(RecordRequest{})),
            ": no such program; write the command as in a shell, after --");
  EXPECT_FALSE(summarise(SummaryRequest{}).has_value());
  EXPECT_FALSE(compare(CompareRequest{}).has_value());
  EXPECT_FALSE(compare_times(RegressionRequest{}).has_value());
  EXPECT_FALSE(std::filesystem::exists("commlens-trace"));
  EXPECT_FALSE(std::filesystem::exists("commlens-training"));
}

TEST(ExportTrace, NeedsAPlaceOrASink) {
  ExportRequest request;
  request.input = {"no/such/trace"};
  request.format = "csv";
  EXPECT_EQ(error_of(export_trace(request)), "-o: name a file");
  request.sink = [](std::string_view) {};
  EXPECT_EQ(error_of(export_trace(request)).substr(0, 53),
            "'no/such/trace' is neither a file nor a built-in mode");
  request.format = "sqlite";
  EXPECT_EQ(error_of(export_trace(request)), "--to sqlite writes a file; name it with -o");
}

TEST(ExportTrace, OfAConfigurationHasNoTimesAndTheRanksOfTheJob) {
  ExportRequest request;
  request.input = {"19M"};
  request.format = "csv";
  request.sink = [](std::string_view) {};
  request.compute = true;
  EXPECT_EQ(error_of(export_trace(request)), "--compute: a prediction has no times; leave it out");
  request.compute = false;
  request.rank = Rank{1};
  EXPECT_EQ(error_of(export_trace(request)), "--rank 1: the job has ranks 0 to 0");
}

TEST(ExportTrace, FrameworksAndLayoutsAreForConfigurations) {
  ExportRequest request;
  request.input = {"tests/golden/deepspeed/z1_S_w4_fp16_rb50000/calls.jsonl.gz"};
  request.format = "csv";
  request.sink = [](std::string_view) {};
  request.framework = "neox";
  EXPECT_EQ(error_of(export_trace(request)),
            request.input.front() +
                " is a trace: --framework and the layout flags are for configurations; leave them out");
}

TEST(ExportTrace, SaysThatAPredictionIsUnverified) {
  ExportRequest request;
  request.input = {"1.3B"};
  request.overrides.dp = 4;
  request.overrides.zero = 3;
  request.format = "csv";
  request.rank = Rank{0};
  request.sink = [](std::string_view) {};
  std::string warned;
  request.events.warning = [&](const std::string& text) { warned += text; };
  EXPECT_TRUE(export_trace(request).has_value());
  EXPECT_NE(warned.find("GPT-NeoX under ZeRO-3"), std::string::npos) << warned;
}

TEST(Compare, FrameworksAndLayoutsAreForConfigurations) {
  CompareRequest request;
  request.a = "tests/golden/deepspeed/z1_S_w4_fp16_rb50000/calls.jsonl.gz";
  request.b = request.a;
  EXPECT_TRUE(compare(request).has_value());
  request.overrides.qwz = true;
  EXPECT_EQ(error_of(compare(request)),
            "both sides are traces: --framework and the layout flags are for configurations; leave them out");
}

}  // namespace
}  // namespace commlens
