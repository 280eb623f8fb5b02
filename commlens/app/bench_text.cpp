#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/bench.hpp"
#include "commlens/app/bench_bursts.hpp"
#include "commlens/app/bench_document.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/launch_bursts.hpp"
#include "commlens/base/csv.hpp"
#include "commlens/bench/bench_op.hpp"

namespace commlens {
namespace {

using bench::BenchOp;
using bench::RowFlag;

std::string time_text(double seconds) {
  return to_text(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}

std::string_view explanation_of(RowFlag flag) {
  switch (flag) {
    case RowFlag::unsettled:
      return "the 95 % interval of P50 is wider than +-5 %; a longer --time narrows it";
    case RowFlag::bimodal:
      return "times fall into two clusters, and P50 is in one of them";
    case RowFlag::drifting:
      return "times rose or fell by more than 5 % while they were taken";
    case RowFlag::contaminated:
      return "something else ran on the cores: interrupted calls, or a mean outside of P5 to P95 even "
             "without "
             "the longest hundredth";
    case RowFlag::skewed:
      return "ranks entered more than 10 % of the time apart; the time begins with the first";
    case RowFlag::oversubscribed:
      return "more ranks than cores: ranks wait for a core, not for the network";
    case RowFlag::local_clock:
      return "the clocks of the ranks are too far apart; the longest time of one rank instead";
    case RowFlag::few_samples:
      return "fewer than 30 samples, so no interval; a longer --time takes more";
    case RowFlag::assumed_parts:
      return "the messages have the sum of these parts alone; timed in the ratio 1 : 2 : ... : ranks";
  }
  return {};
}

constexpr std::array<RowFlag, 9> k_all_flags = {
    RowFlag::unsettled,    RowFlag::bimodal,     RowFlag::drifting,
    RowFlag::contaminated, RowFlag::skewed,      RowFlag::oversubscribed,
    RowFlag::local_clock,  RowFlag::few_samples, RowFlag::assumed_parts};

/// A line for each flag that a row has.
std::string flag_lines(const std::vector<BenchRow>& rows, const TextStyle& style) {
  std::string lines;
  for (const RowFlag flag : k_all_flags) {
    const bool occurs = std::any_of(rows.begin(), rows.end(), [&](const BenchRow& row) {
      return std::find(row.stats.flags.begin(), row.stats.flags.end(), flag) != row.stats.flags.end();
    });
    if (occurs) {
      lines += fmt::format("{} {}\n", in_colour(fmt::format("{}:", name_of(flag)), Colour::bold, style),
                           explanation_of(flag));
    }
  }
  return lines;
}

std::string bench_head(const BenchRun& run, const std::vector<BenchRow>& rows) {
  std::string head = fmt::format(
      "{} rank{} over {}{}, {} buffers", run.ranks, run.ranks == 1 ? "" : "s", run.transport,
      run.table.empty() ? "" : fmt::format(" (table {})", run.table), run.is_cold ? "cold" : "hot");
  if (!rows.empty()) {
    const BenchKey& first = rows.front().key;
    const auto all = [&](auto member) {
      return std::all_of(rows.begin(), rows.end(),
                         [&](const BenchRow& row) { return row.key.*member == first.*member; });
    };
    head += all(&BenchKey::dtype) ? fmt::format(", {}", first.dtype) : "";
    head += all(&BenchKey::group) && first.group != "world" ? fmt::format(", groups: {}", first.group) : "";
    head += all(&BenchKey::in_place) && first.in_place ? ", in place" : "";
  }
  const auto launches = run.launches.size();
  head += launches == 1 ? fmt::format(", seed {}", run.launches.front().seed)
                        : fmt::format(", {} launches", launches);
  if (!run.messages.empty()) {
    head = fmt::format("Messages of {}\n{}", run.messages, head);
  }
  return head + "\ntime: last exit - first entry; skew: last entry - first entry\n";
}

std::string clock_line(const BenchRun& run) {
  double error = 0;
  for (const BenchLaunch& launch : run.launches) {
    error = std::max(error, launch.clock_error_s);
  }
  return error == 0
             ? std::string()
             : fmt::format("clocks of several machines: synchronised to within {}\n", time_text(error));
}

std::string wrong_lines(const std::vector<BenchRow>& rows, const TextStyle& style) {
  std::string lines;
  bool is_verified = false;
  for (const BenchRow& row : rows) {
    is_verified = is_verified || row.wrong_elements.has_value();
    if (row.wrong_elements.value_or(0) > 0) {
      lines += fmt::format("{} {} of {}: {} wrong elements{}\n", in_colour("WRONG", Colour::red, style),
                           row.key.op, to_text(Bytes{row.key.bytes}), with_commas(*row.wrong_elements),
                           row.wrong.empty() ? "" : fmt::format(", the first: {}", row.wrong));
    }
  }
  return lines.empty() && is_verified ? "results verified: every element is right\n" : lines;
}

std::string check_lines(const BenchResult& result, const TextStyle& style) {
  const BenchComparison& checked = result.checked;
  if (checked.rows.empty()) {
    return {};
  }
  std::string lines;
  for (const BenchCheck& check : checked.rows) {
    if (check.is_slower) {
      lines += fmt::format(
          "{}{} {} of {}: {} before, {} now, {:.2f} x{}, p = {:.2g}\n",
          in_colour("slower", Colour::red, style), check.relative_ratio ? " than the other rows:" : "",
          check.key.op, to_text(Bytes{check.key.bytes}), time_text(check.before_s), time_text(check.now_s),
          check.ratio(),
          check.relative_ratio ? fmt::format(", {:.2f} x against the other rows", *check.relative_ratio) : "",
          check.p_adjusted);
    }
  }
  for (const BenchOpCheck& op : checked.ops) {
    if (op.shift.is_slower) {
      lines += fmt::format("{} than each other op: {}, its {} rows together: {:.2f} x at least, p = {:.2g}\n",
                           in_colour("slower", Colour::red, style), op.op, op.rows, op.shift.ratio,
                           op.shift.p_adjusted);
    }
  }
  if (checked.all && checked.all->is_slower) {
    const LaunchShift& shift = *checked.all;
    lines += fmt::format("all rows {}: {:.2f} x, p = {:.2g}\n", in_colour("slower", Colour::red, style),
                         shift.ratio, shift.p_adjusted);
  }
  return fmt::format("against {}, {} rows by the medians of their launches:\n{}", result.checked_with,
                     checked.rows.size(), lines.empty() ? "none is slower\n" : lines);
}

std::string bench_text(const BenchResult& result, const TextStyle& style) {
  const BenchRun& run = result.run;
  const std::vector<BenchRow> rows = combined_rows(run);
  std::string text = bench_head(run, rows) + clock_line(run) + "\n";
  text += bench_table(run).text_with_hidden(style) + "\n";
  if (run.launches.empty()) {
    return text + "stopped before anything was timed\n";
  }
  if (const std::optional<BenchStep> step = step_of(run)) {
    text += fmt::format("messages of an iteration, calls x P50 one after the other: {} ({})\n",
                        time_text(step->total_s), step->ranks);
  }
  text += wrong_lines(rows, style) + flag_lines(rows, style);
  const auto whole = std::count_if(run.launches.begin(), run.launches.end(),
                                   [](const BenchLaunch& launch) { return !launch.is_partial; });
  if (const auto bursts = std::ssize(bursts_of(run)); bursts > 0 && bursts < whole) {
    text += fmt::format(
        "to --check these {} launches count as {}: those that begin within {} ms of another are one\n", whole,
        bursts, k_least_launch_distance.count());
  }
  text += run.launches.size() == 1
              ? "one launch: the next may differ by more than the interval; --launches 10 shows by how much\n"
              : "P50 is the median of the launches' medians, its interval their range\n";
  if (run.was_stopped) {
    text += "stopped: these are the samples until then\n";
  }
  return text + check_lines(result, style);
}

/// How OMB calls a test, and its program.
struct OsuTest {
  BenchOp op;
  std::string_view title;
  std::string_view program;
};

constexpr std::array<OsuTest, 8> k_osu_tests = {
    {{BenchOp::all_reduce, "OSU MPI Allreduce Latency Test", "osu_allreduce"},
     {BenchOp::all_gather, "OSU MPI Allgather Latency Test", "osu_allgather"},
     {BenchOp::reduce_scatter, "OSU MPI Reduce_scatter Latency Test", "osu_reduce_scatter"},
     {BenchOp::all_to_all, "OSU MPI All-to-All Personalized Exchange Latency Test", "osu_alltoall"},
     {BenchOp::broadcast, "OSU MPI Broadcast Latency Test", "osu_bcast"},
     {BenchOp::reduce, "OSU MPI Reduce Latency Test", "osu_reduce"},
     {BenchOp::ping_pong, "OSU MPI Latency Test", "osu_latency"},
     {BenchOp::barrier, "OSU MPI Barrier Latency Test", "osu_barrier"}}};

/// The size that OMB prints: a rank's part of all_gather, what goes to one rank of all_to_all.
std::int64_t osu_size(BenchOp op, const BenchKey& key) {
  const bool is_part = op == BenchOp::all_gather || op == BenchOp::all_to_all;
  return is_part ? key.bytes / std::max<std::int64_t>(key.group_size, 1) : key.bytes;
}

/// Element types by our name and by that of a format.
using TypeNames = std::span<const std::pair<std::string_view, std::string_view>>;

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> k_osu_types = {
    {{"fp32", "MPI_FLOAT"}, {"int32", "MPI_INT"}, {"int8", "MPI_CHAR"}, {"uint8", "MPI_CHAR"}}};

/// Empty where the format has no such type.
std::string_view type_in(TypeNames types, std::string_view dtype) {
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const auto& each) { return each.first == dtype; });
  return found == types.end() ? std::string_view() : found->second;
}

/// How nccl-tests calls a test, its reduction and its root.
struct NcclTest {
  BenchOp op;
  std::string_view program;
  std::string_view reduction;
  std::string_view root;
};

constexpr std::array<NcclTest, 7> k_nccl_tests = {
    {{BenchOp::all_reduce, "all_reduce_perf", "sum", "-1"},
     {BenchOp::all_gather, "all_gather_perf", "none", "-1"},
     {BenchOp::reduce_scatter, "reduce_scatter_perf", "sum", "-1"},
     {BenchOp::all_to_all, "alltoall_perf", "none", "-1"},
     {BenchOp::broadcast, "broadcast_perf", "none", "0"},
     {BenchOp::reduce, "reduce_perf", "sum", "0"},
     {BenchOp::send, "sendrecv_perf", "none", "-1"}}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> k_nccl_types = {{{"fp32", "float"},
                                                                                        {"fp64", "double"},
                                                                                        {"fp16", "half"},
                                                                                        {"bf16", "bfloat16"},
                                                                                        {"int32", "int32"},
                                                                                        {"int64", "int64"},
                                                                                        {"int8", "int8"},
                                                                                        {"uint8", "uint8"}}};

/// Time, bandwidths and wrong elements of a placement.
std::string nccl_figures(const BenchRow& row) {
  return fmt::format("{:>9.2f} {:>7.2f} {:>7.2f} {:>6}", row.stats.p50_s * 1e6,
                     row.algorithm_bandwidth().value_or(0) * 1e-9, row.bus_bandwidth().value_or(0) * 1e-9,
                     row.wrong_elements ? std::to_string(*row.wrong_elements) : "N/A");
}

std::string nccl_row(const NcclTest& test, const BenchRow& row) {
  const std::int64_t width = size_of(dtype_from(row.key.dtype).value_or(DType::uint8));
  const std::int64_t parts = bench::parts_of(test.op, row.key.group_size);
  const std::string none = fmt::format("{:>9} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
  const std::string figures = nccl_figures(row);
  return fmt::format("{:>12} {:>13} {:>9} {:>7} {:>7} {} {}\n", row.key.bytes, row.key.bytes / width / parts,
                     type_in(k_nccl_types, row.key.dtype), test.reduction, test.root,
                     row.key.in_place ? none : figures, row.key.in_place ? figures : none);
}

bool is_printed(const BenchKey& key, BenchOp op, TypeNames types) {
  return key.op == name_of(op) && key.group_size > 0 && !type_in(types, key.dtype).empty();
}

bool has_test(std::string_view format, std::string_view op) {
  const auto is_of = [&](const auto& test) { return name_of(test.op) == op; };
  return format == "osu" ? std::any_of(std::begin(k_osu_tests), std::end(k_osu_tests), is_of)
                         : std::any_of(std::begin(k_nccl_tests), std::end(k_nccl_tests), is_of);
}

}  // namespace

Result<void> check_printed_types(const std::string& format, const std::vector<BenchPlanRow>& rows) {
  const TypeNames types = format == "osu"          ? TypeNames(k_osu_types)
                          : format == "nccl-tests" ? TypeNames(k_nccl_types)
                                                   : TypeNames();
  for (const BenchPlanRow& row : rows) {
    if (!types.empty() && type_in(types, row.key.dtype).empty()) {
      std::vector<std::string_view> names;
      for (const auto& [name, of_format] : types) {
        names.push_back(name);
      }
      return failure(fmt::format("--format {}: has no name for {}, the type of {}; it has {}", format,
                                 row.key.dtype, row.key.op, fmt::join(names, ", ")));
    }
    if (!types.empty() && (!has_test(format, row.key.op) || row.key.group_size == 0)) {
      return failure(fmt::format("--format {}: has no test of {}{}; leave it out, or take another format",
                                 format, row.key.op,
                                 row.key.group_size == 0 ? " on several groups at once" : ""));
    }
  }
  return {};
}

std::string rendered(const BenchResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return bench_text(result, style); }, [&] { return bench_json(result); },
      [&] { return bench_table(result.run).csv(); });
}

