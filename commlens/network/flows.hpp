#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "commlens/network/contention.hpp"
#include "commlens/network/max_min.hpp"

namespace commlens {

/// Equal messages: of one size, over the same links, begun together.
struct FlowClass {
  std::vector<LinkId> links;   // each message takes; one that stands twice is taken twice
  double bytes = 0;            // of one message
  std::int64_t messages = 1;   // how many there are
  double latency_seconds = 0;  // before the first byte takes its share
  double weight = 1;           // of each message's share; SimGrid's CM02 has 1 / latency
};

/// A class of messages with the time at which it starts.
struct TimedFlow {
  double start_seconds = 0;
  FlowClass flow;
};

/// A class, or a transfer, that was added to a FlowNetwork, numbered from 0.
using FlowId = std::size_t;

/// A class all of whose messages have arrived.
struct FlowEnd {
  FlowId flow = 0;
  double seconds = 0;
};

/// Messages that share links, as a simulator plays them: rates are max-min fair among the messages that are
/// under way (a fluid model). When some begin or end, the rates of those that share links with them, directly
/// or through others, are worked out again. The caller owns the clock:
///
///   while (const std::optional<double> change = network.next_change_seconds()) {
///     const double now = std::min(*change, next_event_of_my_own);
///     for (const FlowEnd& end : network.advance(now)) { … network.add(now, …); … }
///   }
class FlowNetwork {
 public:
  /// Bytes per second of the links 0, 1, ….
  explicit FlowNetwork(std::vector<double> capacities);

  /// Adds messages that start at `seconds`, now or later. Messages over no links, or of no bytes, end after
  /// their latency.
  FlowId add(double seconds, const FlowClass& flow);

  /// Adds a call or message that takes `alone_seconds` while it is alone, its latency with them, and shares
  /// links as SharedLinks says. Its rate is its speed, at most 1.
  FlowId add(double seconds, const ActiveTransfer& transfer, double alone_seconds);

  /// The first time from now on at which a class ends or its first bytes begin to share links, if nothing
  /// else is added; std::nullopt where nothing is left.
  std::optional<double> next_change_seconds();

  /// Moves the clock to `seconds`, at most to the next change. Returns the classes that end then, by number.
  std::vector<FlowEnd> advance(double seconds);

  double now_seconds() const { return now_; }

  /// Bytes per second of one message of the class now, or the speed of a transfer; 0 before its first byte
  /// and after its end.
  double rate(FlowId flow);

  /// How many rates of classes were worked out so far.
  std::int64_t solved_rates() const { return solved_rates_; }

 private:
  struct State {
    std::vector<LinkUse> uses;  // for each unit of the rate
    double weight = 1;
    double cap = MaxMin::k_no_cap;
    double first_byte = 0;  // seconds
    double left = 0;        // bytes of one message, or seconds of a transfer that is alone, at `since`
    double since = 0;       // seconds; when it had this rate first
    double rate = 0;
    double end = 0;          // seconds, at this rate
    std::int32_t rates = 0;  // how many it has had
    bool is_affected = false;
  };
  /// The end of a class at its n-th rate; of no meaning when it has had another since.
  struct PlannedEnd {
    double seconds = 0;
    FlowId flow = 0;
    std::int32_t rates = 0;
    friend auto operator<=>(const PlannedEnd&, const PlannedEnd&) = default;
  };

  FlowId add_state(State state);
  void solve();
  std::vector<FlowId> take_affected();
  void visit(LinkId link, std::vector<LinkId>& visited);
  void visit_links_of(FlowId id, std::vector<LinkId>& visited);
  void set_rate(FlowId id, double rate);
  void begin_due(std::vector<FlowEnd>& ends);
  void end_due(std::vector<FlowEnd>& ends);
  void leave_links(FlowId id);
  void plan_end(FlowId id);
  /// The first planned end that still holds; null if there is none.
  const PlannedEnd* first_end();
  bool begins_later(FlowId a, FlowId b) const;

  MaxMin links_;
  TransferLoads loads_;
  std::vector<State> states_;
  std::vector<FlowId> waiting_;               // a heap: the first to begin in front
  std::vector<PlannedEnd> planned_;           // a heap: the first end in front
  std::vector<std::vector<FlowId>> on_link_;  // classes under way that take each link
  std::vector<LinkId> changed_;   // links whose classes are others than when rates were worked out
  std::vector<bool> is_visited_;  // of each link, while affected classes are sought
  std::size_t moving_ = 0;        // classes under way
  double now_ = 0;
  std::int64_t solved_rates_ = 0;
};

/// Seconds at which each class ends when nothing else shares the links.
std::vector<double> finish_times(std::vector<double> capacities, std::span<const TimedFlow> flows);

/// Classes of equal flows for each of the given ones: flows of the same start, links (in any order), size,
/// latency and weight become one with the sum of their messages. `class_of` has, for each given flow, the
/// place of its class.
struct GroupedFlows {
  std::vector<TimedFlow> classes;
  std::vector<std::size_t> class_of;
};
GroupedFlows grouped(std::span<const TimedFlow> flows);

}  // namespace commlens
