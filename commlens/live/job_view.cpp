#include "commlens/live/job_view.hpp"

#include <algorithm>

namespace commlens {

std::string_view name_of(LiveState state) {
  switch (state) {
    case LiveState::absent:
      return "absent";
    case LiveState::running:
      return "running";
    case LiveState::ended:
      return "ended";
    case LiveState::stopped:
      return "stopped";
    case LiveState::unknown:
      return "unknown";
    case LiveState::removed:
      return "removed";
  }
  return "";
}

bool is_at_end(LiveState state) { return state == LiveState::ended || state == LiveState::stopped; }

std::string_view name_of(LiveRankState state) {
  switch (state) {
    case LiveRankState::absent:
      return "absent";
    case LiveRankState::computing:
      return "computing";
    case LiveRankState::in_call:
      return "in_call";
    case LiveRankState::waiting:
      return "waiting";
    case LiveRankState::stuck:
      return "stuck";
    case LiveRankState::finished:
      return "finished";
    case LiveRankState::dead:
      return "dead";
    case LiveRankState::unknown:
      return "unknown";
  }
  return "";
}

bool JobView::is_hung() const {
  return std::any_of(alerts.begin(), alerts.end(),
                     [](const LiveAlert& alert) { return alert.kind == k_alert_hang; });
}

}  // namespace commlens
