#include "commlens/trace/json_text.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/manifest_names.hpp"

namespace commlens {
namespace {

/// Writes one JSON object of the manifest, on one line.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  ~Object() { out_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void text(std::string_view key, std::string_view value) { append_json_string(opened(key), value); }
  void number(std::string_view key, std::int64_t value) { append_number(opened(key), value); }
  void number_unless(std::string_view key, std::int64_t value, std::int64_t usual) {
    if (value != usual) {
      number(key, value);
    }
  }
  void flag(std::string_view key, bool value) { opened(key) += value ? "true" : "false"; }
  /// Appends the key; the caller writes the value.
  std::string& opened(std::string_view key) {
    out_ += is_first_ ? "" : ", ";
    is_first_ = false;
    append_json_string(out_, key);
    return out_ += ": ";
  }

 private:
  std::string& out_;
  bool is_first_ = true;
};

/// Appends `,\n "key": [` rows, one per line, `]`.
template <typename Rows, typename WriteRow>
void append_table(std::string& out, std::string_view key, const Rows& rows, const WriteRow& write_row) {
  out += ",\n";
  append_json_string(out, key);
  out += ": [";
  bool is_first = true;
  for (const auto& row : rows) {
    out += is_first ? "\n  " : ",\n  ";
    is_first = false;
    write_row(row);
  }
  out += "]";
}

template <typename Id>
std::vector<std::string_view> texts_of(const StringTable<Id>& table) {
  std::vector<std::string_view> texts;
  for (std::size_t row = 0; row < table.count(); ++row) {
    texts.push_back(table.text(Id{static_cast<std::uint32_t>(row)}));
  }
  return texts;
}

void append_span(Object& object, std::string_view key, const Span& span) {
  std::string& out = object.opened(key);
  Object written(out);
  written.text("shape", k_span_names.at(static_cast<std::size_t>(span.shape)));
  written.number_unless("step", span.step, 1);
}

void append_group(std::string& out, const GroupTable& groups, GroupId id) {
  Object object(out);
  if (const std::optional<GroupPattern> pattern = groups.pattern(id)) {
    object.text("axis", name_of(pattern->axis));
    object.text("shape", k_shape_names.at(static_cast<std::size_t>(pattern->shape)));
    append_span(object, "pipeline", pattern->pipeline);
    append_span(object, "data", pattern->data);
    append_span(object, "tensor", pattern->tensor);
    return;
  }
  object.text("axis", name_of(groups.axis(id)));
  object.opened("ranks") += '[';
  bool is_first = true;
  for (const Rank rank : groups.members(id, Rank{0})) {
    out += is_first ? "" : ",";
    is_first = false;
    append_number(out, rank.value);
  }
  out += ']';
}

void append_op(std::string& out, const CommOp& op) {
  Object object(out);
  object.text("op", name_of(op.kind));
  object.text("dtype", name_of(op.dtype));
  object.text("phase", name_of(op.phase));
  object.number("group", static_cast<std::int64_t>(op.group));
  object.number("input_elements", op.input.value);
  object.number("output_elements", op.output.value);
  if (op.root) {
    object.number("root", op.root->value);
  }
  if (op.data_dependent) {
    object.flag("data_dependent", true);
  }
  object.number_unless("rounding_bytes", op.rounding.value, 0);
  object.number_unless("tag", static_cast<std::int64_t>(op.tag), 0);
  object.number_unless("rule", static_cast<std::int64_t>(op.rule), 0);
  object.number_unless("name", static_cast<std::int64_t>(op.name), 0);
}

void append_provenance(std::string& out, const Provenance& provenance) {
  const auto field = [&](std::string_view key, std::string_view value) {
    out += ",\n";
    append_json_string(out, key);
    out += ": ";
    append_json_string(out, value);
  };
  field("source", name_of(provenance.source));
  field("accounting", name_of(provenance.accounting));
  field("producer", provenance.producer);
  field("description", provenance.description);
  field("framework", provenance.framework);
  out += ",\n\"verified\": ";
  out += provenance.verified ? "true" : "false";
  out += ",\n\"skipped\": ";
  Object skipped(out);
  for (const auto& [reason, count] : provenance.skipped) {
    skipped.number(reason, count);
  }
}

void append_mesh(std::string& out, const Mesh& mesh) {
  out += ",\n\"mesh\": ";
  Object object(out);
  object.number("pipeline", mesh.pipeline);
  object.number("data", mesh.data);
  object.number("tensor", mesh.tensor);
}

}  // namespace

std::string manifest_text(const Trace& trace, const std::vector<StreamEntry>& streams) {
  std::string out = "{\n\"schema\": ";
  append_json_string(out, k_trace_schema);
  append_provenance(out, trace.provenance);
  if (const std::optional<Mesh> mesh = trace.groups.mesh()) {
    append_mesh(out, *mesh);
  }
  const auto append_text = [&](std::string_view text) { append_json_string(out, text); };
  append_table(out, "names", texts_of(trace.names), append_text);
  append_table(out, "tags", texts_of(trace.tags), append_text);
  append_table(out, "rules", trace.rules(), [&](const Rule& rule) {
    Object object(out);
    object.text("name", rule.name);
    object.text("source", rule.source);
    object.flag("verified", rule.verified);
  });
  std::vector<GroupId> groups;
  for (std::size_t row = 0; row < trace.groups.count(); ++row) {
    groups.push_back(GroupId{static_cast<std::uint32_t>(row)});
  }
  append_table(out, "groups", groups, [&](GroupId id) { append_group(out, trace.groups, id); });
  append_table(out, "ops", trace.ops(), [&](const CommOp& op) { append_op(out, op); });
  append_table(out, "streams", streams, [&](const StreamEntry& stream) {
    Object object(out);
    object.text("file", stream.file);
    object.number("first_rank", stream.ranks.first.value);
    object.number("last_rank", stream.ranks.last.value);
    if (stream.events) {
      object.number("events", *stream.events);
    }
  });
  return out + "}\n";
}

}  // namespace commlens
