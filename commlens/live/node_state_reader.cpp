#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/live/node_names.hpp"
#include "commlens/live/node_spanning.hpp"
#include "commlens/live/node_state.hpp"
#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr JsonFields::Range k_any = {INT64_MIN, INT64_MAX};
constexpr JsonFields::Range k_count = {0, INT64_MAX};
constexpr JsonFields::Range k_age = {
    0, std::int64_t{1} << 56};  // two years in ns: ages are added and multiplied
constexpr JsonFields::Range k_pause = {0, nanoseconds(k_longest_pause).count()};
constexpr JsonFields::Range k_rank = {0,
                                      std::int64_t{1} << 17};  // a job of more is none that can be followed
constexpr JsonFields::Range k_root = {-1, k_rank.second};
constexpr JsonFields::Range k_elements = {-1, std::int64_t{1} << 56};
constexpr JsonFields::Range k_iterations = {INT32_MIN, INT32_MAX};
// A state of more is none: 10,000 members in each of 100 communicators are 10^6.
constexpr std::size_t k_most_members = std::size_t{1} << 24;

/// The value that has a name, of those whose numbers are below `end`.
template <typename Enum>
std::optional<Enum> named(std::string_view name, int end) {
  for (int number = 0; number < end; ++number) {
    if (name_of(static_cast<Enum>(number)) == name) {
      return static_cast<Enum>(number);
    }
  }
  return std::nullopt;
}

/// Reads one state.
class NodeReader {
 public:
  explicit NodeReader(const json& root) : root_(root) {}

  Result<NodeState> read() {
    if (fields_.text(root_, "", "schema") != k_node_schema) {
      return failure(fmt::format("no state of a node: its \"schema\" is not \"{}\"", k_node_schema));
    }
    read_job();
    for (const json& channel : fields_.array(root_, "", "channels")) {
      view_.hang.job.channels.push_back(channel_of(channel));
    }
    for (const json& rank : fields_.array(root_, "", "ranks")) {
      read_rank(rank);
      ranks_.push_back(view_.ranks.back().rank);
    }
    std::sort(ranks_.begin(), ranks_.end());
    if (fields_.find(root_, "", "spanning", true) != nullptr) {
      SpanningReader spanning(fields_, view_.hang.job.channels, ranks_);
      for (const json& row : fields_.array(root_, "", "spanning")) {
        spanning.read(row, view_.spanning);
      }
    }
    for (const json& op : fields_.array(root_, "", "ops")) {
      view_.ops.push_back(op_of(op));
    }
    for (const json& difference : fields_.array(root_, "", "differences")) {
      view_.hang.job.differences.push_back(difference_of(difference));
    }
    for (const json& alert : fields_.array(root_, "", "alerts")) {
      view_.alerts.push_back(alert_of(alert));
    }
    if (fields_.error) {
      return failure(*fields_.error);
    }
    return std::move(state_);
  }

 private:
  using Object = const json&;

  nanoseconds time(Object object, const std::string& where, const char* key,
                   JsonFields::Range range = k_count) {
    return nanoseconds(fields_.number(object, where, key, range));
  }
  nanoseconds age(Object object, const std::string& where, const char* key) {
    return time(object, where, key, k_age);
  }
  std::optional<nanoseconds> known_age(Object object, const std::string& where, const char* key) {
    const json* const value = fields_.find(object, where, key, false);
    return value == nullptr || value->is_null() ? std::nullopt : std::optional(age(object, where, key));
  }
  Object part(Object object, const std::string& where, const char* key) {
    static const json none = json::object();
    const json* const value = fields_.find(object, where, key, false);
    return value == nullptr ? none : *value;
  }
  /// A row of two numbers.
  std::pair<std::int64_t, std::int64_t> two(Object row, const std::string& where, JsonFields::Range second) {
    if (!row.is_array() || row.size() != 2 || !is_number_in(row[0], k_rank) ||
        !is_number_in(row[1], second)) {
      fields_.fail(where, "must be pairs of numbers in their range");
      return {0, second.first};
    }
    return {row[0].get<std::int64_t>(), row[1].get<std::int64_t>()};
  }

