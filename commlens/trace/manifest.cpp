#include "commlens/trace/manifest.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/trace/manifest_names.hpp"

namespace commlens {
namespace {

using nlohmann::json;

constexpr std::int64_t k_largest_manifest = std::int64_t{1} << 30;
constexpr std::int64_t k_most_elements = std::int64_t{1} << 50;
constexpr int k_axes = static_cast<int>(Axis::self) + 1;

template <typename Names>
std::optional<std::size_t> index_of(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional<std::size_t>(found - names.begin());
}

/// Whether brackets are nested deeper than any manifest nests them; what is in strings does not count.
bool is_nested_too_deep(std::string_view text) {
  constexpr int deepest = 16;
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size() && depth <= deepest; ++at) {
    const char c = text[at];
    at += in_string && c == '\\' ? 1 : 0;
    in_string = in_string != (c == '"');
    if (!in_string) {
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
  }
  return depth > deepest;
}

/// Takes typed fields out of JSON objects. The first thing that is wrong is kept in `error`; from then on
/// every answer is a harmless default, and the caller looks at `error` before it uses them.
class Fields {
 public:
  std::optional<std::string> error;

  void fail(const std::string& where, std::string_view what) {
    if (!error) {
      error = where.empty() ? std::string(what) : fmt::format("{} {}", where, what);
    }
  }

  /// The whole number `key`, or `usual` when it is absent and there is a usual value.
  std::int64_t number(const json& object, const std::string& where, const char* key,
                      std::pair<std::int64_t, std::int64_t> range, std::optional<std::int64_t> usual = {}) {
    const json* const value = find(object, where, key, usual.has_value());
    if (value == nullptr) {
      return usual.value_or(range.first);
    }
    const bool fits = value->is_number_integer() && (!value->is_number_unsigned() ||
                                                     value->get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    const std::int64_t result = fits ? value->get<std::int64_t>() : 0;
    if (!fits || result < range.first || result > range.second) {
      fail(where, fmt::format("\"{}\" must be a whole number from {} to {}", key, range.first, range.second));
      return usual.value_or(range.first);
    }
    return result;
  }

  bool flag(const json& object, const std::string& where, const char* key, bool usual) {
    const json* const value = find(object, where, key, true);
    if (value != nullptr && !value->is_boolean()) {
      fail(where, fmt::format("\"{}\" must be true or false", key));
    }
    return value != nullptr && value->is_boolean() ? value->get<bool>() : usual;
  }

  std::string text(const json& object, const std::string& where, const char* key) {
    const json* const value = find(object, where, key, false);
    if (value != nullptr && !value->is_string()) {
      fail(where, fmt::format("\"{}\" must be a string", key));
    }
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }

  /// What `parse` makes of the word `key`.
  template <typename Parse>
  auto word(const json& object, const std::string& where, const char* key, const Parse& parse) {
    const std::string name = text(object, where, key);
    const auto value = parse(name);
    if (!value) {
      fail(where, fmt::format("\"{}\" is \"{}\", which is unknown", key, name.substr(0, 40)));
    }
    return value.value_or(typename decltype(value)::value_type{});
  }

  const json& array(const json& object, const std::string& where, const char* key) {
    static const json empty = json::array();
    const json* const value = find(object, where, key, false);
    if (value != nullptr && !value->is_array()) {
      fail(where, fmt::format("\"{}\" must be an array", key));
    }
    return value != nullptr && value->is_array() ? *value : empty;
  }

  const json* find(const json& object, const std::string& where, const char* key, bool is_optional) {
    if (!object.is_object()) {
      fail(where, "must be an object");
      return nullptr;
    }
    const auto found = object.find(key);
    if (found == object.end() && !is_optional) {
      fail(where, fmt::format("has no \"{}\"", key));
    }
    return found == object.end() ? nullptr : &*found;
  }
};

/// Fills a manifest from its JSON, table by table.
class ManifestReader {
 public:
  explicit ManifestReader(const json& root) : root_(root) {}

  Result<Manifest> read() {
    const std::string schema = fields_.text(root_, "", "schema");
    if (!fields_.error && schema != k_trace_schema) {
      fields_.fail("", fmt::format("\"schema\" is \"{}\", this version reads \"{}\"", schema.substr(0, 40),
                                   k_trace_schema));
    }
    read_mesh();
    read_provenance();
    read_strings("names", manifest_.tables.names);
    read_strings("tags", manifest_.tables.tags);
    read_rules();
    read_rows("groups",
              [&](const json& row, const std::string& where) { groups_.push_back(group(row, where)); });
    read_rows("ops", [&](const json& row, const std::string& where) { read_op(row, where); });
    read_rows("streams", [&](const json& row, const std::string& where) { read_stream(row, where); });
    check_streams();
    if (fields_.error) {
      return failure(std::move(*fields_.error));
    }
    return std::move(manifest_);
  }

