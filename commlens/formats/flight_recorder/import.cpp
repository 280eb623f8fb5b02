#include "commlens/formats/flight_recorder/import.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/flight_recorder/entry.hpp"
#include "commlens/formats/flight_recorder/pickle_reader.hpp"
#include "commlens/formats/io/call_builder.hpp"
#include "commlens/formats/io/file_rank.hpp"
#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/formats/io/torch_groups.hpp"
#include "commlens/formats/io/torch_names.hpp"

namespace commlens::formats::flight_recorder {
namespace {

constexpr std::size_t k_largest_pickle = std::size_t{256} << 20;
constexpr std::string_view k_no_size = "call whose size is not reported, kept as other";

CommKind kind_of_entry(const FlightEntry& entry) {
  // "all_reduce_barrier" is the all_reduce of one element that a barrier is made of.
  return entry.name.ends_with("barrier") ? CommKind::barrier : torch_collective(entry.name).kind;
}

/// Collects a dump's entries; calls are made at the end, when the groups are known.
class FlightImport {
 public:
  explicit FlightImport(const std::filesystem::path& path)
      : rank_(rank_in_name(path)), builder_("PyTorch flight recorder", path.string()) {}

  TorchGroups& groups() { return groups_; }
  Provenance& provenance() { return builder_.provenance(); }
  std::size_t entries() const { return entries_.size() + static_cast<std::size_t>(markers_); }

  void take(const nlohmann::json& json) {
    std::optional<FlightEntry> entry = flight_entry(json);
    if (!entry) {
      provenance().skip(json.is_discarded() ? "entry that cannot be read" : "entry without a name");
    } else if (entry->is_coalescing_marker()) {
      ++markers_;
      provenance().skip("record of where coalesced calls end");
      end_coalesced(*entry);
    } else {
      last_ns_ = std::max({last_ns_, entry->created_ns.value_or(0), entry->completed_ns.value_or(0)});
      is_timed_ = is_timed_ || entry->duration_ns;
      uncoalesced_[{entry->group, entry->pg_id}].push_back(entries_.size());
      entries_.push_back(std::move(*entry));
    }
  }

  Trace finish() {
    find_rank();
    for (const FlightEntry& entry : entries_) {
      add(entry);
    }
    return builder_.finish();
  }

  StatedTrace finish_states() {
    StatedTrace result{.trace = finish(), .rank = Rank{rank_.value_or(0)}, .calls = {}};
    const std::vector<CommEvent> none;
    const std::vector<CommEvent>& events =
        result.trace.streams.empty() ? none : result.trace.streams.front().events;
    for (std::size_t call = 0; call < events.size(); ++call) {
      result.calls.push_back(states_[call]);
      result.calls.back().op = events[call].op;
    }
    return result;
  }

 private:
  /// Calls between start and end of coalescing stay "scheduled" for ever; what became of them is in the
  /// marker after them, which has their sequence numbers.
  void end_coalesced(const FlightEntry& marker) {
    std::vector<std::size_t>& places = uncoalesced_[{marker.group, marker.pg_id}];
    for (; !places.empty(); places.pop_back()) {
      FlightEntry* const entry = &entries_[places.back()];
      if (entry->sequence != marker.sequence || entry->pair_sequence != marker.pair_sequence ||
          entry->state != FlightEntry::State::scheduled) {
        break;
      }
      entry->state = marker.state;
      entry->duration_ns = entry->duration_ns ? entry->duration_ns : marker.duration_ns;
      entry->completed_ns = marker.completed_ns;
      is_timed_ = is_timed_ || entry->duration_ns;
    }
    last_ns_ = std::max({last_ns_, marker.created_ns.value_or(0), marker.completed_ns.value_or(0)});
  }

  const TorchGroup& group_of(const FlightEntry& entry) const {
    const TorchGroup& named = groups_.find(entry.group);
    return named.size > 0 ? named : groups_.find(entry.pg_id);
  }

  /// A dump does not say whose it is: the file's name does, or a send.
  void find_rank() {
    for (const FlightEntry& entry : entries_) {
      const CommKind kind = kind_of_entry(entry);
      const auto& own = kind == CommKind::send ? entry.source : entry.destination;
      if (!rank_ && is_point_to_point(kind) && own) {
        rank_ = group_of(entry).global(*own);
      }
    }
    if (!rank_) {
      provenance().assume(k_rank_unsaid);
    }
  }

