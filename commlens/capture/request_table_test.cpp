#include "commlens/capture/request_table.hpp"

#include <gtest/gtest.h>

namespace commlens::capture {
namespace {

PendingCall call_of(std::uint64_t key, Recorder::Slot slot) {
  PendingCall call;
  call.key = key;
  call.slot = slot;
  return call;
}

TEST(RequestTable, ForgetsWhatWasRemoved) {
  RequestTable table;
  table.add(call_of(7, 1));
  table.remove(7);
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_EQ(table.count(), 0U);
}

TEST(RequestTable, EndsTheOldestOfAHandleThatStandsForSeveral) {
  RequestTable table;
  for (Recorder::Slot slot = 0; slot < 3; ++slot) {
    table.add(call_of(7, slot));
  }
  for (Recorder::Slot slot = 0; slot < 3; ++slot) {
    ASSERT_NE(table.find(7), nullptr);
    EXPECT_EQ(table.find(7)->slot, slot);
    table.remove(7);
  }
  EXPECT_EQ(table.find(7), nullptr);
}

TEST(RequestTable, KeepsEveryHandleAndItsOrderWhileItGrows) {
  // 5000 handles twice: well over the 1024 chains it starts with. Multiples of 64 look like addresses.
  RequestTable table;
  for (Recorder::Slot slot = 0; slot < 10'000; ++slot) {
    ASSERT_TRUE(table.add(call_of(64 * (slot % 5000), slot)));
  }
  for (Recorder::Slot slot = 0; slot < 10'000; ++slot) {
    const std::uint64_t key = 64 * (slot % 5000);
    ASSERT_NE(table.find(key), nullptr) << key;
    ASSERT_EQ(table.find(key)->slot, slot);
    table.remove(key);
  }
  EXPECT_EQ(table.count(), 0U);
}

TEST(RequestTable, TakesNoMoreThanItsLimit) {
  RequestTable table;
  for (std::size_t added = 0; added < RequestTable::k_most; ++added) {
    ASSERT_TRUE(table.add(call_of(added, added)));
  }
  EXPECT_FALSE(table.add(call_of(1, 1)));
  table.remove(5);
  EXPECT_TRUE(table.add(call_of(1, 1)));
}

TEST(RequestTable, RemovingAnUnknownHandleChangesNothing) {
  RequestTable table;
  table.add(call_of(1, 1));
  table.remove(2);
  EXPECT_EQ(table.count(), 1U);
}

}  // namespace
}  // namespace commlens::capture
