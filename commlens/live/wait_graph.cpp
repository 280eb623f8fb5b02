#include "commlens/live/wait_graph.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace commlens {
namespace {

/// Finds the points of a job.
class GraphBuilder {
 public:
  explicit GraphBuilder(const JobProgress& job) : job_(job) {
    graph_.ranks.resize(job.ranks.size());
    for (std::size_t row = 0; row < job.ranks.size(); ++row) {
      rows_.emplace(job.ranks[row].state.rank, row);
    }
  }

  WaitGraph build() {
    for (std::size_t row = 0; row < job_.ranks.size(); ++row) {
      const RankProgress& rank = job_.ranks[row];
      if (!rank.state.has_ended && !rank.is_halted && rank.is_known()) {
        add(row);
      }
    }
    for (std::size_t point = 0; point < graph_.points.size(); ++point) {
      const WaitPoint& made = graph_.points[point];
      for (const std::size_t row : made.waiting) {
        WaitGraph::Node& node = graph_.ranks[row];
        (made.missing.empty() && !waits_for_any(made) ? node.inside : node.points).push_back(point);
      }
      for (const std::size_t row : made.missing) {
        graph_.ranks[row].missing_in.push_back(point);
      }
      if (waits_for_any(made)) {
        graph_.any_points.push_back(point);
      }
    }
    return std::move(graph_);
  }

 private:
  bool waits_for_any(const WaitPoint& point) const { return point.takes_any() && job_.ranks.size() > 1; }

  /// The calls in which a rank waits. Collectives of a communicator take place one after the other, so that
  /// of its requests the first counts, and of receives from any rank one is like the other.
  void add(std::size_t row) {
    const std::vector<SeenCall>& open = job_.ranks[row].open;
    const bool is_blocked =
        std::any_of(open.begin(), open.end(), [](const SeenCall& call) { return call.is_blocking(); });
    graph_.ranks[row].has_requests_alone = !is_blocked && !open.empty();
    std::set<std::pair<CallPart, std::size_t>> seen;
    for (const SeenCall& call : open) {
      const bool is_alike = call.part == CallPart::collective || call.part == CallPart::receive_any;
      const bool is_first = !is_alike || seen.emplace(call.part, call.channel).second;
      const bool is_other_thread = is_blocked && call.part == CallPart::collective;
      if (call.is_blocking() == is_blocked && (is_first || is_other_thread)) {
        enter(row, call);
      }
    }
  }

  void enter(std::size_t row, const SeenCall& call) {
    const bool is_shared = call.part == CallPart::collective;
    const auto key = std::tuple(call.channel, call.number, is_shared ? SIZE_MAX : row, call.part);
    const bool meets = call.channel != k_no_channel;
    if (const auto known = meets ? points_.find(key) : points_.end(); known != points_.end()) {
      add_waiting(row, call, graph_.points[known->second]);
      return;
    }
    WaitPoint point{.call = call, .waiting = {}, .missing = {}, .unknown = {}};
    add_waiting(row, call, point);
    if (meets) {
      points_.emplace(key, graph_.points.size());
      for (const Rank member : job_.channels[call.channel].members) {
        if (member != job_.ranks[row].state.rank) {
          look_for(member, call, point);
        }
      }
    }
    graph_.points.push_back(std::move(point));
  }

  static void add_waiting(std::size_t row, const SeenCall& call, WaitPoint& point) {
    point.waiting.push_back(row);
    if (call.is_on_device) {
      point.on_device.push_back(row);
    }
  }

  void look_for(Rank member, const SeenCall& call, WaitPoint& point) {
    const std::size_t row = rows_.at(member);
    const RankProgress& rank = job_.ranks[row];
    if (!rank.is_known()) {
      point.unknown.push_back(row);
    } else if (entered(rank, call.channel) < call.number) {
      point.missing.push_back(row);
    }
  }

  /// A rank that cannot go on does not take part in what it is inside of.
  static std::int64_t entered(const RankProgress& rank, std::size_t channel) {
    const auto found = rank.entered.find(channel);
    std::int64_t number = found == rank.entered.end() ? 0 : found->second;
    for (const SeenCall& call : rank.open) {
      if (rank.is_halted && call.channel == channel) {
        number = std::min(number, call.number - 1);
      }
    }
    return number;
  }

