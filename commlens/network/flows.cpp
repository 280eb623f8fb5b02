#include "commlens/network/flows.hpp"

#include <algorithm>
#include <functional>
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

FlowNetwork::FlowNetwork(std::vector<double> capacities) : links_(std::move(capacities)) {
  on_link_.resize(links_.capacities().size());
}

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

void FlowNetwork::affect(FlowId id) {
  State& state = states_[id];
  state.is_affected = true;
  state.left = std::max(0.0, state.left - state.rate * (now_ - state.since));
  state.since = now_;
}

std::vector<FlowId> FlowNetwork::take_affected() {
  std::vector<FlowId> affected;
  std::vector<LinkId> links = std::move(changed_);
  changed_.clear();
  for (std::size_t at = 0; at < links.size(); ++at) {
    for (const FlowId id : on_link_[static_cast<std::size_t>(links[at])]) {
      if (!states_[id].is_affected) {
        affect(id);
        affected.push_back(id);
        links.insert(links.end(), states_[id].flow.links.begin(), states_[id].flow.links.end());
      }
    }
  }
  std::ranges::sort(affected);  // the same sums whatever the order of the links
  return affected;
}

void FlowNetwork::solve() {
  if (changed_.empty()) {
    return;
  }
  const std::vector<FlowId> affected = take_affected();
  links_.clear();
  for (const FlowId id : affected) {
    const FlowClass& flow = states_[id].flow;
    uses_.clear();
    for (const LinkId link : flow.links) {
      uses_.push_back({.link = link, .amount = static_cast<double>(flow.messages)});
    }
    links_.add(uses_, flow.weight);
  }
  const std::span<const double> rates = links_.solve();
  for (std::size_t at = 0; at < affected.size(); ++at) {
    State& state = states_[affected[at]];
    state.is_affected = false;
    state.rate = rates[at];
    state.end = now_ + state.left / state.rate;
    ++state.solved;
    plan_end(affected[at]);
  }
  solved_rates_ += static_cast<std::int64_t>(affected.size());
}

void FlowNetwork::plan_end(FlowId id) {
  constexpr std::size_t k_few = 64;
  planned_.push_back({states_[id].end, id, states_[id].solved});
  if (planned_.size() <= 2 * moving_ + k_few) {
    std::ranges::push_heap(planned_, std::greater<>());
    return;
  }
  std::erase_if(planned_, [&](const PlannedEnd& end) { return end.solved != states_[end.flow].solved; });
  std::ranges::make_heap(planned_, std::greater<>());
}

const FlowNetwork::PlannedEnd* FlowNetwork::first_end() {
  while (!planned_.empty() && planned_.front().solved != states_[planned_.front().flow].solved) {
    std::ranges::pop_heap(planned_, std::greater<>());
    planned_.pop_back();
  }
  return planned_.empty() ? nullptr : &planned_.front();
}

std::optional<double> FlowNetwork::next_change_seconds() {
  solve();
  std::optional<double> next;
  if (!waiting_.empty()) {
    next = states_[waiting_.front()].first_byte;
  }
  if (const PlannedEnd* const end = first_end(); end != nullptr) {
    next = std::min(next.value_or(end->seconds), end->seconds);
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
    ++moving_;
    states_[id].since = now_;
    for (const LinkId link : states_[id].flow.links) {
      on_link_[static_cast<std::size_t>(link)].push_back(id);
      changed_.push_back(link);
    }
  }
}

void FlowNetwork::leave_links(FlowId id) {
  State& state = states_[id];
  for (const LinkId link : state.flow.links) {
    std::vector<FlowId>& classes = on_link_[static_cast<std::size_t>(link)];
    if (const auto found = std::ranges::find(classes, id); found != classes.end()) {
      *found = classes.back();
      classes.pop_back();
    }
    changed_.push_back(link);
  }
  --moving_;
  ++state.solved;  // no planned end holds any more
  state.rate = 0;
  state.flow.links = {};
}

void FlowNetwork::end_due(std::vector<FlowEnd>& ends) {
  for (const PlannedEnd* end = first_end(); end != nullptr && is_due(end->seconds, now_); end = first_end()) {
    COMMLENS_CHECK(is_due(now_, end->seconds), "no end is passed over");
    ends.push_back({end->flow, now_});
    leave_links(end->flow);
  }
}

std::vector<FlowEnd> FlowNetwork::advance(double seconds) {
  COMMLENS_CHECK(is_due(now_, seconds), "time does not go back");
  solve();
  now_ = std::max(now_, seconds);
  COMMLENS_CHECK(waiting_.empty() || is_due(now_, states_[waiting_.front()].first_byte),
                 "no beginning is passed over");
  std::vector<FlowEnd> ends;
  end_due(ends);
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
