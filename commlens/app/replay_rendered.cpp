// Renders the result of `replay` in each format.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/app/replay.hpp"
#include "commlens/base/table.hpp"
#include "commlens/base/units.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

std::string_view name_of(ReplayPacing pacing) {
  return pacing == ReplayPacing::gaps    ? "closed_loop"
         : pacing == ReplayPacing::timed ? "timed"
                                         : "back_to_back";
}

std::string_view name_of(Transport transport) {
  return transport == Transport::mpi ? "mpi" : transport == Transport::nccl ? "nccl" : "threads";
}

Cell cell(const std::optional<nanoseconds>& time) { return time ? Cell(*time) : Cell(); }

Cell ratio_of(const std::optional<nanoseconds>& original, const std::optional<nanoseconds>& replayed) {
  return original && replayed && original->count() > 0
             ? Cell(static_cast<double>(replayed->count()) / static_cast<double>(original->count()))
             : Cell();
}

Table ops_table(const ReplayResult& result) {
  Table table(columns({"op", "calls_all_ranks", "original_p50_ns", "replayed_p50_ns",
                       Column{.key = "ratio", .title = "replay / trace"},
                       Column{.key = "original_exposed_ns_all_ranks", .drop_first = 2},
                       Column{.key = "replayed_exposed_ns_all_ranks", .drop_first = 3},
                       Column{.key = "lag_p50_ns", .drop_first = 1}, "longest_lag_ns"}));
  for (const ReplayedOp& op : result.ops) {
    table.add({commlens::name_of(op.kind), op.calls, cell(op.original), cell(op.replayed),
               ratio_of(op.original, op.replayed), cell(op.original_exposed), cell(op.replayed_exposed),
               cell(op.lag), cell(op.longest_lag)});
  }
  return table;
}

std::string pacing_text(const ReplayResult& result) {
  if (!result.has_times) {
    return "one call after the other, since the trace has no times of single calls";
  }
  const std::string scale =
      result.scale_compute == 1 ? "" : fmt::format(", times {:.6g}", result.scale_compute);
  switch (result.pacing) {
    case ReplayPacing::gaps:
      return "closed loop: the gaps of the trace" + scale;
    case ReplayPacing::timed:
      return "open loop: not before the times of the trace" + scale;
    case ReplayPacing::back_to_back:
      return "back to back";
  }
  return "";
}

std::string runs_text(const ReplayResult& result) {
  std::vector<std::string> times;
  for (const nanoseconds run : result.runs) {
    times.push_back(to_text(run));
  }
  return times.size() > 1 ? fmt::format("runs: {}; the last one is recorded\n", fmt::join(times, ", ")) : "";
}

std::string counted(std::int64_t count, std::string_view what) {
  return count == 0 ? "" : fmt::format("{} {} {}\n", with_commas(count), count == 1 ? "call" : "calls", what);
}

std::string replay_head(const ReplayResult& result) {
  std::string makespan =
      fmt::format("from the first call to the end of the last: {}", to_text(result.makespan));
  if (const auto& original = result.original_makespan; original && original->count() > 0) {
    makespan +=
        fmt::format(", in the trace {}: {:.3g} times", to_text(*original),
                    static_cast<double>(result.makespan.count()) / static_cast<double>(original->count()));
  }
  return fmt::format(
      "{} ({}): {} calls of {} rank{}, {}\n{}\n{}\n{}{}{}{}recorded in {}\n", result.trace,
      commlens::name_of(result.source), with_commas(result.calls), result.ranks, result.ranks == 1 ? "" : "s",
      result.transport == Transport::mpi ? "as MPI processes" : "as threads", pacing_text(result), makespan,
      runs_text(result), counted(result.skipped_other, "of kind other left out"),
      counted(result.later_waits, "waited for later than in the trace, or ranks would wait for each other"),
      counted(result.shared_sizes, "of all_to_all whose parts are not known: shares of their sums"),
      result.recording);
}

std::string verdict_text(const ReplayResult& result) {
  if (result.compared == 0) {
    return "calls: barriers alone, which are not compared";
  }
  return fmt::format(
      "calls: {} of {} equal{}", result.equal, result.compared,
      result.dropped > 0 ? fmt::format("; {} could not be recorded", with_commas(result.dropped)) : "");
}

std::string replay_text(const ReplayResult& result, const TextStyle& style) {
  std::string text = wrapped(replay_head(result), style) + "\n" + ops_table(result).text_with_hidden(style);
  if (!result.all_equal() && result.comparison) {
    text += "\ntrace (A) against replay (B)\n" + comparison_text(*result.comparison, false, style);
  }
  const Colour colour = result.all_equal() ? Colour::green : Colour::red;
  return text + "\n" + in_colour(verdict_text(result), colour, style) + "\n";
}

double seconds_of(nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }

Json replay_json(const ReplayResult& result) {
  Json runs = Json::array();
  for (const nanoseconds run : result.runs) {
    runs.push_back(seconds_of(run));
  }
  Json json = {{"schema", "commlens.replay/1"},
               {"trace", result.trace},
               {"trace_source", commlens::name_of(result.source)},
               {"rank_count", result.ranks},
               {"calls_all_ranks", result.calls},
               {"transport", name_of(result.transport)},
               {"pacing", name_of(result.pacing)},
               {"scale_compute", result.scale_compute},
               {"original_makespan_s",
                result.original_makespan ? Json(seconds_of(*result.original_makespan)) : Json()},
               {"replayed_makespan_s", seconds_of(result.makespan)},
               {"run_s", std::move(runs)},
               {"skipped_other_calls_all_ranks", result.skipped_other},
               {"later_waits_all_ranks", result.later_waits},
               {"shared_sizes_all_ranks", result.shared_sizes},
               {"dropped_calls_whole_trace", result.dropped},
               {"calls_but_barriers_all_ranks", result.compared},
               {"equal_calls_all_ranks", result.equal},
               {"equal", result.all_equal()},
               {"rows", rows_json(ops_table(result))},
               {"recording", result.recording}};
  if (!result.all_equal() && result.comparison) {
    json["comparison"] = comparison_json(*result.comparison, false);
  }
  return json;
}

}  // namespace

std::string rendered(const ReplayResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return replay_text(result, style); }, [&] { return replay_json(result); },
      [&] { return ops_table(result).csv(); });
}

}  // namespace commlens