  std::vector<Rank> members_of(Object object, const std::string& where, const char* key) {
    std::vector<Rank> members;
    for (const json& run : fields_.array(object, where, key)) {
      const bool is_run =
          run.is_array() && run.size() == 3 &&
          std::all_of(run.begin(), run.end(), [](const json& each) { return is_number_in(each, k_rank); });
      const std::int64_t first = is_run ? run[0].get<std::int64_t>() : 0;
      const std::int64_t count = is_run ? run[1].get<std::int64_t>() : 0;
      const std::int64_t step = is_run ? run[2].get<std::int64_t>() : 0;
      members_ += static_cast<std::size_t>(count);
      if (count < 1 || step < 1 || members_ > k_most_members || (k_rank.second - first) / step < count - 1) {
        fields_.fail(where, "has members that cannot be");
        return {};
      }
      for (std::int64_t at = 0; at < count; ++at) {
        members.push_back(Rank{first + at * step});
      }
    }
    return members;
  }

  DurationHistogram durations_of(Object object, const std::string& where) {
    DurationHistogram durations;
    Object its = part(object, where, "durations");
    durations.note_longest(age(its, where, "longest_ns"));
    for (const json& row : fields_.array(its, where, "counts")) {
      const auto [which, count] = two(row, where, {0, std::int64_t{1} << 48});
      if (static_cast<std::size_t>(which) >= DurationHistogram::k_classes) {
        fields_.fail(where, "has a class of durations that there is not");
        return durations;
      }
      durations.add_counted(static_cast<std::size_t>(which), static_cast<std::uint64_t>(count));
    }
    return durations;
  }

  LiveSums sums_of(Object object, const std::string& where, const char* key) {
    Object its = part(object, where, key);
    return {.calls = fields_.number(its, where, "calls", k_count),
            .message = Bytes{fields_.number(its, where, "message_bytes", k_count)},
            .wire = Bytes{fields_.number(its, where, "wire_bytes", k_count)},
            .time = time(its, where, "time_ns")};
  }

  void read_job() {
    state_.node = fields_.text(root_, "", "node");
    state_.follower = fields_.text(root_, "", "follower");
    state_.number = fields_.number(root_, "", "number", k_count);
    state_.interval = age(root_, "", "interval_ns");
    view_.name = fields_.text(root_, "", "trace");
    view_.job_id = fields_.text(root_, "", "job_id");
    view_.state =
        fields_.word(root_, "", "job", [](const std::string& name) { return named<LiveState>(name, 6); });
    view_.generation = fields_.number(root_, "", "generation", k_count);
    view_.error = fields_.text(root_, "", "error");
    view_.producer = fields_.text(root_, "", "producer");
    view_.description = fields_.text(root_, "", "description");
    view_.window = age(root_, "", "window_ns");
    view_.hang.pause_left = nanoseconds(fields_.number(root_, "", "pause_left_ns", k_pause, 0));
    view_.hang.is_part = fields_.flag(root_, "", "partial", false);
    Object steps = part(root_, "", "steps");
    view_.steps = {.iteration = iteration_of(steps, "steps"),
                   .completed = fields_.number(steps, "steps", "completed", k_count),
                   .last = known_age(steps, "steps", "last_ns"),
                   .median = known_age(steps, "steps", "median_ns"),
                   .durations = durations_of(steps, "steps")};
    Object lost = part(root_, "", "lost");
    for (auto reason = lost.begin(); lost.is_object() && reason != lost.end(); ++reason) {
      view_.lost[reason.key()] = fields_.number(lost, "lost", reason.key().c_str(), k_count);
    }
    Object watcher = part(root_, "", "watcher");
    view_.watcher = {.polls = fields_.number(watcher, "watcher", "polls", k_count),
                     .records = fields_.number(watcher, "watcher", "records", k_count),
                     .unread = fields_.number(watcher, "watcher", "unread_records", k_count),
                     .took = {},
                     .busy = time(watcher, "watcher", "busy_ns"),
                     .unfollowed_calls = fields_.number(watcher, "watcher", "unfollowed_calls", k_count)};
  }

  Iteration iteration_of(Object object, const std::string& where) {
    return static_cast<Iteration>(fields_.number(object, where, "iteration", k_iterations));
  }

  CallChannel channel_of(Object object) {
    const std::string where = "channels";
    const std::string kind = fields_.text(object, where, "kind");
    CallChannel channel{
        .is_pair = kind == k_pair_channel,
        .is_window = kind == k_window_channel,
        .members = members_of(object, where, "members"),
        .communicator = fields_.word(object, where, "communicator", [](const std::string& text) {
          return text.empty() ? std::optional(k_no_communicator) : communicator_from(text);
        })};
    if (!channel.is_pair && !channel.is_window && kind != k_collective_channel) {
      fields_.fail(where, "has a channel of unknown kind");
    }
    if (channel.members.empty() || (channel.is_pair && channel.members.size() != 2)) {
      fields_.fail(where, "has a channel without its members");
    }
    return channel;
  }