  const JobProgress& job_;
  std::map<Rank, std::size_t> rows_;
  std::map<std::tuple<std::size_t, std::int64_t, std::size_t, CallPart>, std::size_t> points_;
  WaitGraph graph_;
};

/// Whether a rank makes no more calls, whatever the others do.
bool is_over(const RankProgress& rank) { return rank.state.has_ended || rank.is_halted; }

/// Finds the ranks that can never go on, whatever the others do: what a rank needs is granted when all (of a
/// receive from any rank: one) of those that are missing go on, and a rank goes on when all that it waits in
/// are granted.
class Release {
 public:
  Release(const JobProgress& job, const WaitGraph& graph)
      : job_(job), graph_(graph), needed_(graph.points.size()), waits_(graph.ranks.size()) {}

  /// Whether each rank can go on.
  std::vector<bool> run() {
    for (std::size_t point = 0; point < needed_.size(); ++point) {
      needed_[point] = graph_.points[point].missing.size();
    }
    std::vector<bool> can_go_on(waits_.size());
    std::vector<std::size_t> going;
    bool is_any_granted = false;
    for (std::size_t row = 0; row < waits_.size(); ++row) {
      waits_[row] = graph_.ranks[row].points.size();
      if (waits_[row] == 0) {
        can_go_on[row] = true;
        going.push_back(row);
      }
    }
    while (!going.empty()) {
      const std::size_t row = going.back();
      going.pop_back();
      for (const std::size_t point : graph_.ranks[row].missing_in) {
        if (needed_[point] > 0 && --needed_[point] == 0) {
          grant(point, can_go_on, going);
        }
      }
      // A rank that goes on may send to all that take any; its own such receive was granted before.
      if (!is_any_granted && !is_over(job_.ranks[row])) {
        is_any_granted = true;
        for (const std::size_t point : graph_.any_points) {
          grant(point, can_go_on, going);
        }
      }
    }
    return can_go_on;
  }

 private:
  void grant(std::size_t point, std::vector<bool>& can_go_on, std::vector<std::size_t>& going) {
    for (const std::size_t row : graph_.points[point].waiting) {
      if (--waits_[row] == 0) {
        can_go_on[row] = true;
        going.push_back(row);
      }
    }
  }

  const JobProgress& job_;
  const WaitGraph& graph_;
  std::vector<std::size_t> needed_;  // of each point
  std::vector<std::size_t> waits_;   // of each rank: points that are not granted
};

/// The strongly connected parts of the needs of ranks that are stuck (Tarjan 1972, without recursion). Nodes
/// are ranks, then points, then one that stands for any rank, so that edges are as many as the graph's
/// entries.
class NeedCircles {
 public:
  /// `any_is_stuck`: no rank that goes on can send to those that take any.
  NeedCircles(const WaitGraph& graph, const std::vector<bool>& stuck, bool any_is_stuck)
      : graph_(graph),
        stuck_(stuck),
        any_is_stuck_(any_is_stuck),
        any_(graph.ranks.size() + graph.points.size()),
        order_(any_ + 1),
        lowest_(any_ + 1),
        part_(any_ + 1, k_none) {}

  /// Of each part that needs no other one the ranks; ascending.
  std::vector<std::vector<std::size_t>> closed() {
    for (std::size_t row = 0; row < stuck_.size(); ++row) {
      if (stuck_[row] && order_[row] == 0) {
        walk_from(row);
      }
    }
    std::vector<std::vector<std::size_t>> ranks(parts_);
    std::vector<bool> is_closed(parts_, true);
    for (std::size_t node = 0; node <= any_; ++node) {
      if (part_[node] == k_none) {
        continue;
      }
      for (const std::size_t next : needs_of(node)) {
        is_closed[part_[node]] = is_closed[part_[node]] && part_[next] == part_[node];
      }
      if (node < stuck_.size()) {
        ranks[part_[node]].push_back(node);
      }
    }
    std::vector<std::vector<std::size_t>> result;
    for (std::size_t part = 0; part < parts_; ++part) {
      if (is_closed[part]) {
        result.push_back(std::move(ranks[part]));
      }
    }
    return result;
  }

 private:
  static constexpr std::size_t k_none = SIZE_MAX;
  struct Step {
    std::size_t node;
    std::vector<std::size_t> needs;
    std::size_t next = 0;
  };

  bool is_stuck_point(std::size_t point) const {
    const WaitPoint& made = graph_.points[point];
    return made.takes_any() ? any_is_stuck_
                            : std::any_of(made.missing.begin(), made.missing.end(),
                                          [&](std::size_t row) { return stuck_[row]; });
  }

