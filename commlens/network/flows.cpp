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

FlowNetwork::FlowNetwork(std::vector<double> capacities)
    : links_(std::move(capacities)),
      loads_(links_.capacities().size()),
      on_link_(links_.capacities().size()),
      is_visited_(links_.capacities().size(), false) {}

bool FlowNetwork::begins_later(FlowId a, FlowId b) const {
  return std::pair(states_[a].first_byte, a) > std::pair(states_[b].first_byte, b);
}

FlowId FlowNetwork::add_state(State state) {
  COMMLENS_CHECK(is_due(now_, state.first_byte), "messages start now or later");
  const FlowId id = states_.size();
  states_.push_back(std::move(state));
  waiting_.push_back(id);
  std::ranges::push_heap(waiting_, [this](FlowId a, FlowId b) { return begins_later(a, b); });
  return id;
}

FlowId FlowNetwork::add(double seconds, const FlowClass& flow) {
  COMMLENS_CHECK(flow.bytes >= 0 && flow.messages > 0 && flow.latency_seconds >= 0 && flow.weight > 0,
                 "messages have a size, a number and a weight");
  State state{.weight = flow.weight, .first_byte = seconds + flow.latency_seconds, .left = flow.bytes};
  state.uses.reserve(flow.links.size());
  for (const LinkId link : flow.links) {
    state.uses.push_back({.link = link, .amount = static_cast<double>(flow.messages)});
  }
  return add_state(std::move(state));
}

FlowId FlowNetwork::add(double seconds, const ActiveTransfer& transfer, double alone_seconds) {
  COMMLENS_CHECK(alone_seconds >= 0, "a transfer takes time");
  const std::span<const LinkUse> uses = loads_.of(transfer, links_.capacities());
  if (uses.empty()) {
    return add_state({.first_byte = seconds + alone_seconds});
  }
  return add_state({.uses = {uses.begin(), uses.end()},
                    .weight = TransferLoads::weight(transfer),
                    .cap = 1,
                    .first_byte = seconds,
                    .left = alone_seconds});
}

void FlowNetwork::set_rate(FlowId id, double rate) {
  State& state = states_[id];
  if (rate == state.rate) {
    return;  // and its end stays as it was worked out, without rounding again
  }
  state.left = std::max(0.0, state.left - state.rate * (now_ - state.since));
  state.since = now_;
  state.rate = rate;
  state.end = now_ + state.left / rate;
  ++state.rates;
  plan_end(id);
}

void FlowNetwork::visit(LinkId link, std::vector<LinkId>& visited) {
  if (!is_visited_[static_cast<std::size_t>(link)]) {
    is_visited_[static_cast<std::size_t>(link)] = true;
    visited.push_back(link);
  }
}

void FlowNetwork::visit_links_of(FlowId id, std::vector<LinkId>& visited) {
  for (const LinkUse& use : states_[id].uses) {
    visit(use.link, visited);
  }
}

std::vector<FlowId> FlowNetwork::take_affected() {
  std::vector<LinkId> links;
  for (const LinkId link : changed_) {
    visit(link, links);
  }
  changed_.clear();
  std::vector<FlowId> affected;
  for (std::size_t at = 0; at < links.size(); ++at) {
    for (const FlowId id : on_link_[static_cast<std::size_t>(links[at])]) {
      if (!std::exchange(states_[id].is_affected, true)) {
        affected.push_back(id);
        visit_links_of(id, links);
      }
    }
  }
  for (const LinkId link : links) {
    is_visited_[static_cast<std::size_t>(link)] = false;
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
    links_.add(states_[id].uses, states_[id].weight, states_[id].cap);
  }
  const std::span<const double> rates = links_.solve();
  for (std::size_t at = 0; at < affected.size(); ++at) {
    states_[affected[at]].is_affected = false;
    set_rate(affected[at], rates[at]);
  }
  solved_rates_ += static_cast<std::int64_t>(affected.size());
}

void FlowNetwork::plan_end(FlowId id) {
  constexpr std::size_t k_few = 64;
  planned_.push_back({states_[id].end, id, states_[id].rates});
  if (planned_.size() <= 2 * moving_ + k_few) {
    std::ranges::push_heap(planned_, std::greater<>());
    return;
  }
  std::erase_if(planned_, [&](const PlannedEnd& end) { return end.rates != states_[end.flow].rates; });
  std::ranges::make_heap(planned_, std::greater<>());
}

const FlowNetwork::PlannedEnd* FlowNetwork::first_end() {
  while (!planned_.empty() && planned_.front().rates != states_[planned_.front().flow].rates) {
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
    if (states_[id].uses.empty() || states_[id].left == 0) {
      ends.push_back({id, now_});
      continue;
    }
    ++moving_;
    states_[id].since = now_;
    for (const LinkUse& use : states_[id].uses) {
      on_link_[static_cast<std::size_t>(use.link)].push_back(id);
      changed_.push_back(use.link);
    }
  }
}

void FlowNetwork::leave_links(FlowId id) {
  State& state = states_[id];
  for (const LinkUse& use : state.uses) {
    std::vector<FlowId>& classes = on_link_[static_cast<std::size_t>(use.link)];
    if (const auto found = std::ranges::find(classes, id); found != classes.end()) {
      *found = classes.back();
      classes.pop_back();
    }
    changed_.push_back(use.link);
  }
  --moving_;
  ++state.rates;  // no planned end holds any more
  state.rate = 0;
  state.uses = {};
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
