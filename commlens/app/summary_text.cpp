#include "commlens/app/summary_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/cold_report.hpp"
#include "commlens/report/coverage_report.hpp"
#include "commlens/report/histogram_report.hpp"
#include "commlens/report/summary_tables.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/timing_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

SummaryTables tables_of(const SummaryView& view) {
  const Summary& summary = view.subject.summary;
  return {.trace = view.subject.trace,
          .rows = summary.rows,
          .ranks = summary.ranks,
          .by_node = view.options.ranks_per_node > 0,
          .link = view.link,
          .by_size = view.options.by_size,
          .sites = view.subject.sites};
}

std::string calls_text(std::int64_t calls) {
  return fmt::format("{} call{}", with_commas(calls), calls == 1 ? "" : "s");
}

std::string iterations_text(const Summary& summary) {
  const IterationSet& iterations = summary.iterations;
  if (iterations.empty()) {
    return "iterations unknown";
  }
  const std::string known = iterations.size() == 1
                                ? fmt::format("1 iteration ({})", iterations.front())
                                : fmt::format("{} iterations ({} to {})", with_commas(iterations.size()),
                                              iterations.front(), iterations.back());
  const std::int64_t unknown = summary.coverage.without_iteration;
  return unknown == 0 ? known : fmt::format("{}; {} of no known iteration", known, calls_text(unknown));
}

bool only_computed(const Summary& summary) { return summary.calls == 0 && summary.computing_ranks > 0; }

std::string ranks_text(std::int64_t ranks) {
  return fmt::format("{} rank{}", with_commas(ranks), ranks == 1 ? "" : "s");
}

/// "12 calls of 4 ranks, iterations unknown".
std::string contents_text(const SummaryView& view) {
  const Summary& summary = view.subject.summary;
  if (only_computed(summary)) {
    return fmt::format("0 calls; {} computed for {} in all", ranks_text(summary.computing_ranks),
                       to_text(summary.computing));
  }
  return fmt::format("{} of {}, {}", calls_text(summary.calls),
                     view.options.rank ? view.scope() : ranks_text(summary.ranks), iterations_text(summary));
}

/// The head of a summary: the source and the totals.
std::string head_text(const SummaryView& view, const TextStyle& style) {
  const Provenance& provenance = view.subject.trace.provenance;
  const char* const link = provenance.source == Source::imported ? " from " : " by ";
  std::string text = fmt::format("{}: {}{}{}; {}\n", printable(view.name), name_of(provenance.source),
                                 provenance.producer.empty() ? "" : link, printable(provenance.producer),
                                 contents_text(view));
  if (provenance.accounting == Accounting::comms_logger) {
    text +=
        "sizes as DeepSpeed's comms logger prints them (all_gather: input shard, rounded); groups unknown, "
        "so no "
        "wire bytes\n";
  }
  if (provenance.source == Source::simulated && !provenance.description.empty()) {
    text += fmt::format("of: {}\n", printable(provenance.description));
  }
  return wrapped(text, style) + coverage_text(view.subject.trace, view.subject.summary, style);
}

std::string cold_title(const ColdStart& cold) {
  const std::string iteration = cold.cold_iteration ? fmt::format("iteration {}", *cold.cold_iteration)
                                                    : "first iteration of each rank";
  return cold.warm_iterations == 0
             ? fmt::format("cold start: {}", iteration)
             : fmt::format("cold start: {} against {} warm one{}", iteration,
                           with_commas(cold.warm_iterations), cold.warm_iterations == 1 ? "" : "s");
}

/// Whether the trace may have a cold start: simulated iterations are steady ones.
bool may_be_cold(const SummaryView& view) {
  return view.subject.trace.provenance.source != Source::simulated;
}

/// Whether the trace has times of single calls or of computing.
bool knows_times(const Summary& summary) {
  return summary.time ? !summary.coverage.averaged_times : only_computed(summary);
}

TimeSelection selection_of(const SummaryView& view) { return {view.options.iterations, view.options.rank}; }

/// What relates calls to each other.
std::string relations_text(const SummaryView& view, const TextStyle& style) {
  const SummarySubject& subject = view.subject;
  if (!knows_times(subject.summary)) {
    return {};
  }
  if (subject.timing) {
    return "\n" + timing_text(subject.trace, *subject.timing, style);
  }
  return subject.has_calls
             ? "\n" + timing_text(subject.trace,
                                  timing_totals_of(subject.trace, selection_of(view), view.with_stragglers),
                                  style)
             : "";
}

/// What relates calls to each other: iteration by iteration, the first ones of too many, unless the calls
/// of the trace are not kept, and in totals. Empty where times are not known.
Json relations_json(const SummaryView& view) {
  const SummarySubject& subject = view.subject;
  if (!knows_times(subject.summary)) {
    return Json::object();
  }
  if (subject.timing) {
    return timing_totals_json(subject.trace, *subject.timing);
  }
  if (!subject.has_calls) {
    return Json::object();
  }
  return timing_json(subject.trace, timing_of(subject.trace, selection_of(view), view.with_stragglers,
                                              static_cast<std::size_t>(view.most_json_rows)));
}

}  // namespace

