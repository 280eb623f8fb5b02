#pragma once
#include <cstdint>
#include <memory>

#include "commlens/base/rank.hpp"
#include "commlens/transport/call_watch.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Mixes numbers into a key (splitmix64); never 0.
std::uint64_t mixed_key(std::uint64_t key, std::uint64_t number);

/// The key of the sends, or of the recvs, from one rank of a group to another.
std::uint64_t message_key(std::uint64_t group, GroupRank from, GroupRank to, CommKind side);

/// The rank of the job that holds this communicator.
std::int64_t rank_in(const Communicator& group);

/// CallWatch::watched: `key` is that of the group of all ranks.
std::unique_ptr<Communicator> watched_communicator(std::unique_ptr<Communicator> world,
                                                   std::shared_ptr<CallWatch> watch, std::uint64_t key);

}  // namespace commlens