 private:
  using Range = std::pair<std::int64_t, std::int64_t>;

  template <typename ReadRow>
  void read_rows(const char* key, const ReadRow& read_row) {
    const json& rows = fields_.array(root_, "", key);
    for (std::size_t index = 0; index < rows.size() && !fields_.error; ++index) {
      read_row(rows[index], fmt::format("{}[{}]", key, index));
    }
  }

  void read_mesh() {
    const json* const found = root_.is_object() && root_.contains("mesh") ? &root_["mesh"] : nullptr;
    if (found == nullptr) {
      return;
    }
    Mesh mesh;
    mesh.pipeline = fields_.number(*found, "mesh", "pipeline", {1, k_max_ranks});
    mesh.data = fields_.number(*found, "mesh", "data", {1, k_max_ranks / mesh.pipeline});
    mesh.tensor = fields_.number(*found, "mesh", "tensor", {1, k_max_ranks / mesh.pipeline / mesh.data});
    manifest_.tables.groups = GroupTable(mesh);
  }

  void read_provenance() {
    Provenance& provenance = manifest_.tables.provenance;
    provenance.source = fields_.word(root_, "", "source", source_from);
    provenance.accounting = fields_.word(root_, "", "accounting", accounting_from);
    provenance.producer = fields_.text(root_, "", "producer");
    provenance.description = fields_.text(root_, "", "description");
    provenance.framework = fields_.text(root_, "", "framework");
    provenance.verified = fields_.flag(root_, "", "verified", true);
    const json* const skipped = fields_.find(root_, "", "skipped", true);
    if (skipped == nullptr) {
      return;
    }
    for (const auto& [reason, count] : skipped->items()) {
      provenance.skipped[reason] = fields_.number(*skipped, "skipped", reason.c_str(), {0, INT64_MAX});
    }
  }

  template <typename Id>
  void read_strings(const char* key, StringTable<Id>& table) {
    read_rows(key, [&](const json& row, const std::string& where) {
      const auto rows = static_cast<std::size_t>(table.count());
      if (!row.is_string()) {
        fields_.fail(where, "must be a string");
        return;
      }
      const bool is_front = where.ends_with("[0]");
      const Id id = table.intern(row.get<std::string>());
      if (is_front ? static_cast<std::size_t>(id) != 0 : static_cast<std::size_t>(id) != rows) {
        fields_.fail(where, is_front ? "must be the empty string" : "stands in the table twice");
      }
    });
  }

  void read_rules() {
    read_rows("rules", [&](const json& row, const std::string& where) {
      Rule rule;
      rule.name = fields_.text(row, where, "name");
      rule.source = fields_.text(row, where, "source");
      rule.verified = fields_.flag(row, where, "verified", true);
      rules_.push_back(manifest_.tables.intern(rule));
      if (where == "rules[0]" && rules_.front() != RuleId{0}) {
        fields_.fail(where, "must be the empty rule");
      }
    });
  }

  Span span(const json& row, const std::string& where, const char* key, std::int64_t positions) {
    const json* const found = fields_.find(row, where, key, false);
    if (found == nullptr) {
      return {};
    }
    const std::string place = fmt::format("{}.{}", where, key);
    Span result;
    result.shape = static_cast<Span::Shape>(fields_.word(
        *found, place, "shape", [](std::string_view name) { return index_of(k_span_names, name); }));
    const bool is_stepped = result.shape == Span::Shape::block || result.shape == Span::Shape::stride;
    result.step = fields_.number(*found, place, "step", {1, is_stepped ? positions : k_max_ranks}, 1);
    return result;
  }

  GroupId group(const json& row, const std::string& where) {
    const Axis axis = fields_.word(row, where, "axis", [](std::string_view name) {
      for (int value = 0; value < k_axes; ++value) {
        if (name_of(static_cast<Axis>(value)) == name) {
          return std::optional<Axis>(static_cast<Axis>(value));
        }
      }
      return std::optional<Axis>();
    });
    const bool is_explicit = row.is_object() && row.contains("ranks");
    return is_explicit ? listed_group(row, where, axis) : pattern_group(row, where, axis);
  }

  GroupId listed_group(const json& row, const std::string& where, Axis axis) {
    std::vector<Rank> members;
    for (const json& member : fields_.array(row, where, "ranks")) {
      const bool fits =
          member.is_number_unsigned() && member.get<std::uint64_t>() < std::uint64_t{k_max_ranks};
      if (!fits) {
        fields_.fail(where, fmt::format("\"ranks\" must be whole numbers from 0 to {}", k_max_ranks - 1));
        break;
      }
      members.push_back(Rank{member.get<std::int64_t>()});
    }
    return manifest_.tables.groups.intern(members, axis);
  }

