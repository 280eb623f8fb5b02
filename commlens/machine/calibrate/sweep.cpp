#include "commlens/machine/calibrate/sweep.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "commlens/base/csv.hpp"
#include "commlens/base/text.hpp"
#include "commlens/machine/cost/library.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_sweep_header = "machine,library,op,ranks,nodes,";
constexpr std::string_view k_counted_header = "framework,version,device,op_name,";

bool holds(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

/// "allreduce_nccl_ring; vsnccl" is ring, "allreduce_hier_bw_mpi" hier_bw, "ring_over_int32" ring_over.
std::string asked_algorithm(std::string text) {
  text = text.substr(0, text.find(';'));
  text = text.substr(text.rfind(' ') + 1);
  for (const std::string_view prefix : {"allreduce_nccl_", "allreduce_"}) {
    if (text.starts_with(prefix)) {
      text = text.substr(prefix.size());
    }
  }
  for (const std::string_view suffix : {"_mpi", "_int32"}) {
    if (text.size() > suffix.size() && text.substr(text.size() - suffix.size()) == suffix) {
      text = text.substr(0, text.size() - suffix.size());
    }
  }
  return text == "nvlstree" ? "nvls_tree" : text;
}

struct LibraryWords {
  std::string library;  // empty: not said
  std::string version;
  std::string algorithm;
};

std::string lower_of(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

/// Which library a description names: "NCCL gIB", "RCCL (ROCm 5.x)", "NCCL/MPI allreduce_nccl_ring; vsnccl",
/// "Cray MPICH ring_over_int32". Empty: none.
std::string described_library(const std::string& text, bool names_algorithm) {
  const std::string lower = lower_of(text);
  if (holds(lower, "rccl")) {
    return "rccl";
  }
  if (holds(lower, "_nccl_") || (holds(lower, "nccl") && !holds(lower, "nccl/mpi"))) {
    return "nccl";
  }
  return names_algorithm || holds(lower, "mpi") || holds(lower, "mvapich") ? "mpi" : "";
}

/// The cell `library`: a name with or without a release ("nccl:2.27.3"), an algorithm that was asked for, or
/// a description of both.
Result<LibraryWords> library_of(const std::string& text, bool is_in_job) {
  const bool names_algorithm = holds(text, "allreduce_") || holds(text, "_int32");
  LibraryWords words;
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && text.find(' ') == std::string::npos) {
    const Result<Library> named = library_from(text);
    if (!named) {
      return tl::unexpected(named.error());
    }
    if (named->version.empty()) {
      return failure(fmt::format("library '{}': the release is missing", text));
    }
    words.library = named->name;
    words.version = named->version;
  } else {
    words.library = described_library(text, names_algorithm);
  }
  if (words.library.empty() && !text.empty()) {
    return failure(
        fmt::format("library '{}' is not known; name nccl, rccl or mpi, with a release as "
                    "nccl:2.27.3",
                    text));
  }
  const bool is_any = is_in_job || (words.library == "mpi" && !names_algorithm);
  words.algorithm = is_any ? "any" : names_algorithm ? asked_algorithm(text) : "";
  return words;
}

Result<double> positive(const std::string& where, const std::string& column, const std::string& text) {
  return parse_number(text)
      .map_error(
          [&](const Error& error) { return Error{fmt::format("{}: {}: {}", where, column, error.message)}; })
      .and_then([&](double value) -> Result<double> {
        if (!(value > 0) || !std::isfinite(value)) {
          return failure(fmt::format("{}: {} is {}; it must be above 0", where, column, text));
        }
        return value;
      });
}

constexpr double k_most_ranks = 1e6;
constexpr double k_most_elements =
    1e12;  // or bytes: times ranks and an element's bytes still a number of bytes

Result<std::int64_t> count_at(const std::string& where, const std::string& column, const std::string& text,
                              double most = k_most_ranks) {
  return positive(where, column, text).and_then([&](double value) -> Result<std::int64_t> {
    if (value > most || value != std::floor(value)) {
      return failure(
          fmt::format("{}: {} is {}; it must be a whole number up to {:g}", where, column, text, most));
    }
    return static_cast<std::int64_t>(value);
  });
}

/// "all_gather(in-app, median of 2330)" is of 2330 calls.
double calls_of(std::string_view text) {
  constexpr std::string_view before = "median of ";
  const std::size_t found = text.find(before);
  if (found == std::string_view::npos) {
    return 1;
  }
  const std::string_view rest = text.substr(found + before.size());
  return parse_number(rest.substr(0, rest.find(')'))).value_or(1);
}

Result<SweepPoint> counted_point(const CsvTable& table, const CsvTable::Row& row, CommKind op,
                                 const std::string& where) {
  SweepPoint point;
  point.where = where;
  point.library = "nccl";
  point.device = table.cell(row, "device");
  point.version = table.cell(row, "version");
  point.call.op = op;
  const std::optional<DType> type = element_type_from(table.cell(row, "nccl_dtype"));
  if (!type) {
    return failure(fmt::format("{}: nccl_dtype '{}' is not known", where, table.cell(row, "nccl_dtype")));
  }
  point.call.dtype = *type;
  const Result<std::int64_t> ranks = count_at(where, "num_gpus", table.cell(row, "num_gpus"));
  const Result<std::int64_t> elements =
      count_at(where, "message_size", table.cell(row, "message_size"), k_most_elements);
  const Result<double> latency = positive(where, "latency", table.cell(row, "latency"));
  if (!ranks || !elements || !latency) {
    return tl::unexpected(!ranks ? ranks.error() : !elements ? elements.error() : latency.error());
  }
  point.call.place = {*ranks, 1};
  point.call.bytes = Elements{*elements} * *type;
  point.us = *latency * 1e3;
  return point;
}

/// A point at its place. Ranks fill the nodes of a benchmark. A group of a job on several nodes that fits one
/// of them is one of the node, unless its two ranks are of different stages.
Result<SweepPoint> placed(SweepPoint point, const Placement& place, const std::string& per_node_text) {
  const std::string& where = point.where;
  point.call.place = place;
  const Result<std::int64_t> per_node = per_node_text.empty()
                                            ? Result<std::int64_t>(place.per_node())
                                            : count_at(where, "ranks_per_node", per_node_text);
  if (!per_node) {
    return tl::unexpected(per_node.error());
  }
  if (!point.is_in_job && *per_node * place.nodes != place.ranks) {
    return failure(fmt::format("{}: {} ranks on {} nodes with {} on each cannot be", where, place.ranks,
                               place.nodes, *per_node));
  }
  if (point.is_in_job && place.nodes > 1 && place.ranks <= *per_node && !is_point_to_point(point.call.op)) {
    point.call.place.nodes = 1;
  }
  return point;
}

Result<SweepPoint> sweep_point(const CsvTable& table, const CsvTable::Row& row, CommKind op,
                               const std::string& where) {
  SweepPoint point;
  point.where = where;
  const std::string operation_text = table.cell(row, "op");
  point.call.op = op;
  const bool is_in_job = holds(operation_text, "in-app");
  const Result<LibraryWords> words = library_of(table.cell(row, "library"), is_in_job);
  if (!words) {
    return failure(fmt::format("{}: {}", where, words.error().message));
  }
  point.library = words->library;
  point.device = table.cell(row, "machine");
  point.algorithm = words->algorithm;
  point.version = table.cell(row, "version");
  if (!words->version.empty() && !point.version.empty() && words->version != point.version) {
    return failure(
        fmt::format("{}: library is of release {} and version {}", where, words->version, point.version));
  }
  point.version = point.version.empty() ? words->version : point.version;
  const std::optional<DType> type = element_type_from(table.cell(row, "dtype"));
  if (!type) {
    return failure(fmt::format("{}: dtype '{}' is not known", where, table.cell(row, "dtype")));
  }
  point.call.dtype = *type;
  const Result<std::int64_t> nodes = count_at(where, "nodes", table.cell(row, "nodes"));
  const std::string per_node = table.cell(row, "ranks_per_node");
  const std::string ranks_text = table.cell(row, "ranks");
  Result<std::int64_t> ranks = count_at(where, "ranks", ranks_text.empty() ? per_node : ranks_text);
  const Result<std::int64_t> bytes = count_at(where, "bytes", table.cell(row, "bytes"), k_most_elements);
  const Result<double> us = positive(where, "time_us", table.cell(row, "time_us"));
  if (!nodes || !ranks || !bytes || !us) {
    return tl::unexpected(!nodes   ? nodes.error()
                          : !ranks ? ranks.error()
                          : !bytes ? bytes.error()
                                   : us.error());
  }
  point.call.bytes = Bytes{*bytes};
  point.us = *us;
  point.weight = calls_of(operation_text);
  point.has_nodes = true;
  point.job_nodes = *nodes;
  point.is_in_job = is_in_job;
  return placed(std::move(point), {ranks_text.empty() ? *ranks * *nodes : *ranks, *nodes}, per_node);
}

bool shrinks_with(const SweepPoint& a, const SweepPoint& b) {
  constexpr double rounding = 1e-3;
  const auto whole = [](const SweepPoint& point) {
    return static_cast<double>(point.call.bytes.value) * static_cast<double>(point.job_nodes);
  };
  return a.is_in_job && b.is_in_job && a.call.op == b.call.op && a.job_nodes != b.job_nodes &&
         std::abs(whole(a) / whole(b) - 1) < rounding;
}

/// Gathers of jobs of several sizes whose bytes fall as the nodes grow are of shards over nodes, whatever
/// ranks the log gives: one rank a node, the whole is the shard times the nodes. (The same factor for all,
/// where several ranks of the model share it.)
std::int64_t spread_over_nodes(std::vector<SweepPoint>& points) {
  std::vector<bool> is_shard(points.size());
  for (std::size_t index = 0; index < points.size(); ++index) {
    is_shard[index] = points[index].call.op == CommKind::all_gather &&
                      std::any_of(points.begin(), points.end(), [&](const SweepPoint& other) {
                        return shrinks_with(points[index], other);
                      });
  }
  for (std::size_t index = 0; index < points.size(); ++index) {
    if (is_shard[index]) {
      points[index].call.place = {points[index].job_nodes, points[index].job_nodes};
      points[index].call.bytes = points[index].call.bytes * points[index].job_nodes;
    }
  }
  return std::count(is_shard.begin(), is_shard.end(), true);
}

}  // namespace

