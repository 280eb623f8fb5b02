#include "commlens/trace/manifest.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/table_rows.hpp"

namespace commlens {
namespace {

using nlohmann::json;

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
    read_recorder();
    TableRows rows(manifest_.tables, fields_);
    read_rows("names", [&](const json& row, const std::string& where) { rows.add_name(row, where); });
    read_rows("tags", [&](const json& row, const std::string& where) { rows.add_tag(row, where); });
    read_rows("rules", [&](const json& row, const std::string& where) { rows.add_rule(row, where); });
    read_rows("groups", [&](const json& row, const std::string& where) { rows.add_group(row, where); });
    read_rows("ops", [&](const json& row, const std::string& where) { rows.add_op(row, where); });
    read_rows("streams", [&](const json& row, const std::string& where) { read_stream(row, where); });
    check_streams();
    if (fields_.error) {
      return failure(std::move(*fields_.error));
    }
    manifest_.ops = rows.take_ops();
    return std::move(manifest_);
  }

 private:
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
    read_counts("skipped", provenance.skipped);
    read_counts("assumed", provenance.assumed);
    provenance.averaged_times = fields_.flag(root_, "", "averaged_times", false);
    if (fields_.find(root_, "", "progress", true) != nullptr) {
      provenance.progress = fields_.flag(root_, "", "progress", false);
    }
    provenance.job_ranks = fields_.number(root_, "", "job_ranks", {1, k_max_ranks}, 0);
  }

  void read_counts(const char* key, std::map<std::string, std::int64_t>& counts) {
    const json* const found = fields_.find(root_, "", key, true);
    if (found == nullptr) {
      return;
    }
    for (const auto& [reason, count] : found->items()) {
      counts[reason] = fields_.number(*found, key, reason.c_str(), {0, INT64_MAX});
    }
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
    stream.version = fields_.number(row, where, "version", {1, INT32_MAX}, 1);
    check_file_name(stream.file, where, "file");
    if (row.is_object() && row.contains("tables")) {
      stream.tables = fields_.text(row, where, "tables");
      check_file_name(stream.tables, where, "tables");
    }
    if (row.is_object() && row.contains("compute")) {
      stream.compute = fields_.text(row, where, "compute");
      check_file_name(stream.compute, where, "compute");
    }
    if (const json* const clock = fields_.find(row, where, "clock", true); clock != nullptr) {
      stream.clock = clock_of(*clock, where);
    }
    manifest_.streams.push_back(std::move(stream));
  }

  ClockAlignment clock_of(const json& row, const std::string& where) {
    constexpr JsonFields::Range any = {-(std::int64_t{1} << 61), std::int64_t{1} << 61};
    return {.at = std::chrono::nanoseconds(fields_.number(row, where, "at_ns", any)),
            .offset = std::chrono::nanoseconds(fields_.number(row, where, "offset_ns", any)),
            .drift_ppb = fields_.number(row, where, "drift_ppb", any),
            .error = std::chrono::nanoseconds(fields_.number(row, where, "error_ns", {0, any.second}))};
  }

  void check_file_name(const std::string& name, const std::string& where, std::string_view key) {
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
      fields_.fail(where, fmt::format("\"{}\" must be the name of a file in the trace folder", key));
    }
  }

  void read_recorder() {
    const json* const found = fields_.find(root_, "", "recorder", true);
    if (found == nullptr) {
      return;
    }
    RecorderCost& recorder = manifest_.tables.provenance.recorder.emplace();
    recorder.clock = fields_.text(*found, "recorder", "clock");
    const JsonFields::Range any = {0, INT64_MAX};
    recorder.cost_per_call =
        std::chrono::nanoseconds(fields_.number(*found, "recorder", "cost_ns_per_call", any));
    recorder.clock_error_ppb = fields_.number(*found, "recorder", "clock_error_ppb", any);
    recorder.dropped = fields_.number(*found, "recorder", "dropped", any);
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
  JsonFields fields_;
  Manifest manifest_;
};

}  // namespace

Result<Manifest> read_manifest(const std::filesystem::path& file) {
  const Result<std::string> text = read_text_file(file, k_largest_tables);
  if (!text) {
    return tl::unexpected(text.error());
  }
  const Result<json> root = parse_json(*text);
  if (!root) {
    return failure(fmt::format("{}: {}", file.string(), root.error().message));
  }
  Result<Manifest> manifest = ManifestReader(*root).read();
  if (!manifest) {
    return failure(fmt::format("{}: {}", file.string(), manifest.error().message));
  }
  return manifest;
}

}  // namespace commlens
