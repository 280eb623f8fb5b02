#include "commlens/trace/op_cache.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(OpCache, IsEmptyAtFirst) { EXPECT_EQ(OpCache().find({0, 0, 0, 0, 0}), OpCache::k_absent); }

TEST(OpCache, TellsKeysApartByEachWord) {
  OpCache cache;
  const OpCache::Key key = {1, 2, 3, 4, 5, 6};
  cache.insert(key, 7);
  EXPECT_EQ(cache.find(key), 7U);
  for (std::size_t word = 0; word < key.size(); ++word) {
    OpCache::Key other = key;
    ++other[word];
    EXPECT_EQ(cache.find(other), OpCache::k_absent) << "word " << word;
  }
}

TEST(OpCache, KeepsEveryRowWhileItGrows) {
  OpCache cache;
  for (std::uint32_t row = 0; row < 10'000; ++row) {
    cache.insert({row, row / 2, 0, 0, 0}, row);
  }
  for (std::uint32_t row = 0; row < 10'000; ++row) {
    ASSERT_EQ(cache.find({row, row / 2, 0, 0, 0}), row);
  }
}

}  // namespace
}  // namespace commlens
