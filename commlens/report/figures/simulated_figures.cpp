#include "commlens/report/figures/simulated_figures.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/units.hpp"
#include "commlens/report/documents/document_words.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

std::string seconds_cell(double seconds) {
  constexpr double billion = 1e9;
  return time_text(billion * seconds);
}
std::string rate_text(double rate) { return with_commas(std::llround(rate)); }
std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string memory_text_of(double bytes) { return to_text(Bytes{std::llround(bytes)}); }

void add_line(Table& table, const char* what, const WithInterval& number, std::string (*text)(double)) {
  table.add({what, text(number.value), text(number.low), text(number.high)});
}

/// What calls under way at the same time do to each other.
std::string links_text(const SimulatedIteration& run) {
  return run.contention == "none"      ? "each call as if alone"
         : run.contention == "simgrid" ? "calls share links, as SimGrid plays them"
                                       : "calls share links (flows)";
}

/// "megatron core_v0.19.2 on dgx_h100 (NVIDIA DGX H100), nccl 2.29.2, each call as if alone; kernels: …".
std::string simulated_on_text(const SimulatedIteration& run) {
  return fmt::format("{}, {}. Rules of {}, on {} ({}), {}, {}; kernels: {}", run.model, run.layout,
                     run.framework, run.machine, run.machine_title, run.library, links_text(run),
                     run.kernels);
}

}  // namespace

FigureResult simulated_figure(const FigureInput& input) {
  const SimulatedIteration& run = *input.documents.simulated;
  Table table(columns({"what", "value", "low", "high"}));
  add_line(table, "iteration", run.seconds, seconds_cell);
  add_line(table, "tokens/s of a rank", run.tokens_per_s, rate_text);
  add_line(table, "MFU", run.mfu, percent_text);
  add_line(table, "computing", run.compute, seconds_cell);
  add_line(table, "exposed calls", run.exposed, seconds_cell);
  add_line(table, "bubble and waiting", run.waiting, seconds_cell);
  add_line(table, "memory of a rank", run.memory, memory_text_of);
  Figure figure;
  figure.caption = fmt::format("A simulated iteration ({}) of {}. Intervals are of 90 %.", run.name,
                               simulated_on_text(run));
  figure.columns = figure_columns(table);
  if (!run.unverified.empty()) {
    figure.notes.push_back(fmt::format("Not measured: {}.", fmt::join(run.unverified, "; ")));
  }
  if (!run.assumptions.empty()) {
    figure.notes.push_back(fmt::format("Taken to be so of links: {}.", fmt::join(run.assumptions, "; ")));
  }
  return figure;
}

FigureResult simulated_time_figure(const FigureInput& input) {
  const SimulatedIteration& run = *input.documents.simulated;
  Table table(columns({"part", "time_s", "low_s", "high_s",
                       Column{.key = "part_share", .title = "share of the iteration"}, "calls_per_rank",
                       "moving_s", "moving_low_s", "moving_high_s", "provenance"}));
  const auto add = [&](const std::string& part, const WithInterval& seconds, const std::vector<Cell>& more) {
    const Cell share = run.seconds.value > 0 ? Cell(seconds.value / run.seconds.value) : Cell();
    table.add(
        concatenated(std::vector<Cell>{Cell(part)}, interval_cells(seconds), std::vector<Cell>{share}, more));
  };
  add("computing", run.compute, {Cell(), Cell(), Cell(), Cell(), Cell(run.kernels)});
  for (const CallsOfIteration& calls : run.calls) {
    add(fmt::format("exposed {} {}", calls.op, calls.axis), calls.exposed,
        concatenated(std::vector<Cell>{Cell(calls.calls)}, interval_cells(calls.moving),
                     std::vector<Cell>{Cell(calls.provenance)}));
  }
  add("bubble and waiting", run.waiting, {Cell(), Cell(), Cell(), Cell(), Cell()});
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "Where an iteration of {} goes, the mean over ranks: computing, calls that move data while the rank "
      "computes nothing, and waiting for the pipeline or for later ranks. {}.",
      seconds_with_interval(run.seconds), simulated_on_text(run));
  figure.columns = figure_columns(table);
  figure.options = {{"category", std::string("part")},
                    {"value", std::string("time_s")},
                    {"toggles", std::vector<std::string>{"time_s"}},
                    {"low", std::vector<std::string>{"low_s"}},
                    {"high", std::vector<std::string>{"high_s"}}};
  return figure;
}

}  // namespace commlens
