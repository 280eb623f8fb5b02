#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/io/json_members.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/formats/io/text_search.hpp"
#include "commlens/formats/nccl_tests/import.hpp"
#include "commlens/formats/nccl_tests/rows.hpp"

namespace commlens::formats::nccl_tests {
namespace {

constexpr std::size_t k_largest_report = std::size_t{256} << 20;

std::optional<NcclTestsTime> json_placement(const nlohmann::json& row, const char* key, bool& is_cpu_time) {
  const nlohmann::json* const placement = json_member(row, key);
  const nlohmann::json* time = placement == nullptr ? nullptr : json_member(*placement, "time");
  if (time == nullptr && placement != nullptr) {
    time = json_member(*placement, "cpu_time");
    is_cpu_time = is_cpu_time || time != nullptr;
  }
  if (time == nullptr || !time->is_number()) {
    return std::nullopt;
  }
  const nlohmann::json* const wrong = json_member(*placement, "nwrong");
  return NcclTestsTime{time->get<double>(), wrong != nullptr && wrong->is_number()};
}

/// A row; std::nullopt if it has no size, no known type or no time.
std::optional<NcclTestsRow> json_row(const nlohmann::json& row, bool& is_cpu_time) {
  constexpr std::int64_t largest = std::int64_t{1} << 50;
  const auto bytes = json_whole(row, "size");
  const auto count = json_whole(row, "count");
  const auto dtype = nccl_dtype(json_text(row, "type"));
  if (!bytes || !count || !dtype || *bytes < 0 || *count < 0 || *bytes > largest ||
      *count > largest / size_of(*dtype)) {
    return std::nullopt;
  }
  NcclTestsRow parsed;
  parsed.bytes = *bytes;
  parsed.count = *count;
  parsed.dtype = *dtype;
  parsed.redop = json_text(row, "redop");
  const std::string root = json_text(row, "root");  // padded with blanks
  const std::size_t start = root.find_first_not_of(' ');
  parsed.root = start == std::string::npos ? std::string() : root.substr(start);
  parsed.out_of_place = json_placement(row, "out_of_place", is_cpu_time);
  parsed.in_place = json_placement(row, "in_place", is_cpu_time);
  return parsed.out_of_place || parsed.in_place ? std::optional(std::move(parsed)) : std::nullopt;
}

/// Ranks of a communicator. The list of devices has every rank or, in version 2, the first of each process.
std::int64_t ranks_of(const nlohmann::json& report) {
  const nlohmann::json* const config = json_member(report, "config");
  const nlohmann::json* devices = json_member(report, "devices");
  if (devices == nullptr && config != nullptr) {
    devices = json_member(*config, "devices");
  }
  if (devices == nullptr || !devices->is_array() || devices->empty()) {
    return 0;
  }
  std::set<std::pair<std::string, std::int64_t>> processes;
  std::map<std::int64_t, std::int64_t> ranks_by_group;
  for (const nlohmann::json& device : *devices) {
    processes.emplace(json_text(device, "hostname"), json_whole(device, "pid").value_or(-1));
    ++ranks_by_group[json_whole(device, "group").value_or(0)];
  }
  std::int64_t per_process = 1;
  if (config != nullptr && processes.size() == devices->size()) {
    const std::int64_t threads = json_whole(*config, "nthreads").value_or(1);
    const std::int64_t gpus = json_whole(*config, "ngpus").value_or(1);
    const bool is_possible = threads >= 1 && threads <= 4096 && gpus >= 1 && gpus <= 4096;
    per_process = is_possible ? threads * gpus : 1;
  }
  return ranks_by_group[json_whole(devices->front(), "group").value_or(0)] * per_process;
}

}  // namespace

Result<Trace> read_json(const std::filesystem::path& path) {
  const Result<std::string> text = read_whole(path, k_largest_report, "report of nccl-tests");
  if (!text) {
    return tl::unexpected(text.error());
  }
  const nlohmann::json report = nlohmann::json::parse(*text, nullptr, false);
  const nlohmann::json* const results = json_member(report, "results");
  if (results == nullptr || !results->is_array()) {
    return failure(fmt::format("{}: no whole report of nccl-tests ({}); run it again with -J FILE",
                               path.string(),
                               report.is_discarded() ? "no JSON, or cut off" : "no \"results\""));
  }
  NcclTestsRun run;
  run.columns.has_redop = true;
  run.columns.has_root = true;
  const nlohmann::json* const arguments = json_member(report, "args");
  if (arguments != nullptr && arguments->is_array() && !arguments->empty() &&
      arguments->front().is_string()) {
    run.program = nccl_tests_program(arguments->front().get<std::string>());
  }
  run.ranks = ranks_of(report);
  BenchmarkTrace trace("nccl-tests JSON", path.string());
  for (const nlohmann::json& row : *results) {
    if (auto parsed = json_row(row, run.columns.is_cpu_time)) {
      run.rows.push_back(std::move(*parsed));
    } else {
      trace.skip("row without size, type or time");
    }
  }
  add_nccl_tests_run(run, trace);
  if (trace.is_empty()) {
    return failure(fmt::format("{}: no row with a time in \"results\"", path.string()));
  }
  return trace.finish();
}

bool sniff_json(const std::filesystem::path&, std::string_view head) {
  // "env" comes third and may fill the head.
  const std::string_view opening = json_object_in(head).substr(0, 4096);
  return holds(opening, "\"version\"") && holds(opening, "\"start_time\"") && holds(opening, "\"args\"") &&
         holds(opening, "_perf");
}

}  // namespace commlens::formats::nccl_tests