  void add(const FlightEntry& entry) {
    const CommKind kind = kind_of_entry(entry);
    CallRecord record;
    record.rank = rank_.value_or(0);
    record.op = kind;
    record.iteration_unknown = true;
    record.site = entry.site;
    if (kind == CommKind::other) {
      record.name = entry.name;
    }
    if (is_point_to_point(kind)) {
      set_pair(entry, record);
    } else {
      set_group(group_of(entry), "pg " + (entry.group.empty() ? entry.pg_id : entry.group), record);
      record.root_unknown = true;  // a dump never names it
    }
    if (!entry.group.empty() && record.group.ranks.size() > 1) {
      record.communicator = "pg " + entry.group;
    }
    set_sizes(entry, kind, record);
    set_state(entry, kind, record);
    if (builder_.add_or_skip(record)) {
      StatedCall& state = states_.emplace_back();
      state.state = entry.state == FlightEntry::State::completed ? CallState::finished : CallState::under_way;
      state.is_counted = !is_point_to_point(kind) && entry.sequence > 0;
      state.number = state.is_counted ? std::optional(entry.sequence) : std::nullopt;
    }
  }

  void set_pair(const FlightEntry& entry, CallRecord& record) const {
    const TorchGroup& group = group_of(entry);
    const auto source = entry.source ? group.global(*entry.source) : std::nullopt;
    const auto destination = entry.destination ? group.global(*entry.destination) : std::nullopt;
    record.group.is_given = true;
    if (source && destination) {
      record.group.ranks = {Rank{*source}, Rank{*destination}};
    }
  }

  void set_sizes(const FlightEntry& entry, CommKind kind, CallRecord& record) {
    const FlightBuffer& input = kind == CommKind::recv ? entry.output : entry.input;
    const std::int64_t in = entry.input.bytes.value_or(entry.output.bytes.value_or(0));
    const std::int64_t out = entry.output.bytes.value_or(in);
    record.dtype = input.dtype;
    record.input_bytes = kind == CommKind::recv ? 0 : in;
    record.output_bytes = kind == CommKind::send ? 0 : out;
    if (kind == CommKind::barrier) {
      record.input_bytes = record.output_bytes = 0;
    } else if (!input.bytes) {
      provenance().skip(std::string(k_no_size));
      record.name = entry.name;
      record.op = CommKind::other;
      record.input_bytes = record.output_bytes = 0;
    } else if (kind == CommKind::all_reduce || has_root(kind)) {
      record.output_bytes = record.input_bytes = in;
    }
    if (*record.output_bytes % size_of(input.dtype) != 0) {  // the sides have different types
      record.dtype = DType::uint8;
    }
  }

  /// Calls that had not completed are marked, so that they can be found.
  void set_state(const FlightEntry& entry, CommKind kind, CallRecord& record) {
    const std::int64_t sequence = is_point_to_point(kind) ? entry.pair_sequence : entry.sequence;
    record.start_ns = entry.created_ns;
    record.duration_ns = entry.duration_ns;
    if (entry.state == FlightEntry::State::completed) {
      if (is_timed_ && !entry.duration_ns && entry.created_ns && entry.completed_ns) {
        record.duration_ns = std::max<std::int64_t>(*entry.completed_ns - *entry.created_ns, 0);
        provenance().assume("time of a call, taken from the watchdog, which is late");
      }
    } else {
      constexpr std::array<std::string_view, 4> words = {"scheduled", "started", "completed",
                                                         "in an unknown state"};
      const std::string_view word = words.at(static_cast<std::size_t>(entry.state));
      record.note = fmt::format("{}, sequence {}", word, sequence);
      provenance().skip(fmt::format("time of a call that was only {} and is kept", word));
      if (is_timed_ &&
          entry.created_ns) {  // at least so long; without it no call of the rank would have times
        record.duration_ns = last_ns_ - *entry.created_ns;
      }
    }
    if (!record.duration_ns) {
      record.start_ns.reset();
    }
    if (!is_timed_ && entry.state == FlightEntry::State::completed) {
      provenance().skip("time of a call, which was not measured (TORCH_NCCL_ENABLE_TIMING)");
    }
  }

