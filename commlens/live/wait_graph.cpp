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
        (made.missing.empty() ? node.inside : node.points).push_back(point);
      }
      for (const std::size_t row : made.missing) {
        graph_.ranks[row].missing_in.push_back(point);
      }
    }
    return std::move(graph_);
  }

 private:
  /// The calls in which a rank waits. Collectives of a communicator take place one after the other, so that
  /// of its requests the first counts.
  void add(std::size_t row) {
    const std::vector<SeenCall>& open = job_.ranks[row].open;
    const bool is_blocked =
        std::any_of(open.begin(), open.end(), [](const SeenCall& call) { return call.is_blocking(); });
    graph_.ranks[row].has_requests_alone = !is_blocked && !open.empty();
    std::set<std::size_t> channels;
    for (const SeenCall& call : open) {
      const bool is_first = call.part != CallPart::collective || channels.insert(call.channel).second;
      if (call.is_blocking() == is_blocked && (is_blocked || is_first)) {
        enter(row, call);
      }
    }
  }

  void enter(std::size_t row, const SeenCall& call) {
    const bool is_shared = call.part == CallPart::collective;
    const auto key = std::tuple(call.channel, call.number, is_shared ? SIZE_MAX : row, call.part);
    const bool meets = call.channel != k_no_channel;
    if (const auto known = meets ? points_.find(key) : points_.end(); known != points_.end()) {
      graph_.points[known->second].waiting.push_back(row);
      return;
    }
    WaitPoint point{.call = call, .waiting = {row}, .missing = {}, .unknown = {}};
    if (meets) {
      points_.emplace(key, graph_.points.size());
      for (const Rank member : job_.channels[call.channel].members) {
        if (member != job_.ranks[row].state.rank) {
          look_for(member, call, point);
        }
      }
    } else if (call.part == CallPart::receive_any) {
      for (std::size_t other = 0; other < job_.ranks.size(); ++other) {
        if (other != row) {
          point.missing.push_back(other);
        }
      }
    }
    graph_.points.push_back(std::move(point));
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
      const WaitPoint& made = graph_.points[point];
      needed_[point] = made.takes_any() ? 1 : made.missing.size();
    }
    std::vector<bool> can_go_on(waits_.size());
    std::vector<std::size_t> going;
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
        grant(point, row, can_go_on, going);
      }
    }
    return can_go_on;
  }

 private:
  void grant(std::size_t point, std::size_t by, std::vector<bool>& can_go_on,
             std::vector<std::size_t>& going) {
    const WaitPoint& made = graph_.points[point];
    const bool is_over = job_.ranks[by].state.has_ended || job_.ranks[by].is_halted;
    if (needed_[point] == 0 || (made.takes_any() && is_over) || --needed_[point] > 0) {
      return;
    }
    for (const std::size_t row : made.waiting) {
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

/// All ranks among `within` that `from` needs, directly or through others; itself only if it is in a circle.
std::vector<bool> reached_from(const WaitGraph& graph, std::size_t from, const std::vector<bool>& within) {
  std::vector<bool> reached(graph.ranks.size());
  std::vector<bool> seen(graph.points.size());
  std::vector<std::size_t> next = {from};
  while (!next.empty()) {
    const std::size_t row = next.back();
    next.pop_back();
    for (const std::size_t point : graph.ranks[row].points) {
      if (seen[point]) {
        continue;
      }
      seen[point] = true;
      for (const std::size_t missing : graph.points[point].missing) {
        if (within[missing] && !reached[missing]) {
          reached[missing] = true;
          next.push_back(missing);
        }
      }
    }
  }
  return reached;
}

}  // namespace

WaitGraph wait_graph(const JobProgress& job) { return GraphBuilder(job).build(); }

// From a rank that cannot go on, one walks along needs until the set of those that can be reached does not
// get smaller any more: that set needs nobody outside of it.
std::vector<std::size_t> knot_of(const JobProgress& job, const WaitGraph& graph) {
  std::vector<bool> stuck = Release(job, graph).run();
  stuck.flip();
  std::vector<bool> tried(stuck.size());
  for (std::size_t start = 0; start < stuck.size(); ++start) {
    if (!stuck[start] || tried[start]) {
      continue;
    }
    std::size_t at = start;
    std::vector<bool> reached = reached_from(graph, at, stuck);
    for (bool is_smaller = true; is_smaller;) {
      is_smaller = false;
      for (std::size_t row = 0; row < stuck.size() && !is_smaller; ++row) {
        if (!reached[row] || tried[row]) {
          continue;
        }
        tried[row] = true;
        std::vector<bool> further = reached_from(graph, row, stuck);
        if (!further[at] || !further[row]) {
          at = row;
          reached = std::move(further);
          is_smaller = true;
        }
      }
    }
    std::vector<std::size_t> knot;
    for (std::size_t row = 0; row < stuck.size(); ++row) {
      if (reached[row]) {
        knot.push_back(row);
      }
    }
    if (knot.size() > 1) {
      return knot;
    }
  }
  return {};
}

Waiters waiters_of(const WaitGraph& graph, std::size_t rank) {
  Waiters result;
  std::vector<bool> waits(graph.ranks.size());
  std::vector<bool> seen(graph.points.size());
  std::vector<std::size_t> next = {rank};
  while (!next.empty()) {
    const std::size_t row = next.back();
    next.pop_back();
    for (const std::size_t point : graph.ranks[row].missing_in) {
      if (seen[point]) {
        continue;
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
    }
  }
  return result;
}

}  // namespace commlens
