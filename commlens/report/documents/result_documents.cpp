#include "commlens/report/documents/result_documents.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/report/documents/document_fields.hpp"
#include "commlens/trace/json_fields.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_search_schema = "commlens.search/1";
constexpr std::string_view k_scaling_schema = "commlens.search_scaling/1";
constexpr std::string_view k_simulate_schema = "commlens.simulate/1";
constexpr std::string_view k_measured_schema = "commlens.bench/1";
constexpr std::array<std::string_view, 4> k_schema_names = {"commlens.search/", "commlens.search_scaling/",
                                                            "commlens.simulate/", "commlens.bench/"};

WithInterval interval_of(DocumentFields& fields, const char* value, const char* low, const char* high) {
  return {fields.number(value), fields.number(low), fields.number(high)};
}

WithInterval interval_at(DocumentFields& fields, const char* key) {
  DocumentFields object = fields.object(key);
  return interval_of(object, "value", "low", "high");
}

WithInterval layout_seconds(DocumentFields& row) { return interval_of(row, "time_s", "low_s", "high_s"); }

WithInterval layout_memory(DocumentFields& row) {
  return interval_of(row, "memory_bytes_per_rank", "memory_low_bytes_per_rank", "memory_high_bytes_per_rank");
}

/// What every row of a layout has.
FoundLayout read_layout(DocumentFields& row) {
  FoundLayout layout;
  layout.text = row.text("layout_text");
  layout.seconds = layout_seconds(row);
  layout.memory = layout_memory(row);
  layout.mfu = row.number("mfu_share");
  for (std::size_t part = 0; part < k_part_keys.size(); ++part) {
    layout.parts[part] = row.number(k_part_keys[part].data());
  }
  layout.provenance = row.text("provenance");
  return layout;
}

