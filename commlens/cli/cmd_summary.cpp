#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/command.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/histogram_report.hpp"
#include "commlens/report/wrapped.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* k_examples = R"(Examples:
  commlens summary calls.jsonl.gz
  commlens summary run.log --format csv
  commlens summary trace/ --rank 0 --iterations 1-)";

struct SummaryFlags {
  std::string trace;
  std::optional<std::int64_t> rank;
  std::string iterations;
  std::int64_t ranks_per_node = 0;
  bool sizes = false;
  OutputFlags output;
};

struct Summary {
  const Trace& trace;
  std::vector<Iteration> iterations;
  std::vector<OpTotal> totals;
  SizeHistogram histogram;
  std::int64_t calls = 0;
  std::int64_t ranks = 0;  // that have calls in it
  bool by_node = false;
  std::optional<Rank> rank;  // absent: all

  std::string scope() const { return rank ? fmt::format("rank {}", rank->value) : "all ranks"; }
};

Result<BreakdownOptions> options_of(const SummaryFlags& flags, const Trace& trace) {
  BreakdownOptions options;
  options.by_rule = false;
  options.ranks_per_node = flags.ranks_per_node;
  if (flags.rank) {
    options.rank = Rank{*flags.rank};
    if (trace.stream_of(*options.rank) == nullptr) {
      return failure(fmt::format("--rank {}: the trace has no calls of that rank, its highest is {}",
                                 *flags.rank, trace.ranks() - 1));
    }
  }
  const Result<std::optional<IterationRange>> range = iteration_range(flags.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  if (!*range) {
    return options;
  }
  for (const Iteration iteration : trace.iterations()) {
    if (iteration >= (*range)->first && iteration <= (*range)->second) {
      options.iterations.push_back(iteration);
    }
  }
  if (options.iterations.empty()) {
    const std::vector<Iteration> all = trace.iterations();
    return failure(all.empty()
                       ? fmt::format("--iterations {}: the trace does not say which iteration a call is of",
                                     flags.iterations)
                       : fmt::format("--iterations {}: the trace has iterations {} to {}", flags.iterations,
                                     all.front(), all.back()));
  }
  return options;
}

Summary summary_of(const Trace& trace, const BreakdownOptions& options) {
  const std::vector<BreakdownRow> rows = breakdown(trace, options);
  Summary summary{trace,
                  options.iterations.empty() ? trace.iterations() : options.iterations,
                  by_op(rows),
                  size_histogram(rows),
                  0,
                  0,
                  options.ranks_per_node > 0,
                  options.rank};
  for (const OpTotal& total : summary.totals) {
    summary.calls += total.calls;
  }
  std::vector<RankRange> seen;
  for (const BreakdownRow& row : rows) {
    if (seen.empty() || seen.back() != row.ranks) {
      seen.push_back(row.ranks);
      summary.ranks += row.ranks.count();
    }
  }
  return summary;
}

std::string summary_text(const Summary& summary, const std::string& name, const TextStyle& style) {
  const Provenance& provenance = summary.trace.provenance;
  const bool logger = provenance.accounting == Accounting::deepspeed_logger;
  const std::string ranks =
      summary.rank ? summary.scope()
                   : fmt::format("{} rank{}", with_commas(summary.ranks), summary.ranks == 1 ? "" : "s");
  const std::string iterations = summary.iterations.empty()
                                     ? "iterations unknown"
                                     : fmt::format("{} iteration{} ({} to {})", summary.iterations.size(),
                                                   summary.iterations.size() == 1 ? "" : "s",
                                                   summary.iterations.front(), summary.iterations.back());
  const char* const link = provenance.source == Source::imported ? " from " : " by ";
  std::string text =
      fmt::format("{}: {}{}{}; {} call{} of {}, {}\n", name, name_of(provenance.source),
                  provenance.producer.empty() ? "" : link, provenance.producer, with_commas(summary.calls),
                  summary.calls == 1 ? "" : "s", ranks, iterations);
  if (logger) {
    text +=
        "sizes as DeepSpeed's comms logger prints them (all_gather: input shard, rounded); groups unknown, "
        "so no "
        "wire bytes\n";
  }
  const std::string skipped = skipped_text(summary.trace);
  text += skipped.empty() ? "covered: every record\n" : fmt::format("covered: all but {}\n", skipped);
  const std::string scope = summary.scope() + (summary.rank ? "" : " together");
  return fmt::format("{}\nper op and group, {}\n{}\nmessage sizes, {}\n{}", wrapped(text, style), scope,
                     op_totals_text(summary.trace, summary.totals, style), scope,
                     histogram_text(summary.histogram, style));
}

Json summary_json(const Summary& summary) {
  const Provenance& provenance = summary.trace.provenance;
  Json skipped = Json::object();
  for (const auto& [reason, count] : provenance.skipped) {
    skipped[reason] = count;
  }
  return {{"schema", "commlens.summary/1"},
          {"source", name_of(provenance.source)},
          {"producer", provenance.producer},
          {"accounting", provenance.accounting == Accounting::messages ? "messages" : "deepspeed-logger"},
          {"scope", summary.scope()},
          {"ranks", summary.ranks},
          {"iterations", summary.iterations},
          {"calls", summary.calls},
          {"skipped_records", skipped},
          {"ops", op_totals_json(summary.trace, summary.totals, summary.by_node)},
          {"sizes", histogram_json(summary.histogram, summary.scope())}};
}

Result<ExitCode> summarise(Console& console, const SummaryFlags& flags) {
  const Result<Trace> trace = open_trace(console, flags.trace);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  const Result<BreakdownOptions> options = options_of(flags, *trace);
  if (!options) {
    return tl::unexpected(options.error());
  }
  const Summary summary = summary_of(*trace, *options);
  const TextStyle style = style_for(console, flags.output);
  std::string text;
  switch (flags.output.kind()) {
    case Format::table:
      text =
          flags.sizes ? histogram_text(summary.histogram, style) : summary_text(summary, flags.trace, style);
      break;
    case Format::json:
      text =
          (flags.sizes ? histogram_json(summary.histogram, summary.scope()) : summary_json(summary)).dump(1) +
          "\n";
      break;
    case Format::csv:
      text = flags.sizes ? histogram_csv(summary.histogram)
                         : op_totals_csv(*trace, summary.totals, summary.by_node);
      break;
  }
  write_result(console, flags.output, text);
  return ExitCode::done;
}

}  // namespace

Action declare_summary(CLI::App& verb) {
  const auto flags = std::make_shared<SummaryFlags>();
  verb.footer(k_examples);
  verb.add_option("TRACE", flags->trace, "A native trace, or a file that import reads; - is standard input")
      ->required();
  verb.add_option("--rank", flags->rank, "Only this rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{999'999'999}))
      ->type_name("R");
  verb.add_option("--iterations", flags->iterations, "Only these (-1 is initialisation)")
      ->type_name("FIRST-[LAST]");
  verb.add_option("--gpus-per-node", flags->ranks_per_node,
                  "Split wire bytes into those within and between nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("N");
  verb.add_flag("--sizes", flags->sizes, "Only the distribution of message sizes");
  declare_output(verb, flags->output);
  return [flags](Console& console) { return summarise(console, *flags); };
}

}  // namespace commlens
