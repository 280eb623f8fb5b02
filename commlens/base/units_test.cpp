#include "commlens/base/units.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Units, ElementsBecomeBytesThroughTheDtype) {
  EXPECT_EQ(Elements{1000} * DType::fp16, Bytes{2000});
  EXPECT_EQ(Elements{3} * DType::int64, Bytes{24});
  EXPECT_EQ(Elements{7} * DType::uint8, Bytes{7});
}

TEST(Units, BytesMustHoldWholeElements) {
  EXPECT_EQ(elements_in(Bytes{8}, DType::fp32).value(), Elements{2});
  EXPECT_FALSE(elements_in(Bytes{7}, DType::fp32).has_value());
  EXPECT_FALSE(elements_in(Bytes{-4}, DType::fp32).has_value());
}

TEST(Units, PrintBinarySizes) {
  EXPECT_EQ(to_text(Bytes{0}), "0 B");
  EXPECT_EQ(to_text(Bytes{1023}), "1023 B");
  EXPECT_EQ(to_text(Bytes{1024}), "1.00 KiB");
  EXPECT_EQ(to_text(Bytes{8388608}), "8.00 MiB");
  EXPECT_EQ(to_text(Bytes{1048575}), "1.00 MiB");
}

TEST(Units, PrintDecimalBandwidths) {
  EXPECT_EQ(to_text(BytesPerSecond{0}), "0 B/s");
  EXPECT_EQ(to_text(BytesPerSecond{12.5}), "12.5 B/s");
  EXPECT_EQ(to_text(BytesPerSecond{1234.0}), "1.23 kB/s");
  EXPECT_EQ(to_text(BytesPerSecond{25e9}), "25.0 GB/s");
  EXPECT_EQ(to_text(BytesPerSecond{999.6e9}), "1.00 TB/s");
}

TEST(Units, PrintDurations) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(to_text(nanoseconds(0)), "0 ns");
  EXPECT_EQ(to_text(nanoseconds(999)), "999 ns");
  EXPECT_EQ(to_text(nanoseconds(1000)), "1.00 µs");
  EXPECT_EQ(to_text(nanoseconds(-12'345)), "-12.3 µs");
  EXPECT_EQ(to_text(nanoseconds(999'600)), "1.00 ms");
  EXPECT_EQ(to_text(nanoseconds(99'940'000'000)), "99.9 s");
  EXPECT_EQ(to_text(nanoseconds(100'000'000'000)), "1 min 40 s");
  EXPECT_EQ(to_text(nanoseconds(7'260'000'000'000)), "2 h 1 min");
  EXPECT_EQ(to_text(nanoseconds(INT64_MIN)), "-2,562,047 h 47 min");
}

TEST(Units, GroupDigitsByThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1414647808), "1,414,647,808");
  EXPECT_EQ(with_commas(-1000), "-1,000");
}

TEST(Units, ReadSizes) {
  EXPECT_EQ(parse_bytes("500000000").value(), Bytes{500000000});
  EXPECT_EQ(parse_bytes("5e8").value(), Bytes{500000000});
  EXPECT_EQ(parse_bytes("25MiB").value(), Bytes{26214400});
  EXPECT_EQ(parse_bytes("25 MB").value(), Bytes{25000000});
  EXPECT_EQ(parse_bytes("0.5KiB").value(), Bytes{512});
  for (const char* wrong : {"", "x", "-1", "1.5", "5QB", "1e30", "nan", "inf", "1e400"}) {
    EXPECT_FALSE(parse_bytes(wrong).has_value()) << wrong;
  }
}

TEST(Units, RoundUpward) {
  EXPECT_EQ(round_up(0, 8), 0);
  EXPECT_EQ(round_up(8, 8), 8);
  EXPECT_EQ(round_up(9, 8), 16);
  EXPECT_EQ(ceil_div(9, 8), 2);
}

TEST(Durations, AreReadWithTheirUnit) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(parse_duration("90"), nanoseconds(90'000'000'000));
  EXPECT_EQ(parse_duration("1.5s"), nanoseconds(1'500'000'000));
  EXPECT_EQ(parse_duration("500 ms"), nanoseconds(500'000'000));
  EXPECT_EQ(parse_duration("10min"), nanoseconds(600'000'000'000));
  EXPECT_EQ(parse_duration("2h"), nanoseconds(7'200'000'000'000));
  EXPECT_EQ(parse_duration("0"), nanoseconds(0));
}

TEST(Durations, ThatAreNoneAreRefused) {
  for (const char* const text : {"", "-1s", "ten", "5 weeks", "nan", "1e30h", "s"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_NE(parsed.error().message.find("is not a time"), std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace commlens
