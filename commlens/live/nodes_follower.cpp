#include "commlens/live/nodes_follower.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/live/asked_for.hpp"
#include "commlens/live/hang_watch.hpp"
#include "commlens/live/merged_ops.hpp"
#include "commlens/live/rank_processes.hpp"
#include "commlens/live/rank_rows.hpp"
#include "commlens/live/rolling_tally.hpp"
#include "commlens/live/spanning_late.hpp"
#include "commlens/live/state_changes.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// The latest state of a node, whose calls have the job's channels.
struct FollowedNode {
  NodeState state;
  nanoseconds came{};              // by the stopwatch here
  std::vector<nanoseconds> moved;  // when each of them did so last, by the stopwatch here
  std::int64_t job = 0;            // which of the jobs that this follower has seen
  bool has_lived = false;          // a state of it came that was no leftover
  const std::vector<RankProgress>& ranks() const { return state.view.hang.job.ranks; }
  /// Nothing more will come of its ranks; it may not say so, where its manifest has those of other nodes,
  /// too.
  bool is_over() const {
    const bool have_ended =
        !ranks().empty() && std::all_of(ranks().begin(), ranks().end(),
                                        [](const RankProgress& rank) { return rank.state.has_ended; });
    return have_ended || is_at_end(state.view.state);
  }
  bool is_silent(nanoseconds now) const {
    const nanoseconds patience = std::max<nanoseconds>(NodesFollower::k_silent_intervals * state.interval,
                                                       NodesFollower::k_least_silence);
    return !is_over() && now - came > patience;
  }
};
using Nodes = std::vector<const FollowedNode*>;

/// Up to when something is known of all nodes whose ranks still run: the oldest of their states came then.
nanoseconds known_until(const Nodes& nodes, nanoseconds now) {
  nanoseconds until = now;
  for (const FollowedNode* const node : nodes) {
    until = node->is_over() || node->is_silent(now) ? until : std::min(until, node->came);
  }
  return until;
}

/// The communicators of all nodes, each of which numbers them by itself.
class JobChannels {
 public:
  /// Members of all communicators together; beyond, states of nodes are refused.
  static constexpr std::size_t k_most_members = std::size_t{1} << 25;

  std::size_t row_of(const CallChannel& channel) {
    const auto [found, is_new] = rows_.try_emplace(channel, channels_.size());
    if (is_new) {
      channels_.push_back(channel);
      members_ += channel.members.size();
    }
    return found->second;
  }
  bool is_full() const { return members_ > k_most_members; }
  const std::vector<CallChannel>& all() const { return channels_; }

 private:
  std::vector<CallChannel> channels_;
  std::map<CallChannel, std::size_t> rows_;
  std::size_t members_ = 0;
};

/// As FolderFollower has it of one folder, by all ranks that have files somewhere. Nothing is over while a
/// node is silent or, `lacks_nodes`, cannot be read.
LiveState state_of_job(const Nodes& nodes, const LiveHang& hang, nanoseconds now, bool lacks_nodes) {
  const auto all = [&](const auto& what) { return std::all_of(nodes.begin(), nodes.end(), what); };
  const auto any = [&](const auto& what) { return std::any_of(nodes.begin(), nodes.end(), what); };
  const auto says = [](LiveState state) {
    return [state](const FollowedNode* node) { return node->state.view.state == state; };
  };
  const bool is_silence = lacks_nodes || any([&](const FollowedNode* node) { return node->is_silent(now); });
  if (has_live_rank(hang.job, hang.processes)) {
    return LiveState::running;
  }
  if (is_silence) {
    return LiveState::unknown;
  }
  if (all(says(LiveState::removed))) {
    return LiveState::removed;
  }
  bool has_ranks = false;
  bool have_ended = true;
  bool are_over = true;  // ended, or their processes are gone
  for (std::size_t row = 0; row < hang.job.ranks.size(); ++row) {
    const RankState& rank = hang.job.ranks[row].state;
    if (rank.is_recorded) {
      has_ranks = true;
      have_ended = have_ended && rank.has_ended;
      are_over = are_over && (rank.has_ended || hang.processes[row] == ProcessState::gone);
    }
  }
  if (!has_ranks) {
    return LiveState::absent;
  }
  if (have_ended || are_over || all([](const FollowedNode* node) { return node->is_over(); })) {
    return have_ended ? LiveState::ended : LiveState::stopped;
  }
  return any(says(LiveState::running)) ? LiveState::running : LiveState::unknown;
}

}  // namespace