std::string osu_text(const BenchResult& result) {
  std::string text;
  const std::vector<BenchRow> rows = combined_rows(result.run);
  for (const OsuTest& test : k_osu_tests) {
    std::string last;
    for (const BenchRow& row : rows) {
      if (!is_printed(row.key, test.op, k_osu_types)) {
        continue;
      }
      const std::string title = fmt::format(
          "\n# {} -n {} ({}, by commlens bench: P50 of last exit - first entry)\n# {}\n# Datatype: "
          "{}.\n# Size       Avg Latency(us)\n",
          test.program, row.key.group_size, row.key.group, test.title, type_in(k_osu_types, row.key.dtype));
      text += title == last ? "" : title;
      last = title;
      text += fmt::format("{:<12} {:>14.2f}\n", osu_size(test.op, row.key), row.stats.p50_s * 1e6);
    }
  }
  return text;
}

std::string nccl_tests_text(const BenchResult& result) {
  std::string text;
  const std::vector<BenchRow> rows = combined_rows(result.run);
  for (const NcclTest& test : k_nccl_tests) {
    std::int64_t ranks = 0;
    for (const BenchRow& row : rows) {
      if (!is_printed(row.key, test.op, k_nccl_types)) {
        continue;
      }
      if (row.key.group_size != ranks) {
        ranks = row.key.group_size;
        text += fmt::format(
            "# Collective test starting: {}\n# by commlens bench: P50 of last exit - first entry\n",
            test.program);
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          text += fmt::format("#  Rank {:>2} Group  0 Pid {:>6} on {} device {:>2} [0x00] {}\n", rank, 0,
                              "host", rank, "none");
        }
        text += fmt::format(
            "#\n# {:>10} {:>13} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>6} {:>9} {:>7} {:>7} {:>6}\n", "size",
            "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
            "#wrong");
      }
      text += nccl_row(test, row);
    }
  }
  return text;
}

