// Figures 9 and 5: the all_gathers of ZeRO-3, how large they are and when they happen.
#include <bit>
#include <map>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/report/figures/timeline_figure.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

constexpr std::int64_t k_gather_ranks = 16;
constexpr std::int64_t k_small_bytes = 64 * 1024;
constexpr const char* k_gather_models[] = {"19M", "1.3B", "13B"};
constexpr const char* k_gather_panels[] = {"a", "b", "c"};

/// How many all_gathers there are of each size, as DeepSpeed's logger has it: the shard.
using SizeCounts = std::map<std::int64_t, std::int64_t>;

SizeCounts logged_gathers(const Plan& plan, std::int64_t iteration) {
  BreakdownOptions options{.iterations = {static_cast<Iteration>(iteration)},
                           .rank = Rank{0},
                           .accounting = Accounting::comms_logger};
  SizeCounts counts;
  for (const BreakdownRow& row : breakdown(plan.trace_of(options.iterations), options)) {
    if (row.kind == CommKind::all_gather) {
      counts[row.message.value] += row.calls;
    }
  }
  return counts;
}

/// Each tensor gathered alone: persistent ones once, after the step, the others for forward and backward.
SizeCounts single_gathers(const Job& job) {
  SizeCounts counts;
  const ParameterList parameters(job.model);
  for (const Parameter& parameter : parameters.all()) {
    const bool is_kept = parameter.count.value < job.train.persistence_threshold;
    const std::int64_t shard = ceil_div(parameter.count.value, k_gather_ranks) * size_of(DType::fp16);
    counts[shard] += is_kept ? 1 : 2;
  }
  return counts;
}

void add_sizes(Sheet& sheet, const std::string& panel, const std::string& model, std::int64_t ranks,
               const SizeCounts& counts, const Series& series) {
  for (const auto& [size, calls] : counts) {
    const auto lower = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size)));
    sheet.add({panel, model, ranks, lower, size, size * ranks, calls}, series);
  }
}

Sheet sizes_sheet(Study& study) {
  Sheet sheet({"panel", "model", "rank_count", "lower_bytes", Column{"logged_size_bytes", "shard"},
               "message_bytes", "calls_per_rank"});
  for (std::size_t at = 0; at < std::size(k_gather_models); ++at) {
    const char* const model = k_gather_models[at];
    const Result<Plan> plan = study.plan(model, k_deepspeed, {.dp = k_gather_ranks, .zero = 3});
    if (!plan) {
      continue;
    }
    Series first = deepspeed_series();
    first.name += ", first iteration";
    add_sizes(sheet, k_gather_panels[at], model, k_gather_ranks,
              logged_gathers(*plan, plan->steady_iteration()), deepspeed_series());
    add_sizes(sheet, k_gather_panels[at], model, k_gather_ranks, logged_gathers(*plan, 0), first);
    add_sizes(
        sheet, k_gather_panels[at], model, k_gather_ranks, single_gathers(plan->job),
        {"each tensor alone", Evidence::exact,
         "an upper bound of iterations after the first: every tensor gathered by itself, in forward and "
         "in backward"});
  }
  const GoldenRun& run = golden_run("deepspeed/z3_N19_w4_fp32_default");
  SizeCounts counts;
  for (const GoldenCalls& calls : run.calls) {
    if (calls.op == CommKind::all_gather && calls.iteration == 2) {
      counts[calls.message.value / run.ranks] += calls.calls;
    }
  }
  add_sizes(sheet, "d", run.model, run.ranks, counts, golden_series(run));
  if (const Recording* const recording = study.recording("zero-3")) {
    SizeCounts recorded;
    BreakdownOptions options{.iterations = {static_cast<Iteration>(recording->iterations - 1)},
                             .rank = Rank{0}};
    for (const BreakdownRow& row : breakdown(recording->trace, options)) {
      if (row.kind == CommKind::all_gather) {
        recorded[row.message.value / row.group_size] += row.calls;
      }
    }
    add_sizes(sheet, "e", recording->job.model.name, recording->job.layout.dp, recorded,
              recorded_series(*recording));
  }
  return sheet;
}

