#include "commlens/simulate/timeline/call_speeds.hpp"

#include <algorithm>

#include "commlens/comm/volume.hpp"

namespace commlens {

CallSpeeds::CallSpeeds(const Topology& topology, const Plan& plan, const SimulatedRanks& ranks)
    : plan_(plan), ranks_(ranks), links_(topology.capacities()) {
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

const CallSpeeds::User& CallSpeeds::user_of(const MovingCall& call) {
  const std::tuple key(call.op, call.channel, call.alone);
  const auto known = users_.find(key);
  return known != users_.end() ? known->second : users_.emplace(key, new_user(call)).first->second;
}

std::vector<double> CallSpeeds::of(std::span<const MovingCall> calls) {
  links_.clear();
  for (const MovingCall& call : calls) {
    const User& user = user_of(call);
    links_.add(user.uses, user.weight, 1);
  }
  const std::span<const double> solved = links_.solve();
  std::vector<double> speeds;
  for (const double speed : solved) {
    speeds.push_back(static_cast<float>(speed));
  }
  return speeds;
}

}  // namespace commlens