std::string sweep_csv(const BenchResult& result) {
  std::string text = "machine,library,op,ranks,nodes,ranks_per_node,dtype,bytes,time_us\n";
  const BenchRun& run = result.run;
  const std::int64_t per_machine = run.ranks_on_machine > 0 ? run.ranks_on_machine : run.ranks;
  const bool is_of_messages = !run.messages.empty();  // which are timed one way each
  for (const BenchRow& row : combined_rows(run)) {
    const auto op = bench::bench_op_from(row.key.op);
    const CommKind kind = op ? bench::kind_of(*op) : CommKind::other;
    const bool has_time = kind != CommKind::other && kind != CommKind::barrier && row.key.group_size > 1 &&
                          row.key.op == name_of(kind) && (!row.key.in_place || is_of_messages);
    // On several machines it is not said which ranks of a smaller group share one.
    const bool has_place =
        (run.has_even_machines && per_machine >= run.ranks) ||
        (run.has_even_machines && row.key.group_size == run.ranks && run.ranks % per_machine == 0);
    if (!has_time || !has_place) {
      continue;
    }
    const std::int64_t nodes = per_machine >= run.ranks ? 1 : run.ranks / per_machine;
    const std::vector<std::string> cells = {"",
                                            "mpi",
                                            row.key.op,
                                            std::to_string(row.key.group_size),
                                            std::to_string(nodes),
                                            std::to_string(row.key.group_size / nodes),
                                            row.key.dtype,
                                            std::to_string(row.key.bytes),
                                            fmt::format("{:.4f}", row.stats.p50_s * 1e6)};
    text += csv_line(cells);
  }
  return text;
}

}  // namespace commlens
