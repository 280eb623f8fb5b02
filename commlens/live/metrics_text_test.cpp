#include "commlens/live/metrics_text.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace commlens {
namespace {

std::vector<MetricFamily> one_of_each() {
  MetricFamily calls{"commlens_calls", "Calls completed.", MetricType::counter, "", {}, {}};
  calls.samples.push_back({{{"op", "all_reduce"}, {"axis", "dp"}}, 12, {}, 0});
  MetricFamily times{
      "commlens_call_duration_seconds", "How long.", MetricType::histogram, "seconds", {0.5, 1}, {}};
  times.samples.push_back({{{"op", "send"}}, 2.5, {1, 1}, 2});
  MetricFamily build{"commlens_build", "The release.", MetricType::info, "", {}, {}};
  build.samples.push_back({{{"version", "1"}}, 1, {}, 0});
  const MetricFamily nothing{"commlens_nothing", "No sample.", MetricType::gauge, "", {}, {}};
  return {calls, times, build, nothing};
}

TEST(MetricsText, OfPrometheus) {
  EXPECT_EQ(metrics_text(one_of_each(), MetricsFormat::prometheus),
            "# TYPE commlens_calls_total counter\n"
            "# HELP commlens_calls_total Calls completed.\n"
            "commlens_calls_total{op=\"all_reduce\",axis=\"dp\"} 12\n"
            "# TYPE commlens_call_duration_seconds histogram\n"
            "# HELP commlens_call_duration_seconds How long.\n"
            "commlens_call_duration_seconds_bucket{op=\"send\",le=\"0.5\"} 1\n"
            "commlens_call_duration_seconds_bucket{op=\"send\",le=\"1.0\"} 1\n"
            "commlens_call_duration_seconds_bucket{op=\"send\",le=\"+Inf\"} 2\n"
            "commlens_call_duration_seconds_sum{op=\"send\"} 2.5\n"
            "commlens_call_duration_seconds_count{op=\"send\"} 2\n"
            "# TYPE commlens_build_info gauge\n"
            "# HELP commlens_build_info The release.\n"
            "commlens_build_info{version=\"1\"} 1\n");
}

TEST(MetricsText, OfOpenMetricsHasUnitsAndAnEnd) {
  EXPECT_EQ(metrics_text(one_of_each(), MetricsFormat::openmetrics),
            "# TYPE commlens_calls counter\n"
            "# HELP commlens_calls Calls completed.\n"
            "commlens_calls_total{op=\"all_reduce\",axis=\"dp\"} 12\n"
            "# TYPE commlens_call_duration_seconds histogram\n"
            "# UNIT commlens_call_duration_seconds seconds\n"
            "# HELP commlens_call_duration_seconds How long.\n"
            "commlens_call_duration_seconds_bucket{op=\"send\",le=\"0.5\"} 1\n"
            "commlens_call_duration_seconds_bucket{op=\"send\",le=\"1.0\"} 1\n"
            "commlens_call_duration_seconds_bucket{op=\"send\",le=\"+Inf\"} 2\n"
            "commlens_call_duration_seconds_sum{op=\"send\"} 2.5\n"
            "commlens_call_duration_seconds_count{op=\"send\"} 2\n"
            "# TYPE commlens_build info\n"
            "# HELP commlens_build The release.\n"
            "commlens_build_info{version=\"1\"} 1\n"
            "# EOF\n");
}

TEST(MetricsText, NoValueEndsItsLine) {
  MetricFamily family{"m", "a \\ b\nc \"d\"", MetricType::gauge, "", {}, {}};
  family.samples.push_back({{{"op", "a\"b\\c\nd\x01\xff"}}, 1, {}, 0});
  EXPECT_EQ(metrics_text({family}, MetricsFormat::prometheus),
            "# TYPE m gauge\n"
            "# HELP m a \\\\ b\\nc \"d\"\n"
            "m{op=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xef\xbf\xbd\"} 1\n");
  EXPECT_NE(metrics_text({family}, MetricsFormat::openmetrics).find("# HELP m a \\\\ b\\nc \\\"d\\\"\n"),
            std::string::npos);
}

TEST(MetricsText, OfNumbersThatAreNone) {
  MetricFamily family{"m", "h", MetricType::gauge, "", {}, {}};
  family.samples.push_back({{}, std::numeric_limits<double>::infinity(), {}, 0});
  family.samples.push_back({{}, std::numeric_limits<double>::quiet_NaN(), {}, 0});
  family.samples.push_back({{}, 1e18, {}, 0});
  EXPECT_EQ(metrics_text({family}, MetricsFormat::prometheus),
            "# TYPE m gauge\n# HELP m h\nm +Inf\nm NaN\nm 1e+18\n");
}

TEST(MetricsText, ThePeerChoosesTheFormat) {
  EXPECT_EQ(metrics_format_of("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"),
            MetricsFormat::openmetrics);
  EXPECT_EQ(metrics_format_of("*/*"), MetricsFormat::prometheus);
}

}  // namespace
}  // namespace commlens
