#include "commlens/live/rank_rows.hpp"

#include <algorithm>

#include "commlens/comm/volume.hpp"

namespace commlens {

const SeenCall* call_of(const LiveHang& hang, std::size_t row) {
  const RankProgress& rank = hang.job.ranks[row];
  for (const std::size_t point : hang.graph.ranks[row].points) {
    const SeenCall& wanted = hang.graph.points[point].call;
    const auto found = std::find_if(rank.open.begin(), rank.open.end(), [&](const SeenCall& call) {
      return call.channel == wanted.channel && call.number == wanted.number && call.part == wanted.part;
    });
    if (found != rank.open.end()) {
      return &*found;
    }
  }
  const auto blocking = std::find_if(rank.open.begin(), rank.open.end(),
                                     [](const SeenCall& call) { return call.is_blocking(); });
  return blocking != rank.open.end() ? &*blocking : rank.open.empty() ? nullptr : &rank.open.front();
}

LiveCall live_call(const SeenCall& call, std::chrono::nanoseconds open_for) {
  const bool is_named = call.op.kind == CommKind::other && !call.name.empty();
  return {.op = is_named ? call.name : std::string(name_of(call.op.kind)),
          .name = call.name,
          .number = call.number,
          .message = message_bytes(call.op),
          .site = call.site,
          .open_for = open_for};
}

LiveRankState state_of(const LiveRank& rank, const LiveHang& hang, std::size_t row, bool is_stuck) {
  const RankProgress& progress = hang.job.ranks[row];
  if (!rank.error.empty()) {
    return LiveRankState::unknown;
  }
  if (progress.state.has_ended) {
    return LiveRankState::finished;
  }
  if (rank.process_state == ProcessState::gone) {
    return LiveRankState::dead;
  }
  if (is_stuck) {
    return LiveRankState::stuck;
  }
  const WaitGraph::Node& node = hang.graph.ranks[row];
  const bool is_inside = std::any_of(progress.open.begin(), progress.open.end(),
                                     [](const SeenCall& call) { return call.is_blocking(); });
  return node.waits() && (is_inside || !node.has_requests_alone) ? LiveRankState::waiting
         : is_inside                                             ? LiveRankState::in_call
                                                                 : LiveRankState::computing;
}

std::set<std::size_t> stuck_rows(const LiveHang& hang) {
  std::set<std::size_t> rows;
  if (!hang.is_confirmed) {
    return rows;
  }
  for (std::size_t row = 0; row < hang.graph.ranks.size(); ++row) {
    if (hang.graph.ranks[row].waits() || !hang.graph.ranks[row].inside.empty()) {
      rows.insert(row);
    }
  }
  return rows;
}

}  // namespace commlens
