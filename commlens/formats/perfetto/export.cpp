#include "commlens/formats/perfetto/export.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/op_details.hpp"
#include "commlens/formats/io/timeline.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::perfetto {
namespace {

constexpr std::size_t k_perfetto_block = std::size_t{1} << 20;
constexpr double k_most_slices = 30e6;  // some 10 GB of text; viewers end long before
constexpr std::size_t k_most_members = 64;

/// One line of traceEvents: a slice, or the end of an arrow at one.
struct Entry {
  enum class Kind : std::uint8_t { slice, arrow_leaves, arrow_arrives };  // the order at one time
  std::uint64_t time = 0;
  Kind kind = Kind::slice;
  std::uint32_t slice = 0;
};

/// Nanoseconds as the microseconds of the format, with three decimals.
void append_us(std::string& out, std::uint64_t ns) {
  fmt::format_to(std::back_inserter(out), "{}.{:03}", ns / 1000, ns % 1000);
}

/// "0 1 2 3", or the first of a large group and its size.
std::string group_as_text(const std::vector<Rank>& members) {
  std::string text;
  for (std::size_t at = 0; at < std::min(members.size(), k_most_members); ++at) {
    text += at == 0 ? "" : " ";
    append_number(text, members[at].value);
  }
  return members.size() <= k_most_members
             ? text
             : text + fmt::format(" … {} ({} ranks)", members.back().value, members.size());
}

class PerfettoWriter {
 public:
  PerfettoWriter(const Trace& trace, const Timeline& timeline, const TextSink& sink)
      : trace_(trace), timeline_(timeline), sink_(sink) {}

  void write() {
    append_metadata();
    append_names();
    for (const Entry& entry : entries()) {
      const TimelineSlice& slice = timeline_.slices[entry.slice];
      open_event();
      entry.kind == Entry::Kind::slice ? append_slice(slice) : append_arrow(slice, entry);
    }
    out_ += "\n]}\n";
    sink_(out_);
  }

