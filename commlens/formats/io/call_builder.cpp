#include "commlens/formats/io/call_builder.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"

namespace commlens::formats {
namespace {

/// 1 PiB: no buffer of a real rank; a larger size is a broken file.
constexpr std::int64_t k_largest_message = std::int64_t{1} << 50;

template <typename Enum>
std::vector<std::string_view> names_up_to(Enum last) {
  std::vector<std::string_view> names;
  for (int value = 0; value <= static_cast<int>(last); ++value) {
    names.push_back(name_of(static_cast<Enum>(value)));
  }
  return names;
}

Result<std::int64_t> within(std::string_view field, std::optional<std::int64_t> value, std::int64_t lowest,
                            std::int64_t highest) {
  if (!value) {
    return failure(fmt::format("field \"{}\" is missing", field));
  }
  if (*value < lowest || *value > highest) {
    return failure(fmt::format("field \"{}\" is {}, expected {} to {}", field, *value, lowest, highest));
  }
  return *value;
}

Error unknown_word(std::string_view field, std::string_view word, std::span<const std::string_view> known,
                   std::string_view otherwise) {
  if (word.empty()) {
    return {fmt::format("field \"{}\" is missing", field)};
  }
  const std::string close = nearest(word, known);
  return {fmt::format(R"(field "{}" is "{}", which is unknown; {})", field, word.substr(0, 40),
                      close.empty() ? std::string(otherwise) : fmt::format("did you mean \"{}\"?", close))};
}

Result<Rank> rank_of(const CallRecord& record) {
  const Result<std::int64_t> rank = within("rank", record.rank, 0, k_max_ranks - 1);
  if (!rank) {
    return tl::unexpected(rank.error());
  }
  return Rank{*rank};
}

Result<CommKind> kind_of(const CallRecord& record) {
  if (!record.op.known) {
    return tl::unexpected(unknown_word("op", record.op.unknown, names_up_to(CommKind::other),
                                       R"(write "other" and put the name into "name")"));
  }
  return *record.op.known;
}

Result<DType> dtype_of(const CallRecord& record, CommKind kind) {
  if (record.dtype.empty() && kind == CommKind::barrier) {
    return DType::uint8;
  }
  if (!record.dtype.known) {
    return tl::unexpected(unknown_word("dtype", record.dtype.unknown, names_up_to(DType::uint8),
                                       "expected fp32, fp16, bf16, int64, uint8, …"));
  }
  return *record.dtype.known;
}

Result<Match> match_of(const CallRecord& record) {
  if (record.match.empty()) {
    return record.data_dependent.value_or(false) ? Match::count : Match::exact;
  }
  if (!record.match.known) {
    return tl::unexpected(unknown_word("match", record.match.unknown, names_up_to(Match::random),
                                       "expected exact, count or random"));
  }
  return *record.match.known;
}

Result<Elements> size_of_field(std::string_view field, std::optional<std::int64_t> bytes, DType dtype,
                               CommKind kind) {
  if (!bytes && kind == CommKind::barrier) {
    return Elements{};
  }
  const Result<std::int64_t> checked = within(field, bytes, 0, k_largest_message);
  if (!checked) {
    return tl::unexpected(checked.error());
  }
  if (*checked % size_of(dtype) != 0) {
    return failure(fmt::format("field \"{}\" is {}, not a multiple of the {} bytes of {}", field, *checked,
                               size_of(dtype), name_of(dtype)));
  }
  return Elements{*checked / size_of(dtype)};
}

Result<void> check_pair(const CallRecord& record, CommKind kind, Rank rank) {
  const std::vector<Rank>& group = record.group.ranks;
  if (group.size() != 2) {
    return failure(fmt::format("field \"group\" of a {} must be [source, destination]", name_of(kind)));
  }
  const bool sends = kind == CommKind::send;
  if ((sends ? group[0] : group[1]) != rank) {
    return failure(
        fmt::format("field \"group\" of rank {}'s {} must have it as the {} of [source, destination]",
                    rank.value, name_of(kind), sends ? "source" : "destination"));
  }
  const Rank other = sends ? group[1] : group[0];
  if (record.peer && *record.peer != other.value) {
    return failure(
        fmt::format(R"(field "peer" is {}, but "group" names rank {})", *record.peer, other.value));
  }
  return {};
}

/// A rank that is in the list twice. Most lists ascend, and are not copied for it.
std::optional<Rank> repeated_in(const std::vector<Rank>& group) {
  if (std::adjacent_find(group.begin(), group.end(), std::greater_equal<>()) == group.end()) {
    return std::nullopt;
  }
  std::vector<Rank> sorted = group;
  std::sort(sorted.begin(), sorted.end());
  const auto repeated = std::adjacent_find(sorted.begin(), sorted.end());
  return repeated == sorted.end() ? std::nullopt : std::optional(*repeated);
}

Result<void> check_group(const CallRecord& record, CommKind kind, Rank rank) {
  const std::vector<Rank>& group = record.group.ranks;
  if (!record.group.is_given && !record.group_size) {
    return failure("field \"group\" is missing");
  }
  if (record.group_size) {
    if (const auto size = within("group_size", record.group_size, 1, k_max_ranks); !size) {
      return tl::unexpected(size.error());
    }
    const auto listed = static_cast<std::int64_t>(group.size());
    if (listed > 0 && listed != *record.group_size) {
      return failure(
          fmt::format(R"(field "group_size" is {}, but "group" names {} ranks)", *record.group_size, listed));
    }
    if (is_point_to_point(kind) && *record.group_size != 2) {
      return failure(fmt::format("field \"group_size\" is {}, but a {} has two ranks", *record.group_size,
                                 name_of(kind)));
    }
  }
  for (const Rank member : group) {
    if (member.value < 0 || member.value >= k_max_ranks) {
      return failure(
          fmt::format("field \"group\" names rank {}, expected 0 to {}", member.value, k_max_ranks - 1));
    }
  }
  if (group.empty()) {
    return {};
  }
  if (is_point_to_point(kind)) {
    return check_pair(record, kind, rank);
  }
  if (const std::optional<Rank> repeated = repeated_in(group)) {
    return failure(
        fmt::format("field \"group\" must name each rank once: {} is there twice", repeated->value));
  }
  if (std::find(group.begin(), group.end(), rank) == group.end()) {
    return failure(fmt::format("field \"group\" does not name rank {}, whose call this is", rank.value));
  }
  return {};
}

Result<std::optional<GroupRank>> root_of(const CallRecord& record, CommKind kind,
                                         const std::vector<Rank>& group) {
  const bool needs_root = kind == CommKind::broadcast || kind == CommKind::reduce;
  if ((!needs_root && kind != CommKind::other) ||
      (!record.root && (group.empty() || record.root_unknown || !needs_root))) {
    return std::nullopt;
  }
  if (!record.root) {
    return failure(
        fmt::format("field \"root\" is missing: the global rank of the root of a {}", name_of(kind)));
  }
  const auto found = std::find(group.begin(), group.end(), Rank{*record.root});
  if (found == group.end()) {
    return failure(fmt::format(R"(field "root" is {}, which is not in "group")", *record.root));
  }
  return GroupRank{found - group.begin()};
}

Result<std::optional<Times>> times_of(const CallRecord& record) {
  if (!record.start_ns || !record.duration_ns) {
    return std::nullopt;
  }
  constexpr std::int64_t furthest = INT64_MAX / 2;
  const Result<std::int64_t> start = within("start_ns", record.start_ns, -furthest, furthest);
  const Result<std::int64_t> duration = within("duration_ns", record.duration_ns, 0, furthest);
  if (!start || !duration) {
    return tl::unexpected(start ? duration.error() : start.error());
  }
  using std::chrono::nanoseconds;
  return Times{nanoseconds(*start), nanoseconds(*start), nanoseconds(*start + *duration)};
}

Result<CommEvent> event_of(const CallRecord& record) {
  CommEvent event;
  event.iteration = k_unknown_iteration;
  if (!record.iteration_unknown) {
    const Result<std::int64_t> iteration = within("iteration", record.iteration, k_init_iteration, INT32_MAX);
    if (!iteration) {
      return tl::unexpected(iteration.error());
    }
    event.iteration = static_cast<Iteration>(*iteration);
  }
  const Result<std::int64_t> micro_batch =
      within("micro_batch", record.micro_batch.value_or(k_no_micro_batch), k_no_micro_batch, INT32_MAX);
  if (!micro_batch) {
    return tl::unexpected(micro_batch.error());
  }
  event.micro_batch = static_cast<std::int32_t>(*micro_batch);
  return event;
}

template <typename Enum>
Word<Enum> word_of(std::optional<Enum> known, std::string_view text) {
  Word<Enum> word;
  word.known = known;
  word.unknown = known ? std::string_view() : text;
  return word;
}

}  // namespace

Word<CommKind> op_word(std::string_view text) { return word_of(comm_kind_from(text), text); }

Word<DType> dtype_word(std::string_view text) { return word_of(dtype_from(text), text); }

Word<Match> match_word(std::string_view text) { return word_of(match_from(text), text); }

CallBuilder::CallBuilder(std::string producer, std::string origin) {
  trace_.provenance.source = Source::imported;
  trace_.provenance.producer = std::move(producer);
  trace_.provenance.description = std::move(origin);
}

Result<GroupId> CallBuilder::group_of(const CallRecord& record, CommKind kind, Rank rank) {
  if (const Result<void> checked = check_group(record, kind, rank); !checked) {
    return tl::unexpected(checked.error());
  }
  const std::int64_t hidden = record.group.ranks.empty() ? record.group_size.value_or(0) : 0;
  if (!previous_group_id_ || previous_group_ != record.group.ranks || previous_size_ != hidden ||
      previous_name_ != record.group_name || previous_communicator_ != record.communicator ||
      previous_axis_ != record.axis) {
    const std::optional<Axis> axis = record.axis.empty() ? Axis() : Axis::from(record.axis);
    if (!axis) {
      return failure(fmt::format(
          "field \"axis\" is '{}'; expected lowercase letters, digits and underscores, at most {}",
          record.axis.substr(0, 40), Axis::k_longest));
    }
    previous_group_ = record.group.ranks;
    previous_size_ = hidden;
    previous_name_ = record.group_name;
    previous_communicator_ = record.communicator;
    previous_axis_ = record.axis;
    // The name of a hidden group distinguishes it from others.
    previous_group_id_ =
        hidden > 0 ? trace_.groups.intern_hidden(
                         hidden, previous_name_.empty() ? previous_communicator_ : previous_name_, *axis)
                   : trace_.groups.intern(previous_group_, *axis, communicator_named(previous_communicator_));
  }
  return *previous_group_id_;
}

Result<CommOp> CallBuilder::op_of(const CallRecord& record, CommKind kind, GroupId group,
                                  const std::vector<Rank>& members) {
  const Result<DType> dtype = dtype_of(record, kind);
  if (!dtype) {
    return tl::unexpected(dtype.error());
  }
  const Result<Elements> input = size_of_field("input_bytes", record.input_bytes, *dtype, kind);
  const Result<Elements> output = size_of_field("output_bytes", record.output_bytes, *dtype, kind);
  if (!input || !output) {
    return tl::unexpected(input ? output.error() : input.error());
  }
  const Result<std::optional<GroupRank>> root = root_of(record, kind, members);
  const Result<std::int64_t> rounding =
      within("rounding_bytes", record.rounding_bytes.value_or(0), 0, k_largest_message);
  if (!root || !rounding) {
    return tl::unexpected(root ? rounding.error() : root.error());
  }
  const Result<Match> match = match_of(record);
  if (!match) {
    return tl::unexpected(match.error());
  }
  return CommOp{.kind = kind,
                .dtype = *dtype,
                .phase = record.phase,
                .match = *match,
                .reduction = record.reduction,
                .algorithm = record.algorithm,
                .protocol = record.protocol,
                .blocking = record.blocking,
                .group = group,
                .input = *input,
                .output = *output,
                .root = *root,
                .rounding = Bytes{*rounding},
                .tag = trace_.tags.intern(record.tag),
                .rule = trace_.intern(Rule{.name = record.rule, .source = {}, .verified = true}),
                .name = trace_.names.intern(record.name),
                .site = trace_.names.intern(record.site),
                .note = trace_.names.intern(record.note)};
}

RankStream& CallBuilder::stream_of(Rank rank) {
  const auto [found, added] = streams_.try_emplace(rank.value, trace_.streams.size());
  if (added) {
    trace_.streams.push_back({{rank, rank}, {}, {}});
    timed_.push_back(0);
  }
  return trace_.streams[found->second];
}

Result<void> CallBuilder::add_compute(const CallRecord& record, Rank rank) {
  if (!record.start_ns || !record.duration_ns) {
    return failure(fmt::format(R"(field "{}" is missing: a compute line says when)",
                               record.start_ns ? "duration_ns" : "start_ns"));
  }
  const Result<CommEvent> event = event_of(record);
  const Result<std::optional<Times>> times = times_of(record);
  if (!event || !times) {
    return tl::unexpected(event ? times.error() : event.error());
  }
  const std::optional<Times>& interval = *times;
  COMMLENS_CHECK(interval.has_value(), "the record has both its start and its duration");
  stream_of(rank).compute.push_back({interval->started, interval->finished, event->iteration});
  return {};
}

Result<void> CallBuilder::add(const CallRecord& record) {
  const Result<Rank> rank = rank_of(record);
  if (rank && record.is_compute) {
    return add_compute(record, *rank);
  }
  const Result<CommKind> kind = kind_of(record);
  if (!rank || !kind) {
    return tl::unexpected(rank ? kind.error() : rank.error());
  }
  Result<CommEvent> event = event_of(record);
  const Result<std::optional<Times>> times = times_of(record);
  if (!event || !times) {
    return tl::unexpected(event ? times.error() : event.error());
  }
  const Result<GroupId> group = group_of(record, *kind, *rank);
  if (!group) {
    return tl::unexpected(group.error());
  }
  const Result<CommOp> op = op_of(record, *kind, *group, record.group.ranks);
  if (!op) {
    return tl::unexpected(op.error());
  }
  event->op = trace_.intern(*op);
  append(*rank, *event, *times);
  half_timed_ += record.start_ns.has_value() != record.duration_ns.has_value() ? 1 : 0;
  return {};
}

void CallBuilder::append(Rank rank, const CommEvent& event, const std::optional<Times>& times) {
  RankStream& stream = stream_of(rank);
  stream.events.push_back(event);
  if (times) {
    stream.times.resize(stream.events.size() - 1);
    stream.times.push_back(*times);
    ++timed_[static_cast<std::size_t>(&stream - trace_.streams.data())];
  }
}

void CallBuilder::append(Rank rank, OpId op, const std::optional<Times>& times) {
  append(rank, {op, k_unknown_iteration, k_no_micro_batch}, times);
}

Result<OpId> CallBuilder::describe(const CallRecord& record, GroupId group) {
  const Result<CommKind> kind = kind_of(record);
  if (!kind) {
    return tl::unexpected(kind.error());
  }
  // Explicit lists and hidden groups look the same to all of their members.
  const Result<CommOp> op = op_of(record, *kind, group, trace_.groups.members(group, Rank{0}));
  if (!op) {
    return tl::unexpected(op.error());
  }
  return trace_.intern(*op);
}

Result<void> CallBuilder::add_times(const CallRecord& record, std::int64_t calls) {
  if (calls == 0) {
    return {};
  }
  if (const Result<void> added = add(record); !added) {
    return added;
  }
  std::vector<CommEvent>& events = stream_of(Rank{*record.rank}).events;
  events.insert(events.end(), static_cast<std::size_t>(calls - 1), events.back());
  return {};
}

bool CallBuilder::add_or_skip(const CallRecord& record) {
  const Result<void> taken = add(record);
  if (!taken) {
    trace_.provenance.skip(std::string(k_skipped_impossible));
  }
  return taken.has_value();
}

Trace CallBuilder::finish() {
  std::int64_t dropped = half_timed_;
  for (std::size_t row = 0; row < trace_.streams.size(); ++row) {
    RankStream& stream = trace_.streams[row];
    if (timed_[row] != static_cast<std::int64_t>(stream.events.size())) {
      dropped += timed_[row];
      stream.times.clear();
    }
    std::sort(stream.compute.begin(), stream.compute.end());
  }
  if (dropped > 0) {
    trace_.provenance.skipped["time where other calls of the rank have none"] = dropped;
  }
  std::sort(trace_.streams.begin(), trace_.streams.end(),
            [](const RankStream& a, const RankStream& b) { return a.ranks < b.ranks; });
  return std::move(trace_);
}

}  // namespace commlens::formats
