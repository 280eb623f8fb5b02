#include "commlens/network/flows.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

// Ends and starts that are closer than this, relative to the time, are one event: sums of times are rounded.
constexpr double k_same_time = 1e-13;

bool is_due(double seconds, double now) { return seconds <= now + k_same_time * now; }

}  // namespace

FlowNetwork::FlowNetwork(std::vector<double> capacities) : links_(std::move(capacities)) {}

bool FlowNetwork::begins_later(FlowId a, FlowId b) const {
  return std::pair(states_[a].first_byte, a) > std::pair(states_[b].first_byte, b);
}

FlowId FlowNetwork::add(double seconds, FlowClass flow) {
  COMMLENS_CHECK(is_due(now_, seconds), "messages start now or later");
  COMMLENS_CHECK(flow.bytes >= 0 && flow.messages > 0 && flow.latency_seconds >= 0 && flow.weight > 0,
                 "messages have a size, a number and a weight");
  const FlowId id = states_.size();
  const double first_byte = seconds + flow.latency_seconds;
  const double bytes = flow.bytes;
  states_.push_back({.flow = std::move(flow), .first_byte = first_byte, .left = bytes});
  waiting_.push_back(id);
  std::ranges::push_heap(waiting_, [this](FlowId a, FlowId b) { return begins_later(a, b); });
  return id;
}

void FlowNetwork::solve() {
  if (is_solved_) {
    return;
  }
  links_.clear();
  for (const FlowId id : moving_) {
    const FlowClass& flow = states_[id].flow;
    uses_.clear();
    for (const LinkId link : flow.links) {
      uses_.push_back({.link = link, .amount = static_cast<double>(flow.messages)});
    }
    links_.add(uses_, flow.weight);
  }
  const std::span<const double> rates = links_.solve();
  for (std::size_t at = 0; at < moving_.size(); ++at) {
    State& state = states_[moving_[at]];
    state.rate = rates[at];
    state.end = now_ + state.left / state.rate;
  }
  is_solved_ = true;
  ++solutions_;
}

std::optional<double> FlowNetwork::next_change_seconds() {
  std::optional<double> next;
  if (!waiting_.empty()) {
    next = states_[waiting_.front()].first_byte;
  }
  solve();
  for (const FlowId id : moving_) {
    next = std::min(next.value_or(states_[id].end), states_[id].end);
  }
  if (next) {
    next = std::max(*next, now_);
  }
  return next;
}

void FlowNetwork::begin_due(std::vector<FlowEnd>& ends) {
  while (!waiting_.empty() && is_due(states_[waiting_.front()].first_byte, now_)) {
    std::ranges::pop_heap(waiting_, [this](FlowId a, FlowId b) { return begins_later(a, b); });
    const FlowId id = waiting_.back();
    waiting_.pop_back();
    if (states_[id].flow.links.empty() || states_[id].left == 0) {
      ends.push_back({id, now_});
      continue;
    }
    moving_.push_back(id);
    is_solved_ = false;
  }
}

std::vector<FlowEnd> FlowNetwork::advance(double seconds) {
  COMMLENS_CHECK(is_due(now_, seconds), "time does not go back");
  solve();
  std::vector<FlowEnd> ends;
  std::erase_if(moving_, [&](FlowId id) {
    State& state = states_[id];
    if (is_due(state.end, seconds)) {
      COMMLENS_CHECK(is_due(seconds, state.end), "no end is passed over");
      ends.push_back({id, seconds});
      state.flow.links = {};
      state.rate = 0;
      is_solved_ = false;
      return true;
    }
    state.left = std::max(0.0, state.left - state.rate * (seconds - now_));
    return false;
  });
  now_ = std::max(now_, seconds);
  COMMLENS_CHECK(waiting_.empty() || is_due(now_, states_[waiting_.front()].first_byte),
                 "no beginning is passed over");
  begin_due(ends);
  std::ranges::sort(ends, {}, &FlowEnd::flow);
  return ends;
}

double FlowNetwork::rate(FlowId flow) {
  solve();
  return states_[flow].rate;
}

std::vector<double> finish_times(std::vector<double> capacities, std::span<const TimedFlow> flows) {
  const GroupedFlows groups = grouped(flows);
  FlowNetwork network(std::move(capacities));
  for (const TimedFlow& flow : groups.classes) {
    network.add(flow.start_seconds, flow.flow);
  }
  std::vector<double> end_of(groups.classes.size());
  while (const std::optional<double> change = network.next_change_seconds()) {
    for (const FlowEnd& end : network.advance(*change)) {
      end_of[end.flow] = end.seconds;
    }
  }
  std::vector<double> times;
  times.reserve(flows.size());
  for (const std::size_t at : groups.class_of) {
    times.push_back(end_of[at]);
  }
  return times;
}

GroupedFlows grouped(std::span<const TimedFlow> flows) {
  using Key = std::tuple<std::vector<LinkId>, double, double, double, double>;
  std::map<Key, std::size_t> places;
  GroupedFlows groups;
  groups.class_of.reserve(flows.size());
  for (const TimedFlow& timed : flows) {
    std::vector<LinkId> links = timed.flow.links;
    std::ranges::sort(links);
    const auto [entry, is_new] =
        places.try_emplace(Key(std::move(links), timed.start_seconds, timed.flow.bytes,
                               timed.flow.latency_seconds, timed.flow.weight),
                           groups.classes.size());
    groups.class_of.push_back(entry->second);
    if (is_new) {
      groups.classes.push_back(timed);
      groups.classes.back().flow.links = std::get<0>(entry->first);
    } else {
      groups.classes[entry->second].flow.messages += timed.flow.messages;
    }
  }
  return groups;
}

}  // namespace commlens