  std::size_t channel_row(Object object, const std::string& where) {
    const std::int64_t most = std::ssize(view_.hang.job.channels) - 1;
    return static_cast<std::size_t>(fields_.number(object, where, "channel", {0, most}));
  }

  SeenCall call_of(Object object) {
    const std::string where = "call";
    SeenCall call;
    call.part =
        fields_.word(object, where, "part", [](const std::string& name) { return named<CallPart>(name, 5); });
    call.number = fields_.number(object, where, "number", k_count);
    call.op.kind = fields_.word(object, where, "op", &comm_kind_from);
    call.op.dtype = fields_.word(object, where, "dtype", &dtype_from);
    call.op.input = Elements{fields_.number(object, where, "input", {0, k_elements.second})};
    call.op.output = Elements{fields_.number(object, where, "output", {0, k_elements.second})};
    call.op.match = fields_.word(object, where, "match", &match_from);
    call.op.rounding = Bytes{fields_.number(object, where, "rounding_bytes", {0, k_elements.second})};
    if (fields_.find(object, where, "blocking", true) != nullptr) {
      call.op.blocking = fields_.flag(object, where, "blocking", false);
    }
    call.is_on_device = fields_.flag(object, where, "on_device", false);
    call.name = fields_.text(object, where, "name");
    call.tag = fields_.text(object, where, "tag");
    call.site = fields_.text(object, where, "site");
    call.root = fields_.number(object, where, "root", k_root);
    call.iteration = iteration_of(object, where);
    if (fields_.find(object, where, "channel", true) != nullptr) {
      call.channel = channel_row(object, where);
    } else {
      call.members = members_of(object, where, "members");
    }
    const bool has_channel = call.channel < view_.hang.job.channels.size();
    const bool is_pair = has_channel && view_.hang.job.channels[call.channel].is_pair;
    const bool is_message = call.part == CallPart::send || call.part == CallPart::receive;
    if (has_channel != (is_message || call.part == CallPart::collective) || is_pair != is_message) {
      fields_.fail(where, "\"part\" does not go with its channel");
    }
    return call;
  }

  std::optional<RankProcess> process_of(Object object) {
    Object its = part(object, "ranks", "process");
    if (its.is_null()) {
      return std::nullopt;
    }
    RankProcess process{.host = fields_.text(its, "process", "host"),
                        .pid = fields_.number(its, "process", "pid", k_count),
                        .start_ticks = fields_.number(its, "process", "start_ticks", k_count),
                        .exe = fields_.text(its, "process", "exe"),
                        .job_id = fields_.text(its, "process", "job_id"),
                        .local_rank = {}};
    if (fields_.find(its, "process", "local_rank", true) != nullptr) {
      process.local_rank = fields_.number(its, "process", "local_rank", k_rank);
    }
    return process;
  }

  RankProgress progress_of(Object object, const LiveRank& rank) {
    const std::string where = "calls";
    RankProgress progress{
        .state = {.rank = rank.rank, .is_recorded = rank.error.empty(), .process = rank.process, .boot = {}}};
    progress.state.has_begun_to_end = fields_.flag(object, where, "begins_to_end", false);
    progress.state.has_ended = fields_.flag(object, where, "ended", false);
    progress.state.lost = fields_.number(object, where, "unknown_calls", k_count);
    progress.calls = fields_.number(object, where, "entered", k_count);
    for (const json& row : fields_.array(object, where, "entered_by_channel")) {
      const auto [channel, number] = two(row, where, k_count);
      if (channel >= std::ssize(view_.hang.job.channels)) {
        fields_.fail(where, "has a channel that there is not");
        return progress;
      }
      progress.entered[static_cast<std::size_t>(channel)] = number;
    }
    const json& open = fields_.array(object, where, "open");
    if (open.size() > 2 * k_most_calls_of_node) {
      fields_.fail(where, "has too many calls under way");
      return progress;
    }
    for (const json& call : open) {
      progress.open.push_back(call_of(call));
    }
    if (Object last = part(object, where, "last"); !last.is_null()) {
      progress.last = call_of(last);
    }
    progress.has_last_failed = fields_.flag(object, where, "last_failed", false);
    return progress;
  }

