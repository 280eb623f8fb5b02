#pragma once
#include <vector>

#include "commlens/machine/cost/call.hpp"

namespace commlens {

/// How NCCL carries one exchange with each peer: send, recv and all_to_all.
struct PeerChannels {
  bool is_ll = false;
  std::int64_t used = 1;  // channels of one peer
  double bytes_per_channel = 0;
  double most_bytes_per_channel = 0;  // of this and all smaller calls: more channels make shares smaller
};

/// Source: NVIDIA/nccl src/enqueue.cc:859, 905-935, src/init.cc:818-850, src/graph/paths.cc:918-1005.
PeerChannels peer_channels(const TimedCall& call);

/// Deltas between groups of eight ranks in the order of the rounds: group g sends to g + delta.
/// Source: NVIDIA/nccl src/init.cc:890-955.
std::vector<std::int64_t> peer_group_deltas(std::int64_t groups);

}  // namespace commlens
