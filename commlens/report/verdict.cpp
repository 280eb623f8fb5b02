#include "commlens/report/verdict.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/sums.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/documents/document_words.hpp"
#include "commlens/report/figures/busy_figure.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/figures/runs_figure.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/slow_ranks_report.hpp"

namespace commlens {
namespace {

std::string as_sentence(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text.ends_with('.') ? text : text + ".";
}

std::string duration_text(std::chrono::nanoseconds time) {
  return time_text(static_cast<double>(time.count()));
}

/// "Most of what differs: attention mask in every send, 96 calls, 1.50 MiB."
std::string largest_cause(const Explanation& explanation) {
  if (!explanation.explained.empty()) {
    const ExplainedGroup& group = explanation.explained.front();
    std::int64_t calls = 0;
    for (const ExplainedRow& row : group.rows) {
      calls = saturating_sum(calls, saturating_sum(row.calls_a, row.calls_b));
    }
    return fmt::format("Most of what differs: {}, {}, {}; {}.", printable(group.cause.title),
                       counted(calls, "calls"), to_text(group.moved()),
                       explanation.complete() ? "every difference has its cause below"
                                              : "some differences have no known cause");
  }
  return explanation.complete() ? "" : "No rule or setting is known that explains it.";
}

void add_comparison(const ComparedTraces& compared, ReportVerdict& verdict) {
  bool is_equal = false;
  std::string line;
  if (const auto* calls = std::get_if<Comparison>(&compared.result)) {
    is_equal = calls->equal();
    line = verdict_line(*calls, false);
  } else if (const auto* volumes = std::get_if<std::vector<VolumeDifference>>(&compared.result)) {
    Bytes a;
    Bytes b;
    for (const VolumeDifference& row : *volumes) {
      a = saturating_sum(a, row.message_a);
      b = saturating_sum(b, row.message_b);
    }
    is_equal = all_equal(*volumes);
    line = fmt::format("{}: message bytes per axis and op of one iteration, {} in A and {} in B",
                       is_equal ? "equal" : "different", to_text(a), to_text(b));
  } else {
    const auto& logged = std::get<LoggedComparison>(compared.result);
    is_equal = logged.equal();
    line = fmt::format("{}: {} of {} logged sizes have as many calls as expected (rank 0, {})",
                       is_equal ? "equal" : "different", logged.exact_rows, logged.rows.size(),
                       counted(logged.iterations, "iterations"));
  }
  verdict.tone = is_equal ? ReportVerdict::Tone::good : ReportVerdict::Tone::bad;
  verdict.sentences.push_back(as_sentence(line) + fmt::format(" A is {}, B is {}.",
                                                              printable(compared.a.name),
                                                              printable(compared.b.name)));
  if (!is_equal && compared.explanation) {
    if (const std::string cause = largest_cause(*compared.explanation); !cause.empty()) {
      verdict.sentences.push_back(cause);
    }
  }
}

/// Three or more: which asks for most and for least.
void add_extremes(const FigureInput& input, ReportVerdict& verdict) {
  struct Run {
    std::string name;
    double wire = 0;
  };
  std::vector<Run> runs;
  for (const NamedTrace& run : input.all) {
    if (const auto of = iteration_count(*run.trace, input.iterations)) {
      SummaryOptions options;
      options.iterations = of->iterations;
      const Summary summary = summarise(*run.trace, options);
      runs.push_back(
          {printable(run.name), static_cast<double>(summary.wire.value) / static_cast<double>(of->count)});
    }
  }
  if (runs.size() < 2) {
    return;
  }
  const auto [least, most] = std::minmax_element(runs.begin(), runs.end(),
                                                 [](const Run& a, const Run& b) { return a.wire < b.wire; });
  const auto bytes = [](const Run& run) { return to_text(Bytes{static_cast<std::int64_t>(run.wire)}); };
  verdict.sentences.push_back(
      least->wire == most->wire
          ? fmt::format("Of {} inputs an iteration puts the same on the wire, {}.", runs.size(), bytes(*most))
          : fmt::format("Of {} inputs an iteration of {} puts most on the wire, {}, and one of {} least, {}.",
                        runs.size(), most->name, bytes(*most), least->name, bytes(*least)));
}

/// The label with most of `all`, and its sum.
struct LargestLabel {
  std::string label;
  Bytes bytes;
};
LargestLabel largest_label(const Trace& trace, const std::vector<SummaryRow>& rows, bool is_wire) {
  std::map<std::string, Bytes> labels;
  LargestLabel largest;
  for (const SummaryRow& row : rows) {
    const std::string label = call_label(trace, row.kind, row.name, row.axis, row.group_size);
    Bytes& sum = labels[label];
    sum = saturating_sum(sum, is_wire ? row.wire : row.message);
    if (sum > largest.bytes) {
      largest = {label, sum};
    }
  }
  return largest;
}

/// "16 ranks make 96 calls in an iteration and put 12.0 GiB on the wire; all_gather dp x16 is 66.7 % of it."
std::string volume_sentence(const FigureInput& input) {
  const Summary& summary = input.volumes();
  const std::int64_t ranks = std::max<std::int64_t>(summary.ranks, 1);
  if (summary.calls == 0) {
    return "What is shown has no calls.";
  }
  const bool is_wire = !is_printed_log(input.trace()) && summary.wire.value > 0;
  const Bytes all = is_wire ? summary.wire : summary.message;
  std::string text = fmt::format(
      "{} {} {} in {} and {} {} {}", counted(ranks, "ranks"), ranks == 1 ? "makes" : "make",
      counted(summary.calls, "calls"),
      input.training && input.trace().provenance.source == Source::predicted ? "an iteration"
                                                                             : counted_iterations(input),
      ranks == 1 ? "puts" : "put", to_text(all), is_wire ? "on the wire" : "into messages");
  if (const LargestLabel largest = largest_label(input.trace(), summary.rows, is_wire);
      largest.bytes.value > 0) {
    text += fmt::format("; {} is {} of it", largest.label, percent(largest.bytes.value, all.value));
  }
  return text + ".";
}

/// "Calls take 40.0 % of the ranks' time (overlaps counted once), 12.0 % with nothing computed meanwhile;
/// all_reduce alone 30.0 %."
std::string time_sentence(const FigureInput& input) {
  const OverlapTotals& totals = *input.overlap;
  const BusyTotal all = busy_total(totals);
  std::string text = fmt::format("Calls take {} of the ranks' time (overlaps counted once)",
                                 percent(all.time.total.count(), all.span.count()));
  if (all.knows_exposed && input.trace().provenance.progress != false) {
    text +=
        fmt::format(", {} with nothing computed meanwhile", percent(all.exposed.count(), all.span.count()));
  }
  if (!totals.by_op.empty()) {
    const OverlapTotal& most = totals.by_op.front();
    text += fmt::format("; {} alone {}", op_text(input.trace(), most.kind, most.name),
                        percent(most.time.total.count(), all.span.count()));
  }
  return text + ".";
}

/// "An iteration takes 2.19 s by the simulation, the longest of 16 ranks."
std::string simulated_sentence(const FigureInput& input) {
  std::chrono::nanoseconds longest{};
  for (const OverlapTotal& rank : input.overlap->by_rank) {
    longest = std::max(longest, rank.span / std::max<std::int64_t>(rank.iterations, 1));
  }
  return fmt::format("An iteration takes {} by the simulation, the longest of {}.", duration_text(longest),
                     counted(input.summary.ranks, "ranks"));
}

/// Who is slow and what the time or the bytes go to; of a trace that was compared with another, what else
/// matters.
void add_trace(const FigureInput& input, ReportVerdict& verdict) {
  const bool is_timed = input.overlap && !input.overlap->by_op.empty();
  const bool is_simulated = input.trace().provenance.source == Source::simulated;
  if (is_timed && is_simulated) {
    verdict.sentences.push_back(simulated_sentence(input));
  } else if (is_timed && input.waits) {
    const SlowRanks& slow = input.waits->slow;
    const bool has_slow = std::any_of(slow.ranks.begin(), slow.ranks.end(),
                                      [](const RankWork& rank) { return rank.blocks > 1 && rank.is_slow(); });
    const std::vector<std::string> lines = slow_ranks_verdicts(slow);
    if (!lines.empty() && (has_slow || !input.compared)) {
      verdict.sentences.push_back(as_sentence(lines.front()));  // the slowest, or that none is
    }
    verdict.tone = has_slow ? ReportVerdict::Tone::bad : verdict.tone;
  }
  if (!input.compared || verdict.sentences.size() < 2) {
    verdict.sentences.push_back(is_timed ? time_sentence(input) : volume_sentence(input));
  }
}

std::string percent_of(double share) { return fmt::format("{:.1f} %", 100 * share); }

void add_simulated(const SimulatedIteration& run, ReportVerdict& verdict) {
  verdict.sentences.push_back(
      fmt::format("An iteration takes {} (90 % interval), {} MFU ({} to {}): {} of it in calls with nothing "
                  "computed meanwhile, {} waiting for the pipeline or for later ranks.",
                  seconds_with_interval(run.seconds), percent_of(run.mfu.value), percent_of(run.mfu.low),
                  percent_of(run.mfu.high), percent_of(run.exposed.value / run.seconds.value),
                  percent_of(run.waiting.value / run.seconds.value)));
  std::set<std::string> sources;
  const CallsOfIteration* most = nullptr;
  for (const CallsOfIteration& calls : run.calls) {
    sources.insert(printable(calls.provenance));
    most = most == nullptr || calls.exposed.value > most->exposed.value ? &calls : most;
  }
  std::string text;
  if (most != nullptr && most->exposed.value > 0) {
    text = fmt::format("Most exposed: {} {}, {}. ", printable(most->op), printable(most->axis),
                       percent_of(most->exposed.value / run.seconds.value));
  }
  verdict.sentences.push_back(text +
                              fmt::format("Times of kernels: {}{}{}.", printable(run.kernels),
                                          sources.empty() ? "" : "; of calls: ", fmt::join(sources, ", ")));
}

void add_layouts(const FoundLayouts& found, ReportVerdict& verdict) {
  const FoundLayout& first = found.fastest.front();
  verdict.sentences.push_back(fmt::format(
      "Fastest of {} layouts that fit: {}, {} an iteration (90 % interval), {} MFU; {} equal to it within "
      "the "
      "error. Times: {}.",
      with_commas(found.fitting), printable(first.text), seconds_with_interval(first.seconds),
      percent_of(first.mfu), found.equal <= 1 ? "none is" : with_commas(found.equal - 1) + " others are",
      printable(first.provenance)));
}

void add_scaling(const FoundScaling& scaling, ReportVerdict& verdict) {
  const FoundOnDevices* last = nullptr;
  for (const FoundOnDevices& row : scaling.rows) {
    last = row.layout ? &row : last;
  }
  if (last == nullptr) {
    verdict.sentences.emplace_back("No number of devices has a layout that fits.");
    return;
  }
  verdict.sentences.push_back(
      fmt::format("On {} the fastest layout takes {} an iteration (90 % interval), {} tokens/s in all{}.",
                  devices_text(last->ranks), seconds_with_interval(last->layout->seconds),
                  with_commas(static_cast<std::int64_t>(last->tokens_per_s)),
                  last->scaling ? fmt::format(", {} of linear scaling", percent_of(*last->scaling)) : ""));
}

}  // namespace

ReportVerdict verdict_of(const FigureInput& input) {
  ReportVerdict verdict;
  if (input.documents.layouts) {
    add_layouts(*input.documents.layouts, verdict);
  }
  if (input.documents.scaling) {
    add_scaling(*input.documents.scaling, verdict);
  }
  if (input.documents.simulated) {
    add_simulated(*input.documents.simulated, verdict);
  }
  if (input.subject.trace == nullptr) {
    return verdict;
  }
  if (input.compared) {
    add_comparison(*input.compared, verdict);
  } else if (input.all.size() == 2) {
    verdict.sentences.push_back(as_sentence("Not compared: " + input.not_compared));
  } else if (input.all.size() > 2) {
    add_extremes(input, verdict);
  }
  add_trace(input, verdict);
  return verdict;
}

std::vector<InputFacts> document_facts(const ResultDocuments& documents) {
  std::vector<InputFacts> all;
  const auto searched = [&](const SearchedOn& on, const std::string& devices) {
    all.push_back({on.name,
                   {{"model", on.model},
                    {"machine", fmt::format("{} of {} ({})", devices, on.machine, on.processor)},
                    {"batch", fmt::format("{} of {} tokens an iteration", counted(on.sequences, "sequences"),
                                          with_commas(on.sequence))},
                    {"precision", on.precision},
                    {"rules", on.framework},
                    {"memory of a device", to_text(Bytes{on.memory_limit})}}});
  };
  if (documents.layouts) {
    searched(documents.layouts->on, devices_text(documents.layouts->on.ranks));
  }
  if (documents.scaling) {
    searched(documents.scaling->on, "up to " + devices_text(documents.scaling->rows.back().ranks));
  }
  if (documents.simulated) {
    const SimulatedIteration& run = *documents.simulated;
    all.push_back({run.name,
                   {{"model", run.model},
                    {"layout", run.layout},
                    {"machine", fmt::format("{} ({})", run.machine, run.machine_title)},
                    {"library", run.library},
                    {"rules", run.framework},
                    {"memory of a rank", bytes_with_interval(run.memory)}}});
  }
  return all;
}

}  // namespace commlens