  void read_rank(Object object) {
    const std::string where = "ranks";
    LiveRank& rank = view_.ranks.emplace_back();
    rank.rank = Rank{fields_.number(object, where, "rank", k_rank)};
    rank.process = process_of(object);
    rank.process_state = fields_.word(object, where, "process_state",
                                      [](const std::string& name) { return named<ProcessState>(name, 6); });
    rank.open_calls = fields_.number(object, where, "open_calls", k_count);
    rank.iteration = iteration_of(object, where);
    rank.sums = sums_of(object, where, "sums");
    rank.recent = sums_of(object, where, "recent");
    rank.in_calls = age(object, where, "in_calls_ns");
    rank.between_calls = age(object, where, "between_calls_ns");
    rank.still_for = age(object, where, "still_ns");
    rank.lost = fields_.number(object, where, "lost_calls", k_count);
    rank.lost_records = fields_.number(object, where, "lost_records", k_count, 0);
    rank.error = fields_.text(object, where, "error");
    if (Object share = part(object, where, "late_share"); share.is_number()) {
      rank.late_score = std::clamp(share.get<double>(), 0.0, 1.0);
    }
    rank.late_members = fields_.number(object, where, "late_members", k_rank, 0);
    Object calls = part(object, where, "calls");
    rank.entered = fields_.number(calls, where, "entered", k_count);
    if (const std::optional<nanoseconds> open_for = known_age(object, where, "open_for_ns")) {
      rank.call = LiveCall{};
      rank.call->open_for = *open_for;
    }
    view_.hang.job.ranks.push_back(progress_of(calls, rank));
    view_.hang.processes.push_back(rank.process_state);
  }

  LiveOp op_of(Object object) {
    const std::string where = "ops";
    LiveOp op;
    op.kind = fields_.word(object, where, "op", &comm_kind_from);
    op.name = fields_.text(object, where, "name");
    op.axis = fields_.word(object, where, "axis", [](const std::string& name) { return Axis::from(name); });
    op.group_size = fields_.number(object, where, "group_size", k_rank);
    op.sums = sums_of(object, where, "sums");
    op.first_calls = fields_.number(object, where, "first_calls", k_count, 0);
    op.first_time = nanoseconds(fields_.number(object, where, "first_time_ns", k_count, 0));
    op.recent = sums_of(object, where, "recent");
    op.knows_wire = fields_.flag(object, where, "knows_wire", true);
    op.smallest = Bytes{fields_.number(object, where, "smallest_bytes", k_count)};
    op.largest = Bytes{fields_.number(object, where, "largest_bytes", k_count)};
    op.durations = durations_of(object, where);
    return op;
  }

  CallDifference difference_of(Object object) {
    const std::string where = "differences";
    CallDifference difference{.channel = channel_row(object, where),
                              .number = fields_.number(object, where, "number", k_count),
                              .sides = {}};
    const json& sides = fields_.array(object, where, "sides");
    if (sides.size() > k_most_sides_of_node) {
      fields_.fail(where, "has too many sides");
      return difference;
    }
    for (const json& side : sides) {
      Object asked = part(side, where, "asked_for");
      CallSignature signature{.kind = fields_.word(asked, where, "op", &comm_kind_from),
                              .name = fields_.text(asked, where, "name"),
                              .dtype = {},
                              .root = fields_.number(asked, where, "root", k_root),
                              .elements = fields_.number(asked, where, "elements", k_elements)};
      if (fields_.find(asked, where, "dtype", true) != nullptr) {
        signature.dtype = fields_.word(asked, where, "dtype", &dtype_from);
      }
      difference.sides.emplace_back(std::move(signature), members_of(side, where, "ranks"));
    }
    return difference;
  }

  LiveAlert alert_of(Object object) {
    const std::string where = "alerts";
    LiveAlert alert{.id = fields_.text(object, where, "id"),
                    .kind = fields_.text(object, where, "kind"),
                    .text = fields_.text(object, where, "text"),
                    .culprits = members_of(object, where, "culprits"),
                    .still_for = age(object, where, "still_ns")};
    alert.since_unix_ns = fields_.number(object, where, "since_unix_ns", k_any);
    return alert;
  }

  const json& root_;
  NodeState state_;
  JobView& view_ = state_.view;
  JsonFields fields_;
  std::size_t members_ = 0;  // of all groups
  std::vector<Rank> ranks_;  // ascending
};

}  // namespace

std::string_view name_of(CallPart part) {
  switch (part) {
    case CallPart::collective:
      return "collective";
    case CallPart::send:
      return "send";
    case CallPart::receive:
      return "receive";
    case CallPart::receive_any:
      return "receive_any";
    case CallPart::other:
      return "other";
  }
  return "";
}

Result<NodeState> node_state_from(std::string_view text) {
  return parse_json(text).and_then([](const json& root) { return NodeReader(root).read(); });
}

}  // namespace commlens
