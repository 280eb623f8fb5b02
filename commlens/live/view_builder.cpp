#include "commlens/live/view_builder.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "commlens/live/rank_rows.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

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
  view.spanning = job.late.spanning();
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
    if (const std::optional<LateRanks::Score> late = job.late.score(at)) {
      rank.late_score = late->share;
      rank.late_members = late->members;
    }
    rank.lost = progress.state.lost;
    rank.lost_records = follower.lost_records();
    rank.state = rank.error.empty() && !follower.is_there()
                     ? LiveRankState::absent
                     : state_of(rank, view.hang, row, stuck.contains(row));
    if (follower.is_there()) {
      rank.still_for = time.steady - follower.moved();
      rank.last_progress_unix_ns = time.unix_ns - rank.still_for.count();
    }
    if (const SeenCall* const call = progress.state.has_ended ? nullptr : call_of(view.hang, row)) {
      rank.call = live_call(*call, open_for(*call, follower, time));
    }
  }
}

}  // namespace commlens