std::string SummaryView::scope() const {
  return options.rank ? fmt::format("rank {}", options.rank->value) : "all ranks";
}

std::vector<SummaryBlock> summary_blocks(const SummaryView& view, const TextStyle& style) {
  const Trace& trace = view.subject.trace;
  const Summary& summary = view.subject.summary;
  const SummaryTables tables = tables_of(view);
  const std::string scope = view.scope() + (view.options.rank ? "" : " together");
  std::vector<SummaryBlock> blocks;
  if (view.options.by_site) {
    blocks = {{fmt::format("per call site{}, {}", view.options.by_size ? ", op and message size" : " and op",
                           scope),
               call_sites_text(tables, style)}};
  } else if (view.options.by_size) {
    blocks = {{fmt::format("per op, group and message size, {}", scope), sizes_text(tables, style)}};
  } else {
    blocks = {{fmt::format("per op and group, {}", scope), volumes_text(tables, style)},
              {fmt::format("time in calls, {}", scope), times_text(tables, style)}};
  }
  blocks.push_back({fmt::format("message sizes, {}", scope), histogram_text(summary.sizes, style)});
  if (may_be_cold(view)) {
    blocks.push_back({cold_title(summary.cold), cold_text(trace, summary.cold, style)});
    blocks.push_back(
        {"first call of a rank on a group against later ones", first_calls_text(trace, summary.cold, style)});
  }
  return blocks;
}

std::string summary_text(const SummaryView& view, const TextStyle& style) {
  std::string text = head_text(view, style);
  if (view.subject.summary.calls == 0) {
    return text + "no calls\n" + relations_text(view, style);
  }
  for (const SummaryBlock& block : summary_blocks(view, style)) {
    if (!block.body.empty()) {
      text += fmt::format("\n{}\n{}", in_colour(block.title, Colour::bold, style), block.body);
    }
  }
  return text + relations_text(view, style);
}

Json summary_json(const SummaryView& view) {
  const Trace& trace = view.subject.trace;
  const Summary& summary = view.subject.summary;
  const Provenance& provenance = trace.provenance;
  Json json = {
      {"schema", "commlens.summary/2"},
      {"trace_source", name_of(provenance.source)},
      {"producer", provenance.producer},
      {"accounting", provenance.accounting == Accounting::messages ? "messages" : "deepspeed-logger"},
      {"scope", view.scope()},
      {"rank_count", summary.ranks},
      {"iterations", summary.iterations.list()},
      {"iteration_count", summary.iterations.size()},
      {"calls_all_ranks", summary.calls},
      {"totals",
       {{"message_bytes_all_ranks", summary.message.value},
        {"wire_bytes_all_ranks", summary.wire.value},
        {"calls_without_wire_bytes_all_ranks", summary.calls_without_wire},
        {"time", time_json(summary.time)}}},
      {"link_bandwidth_bytes_per_s", view.link ? Json(view.link->value) : Json()},
      {"ops", rows_json(summary_table(tables_of(view)))},
      {"sizes", histogram_json(summary.sizes, view.scope())},
      {"computing", summary.computing_ranks == 0
                        ? Json()
                        : Json{{"rank_count", summary.computing_ranks},
                               {"computing_ns_all_ranks", summary.computing.count()}}},
      {"cold_start",
       summary.coverage.averaged_times || !may_be_cold(view) ? Json() : cold_json(trace, summary.cold)},
      {"coverage", coverage_json(trace, summary.coverage)}};
  const Json timing = relations_json(view);
  for (const auto& [key, place] : {std::pair("overlap", "overlap"),
                                   {"overlap_rows", "overlap_rows"},
                                   {"overlap_totals", "overlap_totals"},
                                   {"stragglers", "waits"},
                                   {"bubble", "bubble"},
                                   {"bubble_rows", "bubble_rows"},
                                   {"bubble_totals", "bubble_totals"}}) {
    json[key] = timing.value(place, Json());
  }
  return json;
}

std::string summary_csv(const SummaryView& view) { return summary_table(tables_of(view)).csv(); }

std::string rendered(const SummaryView& view, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return summary_text(view, style); }, [&] { return summary_json(view); },
      [&] { return summary_csv(view); });
}

std::string rendered_sizes(const SummaryView& view, Format format, const TextStyle& style) {
  const SizeHistogram& sizes = view.subject.summary.sizes;
  return in_format(
      format, [&] { return histogram_text(sizes, style); },
      [&] { return histogram_json(sizes, view.scope()); }, [&] { return histogram_csv(sizes); });
}

}  // namespace commlens
