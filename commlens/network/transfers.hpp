#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/network/contention.hpp"
#include "commlens/network/topology.hpp"

namespace commlens {

/// A message of a call, from one rank to another.
struct Hop {
  Rank from;
  Rank to;
};

/// The messages of `channels` rings of `group`, in its order: each rank sends to the next, the last to the
/// first; inside each node the next ring starts at the next rank, so that each leaves the node by another NIC
/// (as NCCL's do).
std::vector<Hop> ring_hops(const Topology& topology, std::span<const Rank> group, std::int64_t channels = 1);

/// The messages of an exchange: each rank of `group` sends to every other.
std::vector<Hop> exchange_hops(std::span<const Rank> group);

/// What messages take of the links, by link. `bytes_per_second`: of each message.
ActiveTransfer hops_transfer(const Topology& topology, std::span<const Hop> hops, double bytes_per_second);

/// What a message takes of the links. `bytes_per_second`: its bytes over its uncontended seconds.
ActiveTransfer message_transfer(const Topology& topology, Rank from, Rank to, double bytes_per_second);

/// What a ring of `group` takes. `bytes_per_second`: what a rank sends, over the uncontended seconds.
/// `channels`: rings that share it evenly.
ActiveTransfer ring_transfer(const Topology& topology, std::span<const Rank> group, double bytes_per_second,
                             std::int64_t channels = 1);

/// What an exchange takes in which each rank of `group` sends to every other at once (all_to_all, or an
/// all_gather without a ring). `bytes_per_second`: what a rank sends to one other, over the uncontended
/// seconds.
ActiveTransfer exchange_transfer(const Topology& topology, std::span<const Rank> group,
                                 double bytes_per_second);

}  // namespace commlens
