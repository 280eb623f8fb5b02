#include "commlens/formats/nccl_tests/rows.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "commlens/base/text.hpp"
#include "commlens/formats/io/nccl_names.hpp"
#include "commlens/formats/io/text_search.hpp"

namespace commlens::formats::nccl_tests {
namespace {

constexpr std::size_t k_most_test_words = 40;
constexpr std::string_view k_not_measured = "N/A";  // the time of a placement

/// What a row measured, and how its two sizes belong together.
struct TestedCollective {
  std::string_view program;
  CommKind kind;
  bool bytes_are_of_all;  // size = count × ranks, else size = count
};

constexpr std::array<TestedCollective, 11> k_tested = {
    {{"all_reduce_perf", CommKind::all_reduce, false},
     {"all_gather_perf", CommKind::all_gather, true},
     {"reduce_scatter_perf", CommKind::reduce_scatter, true},
     {"alltoall_perf", CommKind::all_to_all, true},
     {"alltoallv_perf", CommKind::all_to_all, true},
     {"broadcast_perf", CommKind::broadcast, false},
     {"reduce_perf", CommKind::reduce, false},
     {"sendrecv_perf", CommKind::send, false},
     {"gather_perf", CommKind::other, true},
     {"scatter_perf", CommKind::other, true},
     {"hypercube_perf", CommKind::other, true}}};

std::string_view unprefixed(std::string_view line, const NcclTestsColumns& columns) {
  if (!columns.prefix.empty() && line.starts_with(columns.prefix)) {
    line.remove_prefix(columns.prefix.size());
  }
  return line;
}

/// The figures of one placement: time, two bandwidths, the number of wrong elements, and perhaps more.
std::optional<NcclTestsTime> placement(std::span<const std::string_view> words) {
  const Result<double> time = parse_number(words[0]);
  if (!time || !parse_number(words[1]) || !parse_number(words[2])) {
    return std::nullopt;
  }
  return NcclTestsTime{*time, words[3] != "N/A"};
}

bool reduces(const NcclTestsRow& row) { return !row.redop.empty() && row.redop != "none"; }
bool is_rooted(const NcclTestsRow& row) { return !row.root.empty() && row.root != "-1"; }
std::int64_t counted_bytes(const NcclTestsRow& row) { return row.count * size_of(row.dtype); }

/// What a row of an unnamed program shows that has some bytes. all_gather and alltoall of today differ in one
/// thing: the latter never checks what it does in place.
TestedCollective shown_collective(const NcclTestsRow& row, const NcclTestsRun& run) {
  const bool is_of_all = row.bytes != counted_bytes(row);
  if (!run.columns.has_redop && !run.columns.has_root) {
    return k_tested[1];  // before 2.13 only all_gather had neither column
  }
  if (is_rooted(row)) {
    return reduces(row) ? k_tested[6]
           : is_of_all  ? TestedCollective{"gather or scatter", CommKind::other, true}
                        : k_tested[5];
  }
  if (run.ranks == 1) {
    return {reduces(row) ? "all_reduce or reduce_scatter" : "all_gather, alltoall or sendrecv",
            CommKind::other, false};
  }
  if (reduces(row)) {
    return is_of_all ? k_tested[2] : k_tested[0];
  }
  const bool is_old_alltoall = !run.columns.has_root && row.redop.empty();
  if (!is_of_all) {
    return k_tested[7];
  }
  const bool is_checked = row.out_of_place && row.out_of_place->is_checked;
  const bool is_checked_in_place = row.in_place && row.in_place->is_checked;
  if (is_old_alltoall || (is_checked && !is_checked_in_place)) {
    return k_tested[3];
  }
  return is_checked_in_place ? k_tested[1]
                             : TestedCollective{"all_gather or alltoall", CommKind::other, true};
}

TestedCollective tested_collective(const NcclTestsRun& run) {
  const auto* const named =
      std::find_if(k_tested.begin(), k_tested.end(),
                   [&](const TestedCollective& tested) { return tested.program == run.program; });
  if (named != k_tested.end()) {
    return *named;
  }
  const auto row =
      std::find_if(run.rows.begin(), run.rows.end(), [](const NcclTestsRow& each) { return each.count > 0; });
  return row == run.rows.end() ? TestedCollective{"unknown, of no bytes", CommKind::other, false}
                               : shown_collective(*row, run);
}

/// The ranks that the two sizes of a row show, which needs no list of devices.
std::int64_t shown_ranks(const NcclTestsRun& run, const TestedCollective& tested) {
  const auto row = std::find_if(run.rows.begin(), run.rows.end(), [](const NcclTestsRow& each) {
    return each.count > 0 && each.bytes % counted_bytes(each) == 0;
  });
  const bool shows = tested.bytes_are_of_all && row != run.rows.end();
  return shows ? row->bytes / counted_bytes(*row) : run.ranks;
}

/// All sizes of a row as a call has them.
BenchmarkPoint point_of(const NcclTestsRow& row, const TestedCollective& tested) {
  BenchmarkPoint point;
  point.kind = tested.kind;
  point.dtype = row.dtype;
  point.input_bytes = row.bytes;
  point.output_bytes = row.bytes;
  switch (tested.kind) {
    case CommKind::all_gather:
      point.input_bytes = counted_bytes(row);
      break;
    case CommKind::reduce_scatter:
      point.output_bytes = counted_bytes(row);
      break;
    case CommKind::other:
      point.name = tested.program.substr(0, tested.program.find("_perf"));
      point.output_bytes = 0;
      break;
    case CommKind::send:
      point.output_bytes = 0;
      break;
    default:
      break;
  }
  return point;
}

}  // namespace

std::optional<NcclTestsColumns> nccl_tests_columns(std::string_view line) {
  const std::size_t start = line.find('#');
  if (start == std::string_view::npos || line.find("algbw") == std::string_view::npos) {
    return std::nullopt;
  }
  const std::vector<std::string_view> names = blank_separated(line.substr(start + 1), k_most_test_words);
  const auto is_time = [](std::string_view name) { return name == "time" || name == "cputime"; };
  const auto first = std::find_if(names.begin(), names.end(), is_time);
  if (names.size() < 8 || names[0] != "size" || names[1] != "count" || names[2] != "type" ||
      first == names.end()) {
    return std::nullopt;
  }
  const auto second = std::find_if(first + 1, names.end(), is_time);
  NcclTestsColumns columns;
  columns.prefix = line.substr(0, start);
  columns.has_redop = std::find(names.begin(), first, "redop") != first;
  columns.has_root = std::find(names.begin(), first, "root") != first;
  columns.per_placement = static_cast<std::size_t>(second - first);
  columns.has_timestamp = names.back() == "timestamp";
  columns.is_cpu_time = *first == "cputime";
  if (second == names.end() || columns.per_placement < 4) {
    return std::nullopt;
  }
  return columns;
}

bool starts_nccl_tests_row(std::string_view line, const NcclTestsColumns& columns) {
  const std::vector<std::string_view> words = blank_separated(unprefixed(line, columns), 3);
  return words.size() == 3 && parse_integer(words[0]) && parse_integer(words[1]) && nccl_dtype(words[2]);
}

std::optional<NcclTestsRow> nccl_tests_row(std::string_view line, const NcclTestsColumns& columns) {
  if (!starts_nccl_tests_row(line, columns)) {
    return std::nullopt;
  }
  std::vector<std::string_view> words = blank_separated(unprefixed(line, columns), k_most_test_words);
  const Result<std::int64_t> bytes = parse_integer(words[0]);
  const Result<std::int64_t> count = parse_integer(words[1]);
  const std::optional<DType> dtype = nccl_dtype(words[2]);
  if (!bytes || !count || !dtype) {
    return std::nullopt;
  }
  NcclTestsRow row;
  row.bytes = *bytes;
  row.count = *count;
  row.dtype = *dtype;
  constexpr std::int64_t largest = std::int64_t{1} << 50;
  if (row.bytes < 0 || row.count < 0 || row.bytes > largest || row.count > largest / size_of(row.dtype)) {
    return std::nullopt;
  }
  const std::size_t after =
      columns.has_timestamp && words.size() > 2 && words.back().find(':') != std::string_view::npos ? 2 : 0;
  const std::size_t labels = (columns.has_redop ? 1U : 0U) + (columns.has_root ? 1U : 0U);
  const std::size_t figures = 2 * columns.per_placement;
  std::size_t at = 3;
  // The alltoall of old versions leaves the column of the reduction empty.
  const bool lacks_redop = columns.has_redop && words.size() + 1 == at + labels + figures + after;
  if (!lacks_redop && words.size() != at + labels + figures + after) {
    return std::nullopt;
  }
  if (columns.has_redop && !lacks_redop) {
    row.redop = words[at++];
  }
  if (columns.has_root) {
    row.root = words[at++];
  }
  const auto first = std::span(words).subspan(at);
  const auto second = first.subspan(columns.per_placement);
  row.out_of_place = placement(first);
  row.in_place = placement(second);
  const bool is_whole = (row.out_of_place || first[0] == k_not_measured) &&
                        (row.in_place || second[0] == k_not_measured) && (row.out_of_place || row.in_place);
  return is_whole ? std::optional(std::move(row)) : std::nullopt;
}

std::string nccl_tests_program(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  for (std::size_t end = text.find("_perf"); end != std::string_view::npos;
       end = text.find("_perf", end + 1)) {
    std::size_t start = end;
    while (start > 0 && is_letter(text[start - 1])) {
      --start;
    }
    const std::string_view name = text.substr(start, end + 5 - start);
    const bool is_known = std::any_of(k_tested.begin(), k_tested.end(),
                                      [&](const TestedCollective& tested) { return tested.program == name; });
    if (is_known) {
      return std::string(name);
    }
  }
  return {};
}

void add_nccl_tests_run(const NcclTestsRun& run, BenchmarkTrace& trace) {
  const TestedCollective tested = tested_collective(run);
  const std::int64_t ranks = shown_ranks(run, tested);
  const std::string clock = run.columns.is_cpu_time ? ", time until the call returns" : "";
  for (const NcclTestsRow& row : run.rows) {
    BenchmarkPoint point = point_of(row, tested);
    point.ranks = ranks;
    if (row.out_of_place) {
      point.microseconds = row.out_of_place->microseconds;
      point.tag = "out-of-place" + clock;
      trace.add(point);
    }
    if (row.in_place) {
      point.microseconds = row.in_place->microseconds;
      point.tag = "in-place" + clock;
      trace.add(point);
    }
  }
}

}  // namespace commlens::formats::nccl_tests
