#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "commlens/network/max_min.hpp"
#include "commlens/network/topology.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/timeline/rank_classes.hpp"
#include "commlens/simulate/timeline/timeline.hpp"

namespace commlens {

/// How fast calls that are under way at the same time move over the links of a job, of what they do alone:
/// weighted max-min, as SharedLinks has it (network/contention.hpp), with one user for all groups of a
/// channel, since these move at the same times. A group that by itself needs more of a node's link or NIC
/// than there is counts as filling it: times of calls know these. What they do not know are links between
/// nodes: of those a call takes what it needs, and waits.
///
/// When some calls begin or end, the speeds of those that share links with them, directly or through others,
/// are worked out again; the others keep theirs.
class CallSpeeds {
 public:
  /// The ranks are those of this topology. All outlive it.
  CallSpeeds(const Topology& topology, const Plan& plan, const SimulatedRanks& ranks);

  /// The speed of each call, as numbers of single precision: the same whatever the order of sums.
  std::vector<double> of(std::span<const MovingCall> calls);

 private:
  using UserId = std::uint32_t;
  struct User {
    std::vector<LinkUse> uses;
    double weight = 1;
    double speed = 1;
    std::int64_t moving = 0;  // calls that are this user, under way now
    std::int64_t before = 0;  // the same when speeds were worked out last
    bool is_affected = false;
  };
  struct Key {
    OpId op{};
    ChannelId channel = 0;
    Ticks alone = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };
  UserId user_of(const MovingCall& call);
  User new_user(const MovingCall& call) const;
  std::vector<UserId> take_affected(std::span<const UserId> changed);
  void affect_users_of(LinkId link, std::vector<UserId>& affected);

  const Plan& plan_;
  const SimulatedRanks& ranks_;
  MaxMin links_;
  std::vector<bool> is_between_;  // by link
  std::unordered_map<Key, UserId, HashKey> known_;
  std::vector<User> users_;
  std::vector<std::vector<UserId>> on_link_;  // users with calls under way that take each link
  std::vector<bool> is_visited_;              // of each link, while affected users are sought
  std::vector<UserId> earlier_;               // users that had calls when speeds were worked out last
};

}  // namespace commlens
