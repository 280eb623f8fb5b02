#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/live/node_names.hpp"
#include "commlens/live/node_state.hpp"
#include "commlens/trace/rank_process.hpp"

namespace commlens {
namespace {

using nlohmann::ordered_json;
using std::chrono::nanoseconds;

/// Runs of ranks at equal distances: [first, how many, distance].
ordered_json members_json(const std::vector<Rank>& members) {
  ordered_json runs = ordered_json::array();
  for (std::size_t at = 0; at < members.size();) {
    const std::int64_t step = at + 1 < members.size() ? members[at + 1].value - members[at].value : 1;
    std::size_t end = at + 1;
    while (step > 0 && end < members.size() && members[end].value - members[end - 1].value == step) {
      ++end;
    }
    runs.push_back({members[at].value, end - at, std::max<std::int64_t>(step, 1)});
    at = end;
  }
  return runs;
}

ordered_json durations_json(const DurationHistogram& durations) {
  ordered_json counts = ordered_json::array();
  for (std::size_t which = 0; which < DurationHistogram::k_classes; ++which) {
    if (durations.count(which) > 0) {
      counts.push_back({which, durations.count(which)});
    }
  }
  return {{"longest_ns", durations.longest().count()}, {"counts", std::move(counts)}};
}

ordered_json sums_json(const LiveSums& sums) {
  return {{"calls", sums.calls},
          {"message_bytes", sums.message.value},
          {"wire_bytes", sums.wire.value},
          {"time_ns", sums.time.count()}};
}

ordered_json known_ns(const std::optional<nanoseconds>& time) {
  return time ? ordered_json(time->count()) : ordered_json(nullptr);
}

ordered_json channel_json(const CallChannel& channel) {
  const std::string_view kind = channel.is_window ? k_window_channel
                                : channel.is_pair ? k_pair_channel
                                                  : k_collective_channel;
  return {{"kind", kind},
          {"members", members_json(channel.members)},
          {"communicator", channel.communicator == k_no_communicator ? "" : text_of(channel.communicator)}};
}

ordered_json seen_json(const SeenCall& call) {
  ordered_json object = {{"part", name_of(call.part)},
                         {"number", call.number},
                         {"op", name_of(call.op.kind)},
                         {"name", call.name},
                         {"dtype", name_of(call.op.dtype)},
                         {"input", call.op.input.value},
                         {"output", call.op.output.value},
                         {"match", name_of(call.op.match)},
                         {"rounding_bytes", call.op.rounding.value},
                         {"root", call.root},
                         {"iteration", call.iteration},
                         {"tag", call.tag},
                         {"site", call.site}};
  if (call.op.blocking) {
    object["blocking"] = *call.op.blocking;
  }
  if (call.is_on_device) {
    object["on_device"] = true;
  }
  if (call.channel == k_no_channel) {
    object["members"] = members_json(call.members);
  } else {
    object["channel"] = call.channel;
  }
  return object;
}

ordered_json process_json(const RankProcess& process) {
  ordered_json object = {{"host", process.host},
                         {"pid", process.pid},
                         {"start_ticks", process.start_ticks},
                         {"exe", process.exe},
                         {"job_id", process.job_id}};
  if (process.local_rank) {
    object["local_rank"] = *process.local_rank;
  }
  return object;
}

ordered_json progress_json(const RankProgress& progress) {
  ordered_json entered = ordered_json::array();
  for (const auto& [channel, number] : std::map(progress.entered.begin(), progress.entered.end())) {
    entered.push_back({channel, number});
  }
  ordered_json open = ordered_json::array();
  std::size_t told[] = {0, 0};  // requests, blocking calls
  for (const SeenCall& call : progress.open) {
    if (told[call.is_blocking() ? 1 : 0]++ < k_most_calls_of_node) {
      open.push_back(seen_json(call));
    }
  }
  return {{"entered", progress.calls},
          {"entered_by_channel", std::move(entered)},
          {"open", std::move(open)},
          {"last", progress.last ? seen_json(*progress.last) : ordered_json(nullptr)},
          {"last_failed", progress.has_last_failed},
          {"begins_to_end", progress.state.has_begun_to_end},
          {"ended", progress.state.has_ended},
          {"unknown_calls", progress.state.lost}};
}

ordered_json rank_json(const LiveRank& rank, const RankProgress& progress) {
  ordered_json object = {
      {"rank", rank.rank.value},
      {"process", rank.process ? process_json(*rank.process) : ordered_json(nullptr)},
      {"process_state", name_of(rank.process_state)},
      {"open_calls", rank.open_calls},
      {"iteration", rank.iteration},
      {"sums", sums_json(rank.sums)},
      {"recent", sums_json(rank.recent)},
      {"in_calls_ns", rank.in_calls.count()},
      {"between_calls_ns", rank.between_calls.count()},
      {"still_ns", rank.still_for.count()},
      {"late_share", rank.late_score ? ordered_json(*rank.late_score) : ordered_json(nullptr)},
      {"late_members", rank.late_members},
      {"lost_calls", rank.lost},
      {"lost_records", rank.lost_records},
      {"error", rank.error},
      {"open_for_ns", rank.call ? ordered_json(rank.call->open_for.count()) : ordered_json(nullptr)}};
  object["calls"] = progress_json(progress);
  return object;
}

ordered_json op_json(const LiveOp& op) {
  return {{"op", name_of(op.kind)},
          {"name", op.name},
          {"axis", op.axis.name()},
          {"group_size", op.group_size},
          {"sums", sums_json(op.sums)},
          {"first_calls", op.first_calls},
          {"first_time_ns", op.first_time.count()},
          {"recent", sums_json(op.recent)},
          {"knows_wire", op.knows_wire},
          {"smallest_bytes", op.smallest.value},
          {"largest_bytes", op.largest.value},
          {"durations", durations_json(op.durations)}};
}

ordered_json signature_json(const CallSignature& signature) {
  ordered_json object = {{"op", name_of(signature.kind)},
                         {"name", signature.name},
                         {"root", signature.root},
                         {"elements", signature.elements}};
  if (signature.dtype) {
    object["dtype"] = name_of(*signature.dtype);
  }
  return object;
}

ordered_json difference_json(const CallDifference& difference) {
  ordered_json sides = ordered_json::array();
  for (const auto& [signature, ranks] : difference.sides) {
    if (sides.size() == k_most_sides_of_node) {
      break;
    }
    sides.push_back({{"asked_for", signature_json(signature)}, {"ranks", members_json(ranks)}});
  }
  return {{"channel", difference.channel}, {"number", difference.number}, {"sides", std::move(sides)}};
}

ordered_json alert_of_node_json(const LiveAlert& alert) {
  return {{"id", alert.id},
          {"kind", alert.kind},
          {"text", alert.text},
          {"culprits", members_json(alert.culprits)},
          {"still_ns", alert.still_for.count()},
          {"since_unix_ns", alert.since_unix_ns}};
}

ordered_json job_json(const NodeState& state) {
  const JobView& view = state.view;
  return {{"schema", k_node_schema},
          {"node", state.node},
          {"follower", state.follower},
          {"number", state.number},
          {"interval_ns", state.interval.count()},
          {"trace", view.name},
          {"job_id", view.job_id},
          {"job", name_of(view.state)},
          {"generation", view.generation},
          {"error", view.error},
          {"producer", view.producer},
          {"description", view.description},
          {"window_ns", view.window.count()},
          {"pause_left_ns", view.hang.pause_left.count()},
          {"partial", view.hang.is_part},
          {"steps",
           {{"iteration", view.steps.iteration},
            {"completed", view.steps.completed},
            {"last_ns", known_ns(view.steps.last)},
            {"median_ns", known_ns(view.steps.median)},
            {"durations", durations_json(view.steps.durations)}}},
          {"lost", view.lost},
          {"watcher",
           {{"polls", view.watcher.polls},
            {"records", view.watcher.records},
            {"unread_records", view.watcher.unread},
            {"unfollowed_calls", view.watcher.unfollowed_calls},
            {"busy_ns", view.watcher.busy.count()}}}};
}

/// Whether two have the same calls in the same blocks.
bool are_alike(const SpanningWork& a, const SpanningWork& b) {
  return a.channel == b.channel && a.is_marked == b.is_marked && a.begin == b.begin &&
         std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                    [](const WorkBlock& one, const WorkBlock& other) {
                      return one.end == other.end && one.work.calls == other.work.calls &&
                             one.work.signature == other.work.signature;
                    });
}

/// [rank, unit, times between calls, times in calls]: the unit is the power of ten, in ns, by which the
/// longest has no more than the digits that are told.
ordered_json times_json(const SpanningWork& work) {
  std::int64_t longest = 0;
  for (const WorkBlock& block : work.blocks) {
    longest = std::max({longest, block.work.between_ns, block.work.in_calls_ns});
  }
  std::int64_t unit = 1;
  while (longest / unit > k_longest_time_of_node && unit < k_largest_unit_of_node) {
    unit *= 10;
  }
  ordered_json row = {work.rank.value, unit};
  for (const WorkBlock& block : work.blocks) {
    row.push_back(std::min(block.work.between_ns / unit, k_longest_time_of_node));
  }
  for (const WorkBlock& block : work.blocks) {
    row.push_back(std::min(block.work.in_calls_ns / unit, k_longest_time_of_node));
  }
  return row;
}

/// Ranks whose calls are alike, as those of one node are most often, have one row.
ordered_json spanning_json(const std::vector<SpanningWork>& all) {
  ordered_json rows = ordered_json::array();
  std::vector<const SpanningWork*> firsts;  // of the rows
  for (const SpanningWork& work : all) {
    const auto found = std::find_if(firsts.begin(), firsts.end(),
                                    [&](const SpanningWork* first) { return are_alike(*first, work); });
    if (found != firsts.end()) {
      rows[static_cast<std::size_t>(found - firsts.begin())]["times"].push_back(times_json(work));
      continue;
    }
    firsts.push_back(&work);
    ordered_json bounds = {work.begin};
    ordered_json calls = ordered_json::array();
    ordered_json signatures = ordered_json::array();
    for (const WorkBlock& block : work.blocks) {
      bounds.push_back(block.end);
      calls.push_back(block.work.calls);
      signatures.push_back(block.work.signature);
    }
    rows.push_back({{"channel", work.channel},
                    {"marked", work.is_marked},
                    {"bounds", std::move(bounds)},
                    {"calls", std::move(calls)},
                    {"signatures", std::move(signatures)},
                    {"times", ordered_json::array({times_json(work)})}});
  }
  return rows;
}

template <typename Rows, typename ToJson>
ordered_json rows_of(const Rows& rows, const ToJson& to_json) {
  ordered_json array = ordered_json::array();
  for (const auto& row : rows) {
    array.push_back(to_json(row));
  }
  return array;
}

}  // namespace

