#include "commlens/formats/nsys/report.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/formats/io/torch_names.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::nsys {
namespace {

constexpr const char* k_kernel_table = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* k_runtime_table = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* k_range_table = "NVTX_EVENTS";
constexpr std::size_t k_longest_payload = std::size_t{64} << 10;
constexpr std::size_t k_longest_name = std::size_t{16} << 10;  // of a kernel
constexpr std::size_t k_most_names = 4096;
constexpr std::size_t k_longest_host = 255;

/// Tables whose rows are neither communication nor computing to us, and why.
constexpr std::array<std::pair<const char*, const char*>, 5> k_left_out = {
    {{"CUPTI_ACTIVITY_KIND_MEMCPY", "copy or filling of memory"},
     {"CUPTI_ACTIVITY_KIND_MEMSET", "copy or filling of memory"},
     {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA graph traced as one block (use --cuda-graph-trace=node)"},
     {"MPI_P2P_EVENTS", "MPI call in a report of Nsight"},
     {"MPI_COLLECTIVES_EVENTS", "MPI call in a report of Nsight"}}};

/// The numbers of NCCL's payload, by their labels, however deep they are in the JSON text.
std::map<std::string, std::int64_t> payload_numbers(std::string_view text) {
  std::map<std::string, std::int64_t> numbers;
  const nlohmann::json whole = text.size() > k_longest_payload
                                   ? nlohmann::json()
                                   : nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  std::vector<const nlohmann::json*> open = {&whole};
  while (!open.empty()) {
    const nlohmann::json* const at = open.back();
    open.pop_back();
    if (!at->is_structured()) {
      continue;
    }
    for (const auto& item : at->items()) {
      open.push_back(&item.value());
      if (at->is_object() && item.value().is_number_integer()) {
        numbers.try_emplace(item.key(), item.value().get<std::int64_t>());
      }
    }
  }
  return numbers;
}

std::optional<std::int64_t> number(const std::map<std::string, std::int64_t>& numbers, const char* label) {
  const auto found = numbers.find(label);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

/// "start, end, deviceId, process" of the table of kernels.
std::string kernel_columns(bool has_process) {
  return fmt::format(R"("start", "end", deviceId, {})", has_process ? "globalPid" : "0");
}

}  // namespace

bool NsysReport::has(const std::string& table, const std::string& column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() && found->second.contains(column);
}

std::string_view NsysReport::name(std::int64_t id) const {
  const auto found = communication_names_.find(id);
  return found == communication_names_.end() ? std::string_view() : std::string_view(found->second);
}

Result<void> NsysReport::read() {
  using Step = Result<void> (NsysReport::*)();
  for (const Step step : {&NsysReport::read_schema, &NsysReport::read_session, &NsysReport::read_kernel_names,
                          &NsysReport::read_kernels, &NsysReport::read_launches, &NsysReport::read_ranges,
                          &NsysReport::count_what_is_left_out}) {
    if (Result<void> done = (this->*step)(); !done) {
      return done;
    }
  }
  return {};
}

Result<void> NsysReport::read_schema() {
  Result<void> listed = database_.each(
      "SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c "
      "WHERE m.type = 'table'",
      [&](const SqliteStatement& row) {
        tables_[std::string(row.text(0))].insert(std::string(row.text(1)));
      });
  if (listed && !has(k_kernel_table) && !has(k_range_table)) {
    return failure(fmt::format(
        "an SQLite file with neither table {} nor {}: no report of Nsight Systems, or one to record "
        "with nsys profile --trace=cuda,nvtx",
        k_kernel_table, k_range_table));
  }
  for (const auto& [table, columns] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {k_kernel_table, {"start", "end", "deviceId"}}, {k_range_table, {"start", "end", "globalTid"}}}) {
    for (const std::string& column : columns) {
      if (listed && has(table) && !has(table, column)) {
        return failure(fmt::format("table {} has no column {}: no report of Nsight Systems", table, column));
      }
    }
  }
  return listed;
}

Result<void> NsysReport::read_session() {
  if (has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")) {
    if (Result<void> read =
            database_.each("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1",
                           [&](const SqliteStatement& row) { session_start_ = row.integer(0).value_or(0); });
        !read) {
      return read;
    }
  }
  if (!has("TARGET_INFO_SYSTEM_ENV", "value")) {
    return {};
  }
  return database_.each("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname' LIMIT 1",
                        [&](const SqliteStatement& row) {
                          std::string host = valid_utf8(row.text(0).substr(0, k_longest_host));
                          std::replace(host.begin(), host.end(), '\n', ' ');
                          provenance_.description += fmt::format(", host {}", host);
                        });
}

std::string NsysReport::kernel_name_column() const {
  for (const char* const column : {"shortName", "demangledName", "mangledName"}) {
    if (has(k_kernel_table, column)) {
      return column;
    }
  }
  return "NULL";
}

Result<void> NsysReport::read_kernel_names() {
  if (!has(k_kernel_table) || !has("StringIds", "value")) {
    return {};
  }
  return database_.each(
      fmt::format("SELECT id, value FROM StringIds WHERE id IN (SELECT DISTINCT {} FROM {})",
                  kernel_name_column(), k_kernel_table),
      [&](const SqliteStatement& row) {
        const std::string_view name = row.text(1).substr(0, k_longest_name);
        if (is_communication_kernel(name) && communication_names_.size() == k_most_names) {
          provenance_.skip("name of a communication kernel beyond the first 4096");
        } else if (is_communication_kernel(name)) {
          communication_names_.emplace(row.integer(0).value_or(0), valid_utf8(name));
        }
      });
}

Result<void> NsysReport::read_kernels() {
  if (!has(k_kernel_table)) {
    return {};
  }
  const std::string sql =
      fmt::format(R"(SELECT {}, {}, {}, {} FROM {})", kernel_columns(has(k_kernel_table, "globalPid")),
                  kernel_name_column(), has(k_kernel_table, "correlationId") ? "correlationId" : "0",
                  has(k_kernel_table, "streamId") ? "streamId" : "0", k_kernel_table);
  Result<void> read = database_.each(sql, [&](const SqliteStatement& row) {
    const std::int64_t name = row.integer(4).value_or(-1);
    if (!communication_names_.contains(name)) {
      return;
    }
    const std::optional<std::int64_t> start = row.integer(0);
    const std::optional<std::int64_t> end = row.integer(1);
    if (!start || !end || *end < *start) {
      provenance_.skip("kernel without a proper time");
      return;
    }
    kernels_.push_back({.where = {row.integer(3).value_or(0), row.integer(2).value_or(0)},
                        .started = *start,
                        .finished = *end,
                        .name = name,
                        .correlation = row.integer(5).value_or(0),
                        .stream = row.integer(6).value_or(0)});
  });
  std::stable_sort(kernels_.begin(), kernels_.end(),
                   [](const NsysKernel& a, const NsysKernel& b) { return a.started < b.started; });
  return read;
}

Result<void> NsysReport::read_launches() {
  if (!has(k_runtime_table, "correlationId") || !has(k_runtime_table, "globalTid")) {
    return {};
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>>
      waiting;  // by process, correlation
  for (std::size_t row = 0; row < kernels_.size(); ++row) {
    waiting[{kernels_[row].where.process, kernels_[row].correlation}].push_back(row);
  }
  return database_.each(fmt::format(R"(SELECT globalTid, correlationId, "start" FROM {})", k_runtime_table),
                        [&](const SqliteStatement& row) {
                          const std::int64_t thread = row.integer(0).value_or(0);
                          const auto found =
                              waiting.find({process_of_thread(thread), row.integer(1).value_or(-1)});
                          if (found == waiting.end()) {
                            return;
                          }
                          for (const std::size_t kernel : found->second) {
                            kernels_[kernel].thread = thread;
                            kernels_[kernel].launched = row.integer(2);
                          }
                          waiting.erase(found);
                        });
}

Result<void> NsysReport::read_ranges() {
  if (!has(k_range_table)) {
    return {};
  }
  // Texts are strings of their own, or entries of StringIds.
  const bool has_ids = has(k_range_table, "textId") && has("StringIds", "value");
  const bool has_json_ids = has(k_range_table, "jsonTextId") && has("StringIds", "value");
  const auto column = [&](const char* name) {
    return has(k_range_table, name) ? std::string("e.") + name : "NULL";
  };
  const std::string text = has_ids ? fmt::format("coalesce({}, s.value)", column("text")) : column("text");
  const std::string json =
      has_json_ids ? fmt::format("coalesce({}, j.value)", column("jsonText")) : column("jsonText");
  Result<void> read = database_.each(
      fmt::format(R"(SELECT e.globalTid, e."start", e."end", {0}, {1} FROM NVTX_EVENTS AS e{2}{3})"
                  R"( WHERE {0} LIKE 'nccl%')",
                  text, json, has_ids ? " LEFT JOIN StringIds AS s ON s.id = e.textId" : "",
                  has_json_ids ? " LEFT JOIN StringIds AS j ON j.id = e.jsonTextId" : ""),
      [&](const SqliteStatement& row) { take_range(row); });
  std::stable_sort(calls_.begin(), calls_.end(),
                   [](const NsysCall& a, const NsysCall& b) { return a.started < b.started; });
  return read;
}

void NsysReport::take_range(const SqliteStatement& row) {
  constexpr std::string_view prefix = "nccl";
  const std::string name(row.text(3).substr(prefix.size()));
  const std::optional<std::int64_t> start = row.integer(1);
  const std::optional<std::int64_t> end = row.integer(2);
  const bool makes_comm = name.starts_with("CommInit") || name.starts_with("CommSplit");
  const NcclFunction* const function = nccl_function(name);
  if (function == nullptr && !makes_comm) {
    return;
  }
  if (!start || !end || *end < *start) {
    provenance_.skip("NCCL range without an end");
    return;
  }
  const std::int64_t thread = row.integer(0).value_or(0);
  const auto numbers = payload_numbers(row.text(4));
  const std::optional<std::int64_t> comm = number(numbers, "NCCL communicator ID");
  if (makes_comm) {
    const std::optional<std::int64_t> ranks = number(numbers, "No. of ranks");
    const std::optional<std::int64_t> rank = number(numbers, "Rank");
    if (comm && ranks && rank && *rank >= 0 && *rank < *ranks && *ranks < k_max_ranks) {
      comms_.push_back({process_of_thread(thread), number(numbers, "CUDA device"), *comm, *ranks, *rank});
    }
    return;
  }
  calls_.push_back({.thread = thread,
                    .started = *start,
                    .finished = *end,
                    .function = function,
                    .comm = comm,
                    .bytes = number(numbers, "Message size [bytes]"),
                    .root = number(numbers, "Root"),
                    .peer = number(numbers, "Peer rank")});
}

Result<void> NsysReport::count_what_is_left_out() {
  for (const auto& [table, reason] : k_left_out) {
    if (!has(table)) {
      continue;
    }
    Result<void> counted =
        database_.each(fmt::format("SELECT count(*) FROM {}", table), [&](const SqliteStatement& row) {
          if (const std::int64_t rows = row.integer(0).value_or(0); rows > 0) {
            provenance_.skip(reason, rows);
          }
        });
    if (!counted) {
      return counted;
    }
  }
  return {};
}

Result<void> NsysReport::visit_compute(
    const std::function<void(NsysDevice, std::int64_t started, std::int64_t finished)>& visit) {
  if (!has(k_kernel_table)) {
    return {};
  }
  const std::string sql =
      fmt::format("SELECT {}, {} FROM {}", kernel_columns(has(k_kernel_table, "globalPid")),
                  kernel_name_column(), k_kernel_table);
  return database_.each(sql, [&](const SqliteStatement& row) {
    const std::optional<std::int64_t> start = row.integer(0);
    const std::optional<std::int64_t> end = row.integer(1);
    if (communication_names_.contains(row.integer(4).value_or(-1))) {
      return;
    }
    if (!start || !end || *end < *start) {
      provenance_.skip("kernel without a proper time");
      return;
    }
    visit({row.integer(3).value_or(0), row.integer(2).value_or(0)}, *start, *end);
  });
}

}  // namespace commlens::formats::nsys