  std::vector<std::size_t> needs_of(std::size_t node) const {
    std::vector<std::size_t> needs;
    if (node < stuck_.size()) {
      for (const std::size_t point : graph_.ranks[node].points) {
        if (is_stuck_point(point)) {
          needs.push_back(stuck_.size() + point);
        }
      }
      return needs;
    }
    if (node < any_ && graph_.points[node - stuck_.size()].takes_any()) {
      return {any_};
    }
    const auto add = [&](std::size_t row) {
      if (stuck_[row]) {
        needs.push_back(row);
      }
    };
    if (node < any_) {
      const std::vector<std::size_t>& missing = graph_.points[node - stuck_.size()].missing;
      std::for_each(missing.begin(), missing.end(), add);
    } else {
      for (std::size_t row = 0; row < stuck_.size(); ++row) {
        add(row);
      }
    }
    return needs;
  }

  void enter(std::size_t node) {
    order_[node] = lowest_[node] = ++entered_;
    open_.push_back(node);
    steps_.push_back({.node = node, .needs = needs_of(node)});
  }

  void walk_from(std::size_t start) {
    enter(start);
    while (!steps_.empty()) {
      Step& step = steps_.back();
      const std::size_t node = step.node;
      if (step.next < step.needs.size()) {
        const std::size_t next = step.needs[step.next++];
        if (order_[next] == 0) {
          enter(next);
        } else if (part_[next] == k_none) {
          lowest_[node] = std::min(lowest_[node], order_[next]);
        }
        continue;
      }
      steps_.pop_back();
      if (!steps_.empty()) {
        lowest_[steps_.back().node] = std::min(lowest_[steps_.back().node], lowest_[node]);
      }
      if (lowest_[node] == order_[node]) {
        close_part(node);
      }
    }
  }

  void close_part(std::size_t root) {
    while (part_[root] == k_none) {
      part_[open_.back()] = parts_;
      open_.pop_back();
    }
    ++parts_;
  }

  const WaitGraph& graph_;
  const std::vector<bool>& stuck_;
  bool any_is_stuck_;
  std::size_t any_;
  std::vector<std::size_t> order_;   // in which nodes were entered, from 1
  std::vector<std::size_t> lowest_;  // order of the first open node that can be reached
  std::vector<std::size_t> part_;
  std::vector<std::size_t> open_;
  std::vector<Step> steps_;
  std::size_t entered_ = 0;
  std::size_t parts_ = 0;
};

}  // namespace

WaitGraph wait_graph(const JobProgress& job) { return GraphBuilder(job).build(); }

bool WaitGraph::is_waited_for(std::size_t rank) const {
  return !ranks[rank].missing_in.empty() ||
         std::any_of(any_points.begin(), any_points.end(),
                     [&](std::size_t point) { return points[point].waiting.front() != rank; });
}

std::vector<std::size_t> WaitGraph::missing_of(const WaitPoint& point) const {
  if (!point.takes_any()) {
    return point.missing;
  }
  std::vector<std::size_t> others;
  for (std::size_t row = 0; row < ranks.size(); ++row) {
    if (row != point.waiting.front()) {
      others.push_back(row);
    }
  }
  return others;
}

std::vector<std::size_t> knot_of(const JobProgress& job, const WaitGraph& graph) {
  std::vector<bool> stuck = Release(job, graph).run();
  stuck.flip();
  bool any_is_stuck = true;
  for (std::size_t row = 0; row < stuck.size(); ++row) {
    any_is_stuck = any_is_stuck && (stuck[row] || is_over(job.ranks[row]));
  }
  std::vector<std::size_t> knot;
  for (std::vector<std::size_t>& circle : NeedCircles(graph, stuck, any_is_stuck).closed()) {
    if (circle.size() > 1 && (knot.empty() || circle.front() < knot.front())) {
      knot = std::move(circle);
    }
  }
  return knot;
}

Waiters waiters_of(const WaitGraph& graph, std::size_t rank) {
  Waiters result;
  std::vector<bool> waits(graph.ranks.size());
  std::vector<bool> seen(graph.points.size());
  std::vector<std::size_t> next = {rank};
  while (!next.empty()) {
    const std::size_t row = next.back();
    next.pop_back();
    const auto look_at = [&](std::size_t point) {
      if (seen[point] || (graph.points[point].takes_any() && graph.points[point].waiting.front() == row)) {
        return;
      }
      seen[point] = true;
      for (const std::size_t waiting : graph.points[point].waiting) {
        if (waiting != rank && !waits[waiting]) {
          waits[waiting] = true;
          ++result.in_all;
          result.directly += row == rank ? 1 : 0;
          next.push_back(waiting);
        }
      }
    };
    std::for_each(graph.ranks[row].missing_in.begin(), graph.ranks[row].missing_in.end(), look_at);
    if (row == rank) {
      std::for_each(graph.any_points.begin(), graph.any_points.end(), look_at);
    }
  }
  return result;
}

}  // namespace commlens