 private:
  std::vector<Entry> entries() const {
    std::vector<Entry> entries;
    entries.reserve(timeline_.slices.size());
    for (std::uint32_t row = 0; row < timeline_.slices.size(); ++row) {
      const TimelineSlice& slice = timeline_.slices[row];
      entries.push_back({slice.started, Entry::Kind::slice, row});
      if (slice.arrow != 0) {
        entries.push_back(
            {slice.arrow_at,
             op_of(slice).kind == CommKind::send ? Entry::Kind::arrow_leaves : Entry::Kind::arrow_arrives,
             row});
      }
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.time, a.kind) < std::tie(b.time, b.kind);
    });
    return entries;
  }

  void append_metadata() {
    out_ = R"({"displayTimeUnit":"ns","metadata":{"written_by":"commlens","source":)";
    append_json_string(out_, name_of(trace_.provenance.source));
    append_text("producer", trace_.provenance.producer);
    append_text("description", trace_.provenance.description);
    if (timeline_.has_times) {
      append_text("time", trace_.provenance.averaged_times
                              ? "averages of several calls each, placed end to end"
                              : "measured");
      append_text("time_zero_ns", fmt::format("{}", timeline_.origin_ns));
    } else {
      append_text("time",
                  "order only: this trace has no times; calls of a rank stand in issue order, each drawn as "
                  "long as 1 us, and a recv not before its send");
      append_count("compute_left_out", timeline_.compute_left_out);
    }
    append_count("messages_without_other_side", timeline_.unmatched);
    append_count("messages_received_before_sent", timeline_.backward);
    for (const auto& [reason, count] : trace_.provenance.skipped) {
      append_count("skipped: " + reason, count);
    }
    for (const auto& [reason, count] : trace_.provenance.assumed) {
      append_count("assumed: " + reason, count);
    }
    out_ += "},\n\"traceEvents\":[";
  }

  /// Names and places of processes and tracks, before everything else.
  void append_names() {
    for (std::size_t row = 0; row < timeline_.tracks.size(); ++row) {
      const TimelineTrack& track = timeline_.tracks[row];
      const auto name = [&](std::string_view what, std::string_view text) {
        open_event();
        out_ += fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":)", what,
                            process_of(track.rank), row + 1);
        append_json_string(out_, text);
        out_ += "}}";
      };
      const auto place = [&](std::string_view what, std::int64_t index) {
        open_event();
        out_ += fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", what,
                            process_of(track.rank), row + 1, index);
      };
      if (row == 0 || timeline_.tracks[row - 1].rank != track.rank) {
        name("process_name", fmt::format("rank {}{}", track.rank.value,
                                         timeline_.has_times ? "" : " (order only, no times)"));
        place("process_sort_index", track.rank.value);
      }
      name("thread_name", track.name);
      place("thread_sort_index", static_cast<std::int64_t>(row));
    }
  }

  void append_slice(const TimelineSlice& slice) {
    const RankStream& stream = trace_.streams[slice.stream];
    out_ += R"({"ph":"X","name":)";
    if (slice.is_compute) {
      out_ += R"("compute","cat":"compute")";
    } else {
      const CommOp& op = op_of(slice);
      const std::string& own_name = trace_.names.text(op.name);
      append_json_string(out_, op.kind == CommKind::other && !own_name.empty() ? own_name : name_of(op.kind));
      out_ += fmt::format(R"(,"cat":"{}")", name_of(trace_.groups.axis(op.group)));
    }
    append_place(slice, slice.started);
    out_ += R"(,"dur":)";
    append_us(out_, slice.finished - slice.started);
    out_ += R"(,"args":{)";
    if (slice.is_compute) {
      append_iteration(stream.compute[slice.row].iteration);
    } else {
      append_call(slice, stream.events[slice.row]);
    }
    out_ += "}}";
  }

  void append_call(const TimelineSlice& slice, const CommEvent& event) {
    const CommOp& op = op_of(slice);
    append_iteration(event.iteration);
    append_text("op", name_of(op.kind));
    append_text("phase", name_of(op.phase));
    append_text("dtype", name_of(op.dtype));
    append_count("message_bytes", message_bytes(op).value);
    append_count("input_bytes", (op.input * op.dtype).value);
    append_count("output_bytes", (op.output * op.dtype).value);
    const std::vector<Rank> members = trace_.groups.members(op.group, slice.rank);
    append_text("group", members.empty() ? trace_.groups.name(op.group) : group_as_text(members));
    append_count("group_size", trace_.groups.size(op.group));
    if (const CommunicatorId communicator = trace_.groups.communicator(op.group);
        communicator != k_no_communicator) {
      append_text("communicator", text_of(communicator));
    }
    if (op.root && op.root->value < static_cast<std::int64_t>(members.size())) {
      append_count("root", members[static_cast<std::size_t>(op.root->value)].value);
    }
    if (event.micro_batch != k_no_micro_batch) {
      append_count("micro_batch", event.micro_batch);
    }
    for (const auto& [key, text] :
         {std::pair<std::string_view, const std::string&>{"tag", trace_.tags.text(op.tag)},
          {"rule", trace_.rule(op.rule).name},
          {"call", trace_.names.text(op.name)}}) {
      if (!text.empty()) {
        append_text(key, text);
      }
    }
    for (const OpDetail& detail : op_details(trace_, op)) {
      append_text(detail.key, detail.text);
    }
    append_bandwidth(slice, op);
  }

  void append_bandwidth(const TimelineSlice& slice, const CommOp& op) {
    const std::int64_t ranks = trace_.groups.size(op.group);
    const std::uint64_t duration_ns = slice.finished - slice.started;
    const double moved = static_cast<double>(message_bytes(op).value);
    if (!timeline_.has_times || duration_ns == 0 || ranks < 1 || moved == 0 || op.kind == CommKind::other) {
      return;
    }
    out_ += fmt::format(R"(,"bus_bandwidth_gb_per_s":{:.3f})",
                        moved / static_cast<double>(duration_ns) * bus_factor(op.kind, ranks));
  }

  void append_arrow(const TimelineSlice& slice, const Entry& entry) {
    out_ += entry.kind == Entry::Kind::arrow_leaves ? R"({"ph":"s")" : R"({"ph":"f","bp":"e")";
    out_ += fmt::format(R"(,"name":"message","cat":"message","id":{})", slice.arrow);
    append_place(slice, entry.time);
    out_ += "}";
  }

  void append_place(const TimelineSlice& slice, std::uint64_t time) {
    out_ += fmt::format(R"(,"pid":{},"tid":{},"ts":)", process_of(slice.rank), slice.track + 1);
    append_us(out_, time);
  }

  void append_iteration(Iteration iteration) {
    out_ += R"("iteration":)";
    if (iteration == k_unknown_iteration) {
      out_ += R"("unknown")";
    } else {
      append_number(out_, iteration);
    }
  }

  void append_text(std::string_view key, std::string_view text) {
    out_ += ',';
    append_json_string(out_, key);
    out_ += ':';
    append_json_string(out_, text);
  }

  void append_count(std::string_view key, std::int64_t count) {
    out_ += ',';
    append_json_string(out_, key);
    out_ += ':';
    append_number(out_, count);
  }

  void open_event() {
    if (out_.size() >= k_perfetto_block) {
      sink_(out_);
      out_.clear();
    }
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }

  /// Viewers take process 0 for the kernel.
  static std::int64_t process_of(Rank rank) { return rank.value + 1; }

  const CommOp& op_of(const TimelineSlice& slice) const {
    return trace_.op(trace_.streams[slice.stream].events[slice.row].op);
  }

  const Trace& trace_;
  const Timeline& timeline_;
  const TextSink& sink_;
  std::string out_;
  bool is_first_ = true;
};

}  // namespace

Result<void> write(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  if (const double slices = slices_of(trace, selection.rank); slices > k_most_slices) {
    return failure(
        fmt::format("{:.0f} calls are more than a viewer shows (30 million); choose a --rank", slices));
  }
  const Timeline timeline = timeline_of(trace, selection.rank);
  PerfettoWriter(trace, timeline, sink).write();
  return {};
}

}  // namespace commlens::formats::perfetto