std::string node_state_text(const NodeState& state) {
  const JobProgress& job = state.view.hang.job;
  ordered_json object = job_json(state);
  object["alerts"] = rows_of(state.view.alerts, alert_of_node_json);
  object["channels"] = rows_of(job.channels, channel_json);
  object["ranks"] = ordered_json::array();
  for (std::size_t row = 0; row < state.view.ranks.size(); ++row) {
    object["ranks"].push_back(rank_json(state.view.ranks[row], job.ranks[row]));
  }
  object["spanning"] = spanning_json(state.view.spanning);
  object["ops"] = rows_of(state.view.ops, op_json);
  object["differences"] = rows_of(job.differences, difference_json);
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

NodeState node_state_of(const JobView& view, std::string node, nanoseconds interval) {
  const RankProcess own = own_process();
  NodeState state{.node = std::move(node),
                  .follower = fmt::format("{}:{}", own.pid, own.start_ticks),
                  .number = view.watcher.polls,
                  .interval = interval,
                  .view = view};
  JobView& its = state.view;
  its.hang = {};
  its.hang.pause_left = view.hang.pause_left;
  its.hang.is_part = view.hang.is_part;
  its.hang.job.channels = view.hang.job.channels;
  its.hang.job.differences = view.hang.job.differences;
  its.ranks.clear();
  std::map<Rank, std::size_t> rows;
  for (std::size_t row = 0; row < view.hang.job.ranks.size(); ++row) {
    rows[view.hang.job.ranks[row].state.rank] = row;
  }
  for (const LiveRank& rank : view.ranks) {
    const auto row = rows.find(rank.rank);
    if (rank.state != LiveRankState::absent && row != rows.end()) {
      its.ranks.push_back(rank);
      its.hang.job.ranks.push_back(view.hang.job.ranks[row->second]);
      its.hang.processes.push_back(rank.process_state);
    }
  }
  std::erase_if(its.spanning, [&](const SpanningWork& work) {
    return std::none_of(its.ranks.begin(), its.ranks.end(),
                        [&](const LiveRank& rank) { return rank.rank == work.rank; });
  });
  // The others are found by who follows all nodes.
  std::erase_if(its.alerts, [](const LiveAlert& alert) {
    return alert.kind != k_alert_volume && alert.kind != k_alert_slower;
  });
  return state;
}

}  // namespace commlens