struct NodesFollower::State {
  State(std::unique_ptr<NodeSource> from, const FollowOptions& options)
      : source(std::move(from)), watch(options) {}

  void accept(const std::string& place, Result<NodeState> state, nanoseconds now);
  bool begins_another_job(const FollowedNode& node, const NodeState& state) const;
  bool follows_the_latest(const NodeState& state, nanoseconds now) const;
  void place(FollowedNode& node, const std::vector<CallChannel>& those);
  void place_all_again();
  Nodes followed(nanoseconds now) const;
  void build(const PollTime& time);
  void build_job(const Nodes& all, const PollTime& time);
  void fill_ranks(const PollTime& time);
  void judge_ranks(const Nodes& all, nanoseconds now);
  void say_silent(const Nodes& all, nanoseconds now);
  void add_up(const Nodes& all);

  std::unique_ptr<NodeSource> source;
  HangWatch watch;
  JobView view;
  std::map<std::string, FollowedNode> nodes;  // by place
  std::map<std::string, std::string> errors;  // of places that cannot be read now
  JobChannels channels;
  std::int64_t job = 1;     // counts jobs
  nanoseconds job_began{};  // the latest, where it is not the first
  /// Where each rank is: of two nodes that have it, the one whose state came last.
  struct Home {
    const FollowedNode* node = nullptr;
    std::size_t row = 0;
  };
  std::map<Rank, Home> homes;
};

/// Gives the calls of its ranks the job's channels; `those` are the ones that they have now.
void NodesFollower::State::place(FollowedNode& node, const std::vector<CallChannel>& those) {
  std::map<std::size_t, std::size_t> rows;
  const auto row_of = [&](std::size_t row) {
    const auto [found, is_new] = rows.try_emplace(row, 0);
    found->second = is_new ? channels.row_of(those[row]) : found->second;
    return found->second;
  };
  const auto move = [&](SeenCall& call) {
    call.channel = call.channel == k_no_channel ? k_no_channel : row_of(call.channel);
  };
  JobProgress& its = node.state.view.hang.job;
  for (RankProgress& rank : its.ranks) {
    std::unordered_map<std::size_t, std::int64_t> entered;
    for (const auto& [channel, number] : rank.entered) {
      entered[row_of(channel)] = number;
    }
    rank.entered = std::move(entered);
    std::for_each(rank.open.begin(), rank.open.end(), move);
    if (rank.last) {
      move(*rank.last);
    }
  }
  for (CallDifference& difference : its.differences) {
    difference.channel = row_of(difference.channel);
  }
  for (SpanningWork& work : node.state.view.spanning) {
    work.channel = row_of(work.channel);
  }
}

/// Those that no node names any more are forgotten.
void NodesFollower::State::place_all_again() {
  const JobChannels before = std::exchange(channels, {});
  for (auto& [place_name, node] : nodes) {
    place(node, before.all());
  }
}

/// The node has another recording, or the batch system gave it another job.
bool NodesFollower::State::begins_another_job(const FollowedNode& node, const NodeState& state) const {
  const JobView& before = node.state.view;
  const bool is_same_follower = node.state.follower == state.follower;
  return (is_same_follower && before.generation > 0 && state.view.generation > before.generation) ||
         !is_same_job(before, state.view) || (!is_same_follower && has_other_processes(before, state.view));
}

/// A node that tells nothing of the latest job has another one, which came when that was over.
bool NodesFollower::State::follows_the_latest(const NodeState& state, nanoseconds now) const {
  const Nodes latest = followed(now);
  return view.generation == job && !latest.empty() &&
         std::all_of(latest.begin(), latest.end(), [&](const FollowedNode* node) {
           return (node->is_over() || node->is_silent(now)) && node->came < now - state.age &&
                  !is_same_job(node->state.view, state.view);
         });
}

