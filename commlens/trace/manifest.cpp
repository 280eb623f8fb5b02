#include "commlens/trace/manifest.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/file.hpp"
#include "commlens/trace/json_fields.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/table_limits.hpp"
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
    const bool is_version_1 = schema == k_trace_schema_1;
    if (!fields_.error && schema != k_trace_schema && !is_version_1) {
      fields_.fail("", fmt::format("\"schema\" is \"{}\", this version reads \"{}\" and \"{}\"",
                                   schema.substr(0, 40), k_trace_schema, k_trace_schema_1));
    }
    is_version_1 ? read_mesh_of_version_1() : read_mesh();
    read_provenance();
    read_recorder();
    TableRows rows(manifest_.tables, fields_);
    if (is_version_1) {
      rows.set_version_1();
    }
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
    if (!root_.is_object() || !root_.contains("mesh")) {
      return;
    }
    std::optional<Mesh> mesh;
    read_rows("mesh", [&](const json& row, const std::string& where) {
      const std::string name = fields_.text(row, where, "view");
      std::vector<MeshAxis> axes = read_axes(row, where);
      if (fields_.error) {
        return;
      }
      const Result<void> added = mesh ? mesh->add_view(name, std::move(axes))
                                 : name != k_dense_view
                                     ? failure(fmt::format("must be the view \"{}\"", k_dense_view))
                                     : Mesh::of(std::move(axes)).map([&](Mesh of) { mesh = std::move(of); });
      if (!added) {
        fields_.fail(where, added.error().message);
      }
    });
    if (mesh) {
      manifest_.tables.groups = GroupTable(std::move(*mesh));
    }
  }

  std::vector<MeshAxis> read_axes(const json& view, const std::string& where) {
    const json& rows = fields_.array(view, where, "axes");
    std::vector<MeshAxis> axes;
    for (std::size_t at = 0; at < rows.size() && at <= k_most_axes && !fields_.error; ++at) {
      const std::string place = fmt::format("{}.axes[{}]", where, at);
      const Axis axis = fields_.word(rows[at], place, "axis", Axis::from);
      axes.push_back({axis, fields_.number(rows[at], place, "size", {1, k_max_ranks})});
    }
    return axes;
  }

  void read_mesh_of_version_1() {
    const json* const found = root_.is_object() && root_.contains("mesh") ? &root_["mesh"] : nullptr;
    if (found == nullptr) {
      return;
    }
    const std::int64_t pipeline = fields_.number(*found, "mesh", "pipeline", {1, k_max_ranks});
    const std::int64_t data = fields_.number(*found, "mesh", "data", {1, k_max_ranks / pipeline});
    const std::int64_t tensor = fields_.number(*found, "mesh", "tensor", {1, k_max_ranks / pipeline / data});
    manifest_.tables.groups = GroupTable(Mesh{{Axis::pp, pipeline}, {Axis::dp, data}, {Axis::tp, tensor}});
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
    const std::optional<Mesh>& mesh = manifest_.tables.groups.mesh();
    const std::int64_t ranks = mesh ? mesh->ranks() : k_max_ranks;
    stream.ranks.first.value = fields_.number(row, where, "first_rank", {0, ranks - 1});
    stream.ranks.last.value = fields_.number(row, where, "last_rank", {stream.ranks.first.value, ranks - 1});
    read_blocks(row, where, stream.ranks);
    if (row.is_object() && row.contains("events")) {
      stream.events = fields_.number(row, where, "events", {0, INT64_MAX});
    }
    stream.version = fields_.number(row, where, "version", {1, INT32_MAX}, 1);
    stream.ring = fields_.number(row, where, "ring", {0, k_most_ring_records}, 0);
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

  /// The ranks of positions along an axis that is not the slowest one.
  void read_blocks(const json& row, const std::string& where, RankRange& ranks) {
    ranks.every = fields_.number(row, where, "every", {2, k_max_ranks}, 0);
    if (ranks.every == 0) {
      return;
    }
    ranks.block = fields_.number(row, where, "block", {1, ranks.every - 1});
    const std::int64_t first = ranks.first.value;
    const std::int64_t last = ranks.last.value;
    const bool ends_a_block = last % ranks.every == (first + ranks.block - 1) % ranks.every;
    if (first % ranks.every + ranks.block > ranks.every || !ends_a_block || last - first < ranks.every) {
      fields_.fail(where,
                   "\"first_rank\" and \"last_rank\" must be of different blocks, the first of one and the "
                   "last of the other");
    }
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
      fields_.fail(where, fmt::format("\"{}\" must be the name of a file in the trace directory", key));
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
    for (std::size_t index = 1; index < streams.size() && !fields_.error; ++index) {
      check_apart(streams[index - 1], streams[index]);
    }
  }

  /// `next` is the one after `stream` by its ranks.
  void check_apart(const StreamEntry& stream, const StreamEntry& next) {
    const RankRange& ranks = stream.ranks;
    const auto row = [](const RankRange& range) {
      return std::pair(range.first.value / range.every, range.last.value / range.every);
    };
    const bool is_gapless = ranks.is_gapless();
    if (is_gapless != next.ranks.is_gapless() || ranks.every != next.ranks.every ||
        (!is_gapless && row(ranks) != row(next.ranks))) {
      fields_.fail("streams",
                   fmt::format("must all be of blocks in the same rows of ranks, or none ({} and {})",
                               stream.file, next.file));
      return;
    }
    const std::int64_t end = is_gapless ? ranks.last.value + 1 : ranks.first.value + ranks.block;
    if (next.ranks.first.value < end) {
      fields_.fail("streams", fmt::format("hold rank {} twice ({} and {})", next.ranks.first.value,
                                          stream.file, next.file));
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
  return manifest_from(*text, file);
}

Result<Manifest> manifest_from(std::string_view text, const std::filesystem::path& file) {
  const Result<json> root = parse_json(text);
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