std::optional<CommKind> timed_kind_from(std::string_view name) {
  const std::string bare(name.substr(0, name.find('(')));
  if (bare == "alltoall") {
    return CommKind::all_to_all;
  }
  if (bare == "bcast") {
    return CommKind::broadcast;
  }
  return comm_kind_from(bare);
}

std::optional<DType> element_type_from(std::string_view name) {
  if (name == "half") {
    return DType::fp16;
  }
  if (name == "float") {
    return DType::fp32;
  }
  if (name == "double") {
    return DType::fp64;
  }
  return dtype_from(name);
}

bool is_sweep_csv(std::string_view content) {
  return content.starts_with(k_sweep_header) || content.starts_with(k_counted_header);
}

Result<SweepFile> parse_sweep_csv(const std::string& file, std::string_view content) {
  const bool is_counted = content.starts_with(k_counted_header);
  const Result<CsvTable> parsed = parse_csv(content);
  if (!parsed) {
    return failure(fmt::format("{}: {}", file, parsed.error().message));
  }
  const CsvTable& table = *parsed;
  SweepFile result;
  std::map<std::string, std::int64_t> other;
  std::int64_t without_ranks = 0;
  std::string error;
  for (const CsvTable::Row& row : table.rows) {
    const std::string where = fmt::format("{}:{}", file, row.line);
    const std::string op = table.cell(row, is_counted ? "op_name" : "op");
    const bool has_time = is_counted || !table.cell(row, "time_us").empty();
    if (row.cells.size() < 9) {
      error = fmt::format("{}: {} cells, its header has {}", where, row.cells.size(), table.columns.size());
      break;
    }
    const std::optional<CommKind> kind = timed_kind_from(op);
    if (!kind || !has_time) {
      ++other[has_time ? op : op + " without a time"];
      continue;
    }
    Result<SweepPoint> point =
        is_counted ? counted_point(table, row, *kind, where) : sweep_point(table, row, *kind, where);
    if (!point) {
      error = point.error().message;
      break;
    }
    without_ranks += !is_counted && table.cell(row, "ranks").empty() ? 1 : 0;
    result.points.push_back(std::move(*point));
  }
  if (error.empty() && result.points.empty()) {
    error = fmt::format("{}: no row with a time of a known collective", file);
  }
  for (const auto& [name, rows] : other) {
    result.notes.push_back(fmt::format("{}: {} rows of {} are skipped", file, rows, name));
  }
  if (const std::int64_t shards = spread_over_nodes(result.points); shards > 0) {
    result.notes.push_back(fmt::format(
        "{}: {} gathers shrink as their job grows: taken as shards over its nodes", file, shards));
  }
  if (without_ranks > 0) {
    result.notes.push_back(fmt::format("{}: {} rows without ranks are taken as calls of all ranks of the job",
                                       file, without_ranks));
  }
  return error.empty() ? Result<SweepFile>(std::move(result)) : failure(error);
}

}  // namespace commlens
