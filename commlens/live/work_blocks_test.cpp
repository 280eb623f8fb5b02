#include "commlens/live/work_blocks.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

namespace commlens {
namespace {

constexpr std::int64_t k_ms = 1'000'000;

/// Adds parts of k_block_calls calls of a program without marks.
void add_calls(LatestBlocks& blocks, std::int64_t first_unit, std::int64_t end_unit, std::int64_t ns) {
  for (std::int64_t unit = first_unit; unit < end_unit; ++unit) {
    blocks.add(LatestBlocks::unmarked(unit * k_block_calls), {.calls = k_block_calls,
                                                              .signature = 1'000'000'007,
                                                              .between_ns = ns / 4,
                                                              .in_calls_ns = ns - ns / 4});
  }
}

std::vector<std::int64_t> bounds_of(const SpanningWork& work) {
  std::vector<std::int64_t> bounds = {work.begin};
  for (const WorkBlock& block : work.blocks) {
    bounds.push_back(block.end);
  }
  return bounds;
}

TEST(LatestBlocks, TellsNoneThatMayGetMore) {
  LatestBlocks blocks;
  EXPECT_TRUE(blocks.told().blocks.empty());
  add_calls(blocks, 0, 1, k_ms);
  EXPECT_TRUE(blocks.told().blocks.empty());
  add_calls(blocks, 1, 3, k_ms);
  const SpanningWork work = blocks.told();
  EXPECT_FALSE(work.is_marked);
  EXPECT_EQ(bounds_of(work), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(work.blocks[1].work.calls, 64);
  EXPECT_EQ(work.blocks[1].work.signature, 1'000'000'007U % 65'536U);
  EXPECT_EQ(work.blocks[1].work.between_ns, k_ms / 4);
  EXPECT_EQ(work.blocks[1].work.in_calls_ns, 3 * k_ms / 4);
}

// 24 blocks of 2^n ms do not fill 120 s, so blocks are merged whenever there are 24: those of 1024 units at
// 24,576, those of 2048 at 49,152.
TEST(LatestBlocks, BecomeLargerWhereAJobMakesManyCalls) {
  LatestBlocks blocks;
  add_calls(blocks, 0, 48'000, k_ms);
  const SpanningWork work = blocks.told();
  ASSERT_EQ(work.blocks.size(), 12U);
  EXPECT_EQ(work.begin, 11 * 2048);
  EXPECT_EQ(work.blocks.back().end, 23 * 2048);
  for (const WorkBlock& block : work.blocks) {
    EXPECT_EQ(block.end % 2048, 0);
    EXPECT_EQ(block.work.calls, 64 * 2048);
    EXPECT_EQ(block.work.between_ns, 2048 * k_ms / 4);
  }
}

// Of blocks of 8 s each, 24 cover more than 120 s.
TEST(LatestBlocks, ForgetsTheFirstWhereBlocksAreLong) {
  LatestBlocks blocks;
  add_calls(blocks, 0, 101, 8000 * k_ms);
  const SpanningWork work = blocks.told();
  EXPECT_EQ(work.begin, 88);
  EXPECT_EQ(work.blocks.size(), 12U);
  EXPECT_EQ(work.blocks.back().end, 100);
}

TEST(LatestBlocks, BecomeSmallerAgainWhereAJobMakesFewCalls) {
  LatestBlocks blocks;
  add_calls(blocks, 0, 4096, k_ms);
  EXPECT_EQ(blocks.told().blocks.back().work.calls, 64 * 256);
  add_calls(blocks, 4096, 4196, 10'000 * k_ms);  // more than 20 s are two of these
  const SpanningWork work = blocks.told();
  EXPECT_EQ(work.blocks.back().end, 4195);
  EXPECT_EQ(work.blocks.back().work.calls, 64);
}

// Iterations of 3 calls: 64 calls are 22 iterations, in blocks of powers of two 32. 24 blocks of 32
// iterations of 1 s cover more than 120 s and have 96 calls each.
TEST(LatestBlocks, HaveSixtyFourCallsOfSeveralIterations) {
  LatestBlocks blocks;
  for (std::int64_t iteration = 0; iteration < 1000; ++iteration) {
    blocks.add(iteration, {.calls = 3, .signature = 1, .between_ns = 900 * k_ms, .in_calls_ns = 100 * k_ms});
  }
  const SpanningWork work = blocks.told();
  EXPECT_TRUE(work.is_marked);
  ASSERT_EQ(work.blocks.size(), 12U);
  EXPECT_EQ(work.blocks.back().end, 31 * 32);
  EXPECT_EQ(work.blocks.back().work.calls, 96);
}

TEST(LatestBlocks, AscendWhereverTheyBegin) {
  for (std::int64_t first = 0; first < 40; ++first) {
    LatestBlocks blocks;
    for (std::int64_t unit = first; unit < 3000; ++unit) {
      add_calls(blocks, unit, unit + 1, k_ms);
      const std::vector<std::int64_t> bounds = bounds_of(blocks.told());
      const auto same = std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>());
      ASSERT_TRUE(same == bounds.end()) << first << ", " << unit;
      ASSERT_LE(bounds.size(), 13U);
    }
  }
}

TEST(LatestBlocks, OfIterationsReplaceThoseBefore) {
  LatestBlocks blocks;
  add_calls(blocks, 0, 5, k_ms);
  blocks.add(7, {.calls = 64});
  blocks.add(8, {.calls = 64});
  EXPECT_TRUE(blocks.told().is_marked);
  EXPECT_EQ(bounds_of(blocks.told()), (std::vector<std::int64_t>{7, 8}));
}

// A second of the job has 1000 units, and states are told 20 s apart: of 12 blocks of 8,192 units, which are
// 98 s, those of 78 s are told in both, and are more than 8.
TEST(LatestBlocks, ThatAreToldAtOtherMomentsMatch) {
  for (std::int64_t later = 200'000; later < 400'000; later += 7919) {
    LatestBlocks early;
    LatestBlocks late;
    add_calls(early, 0, later - 20'000, k_ms);
    add_calls(late, 30'000, later, k_ms);  // it begins later, too
    const std::vector<std::int64_t> a = bounds_of(early.told());
    const std::vector<std::int64_t> b = bounds_of(late.told());
    std::vector<std::int64_t> common;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    EXPECT_GE(common.size(), 9U) << later;
  }
}

}  // namespace
}  // namespace commlens