  std::optional<std::int64_t> rank_;
  CallBuilder builder_;
  TorchGroups groups_;
  std::vector<FlightEntry> entries_;
  std::vector<StatedCall> states_;  // of the calls that were added; no ops yet
  /// By group and number of it: the places in entries_ that no marker has ended. Each is ended once.
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> uncoalesced_;
  std::int64_t markers_ = 0;
  std::int64_t last_ns_ = 0;  // the latest time that the dump knows
  bool is_timed_ = false;     // a call has a duration
};

Result<void> read_json_dump(const std::filesystem::path& path, FlightImport& import) {
  Result<JsonStream> stream = JsonStream::open(path, "entries");
  if (!stream) {
    return tl::unexpected(stream.error());
  }
  JsonStream::Piece piece;
  Result<bool> got = stream->next(piece);
  for (; got && *got; got = stream->next(piece)) {
    if (piece.is_run) {
      for (const std::string_view entry : elements_of(piece.json)) {
        import.take(shallow_json(entry));
      }
    } else if (piece.key == "pg_config") {
      const nlohmann::json config = shallow_json(piece.json);
      if (config.is_discarded()) {
        import.provenance().skip("list of process groups that cannot be read");
      }
      add_flight_groups(config, import.groups());
    }
  }
  if (!got) {
    return tl::unexpected(got.error());
  }
  if (stream->is_cut_off()) {
    import.provenance().skip("entry that the end of the file cuts off");
  }
  return {};
}

Result<void> take_pickle_entry(PickleReader& pickle, PickleReader::Id entry, FlightImport& import) {
  constexpr std::array<std::string_view, 17> keys = {"frames",
                                                     "profiling_name",
                                                     "process_group",
                                                     "pg_id",
                                                     "collective_seq_id",
                                                     "seq_id",
                                                     "p2p_seq_id",
                                                     "is_p2p",
                                                     "input_sizes",
                                                     "input_dtypes",
                                                     "output_sizes",
                                                     "output_dtypes",
                                                     "state",
                                                     "duration_ms",
                                                     "time_created_ns",
                                                     "time_discovered_completed_ns",
                                                     "time_discovered_started_ns"};
  const auto found = pickle.find(entry, keys);
  if (!found) {
    return tl::unexpected(found.error());
  }
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t at = 1; at < keys.size(); ++at) {
    if (const std::optional<PickleReader::Id> value = (*found)[at]) {
      Result<nlohmann::json> member = pickle.json(*value);
      if (!member) {
        return tl::unexpected(member.error());
      }
      json[std::string(keys[at])] = std::move(*member);
    }
  }
  nlohmann::json& frames = json["frames"] = nlohmann::json::array();
  const std::vector<PickleReader::Id> none;
  const std::optional<PickleReader::Id> stack = found->front();
  for (const PickleReader::Id id : stack ? pickle.elements(*stack) : none) {
    Result<nlohmann::json> frame = pickle.json(id);
    if (!frame) {
      return tl::unexpected(frame.error());
    }
    if (is_program_frame(*frame)) {
      frames.push_back(std::move(*frame));
      break;
    }
  }
  import.take(json);
  return {};
}

Result<void> read_pickle_dump(const std::filesystem::path& path, FlightImport& import) {
  const Result<std::string> content = read_whole(path, k_largest_pickle, "dump of a flight recorder");
  if (!content) {
    return tl::unexpected(content.error());
  }
  const auto named = [&path](const Error& error) {
    return failure(fmt::format("{}: {}", path.string(), error.message));
  };
  PickleReader pickle(*content);
  const Result<PickleReader::Id> dump = pickle.read();
  if (!dump) {
    return named(dump.error());
  }
  constexpr std::array<std::string_view, 2> keys = {"pg_config", "entries"};
  const auto found = pickle.find(*dump, keys);
  if (!found) {
    return named(found.error());
  }
  if (const std::optional<PickleReader::Id> config = found->front()) {
    const Result<nlohmann::json> json = pickle.json(*config);
    if (!json) {
      return named(json.error());
    }
    add_flight_groups(*json, import.groups());
  }
  // Dumps before version 1.2 are the list itself.
  for (const PickleReader::Id entry : pickle.elements(found->back().value_or(*dump))) {
    if (const Result<void> taken = take_pickle_entry(pickle, entry, import); !taken) {
      return named(taken.error());
    }
  }
  return {};
}

Result<void> read_dump(const std::filesystem::path& path, FlightImport& import) {
  const Result<std::string> head = read_head(path, 256);
  if (!head) {
    return tl::unexpected(head.error());
  }
  const bool is_json = !json_object_in(*head).empty();
  const Result<void> read = is_json ? read_json_dump(path, import) : read_pickle_dump(path, import);
  if (!read) {
    return tl::unexpected(read.error());
  }
  if (import.entries() == 0) {
    return failure(
        fmt::format("{}: no entries; is this a dump of PyTorch's flight recorder, and had it recorded "
                    "(TORCH_FR_BUFFER_SIZE)?",
                    path.string()));
  }
  return {};
}

}  // namespace

Result<Trace> read(const std::filesystem::path& path) {
  FlightImport import(path);
  return read_dump(path, import).map([&] { return import.finish(); });
}

Result<StatedTrace> read_states(const std::filesystem::path& path) {
  FlightImport import(path);
  return read_dump(path, import).map([&] { return import.finish_states(); });
}

bool sniff(const std::filesystem::path& /*path*/, std::string_view head) {
  const bool has_entries = holds(head, "profiling_name") && holds(head, "time_created_ns");
  if (!json_object_in(head).empty()) {
    return has_entries && holds(head, "\"entries\"") && !holds(head, "\"traceEvents\"");
  }
  const bool is_binary_pickle = head.size() > 2 && head[0] == '\x80' && head[1] >= 0 && head[1] <= 5;
  const bool is_text_pickle = head.starts_with('(') || head.starts_with('}') || head.starts_with(']');
  // Large jobs list their groups for longer than the head.
  return (is_binary_pickle || is_text_pickle) &&
         (has_entries || (is_binary_pickle && holds(head, "pg_config") && holds(head, "comm_lib_version")) ||
          (is_binary_pickle && holds(head, "pg_config") && holds(head, "nccl_version")));
}

}  // namespace commlens::formats::flight_recorder
