#include "commlens/report/histogram_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace commlens {
namespace {

SizeHistogram sample() {
  SizeHistogram histogram;
  histogram.bins = {{Bytes{1024}, 3, Bytes{3072}}, {Bytes{65536}, 1, Bytes{65536}}};
  histogram.calls = 4;
  histogram.message = Bytes{68608};
  histogram.small_calls = 3;
  histogram.small_message = Bytes{3072};
  return histogram;
}

TEST(HistogramText, HasABarPerBinAndTheSmallShare) {
  EXPECT_EQ(histogram_text(sample(), {}),
            "message size               calls  of calls  of bytes\n"
            "1.00 KiB to < 2.00 KiB         3    75.0 %     4.5 %  ########################\n"
            "64.00 KiB to < 128.00 KiB      1    25.0 %    95.5 %  ########\n"
            "messages below 64.00 KiB: 75.0 % of the calls, 4.5 % of the bytes\n");
}

TEST(HistogramText, HasSharesOfTimeWhereThereAreTimes) {
  SizeHistogram histogram = sample();
  histogram.bins[0].timed_calls = 3;
  histogram.bins[0].time = histogram.small_time = std::chrono::nanoseconds(60);
  histogram.bins[1].timed_calls = 1;
  histogram.bins[1].time = std::chrono::nanoseconds(240);
  histogram.timed_calls = 4;
  histogram.time = std::chrono::nanoseconds(300);
  EXPECT_EQ(histogram_text(histogram, {.width = 80}),
            "message size               calls  of calls  of bytes  of time\n"
            "1.00 KiB to < 2.00 KiB         3    75.0 %     4.5 %   20.0 %  ################\n"
            "64.00 KiB to < 128.00 KiB      1    25.0 %    95.5 %   80.0 %  #####\n"
            "messages below 64.00 KiB: 75.0 % of the calls, 4.5 % of the bytes, 20.0 % of the\n"
            "  time\n");
  EXPECT_EQ(histogram_json(histogram)["small_share_of_time"], 0.2);
}

TEST(HistogramText, SaysThatThereIsNothing) { EXPECT_EQ(histogram_text({}, {}), "no messages\n"); }

TEST(HistogramJson, KeysEndInTheirUnit) {
  const nlohmann::ordered_json json = histogram_json(sample());
  EXPECT_EQ(json["small_share_of_calls"], 0.75);
  EXPECT_EQ(json["bins"][1]["lower_bytes"], 65536);
  EXPECT_EQ(json["bins"][1]["upper_bytes"], 131072);
  EXPECT_EQ(json["bins"][1]["calls_all_ranks"], 1);
}

TEST(HistogramCsv, HasOneLinePerBin) {  // 3 of 67 and 64 of 67 KiB
  EXPECT_EQ(
      histogram_csv(sample()),
      "lower_bytes,upper_bytes,calls_all_ranks,message_bytes_all_ranks,timed_calls_all_ranks,"
      "time_ns_all_ranks,share_of_calls,share_of_message_bytes,share_of_time\n"
      "1024,2048,3,3072,0,,0.75,0.04477611940298507,\n65536,131072,1,65536,0,,0.25,0.9552238805970149,\n");
}

}  // namespace
}  // namespace commlens
