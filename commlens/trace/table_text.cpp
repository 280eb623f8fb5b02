#include "commlens/trace/table_text.hpp"

#include "commlens/trace/json_text.hpp"

namespace commlens {

void JsonObject::text(std::string_view key, std::string_view value) {
  append_json_string(opened(key), value);
}

void JsonObject::number(std::string_view key, std::int64_t value) { append_number(opened(key), value); }

void JsonObject::number_unless(std::string_view key, std::int64_t value, std::int64_t usual) {
  if (value != usual) {
    number(key, value);
  }
}

void JsonObject::flag(std::string_view key, bool value) { opened(key) += value ? "true" : "false"; }

std::string& JsonObject::opened(std::string_view key) {
  out_ += is_first_ ? "" : ", ";
  is_first_ = false;
  append_json_string(out_, key);
  return out_ += ": ";
}

namespace {

void add_communicator(JsonObject& object, CommunicatorId communicator) {
  if (communicator != k_no_communicator) {
    object.text("communicator", text_of(communicator));
  }
}

}  // namespace

void append_group_row(std::string& out, const std::vector<Rank>& members, Axis axis,
                      CommunicatorId communicator) {
  JsonObject object(out);
  object.text("axis", name_of(axis));
  object.opened("ranks") += '[';
  bool is_first = true;
  for (const Rank rank : members) {
    out += is_first ? "" : ",";
    is_first = false;
    append_number(out, rank.value);
  }
  out += ']';
  add_communicator(object, communicator);
}

void append_group_row_alike(std::string& out, GroupId alike, Axis axis, CommunicatorId communicator) {
  JsonObject object(out);
  object.text("axis", name_of(axis));
  object.number("ranks_of", static_cast<std::int64_t>(alike));
  add_communicator(object, communicator);
}

void append_hidden_group_row(std::string& out, std::int64_t size, std::string_view name, Axis axis) {
  JsonObject object(out);
  object.text("axis", name_of(axis));
  object.opened("ranks") += "[]";
  object.number("size", size);
  if (!name.empty()) {
    object.text("name", name);
  }
}

void append_op_row(std::string& out, const CommOp& op) {
  JsonObject object(out);
  object.text("op", name_of(op.kind));
  object.text("dtype", name_of(op.dtype));
  object.text("phase", name_of(op.phase));
  object.number("group", static_cast<std::int64_t>(op.group));
  object.number("input_elements", op.input.value);
  object.number("output_elements", op.output.value);
  if (op.root) {
    object.number("root", op.root->value);
  }
  if (op.match != Match::exact) {
    object.text("match", name_of(op.match));
  }
  if (op.reduction != Reduction::unknown) {
    object.text("reduce_op", name_of(op.reduction));
  }
  if (op.algorithm != Algorithm::unknown) {
    object.text("algorithm", name_of(op.algorithm));
  }
  if (op.protocol != Protocol::unknown) {
    object.text("protocol", name_of(op.protocol));
  }
  if (op.blocking) {
    object.flag("blocking", *op.blocking);
  }
  object.number_unless("rounding_bytes", op.rounding.value, 0);
  object.number_unless("tag", static_cast<std::int64_t>(op.tag), 0);
  object.number_unless("rule", static_cast<std::int64_t>(op.rule), 0);
  object.number_unless("name", static_cast<std::int64_t>(op.name), 0);
  object.number_unless("site", static_cast<std::int64_t>(op.site), 0);
  object.number_unless("note", static_cast<std::int64_t>(op.note), 0);
}

}  // namespace commlens