void NodesFollower::State::accept(const std::string& place_name, Result<NodeState> state, nanoseconds now) {
  if (!state) {
    errors[place_name] = state.error().message;
    return;
  }
  const auto [found, is_new] = nodes.try_emplace(place_name);
  FollowedNode& node = found->second;
  if (!is_new && node.state.follower == state->follower && node.state.number == state->number) {
    return;
  }
  const bool is_of_latest = !is_new && node.job == job;
  if (is_of_latest ? begins_another_job(node, *state) : follows_the_latest(*state, now)) {
    ++job;
    job_began = now;
    watch.forget();
    place_all_again();
  }
  const nanoseconds came = now - state->age;
  const FollowedNode before =
      std::exchange(node, {.state = std::move(*state), .came = came, .moved = {}, .job = job});
  node.has_lived = before.has_lived || (!node.is_over() && !node.is_silent(now));
  const std::vector<CallChannel> those = std::exchange(node.state.view.hang.job.channels, {});
  place(node, those);
  std::map<Rank, std::size_t> rows;
  for (std::size_t row = 0; row < before.ranks().size(); ++row) {
    rows[before.ranks()[row].state.rank] = row;
  }
  for (std::size_t row = 0; row < node.ranks().size(); ++row) {
    const auto known = rows.find(node.ranks()[row].state.rank);
    const nanoseconds told = node.came - node.state.view.ranks[row].still_for;
    // A state may come later after it was made than the one before.
    const bool is_known = known != rows.end() && is_unmoved(before.ranks()[known->second], node.ranks()[row]);
    node.moved.push_back(is_known ? std::min(before.moved[known->second], told) : told);
  }
  if (channels.is_full()) {
    errors[place_name] = "there are too many communicators";
    nodes.erase(found);
    place_all_again();
  }
}

/// Those of the latest job. A node that runs and has not said that this has begun, too, is left out for a
/// while, and for good what jobs of another name, or that were over, had left.
Nodes NodesFollower::State::followed(nanoseconds now) const {
  constexpr std::chrono::seconds patience(60);
  const auto name_of_job = [](const FollowedNode& node) {
    return std::pair(node.state.view.job_id, node.state.view.name);
  };
  const FollowedNode* latest = nullptr;
  std::set<std::pair<std::string, std::string>> names;  // of nodes that are no leftovers
  for (const auto& [place_name, node] : nodes) {
    if (node.job != job) {
      continue;
    }
    latest = latest == nullptr || latest->came < node.came ? &node : latest;
    if (node.has_lived) {
      names.insert(name_of_job(node));
    }
  }
  if (names.empty() && latest != nullptr) {
    names.insert(name_of_job(*latest));
  }
  Nodes all;
  for (const auto& [place_name, node] : nodes) {
    const bool is_late = now - job_began > patience && !node.is_over() && !node.is_silent(now);
    if ((node.job == job || is_late) && names.contains(name_of_job(node))) {
      all.push_back(&node);
    }
  }
  return all;
}

