#include "commlens/trace/json_text.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/manifest_names.hpp"
#include "commlens/trace/table_text.hpp"

namespace commlens {
namespace {

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

void append_pattern(std::string& out, const Mesh& mesh, const GroupPattern& pattern) {
  JsonObject object(out);
  object.text("axis", name_of(pattern.axis));
  object.text("shape", k_shape_names.at(static_cast<std::size_t>(pattern.shape)));
  object.text("view", mesh.views().at(pattern.view).name());
  if (pattern.shape != GroupPattern::Shape::mesh) {
    object.text("along", name_of(pattern.along));
    return;
  }
  object.opened("spans") += '[';
  for (std::size_t at = 0; at < pattern.spans.size(); ++at) {
    const AxisSpan& span = pattern.spans[at];
    out += at == 0 ? "" : ", ";
    JsonObject written(out);
    written.text("axis", name_of(span.axis));
    written.text("shape", k_span_names.at(static_cast<std::size_t>(span.span.shape)));
    written.number_unless("step", span.span.step, 1);
  }
  out += ']';
}

void append_group(std::string& out, const GroupTable& groups, GroupId id) {
  const GroupPattern* const pattern = groups.pattern(id);
  if (pattern == nullptr && !groups.knows_members(id) && groups.size(id) > 0) {
    append_hidden_group_row(out, groups.size(id), groups.name(id), groups.axis(id));
    return;
  }
  if (pattern == nullptr) {
    append_group_row(out, groups.members(id, Rank{0}), groups.axis(id), groups.communicator(id));
    return;
  }
  append_pattern(out, *groups.mesh(), *pattern);
}

void append_counts(std::string& out, std::string_view key,
                   const std::map<std::string, std::int64_t>& counts) {
  out += ",\n";
  append_json_string(out, key);
  out += ": ";
  JsonObject object(out);
  for (const auto& [reason, count] : counts) {
    object.number(reason, count);
  }
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
  append_counts(out, "skipped", provenance.skipped);
  if (!provenance.assumed.empty()) {
    append_counts(out, "assumed", provenance.assumed);
  }
  if (provenance.averaged_times) {
    out += ",\n\"averaged_times\": true";
  }
  if (provenance.progress) {
    out += ",\n\"progress\": ";
    out += *provenance.progress ? "true" : "false";
  }
  if (provenance.job_ranks > 0) {
    out += ",\n\"job_ranks\": ";
    append_number(out, provenance.job_ranks);
  }
}

void append_recorder(std::string& out, const RecorderCost& recorder) {
  out += ",\n\"recorder\": ";
  JsonObject object(out);
  object.text("clock", recorder.clock);
  object.number("cost_ns_per_call", recorder.cost_per_call.count());
  object.number("clock_error_ppb", recorder.clock_error_ppb);
  object.number("dropped", recorder.dropped);
}

void append_mesh(std::string& out, const Mesh& mesh) {
  append_table(out, "mesh", mesh.views(), [&](const MeshView& view) {
    JsonObject object(out);
    object.text("view", view.name());
    object.opened("axes") += '[';
    bool is_first = true;
    for (const MeshAxis& axis : view.axes()) {
      out += is_first ? "" : ", ";
      is_first = false;
      JsonObject written(out);
      written.text("axis", name_of(axis.axis));
      written.number("size", axis.size);
    }
    out += ']';
  });
}

}  // namespace

std::string manifest_text(const Trace& trace, const std::vector<StreamEntry>& streams) {
  std::string out = "{\n\"schema\": ";
  append_json_string(out, k_trace_schema);
  append_provenance(out, trace.provenance);
  if (trace.provenance.recorder) {
    append_recorder(out, *trace.provenance.recorder);
  }
  if (const std::optional<Mesh>& mesh = trace.groups.mesh()) {
    append_mesh(out, *mesh);
  }
  const auto append_text = [&](std::string_view text) { append_json_string(out, text); };
  append_table(out, "names", texts_of(trace.names), append_text);
  append_table(out, "tags", texts_of(trace.tags), append_text);
  append_table(out, "rules", trace.rules(), [&](const Rule& rule) {
    JsonObject object(out);
    object.text("name", rule.name);
    object.text("source", rule.source);
    object.flag("verified", rule.verified);
  });
  std::vector<GroupId> groups;
  for (std::size_t row = 0; row < trace.groups.count(); ++row) {
    groups.push_back(GroupId{static_cast<std::uint32_t>(row)});
  }
  append_table(out, "groups", groups, [&](GroupId id) { append_group(out, trace.groups, id); });
  append_table(out, "ops", trace.ops(), [&](const CommOp& op) { append_op_row(out, op); });
  append_table(out, "streams", streams, [&](const StreamEntry& stream) {
    JsonObject object(out);
    object.text("file", stream.file);
    object.number("first_rank", stream.ranks.first.value);
    object.number("last_rank", stream.ranks.last.value);
    object.number_unless("block", stream.ranks.block, 0);
    object.number_unless("every", stream.ranks.every, 0);
    if (stream.events) {
      object.number("events", *stream.events);
    }
    if (!stream.tables.empty()) {
      object.text("tables", stream.tables);
    }
    if (stream.clock) {
      JsonObject clock(object.opened("clock"));
      clock.number("at_ns", stream.clock->at.count());
      clock.number("offset_ns", stream.clock->offset.count());
      clock.number("drift_ppb", stream.clock->drift_ppb);
      clock.number("error_ns", stream.clock->error.count());
    }
    if (!stream.compute.empty()) {
      object.text("compute", stream.compute);
    }
    object.number_unless("version", stream.version, 1);
    object.number_unless("ring", stream.ring, 0);
  });
  return out + "}\n";
}

}  // namespace commlens
