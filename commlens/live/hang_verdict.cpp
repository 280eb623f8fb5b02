#include "commlens/live/hang_verdict.hpp"

#include <algorithm>
#include <set>

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
    if (found_.waiting == 0 ||
        (!find_mismatch() && !find_deadlock() && !find_missing() && !find_all_inside())) {
      find_unmatched();
    }
    return std::move(found_);
  }

 private:
  /// Inside of a call that all have entered, and that it cannot leave. Requests that nobody waits for do not
  /// hold a rank that others wait for elsewhere.
  bool is_held_inside(const WaitGraph::Node& node) const {
    return std::any_of(node.inside.begin(), node.inside.end(), [&](std::size_t point) {
      return !node.has_requests_alone ||
             (!graph_.is_waited_for(static_cast<std::size_t>(&node - graph_.ranks.data())) &&
              graph_.points[point].call.part != CallPart::other);
    });
  }

  bool find_mismatch() {
    const auto harms = [&](const CallDifference& difference) {
      return std::any_of(graph_.points.begin(), graph_.points.end(), [&](const WaitPoint& point) {
        return point.call.channel == difference.channel && point.call.number == difference.number;
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
        const std::vector<std::size_t> missing = graph_.missing_of(graph_.points[point]);
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
        const std::vector<std::size_t>& misses = with_any ? graph_.any_points : node.missing_in;
        if (!misses.empty()) {
          add(row);
          points.insert(points.end(), misses.begin(), misses.end());
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

  // A member whose calls are not known may be the one that is missing. Where the devices of some have begun
  // the call, the recorder knows that, and they wait for the devices of the others.
  bool find_all_inside() {
    const std::vector<std::size_t> points =
        points_inside([](const SeenCall& call) { return call.part != CallPart::other; });
    if (points.empty()) {
      return false;
    }
    found_.verdict = HangVerdict::all_inside;
    found_.point = busiest(graph_, points);
    const WaitPoint& point = graph_.points[*found_.point];
    if (!point.unknown.empty()) {
      found_.verdict = HangVerdict::missing;
      std::for_each(point.unknown.begin(), point.unknown.end(), [this](std::size_t row) { add(row); });
    } else if (!point.on_device.empty()) {
      for (const std::size_t row : point.waiting) {
        if (!std::binary_search(point.on_device.begin(), point.on_device.end(), row)) {
          add(row);
        }
      }
    }
    return true;
  }

  // Of calls that are no messages, those that do not block (one-sided transfers) may be under way for long.
  void find_unmatched() {
    const std::vector<std::size_t> points = points_inside([](const SeenCall& call) {
      return call.part == CallPart::other && (call.is_blocking() || is_point_to_point(call.op.kind));
    });
    if (!points.empty()) {
      found_.verdict = HangVerdict::unmatched;
      found_.point = busiest(graph_, points);
      std::set<std::size_t> ranks;
      for (const std::size_t point : points) {
        ranks.insert(graph_.points[point].waiting.begin(), graph_.points[point].waiting.end());
      }
      found_.waiting = std::ssize(ranks);
    }
  }

  template <typename Wanted>
  std::vector<std::size_t> points_inside(const Wanted& is_wanted) const {
    std::vector<std::size_t> points;
    for (const WaitGraph::Node& node : graph_.ranks) {
      std::copy_if(node.inside.begin(), node.inside.end(), std::back_inserter(points),
                   [&](std::size_t point) { return is_wanted(graph_.points[point].call); });
    }
    return points;
  }

  void add(std::size_t row) {
    found_.culprits.push_back({.rank = row, .waiters = {}, .waits_in = {}});
    if (found_.culprits.size() <= HangCulprit::k_most_counted) {
      found_.culprits.back().waiters = waiters_of(graph_, row);
    }
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
    case HangVerdict::unmatched:
      return "unmatched";
  }
  return "";
}

HangFinding find_hang(const JobProgress& job, const WaitGraph& graph) { return HangSearch(job, graph).run(); }

}  // namespace commlens