const char* sizes_title(const std::string& panel) {
  return panel == "a"   ? "(a) 19M"
         : panel == "b" ? "(b) 1.3B"
         : panel == "c" ? "(c) 13B"
         : panel == "d" ? "DeepSpeed 0.14.0 itself: 19M on 4 ranks, fp32"
                        : "Recorded here: narrow 19M on 8 ranks";
}

/// The iteration shown in a timeline, with its bars.
Figure timeline_of(const Trace& trace, Iteration iteration, std::string id, std::string title) {
  const FigureInput input = figure_input({"recording", &trace}, std::pair(iteration, iteration), 0);
  FigureResult drawn = timeline_figure(input);
  Figure figure = drawn ? std::move(*drawn) : Figure{};
  figure.id = std::move(id);
  figure.title = std::move(title);
  return figure;
}

void add_gathers(Sheet& sheet, const Trace& trace, Iteration iteration, const Series& series) {
  for (const RankStream& stream : trace.streams) {
    for (std::size_t at = 0; at < stream.events.size() && at < stream.times.size(); ++at) {
      const CommOp& op = trace.op(stream.events[at].op);
      if (stream.events[at].iteration != iteration || op.kind != CommKind::all_gather) {
        continue;
      }
      const Times& times = stream.times[at];
      sheet.add({stream.ranks.first, name_of(op.phase), trace.tags.text(op.tag), message_bytes(op),
                 times.started, times.finished - times.started},
                series);
    }
  }
}

}  // namespace

ItemResult gather_sizes(Study& study) {
  const Sheet sheet = sizes_sheet(study);
  const Drawing drawing{FigureKind::histogram,
                        {{"lower", std::string("lower_bytes")},
                         {"series", std::string("series")},
                         {"toggles", std::vector<std::string>{"calls_per_rank"}}},
                        {"panel", "model", "rank_count", "provenance"}};
  Item item{whole_of(sheet,
                     "How often a rank gathers messages of which size in an iteration under ZeRO-3 on 16 "
                     "ranks, in fp16. The size is that of the shard, as DeepSpeed's logger has it.",
                     drawing),
            {}};
  for (const std::string& panel : values_of(sheet.table(), "panel")) {
    const Table rows = rows_with(sheet.table(), "panel", panel);
    const Table later = rows_with(rows, "series", deepspeed_series().name);
    item.panels.push_back(
        panel_of(later.empty() ? rows : later, "fig-9-" + panel, sizes_title(panel), "", drawing));
  }
  item.whole.notes.push_back(fmt::format(
      "Tensors of fewer than 100,000 elements stay gathered and are gathered once after the step, one call "
      "each: 8L + 2 messages below {}. Larger ones are fetched together where they are prefetched, so that "
      "there are fewer of them than tensors.",
      to_text(Bytes{k_small_bytes})));
  item.whole.notes.emplace_back(
      "Panels show an iteration after the first; the data have the first one too, and what it would be if "
      "each tensor "
      "were gathered alone.");
  return item;
}

ItemResult gather_timeline(Study& study) {
  Sheet sheet({"rank", "phase", "tag", "message_bytes", "start_ns", "duration_ns"});
  Item item;
  if (const Recording* const recording = study.recording("gathers")) {
    const auto iteration = static_cast<Iteration>(recording->iterations - 1);
    add_gathers(sheet, recording->trace, iteration, recorded_series(*recording));
    item.panels.push_back(
        timeline_of(recording->trace, iteration, "fig-5-a", "Recorded here: narrow 19M on 4 ranks"));
  }
  const Result<SimulatedJob>& simulated = study.simulation("1.3B", k_deepspeed, {.dp = 4, .zero = 3}, false);
  if (simulated) {
    const Trace& trace = simulated->simulation.trace;
    add_gathers(sheet, trace, simulated->simulation.iteration, simulated_series(*simulated));
    item.panels.push_back(timeline_of(trace, simulated->simulation.iteration, "fig-5-b",
                                      "Simulated: 1.3B on 4 GCDs of Frontier"));
  }
  if (sheet.empty()) {
    return no_figure("nothing was trained, and the simulation failed");
  }
  item.whole = whole_of(sheet,
                        "ZeRO-3 with four data-parallel ranks: before each layer its parameters are gathered "
                        "from all ranks, in forward and again in backward. Calls of one iteration.",
                        {});
  return item;
}

}  // namespace commlens::study
