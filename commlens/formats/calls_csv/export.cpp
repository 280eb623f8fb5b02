#include "commlens/formats/calls_csv/export.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/io/call_text.hpp"
#include "commlens/formats/io/op_details.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::calls_csv {
namespace {

/// RFC 4180: quoted when it holds a comma, a quote or a line end; quotes doubled.
void append_csv_field(std::string& out, std::string_view text) {
  out += ',';
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    out += c;
    if (c == '"') {
      out += '"';
    }
  }
  out += '"';
}

OpText csv_op_text(const Trace& trace, const CommOp& op) {
  OpText text;
  append_csv_field(text.head, name_of(op.phase));
  append_csv_field(text.head, name_of(op.kind));
  append_csv_field(text.head, name_of(op.dtype));
  text.head += ',';
  append_number(text.head, (op.input * op.dtype).value);
  text.head += ',';
  append_number(text.head, (op.output * op.dtype).value);
  text.head += ',';
  append_csv_field(text.labels, trace.tags.text(op.tag));
  append_csv_field(text.labels, trace.rule(op.rule).name);
  append_csv_field(text.labels, trace.names.text(op.name));
  const std::vector<OpDetail> details = op_details(trace, op);
  const auto append_detail = [&](std::string_view key) {
    const auto found = std::find_if(details.begin(), details.end(),
                                    [&](const OpDetail& detail) { return detail.key == key; });
    append_csv_field(text.end, found == details.end() ? std::string_view() : found->text);
  };
  append_detail("match");
  text.end += ',';
  if (op.rounding.value != 0) {
    append_number(text.end, op.rounding.value);
  }
  std::for_each(k_op_detail_keys.begin() + 1, k_op_detail_keys.end(), append_detail);
  return text;
}

std::string csv_line_end(const GroupTable& groups, GroupId id) {
  const CommunicatorId communicator = groups.communicator(id);
  const Axis& axis = groups.axis(id);
  const bool is_reported = axis != Axis::unknown && axis != Axis::self;
  return fmt::format(",{},{}\n", communicator == k_no_communicator ? "" : text_of(communicator),
                     is_reported ? name_of(axis) : "");
}

/// Three columns: the ranks, and for a group whose ranks are not known its size and name.
std::string csv_group_text(const GroupTable& groups, GroupId id, const std::vector<Rank>& members) {
  std::string text;
  for (const Rank member : members) {
    text += text.empty() ? "" : " ";
    append_number(text, member.value);
  }
  text += ',';
  if (members.empty() && groups.size(id) > 0) {
    append_number(text, groups.size(id));
  }
  append_csv_field(text, groups.name(id));
  return text;
}

constexpr CallSyntax k_csv_syntax = {.rank = "",
                                     .iteration = ",",
                                     .unknown_iteration = "",
                                     .root = ",",
                                     .unknown_root = "?",
                                     .peer = ",",
                                     .micro_batch = ",",
                                     .start = ",",
                                     .duration = ",",
                                     .keeps_absent_fields = true,
                                     .op_text = csv_op_text,
                                     .group_text = csv_group_text,
                                     .line_end = csv_line_end,
                                     .compute = ",,compute,,,,,,,,,,,,,",
                                     .compute_end = ",,,,,,,,,,\n"};

constexpr std::string_view k_header =
    "rank,iteration,phase,op,dtype,input_bytes,output_bytes,group,group_size,group_name,root,peer,micro_"
    "batch,"
    "tag,rule,name,start_ns,duration_ns,match,rounding_bytes,reduce_op,algorithm,protocol,blocking,site,note,"
    "communicator,axis\n";

}  // namespace

void write(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  sink(k_header);
  write_calls(trace, selection, k_csv_syntax, sink);
}

}  // namespace commlens::formats::calls_csv
