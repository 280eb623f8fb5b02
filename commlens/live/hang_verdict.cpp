#include "commlens/live/hang_verdict.hpp"

#include <algorithm>

namespace commlens {
namespace {

/// Of some points the one in which most ranks wait; of several the one with the least number.
std::optional<std::size_t> busiest(const WaitGraph& graph, const std::vector<std::size_t>& points) {
  std::optional<std::size_t> best;
  for (const std::size_t point : points) {
    const auto rank_of = [&](std::size_t which) {
      const WaitPoint& made = graph.points[which];
      return std::pair(-std::ssize(made.waiting), made.call.number);
    };
    if (!best || rank_of(point) < rank_of(*best)) {
      best = point;
    }
  }
  return best;
}

bool is_in(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// Looks for each verdict in the order of what explains most.
class HangSearch {
 public:
  HangSearch(const JobProgress& job, const WaitGraph& graph) : job_(job), graph_(graph) {}

  HangFinding run() {
    for (const WaitGraph::Node& node : graph_.ranks) {
      found_.waiting += node.waits() || is_held_inside(node) ? 1 : 0;
    }
    if (found_.waiting > 0 && !find_mismatch() && !find_deadlock() && !find_missing()) {
      find_all_inside();
    }
    return std::move(found_);
  }

 private:
  /// Inside of a call that all have entered, and that it cannot leave. Requests that nobody waits for do not
  /// hold a rank that others wait for elsewhere.
  bool is_held_inside(const WaitGraph::Node& node) const {
    return std::any_of(node.inside.begin(), node.inside.end(), [&](std::size_t point) {
      return !node.has_requests_alone ||
             (node.missing_in.empty() && graph_.points[point].call.part != CallPart::other);
    });
  }

  // Ranks are stuck in it or in a later call of its communicator: otherwise it did no harm.
  bool find_mismatch() {
    const auto harms = [&](const CallDifference& difference) {
      return std::any_of(graph_.points.begin(), graph_.points.end(), [&](const WaitPoint& point) {
        return point.call.channel == difference.channel && point.call.number >= difference.number;
      });
    };
    const auto found = std::find_if(job_.differences.begin(), job_.differences.end(), harms);
    if (found == job_.differences.end()) {
      return false;
    }
    found_.verdict = HangVerdict::mismatch;
    found_.difference = *found;
    const bool has_majority = found->sides[0].second.size() > found->sides[1].second.size();
    found_.is_even = !has_majority;
    for (std::size_t row = 0; row < job_.ranks.size(); ++row) {
      const Rank rank = job_.ranks[row].state.rank;
      for (std::size_t side = has_majority ? 1 : 0; side < found->sides.size(); ++side) {
        if (is_in(found->sides[side].second, rank)) {
          add(row);
        }
      }
    }
    std::vector<std::size_t> points;
    for (std::size_t point = 0; point < graph_.points.size(); ++point) {
      if (graph_.points[point].call.channel == found->channel) {
        points.push_back(point);
      }
    }
    found_.point = busiest(graph_, points);
    return true;
  }

  bool find_deadlock() {
    const std::vector<std::size_t> knot = knot_of(job_, graph_);
    std::vector<std::size_t> points;
    for (const std::size_t row : knot) {
      add(row);
      const WaitGraph::Node& node = graph_.ranks[row];
      found_.may_compute |= node.has_requests_alone;
      for (const std::size_t point : node.points) {
        const std::vector<std::size_t>& missing = graph_.points[point].missing;
        const bool is_of_knot = std::any_of(missing.begin(), missing.end(), [&](std::size_t other) {
          return std::binary_search(knot.begin(), knot.end(), other);
        });
        if (is_of_knot && !found_.culprits.back().waits_in) {
          found_.culprits.back().waits_in = point;
          points.push_back(point);
        }
      }
    }
    found_.verdict = knot.empty() ? found_.verdict : HangVerdict::deadlock;
    found_.point = busiest(graph_, points);
    return !knot.empty();
  }

  // Of receives from any rank those that might send are culprits only where nothing else waits for anybody.
  bool find_missing() {
    for (const bool with_any : {false, true}) {
      std::vector<std::size_t> points;
      for (std::size_t row = 0; row < graph_.ranks.size(); ++row) {
        const WaitGraph::Node& node = graph_.ranks[row];
        if (node.waits() || is_held_inside(node)) {
          continue;
        }
        const std::size_t before = points.size();
        std::copy_if(node.missing_in.begin(), node.missing_in.end(), std::back_inserter(points),
                     [&](std::size_t point) { return graph_.points[point].takes_any() == with_any; });
        if (points.size() > before) {
          add(row);
        }
      }
      if (!points.empty()) {
        found_.verdict = HangVerdict::missing;
        found_.point = busiest(graph_, points);
        found_.is_any_of = with_any && found_.culprits.size() > 1;
        return true;
      }
    }
    return false;
  }

  // A member whose calls are not known may be the one that is missing.
  void find_all_inside() {
    std::vector<std::size_t> points;
    for (const WaitGraph::Node& node : graph_.ranks) {
      points.insert(points.end(), node.inside.begin(), node.inside.end());
    }
    found_.verdict = HangVerdict::all_inside;
    found_.point = busiest(graph_, points);
    if (found_.point && !graph_.points[*found_.point].unknown.empty()) {
      found_.verdict = HangVerdict::missing;
      for (const std::size_t row : graph_.points[*found_.point].unknown) {
        add(row);
      }
    }
  }

  void add(std::size_t row) {
    found_.culprits.push_back({.rank = row, .waiters = waiters_of(graph_, row), .waits_in = {}});
  }

  const JobProgress& job_;
  const WaitGraph& graph_;
  HangFinding found_;
};

}  // namespace

std::string_view name_of(HangVerdict verdict) {
  switch (verdict) {
    case HangVerdict::none:
      return "none";
    case HangVerdict::mismatch:
      return "mismatch";
    case HangVerdict::deadlock:
      return "deadlock";
    case HangVerdict::missing:
      return "missing";
    case HangVerdict::all_inside:
      return "all_inside";
  }
  return "";
}

HangFinding find_hang(const JobProgress& job, const WaitGraph& graph) { return HangSearch(job, graph).run(); }

}  // namespace commlens
