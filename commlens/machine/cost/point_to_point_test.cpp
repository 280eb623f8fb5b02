#include "commlens/machine/cost/point_to_point.hpp"

#include <gtest/gtest.h>

namespace commlens {
namespace {

PeerChannels exchange_of(std::int64_t bytes, std::int64_t ranks) {
  return peer_channels({CommKind::all_to_all, Bytes{bytes}, DType::fp16, {ranks, 1}});
}

TEST(PeerChannels, EndLlAtSixteenKibibytesAPeer) {
  EXPECT_TRUE(exchange_of(131'072, 8).is_ll);
  EXPECT_FALSE(exchange_of(262'144, 8).is_ll);
  EXPECT_TRUE(exchange_of(32'768, 2).is_ll);
  EXPECT_FALSE(exchange_of(65'536, 2).is_ll);
}

// 32 channels over 8 peers are 4 a peer; 16 MiB over 8 peers are 2 MiB a peer, 512 KiB a channel.
TEST(PeerChannels, ShareTheChannelsOfAllPeers) {
  EXPECT_EQ(exchange_of(16 << 20, 8).used, 4);
  EXPECT_EQ(exchange_of(16 << 20, 8).bytes_per_channel, 524'288);
  EXPECT_EQ(exchange_of(4096, 8).used, 1);
}

TEST(PeerGroupDeltas, FollowTriangularNumbers) {
  EXPECT_EQ(peer_group_deltas(16),
            (std::vector<std::int64_t>{0, 1, 3, 6, 10, 15, 5, 12, 4, 13, 7, 2, 14, 11, 9, 8}));
  EXPECT_EQ(peer_group_deltas(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(peer_group_deltas(1), (std::vector<std::int64_t>{0}));
}

}  // namespace
}  // namespace commlens