  GroupId pattern_group(const json& row, const std::string& where, Axis axis) {
    const std::optional<Mesh> mesh = manifest_.tables.groups.mesh();
    if (!mesh) {
      fields_.fail(where, "is a pattern, but the manifest has no \"mesh\"");
      return {};
    }
    GroupPattern pattern;
    pattern.axis = axis;
    pattern.shape = static_cast<GroupPattern::Shape>(fields_.word(
        row, where, "shape", [](std::string_view name) { return index_of(k_shape_names, name); }));
    pattern.pipeline = span(row, where, "pipeline", mesh->pipeline);
    pattern.data = span(row, where, "data", mesh->data);
    pattern.tensor = span(row, where, "tensor", mesh->tensor);
    return manifest_.tables.groups.intern(pattern);
  }

  static Range rows_of(std::size_t count) { return {0, static_cast<std::int64_t>(count) - 1}; }

  void read_op(const json& row, const std::string& where) {
    CommOp op;
    op.kind = fields_.word(row, where, "op", comm_kind_from);
    op.dtype = fields_.word(row, where, "dtype", dtype_from);
    op.phase = phase_from(fields_.text(row, where, "phase"));
    op.data_dependent = fields_.flag(row, where, "data_dependent", false);
    const std::int64_t group = fields_.number(row, where, "group", rows_of(groups_.size()));
    const Range elements = {0, k_most_elements / size_of(op.dtype)};
    op.input.value = fields_.number(row, where, "input_elements", elements);
    op.output.value = fields_.number(row, where, "output_elements", elements);
    op.rounding.value = fields_.number(row, where, "rounding_bytes", {0, k_most_elements}, 0);
    const Trace& tables = manifest_.tables;
    op.tag =
        TagId{static_cast<std::uint32_t>(fields_.number(row, where, "tag", rows_of(tables.tags.count()), 0))};
    op.name = NameId{
        static_cast<std::uint32_t>(fields_.number(row, where, "name", rows_of(tables.names.count()), 0))};
    const std::int64_t rule = fields_.number(row, where, "rule", rows_of(rules_.size()), 0);
    if (fields_.error) {
      return;
    }
    op.group = groups_[static_cast<std::size_t>(group)];
    op.rule = rules_.empty() ? RuleId{0} : rules_[static_cast<std::size_t>(rule)];
    const std::int64_t ranks = tables.groups.size(op.group);
    if (row.contains("root")) {
      op.root = GroupRank{fields_.number(row, where, "root", {0, ranks - 1})};
    }
    if (is_point_to_point(op.kind) && ranks != 0 && ranks != 2) {
      fields_.fail(where, "is a send or recv, whose group must be [source, destination]");
    }
    manifest_.ops.push_back(manifest_.tables.intern(op));
  }

  void read_stream(const json& row, const std::string& where) {
    StreamEntry stream;
    stream.file = fields_.text(row, where, "file");
    const std::optional<Mesh> mesh = manifest_.tables.groups.mesh();
    const std::int64_t ranks = mesh ? mesh->ranks() : k_max_ranks;
    stream.ranks.first.value = fields_.number(row, where, "first_rank", {0, ranks - 1});
    stream.ranks.last.value = fields_.number(row, where, "last_rank", {stream.ranks.first.value, ranks - 1});
    if (row.is_object() && row.contains("events")) {
      stream.events = fields_.number(row, where, "events", {0, INT64_MAX});
    }
    if (stream.file.empty() || stream.file.front() == '.' || stream.file.find('/') != std::string::npos) {
      fields_.fail(where, "\"file\" must be the name of a file in the trace folder");
    }
    manifest_.streams.push_back(std::move(stream));
  }

  void check_streams() {
    std::vector<StreamEntry>& streams = manifest_.streams;
    std::sort(streams.begin(), streams.end(),
              [](const StreamEntry& a, const StreamEntry& b) { return a.ranks < b.ranks; });
    for (std::size_t index = 1; index < streams.size(); ++index) {
      if (streams[index].ranks.first <= streams[index - 1].ranks.last) {
        fields_.fail("streams",
                     fmt::format("hold rank {} twice ({} and {})", streams[index].ranks.first.value,
                                 streams[index - 1].file, streams[index].file));
      }
    }
  }

  const json& root_;
  Fields fields_;
  Manifest manifest_;
  std::vector<GroupId> groups_;  // row in the file -> group of the tables
  std::vector<RuleId> rules_;
};

}  // namespace

Result<Manifest> read_manifest(const std::filesystem::path& file) {
  const Result<std::string> text = read_text_file(file, k_largest_manifest);
  if (!text) {
    return tl::unexpected(text.error());
  }
  if (is_nested_too_deep(*text)) {
    return failure(fmt::format("{}: nested too deep for the manifest of a trace", file.string()));
  }
  const json root = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    return failure(fmt::format("{}: not valid JSON; was the file cut off?", file.string()));
  }
  Result<Manifest> manifest = ManifestReader(root).read();
  if (!manifest) {
    return failure(fmt::format("{}: {}", file.string(), manifest.error().message));
  }
  return manifest;
}

}  // namespace commlens
