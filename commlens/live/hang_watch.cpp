#include "commlens/live/hang_watch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

/// Since when nothing has moved of what waits, is inside of a call that all have entered, or is waited for;
/// nothing where no rank waits.
std::optional<std::chrono::nanoseconds> still_since(const LiveHang& hang,
                                                    const std::vector<std::chrono::nanoseconds>& moved) {
  std::optional<std::chrono::nanoseconds> since;
  for (std::size_t row = 0; row < hang.graph.ranks.size(); ++row) {
    const WaitGraph::Node& node = hang.graph.ranks[row];
    if (node.waits() || !node.inside.empty() || hang.graph.is_waited_for(row)) {
      since = std::max(since.value_or(moved[row]), moved[row]);
    }
  }
  return since;
}

/// From the first signal of who kills a job to its end, and for how long its ranks go on after it.
constexpr std::chrono::nanoseconds k_killed_within = std::chrono::seconds(30);
constexpr std::chrono::nanoseconds k_goes_on = std::chrono::seconds(2);

/// Different calls as the same one do not become equal, and a process that is gone does not come back:
/// libraries end such jobs, often within seconds.
bool is_beyond_doubt(const LiveHang& hang) {
  const std::vector<HangCulprit>& culprits = hang.finding.culprits;
  const auto is_gone = [&](const HangCulprit& culprit) {
    return hang.processes[culprit.rank] == ProcessState::gone;
  };
  return hang.finding.verdict == HangVerdict::mismatch ||
         (!culprits.empty() && std::all_of(culprits.begin(), culprits.end(), is_gone));
}

/// Of one that has told its process something was known: its files are damaged now, or its node is silent.
bool lacks_files(const RankProgress& rank) { return !rank.state.is_recorded && !rank.state.process; }

/// Whether there is none here that has files of this number.
bool is_unseen(const JobProgress& job, Rank number) {
  const auto found =
      std::lower_bound(job.ranks.begin(), job.ranks.end(), number,
                       [](const RankProgress& rank, Rank wanted) { return rank.state.rank < wanted; });
  return found == job.ranks.end() || found->state.rank != number || lacks_files(*found);
}

/// Whether ranks without files may have to take part in a call before it ends.
bool is_with_others(const LiveHang& hang, const WaitPoint& point) {
  const std::vector<Rank>& members = point.call.members;
  return std::any_of(point.unknown.begin(), point.unknown.end(),
                     [&](std::size_t row) { return lacks_files(hang.job.ranks[row]); }) ||
         (point.call.part == CallPart::other &&
          (members.empty() || std::any_of(members.begin(), members.end(),
                                          [&](Rank member) { return is_unseen(hang.job, member); })));
}

/// Whether the ranks at fault may be on another node, so that nothing is known of them: one without files
/// here is named, or one that may itself wait for such a one; or nobody is, in calls that are not numbered.
bool is_elsewhere(const LiveHang& hang) {
  const auto waits_for_others = [&](std::size_t row) {
    const std::vector<std::size_t>& inside = hang.graph.ranks[row].inside;
    return std::any_of(inside.begin(), inside.end(),
                       [&](std::size_t point) { return is_with_others(hang, hang.graph.points[point]); });
  };
  if (hang.finding.verdict == HangVerdict::unmatched) {
    for (std::size_t row = 0; row < hang.graph.ranks.size(); ++row) {
      if (waits_for_others(row)) {
        return true;
      }
    }
    return false;
  }
  const std::vector<HangCulprit>& culprits = hang.finding.culprits;
  return hang.finding.verdict == HangVerdict::missing &&
         std::any_of(culprits.begin(), culprits.end(), [&](const HangCulprit& culprit) {
           return lacks_files(hang.job.ranks[culprit.rank]) || waits_for_others(culprit.rank);
         });
}

}  // namespace

