#include "commlens/bench/pattern.hpp"

#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace commlens::bench {
namespace {

// Worked out by a second program (Python) from the definition.
TEST(Pattern, HasTheValuesOfItsDefinition) {
  const std::array<std::int64_t, 4> at_0 = {5, 36, 37, 29};
  const std::array<std::int64_t, 4> at_250 = {4, 32, 1, 39};
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(pattern_value(0, rank), at_0[rank]) << "rank " << rank;
    EXPECT_EQ(pattern_value(250, rank), at_250[rank]) << "rank " << rank;
  }
  const Pattern summed{DType::fp32, 4, 0, true};
  EXPECT_EQ(summed.sum(0), 107);
  EXPECT_EQ(summed.sum(250), 76);
}

// Independent values 0 to 63 agree in 1.56 % of places.
TEST(Pattern, AgreesRarelyWithOtherRanksAndShiftsOfItself) {
  constexpr std::uint64_t k_places = 100'000;
  const auto agreement = [](std::uint64_t shift, std::uint64_t ranks) {
    std::int64_t equal = 0;
    for (std::uint64_t place = 0; place < k_places; ++place) {
      equal += pattern_value(place, 0) == pattern_value(place + shift, ranks) ? 1 : 0;
    }
    return static_cast<double>(equal) / k_places;
  };
  for (const std::uint64_t shift : {1, 64, 100, 251, 256}) {
    EXPECT_LT(agreement(shift, 0), 0.021) << "shift " << shift;
  }
  EXPECT_LT(agreement(0, 1), 0.021);
}

TEST(Pattern, SumsExactlyInEveryType) {
  struct Limit {
    DType type;
    std::int64_t most;
  };
  for (const auto& [type, most] :
       {Limit{DType::bf16, 256}, Limit{DType::fp16, 2048}, Limit{DType::fp32, 1 << 24},
        Limit{DType::int8, 127}, Limit{DType::uint8, 255}, Limit{DType::int16, 32767}}) {
    for (const std::int64_t ranks : {2, 3, 8, 100, 1000}) {
      const Pattern pattern{type, ranks, 0, true};
      std::int64_t largest = 0;
      for (std::int64_t position = 0; position < 2000; ++position) {
        largest = std::max(largest, pattern.sum(position));
      }
      EXPECT_LE(largest, most) << name_of(type) << " of " << ranks;
      EXPECT_GT(largest, 10) << name_of(type) << " of " << ranks;
    }
  }
}

TEST(Pattern, IsFoundAgainInEveryType) {
  for (const DType type : {DType::fp64, DType::fp32, DType::fp16, DType::bf16, DType::fp8, DType::int64,
                           DType::int32, DType::int16, DType::int8, DType::uint8, DType::boolean}) {
    const Pattern pattern{type, 3, 5, false};
    std::vector<std::byte> buffer(static_cast<std::size_t>(1000 * size_of(type)));
    spoil(buffer);
    EXPECT_EQ(compare(pattern, 1, 77, buffer).elements, 1000) << name_of(type);
    fill(pattern, 1, 77, buffer);
    EXPECT_EQ(compare(pattern, 1, 77, buffer).elements, 0) << name_of(type);
    EXPECT_GT(compare(pattern, 2, 77, buffer).elements, 900) << name_of(type);
    EXPECT_GT(compare({type, 3, 6, false}, 1, 77, buffer).elements, 900) << name_of(type);
    buffer[static_cast<std::size_t>(500 * size_of(type))] ^= std::byte{1};
    const Wrong wrong = compare(pattern, 1, 77, buffer);
    EXPECT_EQ(wrong.elements, 1) << name_of(type);
    EXPECT_EQ(wrong.first, 500) << name_of(type);
  }
}

TEST(Pattern, IsWrittenAsTheTypesWriteIt) {
  const Pattern pattern{DType::fp16, 4, 0, true};  // sum at 0: 107 = 1.671875 x 2^6
  const std::array<std::uint16_t, 1> half = {(6 + 15) << 10U | 0x2B0U};
  std::array<std::byte, 2> bytes{};
  std::memcpy(bytes.data(), half.data(), 2);
  EXPECT_EQ(compare(pattern, -1, 0, bytes).elements, 0);
}

}  // namespace
}  // namespace commlens::bench
