#include "commlens/formats/aicb/export.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"
#include "commlens/formats/io/incomplete_calls.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::aicb {
namespace {

constexpr std::size_t k_aicb_block = std::size_t{1} << 20;

/// AICB's word for a kind; empty when it has none.
std::string_view aicb_type(CommKind kind) {
  switch (kind) {
    case CommKind::send:
      return "isend";
    case CommKind::recv:
      return "irecv";
    case CommKind::other:
      return "";
    default:
      return name_of(kind);
  }
}

/// AICB's word for a group; empty when it has none.
std::string_view aicb_group(const Axis& axis) {
  constexpr std::array<std::pair<Axis, std::string_view>, 7> groups = {{{Axis::dp, "dp_group"},
                                                                        {Axis::tp, "tp_group"},
                                                                        {Axis::sp, "tp_group"},
                                                                        {Axis::pp, "pp_group"},
                                                                        {Axis::ep, "ep_group"},
                                                                        {Axis::edp, "ep_dp_group"},
                                                                        {Axis::world, "all"}}};
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const auto& known) { return known.first == axis; });
  return found == groups.end() ? "" : found->second;
}

/// Text in a field of a file that has no quoting.
std::string unquoted(std::string_view text) {
  std::string field = valid_utf8(text);
  std::replace_if(
      field.begin(), field.end(), [](char c) { return c == ',' || c == '\n' || c == '\r' || c == '"'; }, ' ');
  return field;
}

class AicbWriter {
 public:
  AicbWriter(const Trace& trace, Rank rank) : trace_(trace), rank_(rank), lines_(trace.ops().size()) {}

  Result<void> write(const RankStream& stream, const TextSink& sink);

 private:
  Result<void> check_groups() const;
  std::string line_of(const CommOp& op) const;
  std::string_view group_of(const CommOp& op) const;

  const Trace& trace_;
  Rank rank_;
  std::vector<std::string> lines_;  // by op; made once
};

/// AICB's word for the group of a call; empty when it has none.
std::string_view AicbWriter::group_of(const CommOp& op) const {
  if (is_point_to_point(op.kind)) {
    return "pp_group";
  }
  const std::string_view name = aicb_group(trace_.groups.axis(op.group));
  const bool is_of_all = trace_.groups.size(op.group) == trace_.job_ranks() || op.kind == CommKind::barrier;
  return name.empty() && is_of_all ? "all" : name;
}

/// Fails when AICB has no place for a group. Groups of one rank are skipped, calls of kind `other` have
/// their own error.
Result<void> AicbWriter::check_groups() const {
  const IncompleteCalls sizeless = incomplete_calls_of(trace_, rank_, [&](const CommOp& op) {
    return op.kind != CommKind::other && trace_.groups.size(op.group) < 1;
  });
  if (sizeless.calls > 0) {
    return failure(fmt::format("AICB needs the size of every group; the trace does not tell that of {}",
                               text_of(trace_, sizeless)));
  }
  const IncompleteCalls nameless = incomplete_calls_of(trace_, rank_, [&](const CommOp& op) {
    return op.kind != CommKind::other && trace_.groups.size(op.group) > 1 && group_of(op).empty();
  });
  if (nameless.calls > 0) {
    return failure(
        fmt::format("AICB names groups by their axis (dp, tp, pp, ep, all ranks); it is {} for that of {}",
                    name_of(trace_.groups.axis(nameless.op->group)), text_of(trace_, nameless)));
  }
  return {};
}

/// Columns of AICB 1.1: type, group, its size, bytes, stage, dst, src, additional, and four of a measured
/// run.
std::string AicbWriter::line_of(const CommOp& op) const {
  const std::vector<Rank> members = trace_.groups.members(op.group, rank_);
  std::string destination = "None";
  std::string source = "None";
  std::string additional;
  if (is_point_to_point(op.kind) && members.size() == 2) {
    const bool sends = op.kind == CommKind::send;
    const Rank peer = members[sends ? 1 : 0];
    (sends ? destination : source) = fmt::to_string(peer.value);
    additional = fmt::format("{}_{}", sends ? "send" : "recv", rank_ < peer ? "next" : "prev");
  }
  if (op.root && op.root->value < static_cast<std::int64_t>(members.size())) {
    (op.kind == CommKind::reduce ? destination : source) =
        fmt::to_string(members[static_cast<std::size_t>(op.root->value)].value);
  }
  const std::string& tag = trace_.tags.text(op.tag);
  const std::string stage = unquoted(fmt::format("{}{}{}", name_of(op.phase), tag.empty() ? "" : ".", tag));
  return fmt::format("CommType.{},CommGroup.{},{},{},{},{},{},{},None,None,None,1\n", aicb_type(op.kind),
                     group_of(op), trace_.groups.size(op.group), message_bytes(op).value, stage, destination,
                     source, additional);
}

Result<void> AicbWriter::write(const RankStream& stream, const TextSink& sink) {
  if (const Result<void> checked = check_groups(); !checked) {
    return checked;
  }
  std::string text =
      "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,"
      "count\n";
  std::optional<Iteration> iteration;
  for (const CommEvent& event : stream.events) {
    const CommOp& op = trace_.op(event.op);
    if (iteration && *iteration != event.iteration) {
      text += "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1\n";
    }
    iteration = event.iteration;
    if (!is_point_to_point(op.kind) && trace_.groups.size(op.group) == 1) {
      continue;  // moves nothing
    }
    if (aicb_type(op.kind).empty()) {
      return failure(fmt::format("AICB has no word for the call \"{}\"; leave it out of the trace",
                                 trace_.names.text(op.name)));
    }
    std::string& line = lines_[static_cast<std::size_t>(event.op)];
    if (line.empty()) {
      line = line_of(op);
    }
    text += line;
    if (text.size() >= k_aicb_block) {
      sink(text);
      text.clear();
    }
  }
  text += "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1\n";
  sink(text);
  return {};
}

}  // namespace

Result<void> write(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  if (trace.streams.empty()) {
    return failure("the trace has no calls");
  }
  const auto lowest = std::min_element(trace.streams.begin(), trace.streams.end(),
                                       [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  const Rank rank = selection.rank.value_or(lowest->ranks.first);
  const RankStream* const stream = trace.stream_of(rank);
  if (stream == nullptr) {
    return failure(fmt::format("rank {} has no calls in the trace; choose one of 0 to {}", rank.value,
                               trace.ranks() - 1));
  }
  return AicbWriter(trace, rank).write(*stream, sink);
}

}  // namespace commlens::formats::aicb
