#include "commlens/simulate/timeline/call_speeds.hpp"

#include <algorithm>
#include <utility>

#include "commlens/comm/volume.hpp"
#include "commlens/simulate/timeline/link_classes.hpp"

namespace commlens {

CallSpeeds::CallSpeeds(const Topology& topology, const Plan& plan, const SimulatedRanks& ranks)
    : plan_(plan),
      ranks_(ranks),
      links_(topology.capacities()),
      on_link_(links_.capacities().size()),
      is_visited_(links_.capacities().size(), false) {
  for (std::size_t link = 0; link < links_.capacities().size(); ++link) {
    is_between_.push_back(is_between_nodes(topology.link(static_cast<LinkId>(link)).kind));
  }
}

CallSpeeds::User CallSpeeds::new_user(const MovingCall& call) const {
  const CommOp& op = plan_.tables.op(call.op);
  const Channel& channel = ranks_.channels[call.channel];
  const std::optional<CallPattern> pattern = pattern_of(op);
  const auto loads = pattern ? channel.loads.find(*pattern) : channel.loads.end();
  User user;
  if (call.alone <= 0 || loads == channel.loads.end()) {
    return user;
  }
  const double seconds = static_cast<double>(call.alone) / k_ticks_per_second;
  const double rate =
      static_cast<double>(message_bytes(op).value) * share_of_hop(op.kind, channel.place) / seconds;
  user.weight = 1 / rate;
  for (const SharedLoad& load : loads->second) {
    const auto link = static_cast<std::size_t>(load.link);
    const double needed = rate * static_cast<double>(load.streams);
    const double taken = is_between_[link] ? needed : std::min(needed, links_.capacities()[link]);
    user.uses.push_back({load.link, taken * static_cast<double>(load.groups)});
  }
  return user;
}

std::size_t CallSpeeds::HashKey::operator()(const Key& key) const {
  const auto op = static_cast<std::uint64_t>(key.op);
  return scattered(scattered((op << 32U) | key.channel) + static_cast<std::uint64_t>(key.alone));
}

CallSpeeds::UserId CallSpeeds::user_of(const MovingCall& call) {
  const auto [known, is_new] =
      known_.try_emplace({call.op, call.channel, call.alone}, static_cast<UserId>(users_.size()));
  if (is_new) {
    users_.push_back(new_user(call));
  }
  return known->second;
}

void CallSpeeds::affect_users_of(LinkId link, std::vector<UserId>& affected) {
  for (const UserId id : on_link_[static_cast<std::size_t>(link)]) {
    if (!std::exchange(users_[id].is_affected, true)) {
      affected.push_back(id);
    }
  }
}

/// Users with calls under way that share links with the changed ones, directly or through others.
std::vector<CallSpeeds::UserId> CallSpeeds::take_affected(std::span<const UserId> changed) {
  std::vector<UserId> affected;
  std::vector<LinkId> visited;
  const auto visit_links_of = [&](UserId id) {
    for (const LinkUse& use : users_[id].uses) {
      if (!is_visited_[static_cast<std::size_t>(use.link)]) {
        is_visited_[static_cast<std::size_t>(use.link)] = true;
        visited.push_back(use.link);
        affect_users_of(use.link, affected);
      }
    }
  };
  for (const UserId id : changed) {
    visit_links_of(id);
  }
  for (std::size_t at = 0; at < affected.size(); ++at) {
    visit_links_of(affected[at]);
  }
  for (const LinkId link : visited) {
    is_visited_[static_cast<std::size_t>(link)] = false;
  }
  std::ranges::sort(affected);  // the same sums whatever the order of the links
  return affected;
}

std::vector<double> CallSpeeds::of(std::span<const MovingCall> calls) {
  std::vector<UserId> now;
  std::vector<UserId> changed;
  for (const MovingCall& call : calls) {
    now.push_back(user_of(call));
    ++users_[now.back()].moving;
  }
  const auto add_changed = [&](UserId id) {
    User& user = users_[id];
    if (user.moving == user.before) {
      return;
    }
    changed.push_back(id);
    for (const LinkUse& use : user.uses) {
      std::vector<UserId>& users = on_link_[static_cast<std::size_t>(use.link)];
      if (user.before == 0) {
        users.push_back(id);
      } else if (user.moving == 0) {
        std::erase(users, id);
      }
    }
    user.before = user.moving;
  };
  std::ranges::for_each(now, add_changed);
  std::ranges::for_each(earlier_, add_changed);
  const std::vector<UserId> affected = take_affected(changed);
  links_.clear();
  for (const UserId id : affected) {
    for (std::int64_t call = 0; call < users_[id].moving; ++call) {
      links_.add(users_[id].uses, users_[id].weight, 1);
    }
  }
  const std::span<const double> solved = links_.solve();
  std::size_t at = 0;
  for (const UserId id : affected) {
    users_[id].is_affected = false;
    users_[id].speed = static_cast<float>(solved[at]);
    at += static_cast<std::size_t>(users_[id].moving);
  }
  std::vector<double> speeds;
  for (const UserId id : now) {
    speeds.push_back(users_[id].speed);
    users_[id].moving = 0;
  }
  earlier_ = std::move(now);
  return speeds;
}

}  // namespace commlens