/// Who waits for whom among the ranks of all nodes.
void NodesFollower::State::build_job(const Nodes& all, const PollTime& time) {
  homes.clear();
  AskedFor asked;
  for (const FollowedNode* const node : all) {
    const std::vector<LiveRank>& ranks = node->state.view.ranks;
    for (std::size_t row = 0; row < ranks.size(); ++row) {
      Home& home = homes[ranks[row].rank];
      home = home.node == nullptr || home.node->came < node->came ? Home{node, row} : home;
    }
  }
  LiveHang& hang = view.hang;
  hang = {};
  hang.job.channels = channels.all();
  for (const auto& [rank, home] : homes) {
    RankProgress progress = home.node->ranks()[home.row];
    progress.state.is_recorded = progress.state.is_recorded && !home.node->is_silent(time.steady);
    if (progress.is_known()) {
      asked.add(progress);
    }
    hang.job.ranks.push_back(std::move(progress));
  }
  for (const FollowedNode* const node : all) {
    for (const CallDifference& difference : node->state.view.hang.job.differences) {
      asked.add(difference);
    }
  }
  hang.job.differences = asked.differences();
  add_unrecorded(hang.job);
  std::vector<nanoseconds> moved(hang.job.ranks.size());
  hang.processes.resize(hang.job.ranks.size(), ProcessState::unknown);
  for (std::size_t row = 0; row < hang.job.ranks.size(); ++row) {
    const auto home = homes.find(hang.job.ranks[row].state.rank);
    if (home != homes.end()) {
      const FollowedNode& node = *home->second.node;
      const LiveRank& rank = node.state.view.ranks[home->second.row];
      moved[row] = node.moved[home->second.row];
      hang.processes[row] = node.is_silent(time.steady) ? ProcessState::unknown : rank.process_state;
    }
  }
  mark_halted(hang.job, hang.processes);
  view.state = state_of_job(all, hang, time.steady, !errors.empty());
  const nanoseconds known = known_until(all, time.steady);
  hang.pause_left = {};
  for (const FollowedNode* const node : all) {
    const nanoseconds told = node->state.view.hang.pause_left;
    if (told.count() > 0 && !node->is_silent(time.steady) && !is_at_end(node->state.view.state)) {
      hang.pause_left = std::max(hang.pause_left, told - (known - node->came));
    }
  }
  // Of several, one that tells nothing may be at fault.
  hang.is_part = all.size() == 1 && all.front()->state.view.hang.is_part && lacks_members(hang.job);
  watch.look(hang, moved, known, view.state);
}

void NodesFollower::State::fill_ranks(const PollTime& time) {
  const std::set<std::size_t> stuck = stuck_rows(view.hang);
  view.ranks.clear();
  for (std::size_t row = 0; row < view.hang.job.ranks.size(); ++row) {
    const auto home = homes.find(view.hang.job.ranks[row].state.rank);
    if (home == homes.end()) {
      continue;
    }
    const FollowedNode& node = *home->second.node;
    LiveRank& rank = view.ranks.emplace_back(node.state.view.ranks[home->second.row]);
    const nanoseconds since = time.steady - node.came;
    rank.process_state = view.hang.processes[row];
    rank.is_silent = node.is_silent(time.steady);
    if (rank.is_silent) {
      rank.error = fmt::format("{} has said nothing for {} s", node.state.node,
                               std::chrono::duration_cast<std::chrono::seconds>(since).count());
    }
    rank.still_for = time.steady - node.moved[home->second.row];
    rank.last_progress_unix_ns = time.unix_ns - rank.still_for.count();
    rank.state = state_of(rank, view.hang, row, stuck.contains(row));
    const SeenCall* const call = view.hang.job.ranks[row].state.has_ended ? nullptr : call_of(view.hang, row);
    const nanoseconds open_for =
        rank.call ? rank.call->open_for : rank.still_for - since;  // as its node saw it
    rank.call = call == nullptr ? std::nullopt : std::optional(live_call(*call, open_for));
  }
}

/// By what is compared between nodes.
void NodesFollower::State::judge_ranks(const Nodes& all, nanoseconds now) {
  SpanningLate late;
  for (const FollowedNode* const node : all) {
    for (const SpanningWork& work : node->state.view.spanning) {
      if (homes.at(work.rank).node == node && !node->is_silent(now)) {
        late.add(work);
      }
    }
  }
  late.judge(channels.all(), view.ranks);
}

void NodesFollower::State::say_silent(const Nodes& all, nanoseconds now) {
  std::vector<std::string> silent;
  for (const FollowedNode* const node : all) {
    if (node->is_silent(now)) {
      silent.push_back(node->state.node);
    }
  }
  const auto troubled = std::find_if(
      all.begin(), all.end(), [](const FollowedNode* node) { return !node->state.view.error.empty(); });
  const std::int64_t silent_nodes = std::ssize(silent);
  view.nodes = LiveNodes{
      .told = std::ssize(all) - silent_nodes, .silent = silent_nodes, .unreachable = std::ssize(errors)};
  view.error.clear();
  if (!silent.empty()) {
    const std::string count =
        all.size() == 1 ? "the only node" : fmt::format("{} of {} nodes", silent.size(), all.size());
    view.error = fmt::format("{} {} silent: {}{}", count, silent.size() == 1 ? "is" : "are", silent[0],
                             silent.size() > 1 ? ", …" : "");
  } else if (!errors.empty()) {
    view.error = fmt::format("{}: {}{}", errors.begin()->first, errors.begin()->second,
                             errors.size() > 1 ? fmt::format("; {} more", errors.size() - 1) : "");
  } else if (troubled != all.end()) {
    view.error = fmt::format("{}: {}", (*troubled)->state.node, (*troubled)->state.view.error);
  } else if (all.size() < nodes.size()) {
    const std::size_t others = nodes.size() - all.size();
    view.error = fmt::format("{} of {} nodes {} of another job than {}", others, nodes.size(),
                             others == 1 ? "is left out, since it tells" : "are left out, since they tell",
                             all.front()->state.view.name);
  }
}