bool lacks_members(const JobProgress& job) {
  const std::vector<Rank>* looked_at = nullptr;  // ranks of one call say the same
  const auto is_of_others = [&](const SeenCall& call) {
    if (looked_at != nullptr && *looked_at == call.members) {
      return false;
    }
    looked_at = &call.members;
    return std::any_of(call.members.begin(), call.members.end(),
                       [&](Rank member) { return is_unseen(job, member); });
  };
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankProgress& rank) {
    return lacks_files(rank) || std::any_of(rank.open.begin(), rank.open.end(), is_of_others);
  });
}

std::chrono::nanoseconds HangWatch::limit() const {
  using Time = std::chrono::nanoseconds;
  const Time usual = std::clamp<Time>(FollowOptions::k_pauses * longest_pause_, FollowOptions::k_least_hang,
                                      FollowOptions::k_most_hang);
  return options_.hang_after.value_or(usual);
}

void HangWatch::look(LiveHang& hang, const std::vector<std::chrono::nanoseconds>& moved,
                     std::chrono::nanoseconds now, LiveState state) {
  const bool is_running = state == LiveState::running || state == LiveState::unknown;
  hang.graph = wait_graph(hang.job);
  hang.finding = find_hang(hang.job, hang.graph);
  const bool waits = hang.finding.verdict != HangVerdict::none;
  const std::optional<std::chrono::nanoseconds> since = waits ? still_since(hang, moved) : std::nullopt;
  hang.still_for = since ? now - *since : std::chrono::nanoseconds{};
  if (is_running && hang.still_for < still_for_) {
    longest_pause_ = std::max(longest_pause_, unannounced_);
  }
  still_for_ = hang.still_for;
  const bool is_announced = hang.pause_left.count() > 0 && !options_.ignores_pauses;
  if (is_announced || paused_until_ > now) {  // a pause may end before it was to
    paused_until_ = is_announced ? now + hang.pause_left : now;
  }
  const std::chrono::nanoseconds began = since.value_or(now);
  const std::chrono::nanoseconds counted = now - std::max(began, paused_until_.value_or(began));
  unannounced_ = std::max(counted, std::chrono::nanoseconds{});
  hang.limit = is_beyond_doubt(hang) ? limit() / FollowOptions::k_sooner : limit();
  const bool is_long = (is_beyond_doubt(hang) ? hang.still_for : unannounced_) >= hang.limit;
  const bool is_elsewhere_alone = hang.is_part && is_elsewhere(hang);
  hang.is_confirmed = waits && !is_elsewhere_alone && (is_at_end(state) || (is_running && is_long));
}

void HangWatch::forget() {
  longest_pause_ = {};
  still_for_ = {};
  unannounced_ = {};
  paused_until_.reset();
  current_.reset();
  latest_.reset();
}

void HangWatch::alert(JobView& view, std::int64_t unix_ns) {
  if (!view.hang.is_confirmed) {
    if (current_) {
      latest_ = std::exchange(current_, std::nullopt);
      over_unix_ns_ = unix_ns;
    }
  } else {
    const std::int64_t over_for = unix_ns - over_unix_ns_;
    const std::vector<ProcessState>& processes = view.hang.processes;
    const bool is_killed =
        view.state == LiveState::stopped ||
        std::find(processes.begin(), processes.end(), ProcessState::gone) != processes.end();
    const std::int64_t went_on_for = over_for - view.hang.still_for.count();
    if (!current_ && latest_ && is_killed && over_for < k_killed_within.count() &&
        went_on_for < k_goes_on.count()) {
      current_ = latest_;
    } else if (!current_) {
      current_ = LiveAlert{.id = fmt::format("hang-{}", ++fired_),
                           .kind = std::string(k_alert_hang),
                           .text = {},
                           .culprits = {}};
      current_->since_unix_ns = unix_ns;
    }
    current_->verdict = view.hang.finding.verdict;
    current_->waiting = view.hang.finding.waiting;
    current_->still_for = view.hang.still_for;
    current_->culprits.clear();
    for (const HangCulprit& culprit : view.hang.finding.culprits) {
      current_->culprits.push_back(view.hang.job.ranks[culprit.rank].state.rank);
    }
  }
  view.alerts.clear();
  if (current_) {
    view.alerts.push_back(*current_);
  }
  view.alerts_fired = fired_;
}

}  // namespace commlens