std::vector<FoundLayout> read_listed(DocumentFields& document, const char* key) {
  std::vector<FoundLayout> layouts;
  for (DocumentFields& row : document.objects(key)) {
    FoundLayout layout = read_layout(row);
    layout.is_equal = row.flag("equal_within_error");
    if (row.optional_number("simulated_s")) {
      layout.simulated = interval_of(row, "simulated_s", "simulated_low_s", "simulated_high_s");
      layout.simulated_by = row.text("simulated_provenance");
    }
    layout.reason = row.optional_text("reason");
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

FoundChange read_change(DocumentFields& row) {
  return {row.text("setting"), row.text("now"),    row.text("then"),
          layout_seconds(row), layout_memory(row), row.signed_number("slower_share"),
          row.flag("fits")};
}

SearchedOn read_searched_on(const std::string& name, DocumentFields& document) {
  SearchedOn on;
  on.name = name;
  on.model = document.text("model");
  on.machine = document.text("machine");
  on.processor = document.text("processor");
  on.framework = document.text("framework");
  on.precision = document.text("precision");
  on.provenance = document.text("provenance");
  on.ranks = document.whole("rank_count");
  on.sequences = document.whole("sequences_per_iteration");
  on.sequence = document.whole("sequence");
  on.memory_limit = document.whole("memory_limit_bytes");
  return on;
}

FoundLayouts read_layouts(const std::string& name, DocumentFields& document) {
  FoundLayouts found;
  found.on = read_searched_on(name, document);
  found.evaluated = document.whole("evaluated_layouts");
  found.fitting = document.whole("fitting_layouts");
  found.equal = document.whole("equal_layouts");
  found.fastest = read_listed(document, "rows");
  found.front = read_listed(document, "front");
  for (DocumentFields& row : document.objects("changes")) {
    found.changes.push_back(read_change(row));
  }
  std::vector<FoundLayout> with_twice = read_listed(document, "with_twice_the_memory");
  if (!with_twice.empty()) {
    found.with_twice = std::move(with_twice.front());
  }
  found.order_tau = document.optional_number("simulated_order_tau");
  found.library = document.optional_text("library");
  return found;
}

FoundScaling read_scaling(const std::string& name, DocumentFields& document) {
  FoundScaling found;
  found.on = read_searched_on(name, document);
  for (DocumentFields& row : document.objects("rows")) {
    FoundOnDevices point;
    point.ranks = row.whole("rank_count");
    point.reason = row.optional_text("reason");
    if (row.has("time_s")) {
      point.layout = read_layout(row);
      point.tokens_per_s = row.number("tokens_per_s");
      point.scaling = row.optional_number("scaling_share");
    }
    found.rows.push_back(std::move(point));
  }
  return found;
}

CallsOfIteration read_calls(DocumentFields& row) {
  return {row.text("op"),
          row.text("axis"),
          row.number("calls_per_rank"),
          interval_of(row, "exposed_s", "exposed_low_s", "exposed_high_s"),
          interval_of(row, "moving_s", "moving_low_s", "moving_high_s"),
          row.text("provenance")};
}

SimulatedIteration read_simulated(const std::string& name, DocumentFields& document) {
  SimulatedIteration simulated;
  simulated.name = name;
  simulated.model = document.text("model");
  simulated.layout = document.text("layout_text");
  simulated.framework = document.text("framework");
  simulated.machine = document.text("machine");
  simulated.machine_title = document.text("machine_title");
  simulated.library = document.text("library");
  simulated.kernels = document.text("kernels");
  simulated.ranks = document.whole("rank_count");
  simulated.unverified = document.texts("unverified");
  simulated.contention = document.text("contention");
  simulated.assumptions = document.texts("link_assumptions");
  simulated.seconds = interval_at(document, "iteration_s");
  simulated.tokens_per_s = interval_at(document, "tokens_per_s_per_rank");
  simulated.mfu = interval_at(document, "mfu");
  simulated.compute = interval_at(document, "compute_s");
  simulated.exposed = interval_at(document, "exposed_s");
  simulated.waiting = interval_at(document, "waiting_s");
  simulated.memory = interval_at(document, "memory_bytes");
  for (DocumentFields& row : document.objects("calls")) {
    simulated.calls.push_back(read_calls(row));
  }
  return simulated;
}

MeasuredCalls read_measured(const std::string& name, DocumentFields& document) {
  MeasuredCalls measured;
  measured.name = name;
  measured.transport = document.text("transport");
  measured.cache = document.text("cache");
  measured.ranks = document.whole("rank_count");
  measured.launches = static_cast<std::int64_t>(document.objects("launches").size());
  measured.is_partial = document.flag("partial");
  for (DocumentFields& row : document.objects("rows")) {
    MeasuredCall& call = measured.calls.emplace_back();
    call.op = row.text("op");
    call.dtype = row.text("dtype");
    call.groups = row.text("axis");
    call.ranks = row.has("group_size") ? row.whole("group_size") : 0;
    call.bytes = row.whole("message_bytes");
    call.in_place = row.flag("in_place");
    call.samples = row.whole("samples");
    const double p50 = row.number("p50_ns");
    call.nanoseconds = {p50, row.optional_number("p50_low_ns").value_or(p50),
                        row.optional_number("p50_high_ns").value_or(p50)};
    call.bus_bandwidth = row.optional_number("bus_bandwidth_bytes_per_s");
  }
  return measured;
}

/// Puts what was read into its place, unless that is taken or something was wrong.
template <typename Read>
void keep(std::optional<Read>& place, Read read, std::optional<std::string>& error) {
  if (place && !error) {
    error = "is the second of its kind; a report takes one";
  }
  place = std::move(read);
}

/// The document's schema decides which member of `into` it is.
void read_known(const std::string& name, DocumentFields& document, ResultDocuments& into,
                std::optional<std::string>& error) {
  const std::string schema = document.text("schema");
  const auto check_rows = [&](bool is_empty) {
    if (is_empty && !error) {
      error = "rows is empty";
    }
  };
  if (schema == k_search_schema) {
    keep(into.layouts, read_layouts(name, document), error);
    check_rows(into.layouts->fastest.empty());
  } else if (schema == k_scaling_schema) {
    keep(into.scaling, read_scaling(name, document), error);
    check_rows(into.scaling->rows.empty());
  } else if (schema == k_simulate_schema) {
    keep(into.simulated, read_simulated(name, document), error);
  } else if (schema == k_measured_schema) {
    keep(into.measured, read_measured(name, document), error);
    check_rows(into.measured->calls.empty());
  } else if (!error) {
    error = fmt::format("schema is '{}', which this version does not read; make the file again with it",
                        schema.substr(0, 40));
  }
}

}  // namespace

bool is_result_document(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '{') {
    return false;
  }
  constexpr std::string_view key = "\"schema\"";
  const std::size_t at = head.find(key);
  const std::size_t value =
      at == std::string_view::npos ? at : head.find_first_not_of(" \t\r\n:", at + key.size());
  if (value == std::string_view::npos || head[value] != '"') {
    return false;
  }
  return std::any_of(k_schema_names.begin(), k_schema_names.end(),
                     [&](std::string_view name) { return head.substr(value + 1).starts_with(name); });
}

Result<void> read_result_document(const std::string& name, std::string_view text, ResultDocuments& into) {
  return parse_json(text)
      .map_error([&](const Error& error) { return Error{fmt::format("{}: {}", name, error.message)}; })
      .and_then([&](const nlohmann::json& json) -> Result<void> {
        std::optional<std::string> error;
        DocumentFields document(json, "", error);
        read_known(name, document, into, error);
        if (error) {
          return failure(fmt::format("{}: {}", name, *error));
        }
        return {};
      });
}

}  // namespace commlens
