#include "commlens/formats/calls_jsonl/export.hpp"

#include <fmt/format.h>

#include "commlens/formats/io/call_text.hpp"
#include "commlens/formats/io/op_details.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::calls_jsonl {
namespace {

void append_text_field(std::string& out, std::string_view opening, std::string_view text) {
  if (!text.empty()) {
    out += opening;
    append_json_string(out, text);
  }
}

OpText json_op_text(const Trace& trace, const CommOp& op) {
  OpText text;
  text.head = R"(,"phase":")";
  text.head += name_of(op.phase);
  text.head += R"(","op":")";
  text.head += name_of(op.kind);
  text.head += R"(","dtype":")";
  text.head += name_of(op.dtype);
  text.head += R"(","input_bytes":)";
  append_number(text.head, (op.input * op.dtype).value);
  text.head += R"(,"output_bytes":)";
  append_number(text.head, (op.output * op.dtype).value);
  text.head += R"(,"group":)";
  append_text_field(text.labels, R"(,"tag":)", trace.tags.text(op.tag));
  append_text_field(text.labels, R"(,"rule":)", trace.rule(op.rule).name);
  append_text_field(text.labels, R"(,"name":)", trace.names.text(op.name));
  if (op.rounding.value != 0) {
    text.end += R"(,"rounding_bytes":)";
    append_number(text.end, op.rounding.value);
  }
  for (const OpDetail& detail : op_details(trace, op)) {
    text.end += fmt::format(R"(,"{}":)", detail.key);
    if (detail.is_flag) {
      text.end += detail.text;
    } else {
      append_json_string(text.end, detail.text);
    }
  }
  return text;
}

std::string json_line_end(const GroupTable& groups, GroupId id) {
  const CommunicatorId communicator = groups.communicator(id);
  const Axis& axis = groups.axis(id);
  std::string text;
  if (communicator != k_no_communicator) {
    append_text_field(text, R"(,"communicator":)", text_of(communicator));
  }
  if (axis != Axis::unknown && axis != Axis::self) {
    append_text_field(text, R"(,"axis":)", name_of(axis));
  }
  return text + "}\n";
}

std::string json_group_text(const GroupTable& groups, GroupId id, const std::vector<Rank>& members) {
  std::string text = "[";
  for (const Rank member : members) {
    text += text.size() > 1 ? "," : "";
    append_number(text, member.value);
  }
  text += ']';
  if (members.empty() && groups.size(id) > 0) {
    text += R"(,"group_size":)";
    append_number(text, groups.size(id));
    append_text_field(text, R"(,"group_name":)", groups.name(id));
  }
  return text;
}

constexpr CallSyntax k_json_syntax = {.rank = R"({"rank":)",
                                      .iteration = R"(,"iteration":)",
                                      .unknown_iteration = "null",
                                      .root = R"(,"root":)",
                                      .unknown_root = "null",
                                      .peer = R"(,"peer":)",
                                      .micro_batch = R"(,"micro_batch":)",
                                      .start = R"(,"start_ns":)",
                                      .duration = R"(,"duration_ns":)",
                                      .keeps_absent_fields = false,
                                      .op_text = json_op_text,
                                      .group_text = json_group_text,
                                      .line_end = json_line_end,
                                      .compute = R"(,"op":"compute","start_ns":)",
                                      .compute_end = "}\n"};

}  // namespace

void write(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  write_calls(trace, selection, k_json_syntax, sink);
}

}  // namespace commlens::formats::calls_jsonl