/// What needs no rank of another node.
void NodesFollower::State::add_up(const Nodes& all) {
  std::vector<const std::vector<LiveOp>*> ops;
  for (const FollowedNode* const node : all) {
    ops.push_back(&node->state.view.ops);
  }
  view.ops = merged_ops(ops, homes.empty() ? 0 : homes.rbegin()->first.value + 1);
  view.totals = total_of(view.ops, &LiveOp::sums);
  view.recent = total_of(view.ops, &LiveOp::recent);
  view.steps = {};
  view.lost.clear();
  const LiveWatcher own = view.watcher;
  view.watcher = {.polls = own.polls, .took = own.took, .busy = own.busy};
  view.window = {};
  std::optional<Rank> leader;
  for (const FollowedNode* const node : all) {
    const JobView& its = node->state.view;
    const Iteration highest = std::max(view.steps.iteration, its.steps.iteration);
    const bool leads =
        its.steps.completed > 0 && !its.ranks.empty() && (!leader || its.ranks[0].rank < *leader);
    if (leads) {
      leader = its.ranks[0].rank;
      view.steps = its.steps;
    }
    view.steps.iteration = highest;
    for (const auto& [reason, calls] : its.lost) {
      std::int64_t& count = view.lost[reason];
      count = saturating_sum(count, calls);
    }
    view.watcher.records = saturating_sum(view.watcher.records, its.watcher.records);
    view.watcher.unread = saturating_sum(view.watcher.unread, its.watcher.unread);
    view.watcher.unfollowed_calls =
        saturating_sum(view.watcher.unfollowed_calls, its.watcher.unfollowed_calls);
    view.window = std::max(view.window, its.window);
  }
}

void NodesFollower::State::build(const PollTime& time) {
  const Nodes all = followed(time.steady);
  say_silent(all, time.steady);
  if (all.empty()) {
    return;
  }
  view.generation = job;
  const JobView& first = all.front()->state.view;
  view.name = first.name;
  view.job_id = first.job_id;
  view.producer = first.producer;
  view.description = first.description;
  build_job(all, time);
  watch.alert(view, time.unix_ns);
  for (const FollowedNode* const node : all) {
    for (LiveAlert alert : node->state.view.alerts) {
      alert.id = fmt::format("{}/{}", node->state.node, alert.id);
      view.alerts.push_back(std::move(alert));
    }
  }
  fill_ranks(time);
  judge_ranks(all, time.steady);
  add_up(all);
}

NodesFollower::NodesFollower(std::unique_ptr<NodeSource> source, std::string name,
                             const FollowOptions& options)
    : state_(std::make_unique<State>(std::move(source), options)) {
  state_->view.name = std::move(name);
}
NodesFollower::NodesFollower(NodesFollower&&) noexcept = default;
NodesFollower& NodesFollower::operator=(NodesFollower&&) noexcept = default;
NodesFollower::~NodesFollower() = default;

void NodesFollower::poll(PollTime time) {
  const auto began = std::chrono::steady_clock::now();
  State& state = *state_;
  ++state.view.watcher.polls;
  state.errors.clear();
  state.source->look([&](const std::string& place, Result<NodeState> node) {
    state.accept(place, std::move(node), time.steady);
  });
  state.build(time);
  state.view.watcher.took = std::chrono::steady_clock::now() - began;
  state.view.watcher.busy += state.view.watcher.took;
}

const JobView& NodesFollower::view() const { return state_->view; }

}  // namespace commlens
