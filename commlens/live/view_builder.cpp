#include "commlens/live/view_builder.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "commlens/comm/volume.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// The call that a rank is in: the one it waits in, else the first blocking one, else the first.
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

/// By the rank's clock where it is this machine's, else since it was seen.
nanoseconds open_for(const SeenCall& call, const RankFollower& rank, const PollTime& time) {
  const RankClock& clock = rank.tables().clock;
  if (call.started_ns && !clock.boot.empty() && clock.boot == boot_id()) {
    const std::int64_t now_ns = time.unix_ns - clock.wall_offset.count();
    return nanoseconds(std::max<std::int64_t>(now_ns - *call.started_ns, 0));
  }
  for (const LiveNumbers::Open& open : rank.numbers().open()) {
    if (open.call.started_ns == call.started_ns && open.number == call.number) {
      return time.steady - open.seen;
    }
  }
  return {};
}

LiveCall live_call(const SeenCall& call, const LiveHang& hang, nanoseconds since) {
  const bool is_named = call.op.kind == CommKind::other && !call.name.empty();
  return {.op = is_named ? call.name : std::string(name_of(call.op.kind)),
          .name = call.name,
          .members = call.channel == k_no_channel ? call.members : hang.job.channels[call.channel].members,
          .number = call.number,
          .message = message_bytes(call.op),
          .site = call.site,
          .open_for = since};
}

LiveRankState state_of(const LiveRank& rank, const RankFollower& follower, const LiveHang& hang,
                       std::size_t row, bool is_stuck) {
  const RankProgress& progress = hang.job.ranks[row];
  if (!rank.error.empty()) {
    return LiveRankState::unknown;
  }
  if (!follower.is_there()) {
    return LiveRankState::absent;
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

/// Rows of hang.job.ranks that cannot go on by a confirmed verdict; a culprit in no call can.
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

}  // namespace

JobProgress progress_of(const FollowedJob& job, const std::vector<std::unique_ptr<RankFollower>>& ranks) {
  std::vector<RankState> states;
  std::vector<const LiveNumbers*> numbers;
  for (const std::unique_ptr<RankFollower>& rank : ranks) {
    states.push_back(rank->state());
    numbers.push_back(rank->is_there() && rank->error().empty() ? &rank->numbers() : nullptr);
  }
  return job.progress.progress(states, numbers);
}

void fill_ranks(JobView& view, const FollowedJob& job,
                const std::vector<std::unique_ptr<RankFollower>>& ranks, const PollTime& time) {
  std::map<Rank, std::size_t> rows;
  for (std::size_t row = 0; row < view.hang.job.ranks.size(); ++row) {
    rows[view.hang.job.ranks[row].state.rank] = row;
  }
  const std::set<std::size_t> stuck = stuck_rows(view.hang);
  view.ranks.clear();
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    const RankFollower& follower = *ranks[at];
    const std::size_t row = rows.at(job.ranks[at]);
    const RankProgress& progress = view.hang.job.ranks[row];
    LiveRank& rank = view.ranks.emplace_back();
    rank.rank = job.ranks[at];
    rank.process = follower.tables().process;
    rank.process_state = view.hang.processes[row];
    rank.error = follower.error();
    rank.open_calls = std::ssize(progress.open);
    rank.iteration = follower.iteration();
    rank.entered = progress.calls;
    rank.sums = follower.sums();
    rank.recent = follower.recent();
    rank.in_calls = nanoseconds(job.late.totals(at).in_calls_ns);
    rank.between_calls = nanoseconds(job.late.totals(at).between_ns);
    rank.late_score = job.late.score(at);
    rank.lost = progress.state.lost;
    rank.state = state_of(rank, follower, view.hang, row, stuck.contains(row));
    if (follower.is_there()) {
      rank.still_for = time.steady - follower.moved();
      rank.last_progress_unix_ns = time.unix_ns - rank.still_for.count();
    }
    if (const SeenCall* const call = progress.state.has_ended ? nullptr : call_of(view.hang, row)) {
      rank.call = live_call(*call, view.hang, open_for(*call, follower, time));
    }
  }
}

}  // namespace commlens
