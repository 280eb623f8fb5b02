#include "commlens/report/figures/search_figures.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/report/documents/document_words.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Uses = std::vector<ColumnUse>;
using Names = std::vector<std::string>;

/// "1. tp 8, pp 1, …".
std::string numbered(const std::vector<FoundLayout>& layouts, const FoundLayout& layout) {
  return fmt::format("{}. {}", &layout - layouts.data() + 1, layout.text);
}

std::string source_of_times(const SearchedOn& on) {
  return fmt::format(
      "Times by the closed form, {}, without a library; memory is an estimate. Intervals are of 90 %.",
      on.provenance);
}

Uses interval_uses() {
  return {"time_s",
          "low_s",
          "high_s",
          "memory_bytes_per_rank",
          "memory_low_bytes_per_rank",
          "memory_high_bytes_per_rank",
          "mfu_share"};
}

std::vector<Cell> cells_of(const FoundLayout& layout) {
  return concatenated(interval_cells(layout.seconds), memory_cells(layout.memory),
                      std::vector<Cell>{Cell(layout.mfu)});
}

Uses part_uses() {
  Uses uses;
  for (const std::string_view key : k_part_keys) {
    uses.emplace_back(Column{.key = std::string(key)});
  }
  return uses;
}

}  // namespace

FigureResult search_figure(const FigureInput& input) {
  const FoundLayouts& found = *input.documents.layouts;
  Table table(columns({"what", "value"}));
  table.add({"model", found.on.model});
  table.add({"iteration", fmt::format("{} sequences of {} tokens, {}", with_commas(found.on.sequences),
                                      with_commas(found.on.sequence), found.on.precision)});
  table.add({"machine", fmt::format("{} of {} ({})", devices_text(found.on.ranks), found.on.machine,
                                    found.on.processor)});
  table.add({"framework", found.on.framework});
  table.add({"memory of a device", to_text(Bytes{found.on.memory_limit})});
  table.add({"layouts evaluated", with_commas(found.evaluated)});
  table.add({"of these fit", with_commas(found.fitting)});
  table.add({"equal to the fastest within the error", with_commas(found.equal)});
  table.add({"fastest", found.fastest.front().text});
  table.add({"its iteration", seconds_with_interval(found.fastest.front().seconds)});
  table.add({"its memory", bytes_with_interval(found.fastest.front().memory)});
  table.add({"provenance", found.fastest.front().provenance});
  Figure figure;
  figure.caption =
      fmt::format("What commlens search has found ({}). {}", found.on.name, source_of_times(found.on));
  figure.columns = figure_columns(table);
  return figure;
}

FigureResult layouts_figure(const FigureInput& input) {
  const FoundLayouts& found = *input.documents.layouts;
  Table table(columns(
      concatenated(Uses{"layout_text"}, interval_uses(), part_uses(), Uses{"verdict", "provenance"})));
  for (const FoundLayout& layout : found.fastest) {
    std::vector<Cell> parts;
    for (const double part : layout.parts) {
      parts.emplace_back(part);
    }
    table.add(concatenated(std::vector<Cell>{Cell(numbered(found.fastest, layout))}, cells_of(layout), parts,
                           std::vector<Cell>{Cell(verdict_of(layout)), Cell(layout.provenance)}));
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  const auto equal = std::count_if(found.fastest.begin(), found.fastest.end(),
                                   [](const FoundLayout& each) { return each.is_equal; });
  figure.caption = fmt::format(
      "{}. The time of an iteration, by parts: computing, exposed messages by what they are for, waiting of "
      "the pipeline. {} {} of these {} are equal to the first within the error: the order among them is a "
      "guess.",
      searched_text(found.on, devices_text(found.on.ranks)), source_of_times(found.on), equal,
      found.fastest.size());
  figure.columns = figure_columns(table);
  figure.options = {{"category", std::string("layout_text")},
                    {"long_labels", true},
                    {"parts", Names(k_part_keys.begin(), k_part_keys.end())},
                    {"low", Names{"low_s"}},
                    {"high", Names{"high_s"}}};
  return figure;
}

FigureResult front_figure(const FigureInput& input) {
  const FoundLayouts& found = *input.documents.layouts;
  if (found.front.empty()) {
    return no_figure("the search lists no front");
  }
  Table table(columns(concatenated(Uses{"layout_text", "verdict"}, interval_uses(), Uses{"provenance"})));
  for (const FoundLayout& layout : found.front) {
    table.add(concatenated(std::vector<Cell>{Cell(layout.text), Cell(verdict_of(layout))}, cells_of(layout),
                           std::vector<Cell>{Cell(layout.provenance)}));
  }
  Figure figure;
  figure.kind = FigureKind::scatter;
  figure.caption = fmt::format(
      "{}. Layouts of which no other is faster with as little memory. {} Those in the colour of the first "
      "are "
      "equal to it within the error.",
      searched_text(found.on, devices_text(found.on.ranks)), source_of_times(found.on));
  figure.columns = figure_columns(table);
  figure.options = {{"x", std::string("memory_bytes_per_rank")},
                    {"y", std::string("time_s")},
                    {"series", std::string("verdict")},
                    {"label", std::string("layout_text")},
                    {"log_x", true},
                    {"log_y", true},
                    {"log_base", std::int64_t{2}},
                    {"low", Names{"low_s"}},
                    {"high", Names{"high_s"}},
                    {"x_low", std::string("memory_low_bytes_per_rank")},
                    {"x_high", std::string("memory_high_bytes_per_rank")}};
  return figure;
}

FigureResult retimed_figure(const FigureInput& input) {
  const FoundLayouts& found = *input.documents.layouts;
  if (!found.order_tau) {
    return no_figure("no layout was simulated; commlens search --retime N does");
  }
  Table table(columns({"layout_text", "side", "time_s", "low_s", "high_s", "provenance"}));
  Figure figure;
  std::int64_t simulated = 0;
  for (const FoundLayout& layout : found.fastest) {
    if (!layout.simulated) {
      continue;
    }
    ++simulated;
    const std::string text = numbered(found.fastest, layout);
    table.add(concatenated(std::vector<Cell>{Cell(text), Cell("closed form")}, interval_cells(layout.seconds),
                           std::vector<Cell>{Cell(layout.provenance)}));
    table.add(
        concatenated(std::vector<Cell>{Cell(text), Cell("simulated")}, interval_cells(*layout.simulated),
                     std::vector<Cell>{Cell(fmt::format("{}; {}", layout.simulated_by, found.library))}));
  }
  const auto without = std::find_if(found.fastest.begin(), found.fastest.end(),
                                    [](const FoundLayout& each) { return !each.reason.empty(); });
  if (without != found.fastest.end()) {
    figure.notes.push_back(
        fmt::format("Not simulated: {} ({}).", numbered(found.fastest, *without), without->reason));
  }
  if (simulated == 0) {
    return no_figure(fmt::format("none of the layouts could be simulated: {}",
                                 without == found.fastest.end() ? "no reason is known" : without->reason));
  }
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "{}. The closed form ({}) and a simulation of the plan, event by event, with {}, both with their 90 % "
      "interval. "
      "Kendall's tau of the two orders: {:.2f} (1: the same, -1: the reverse).",
      searched_text(found.on, devices_text(found.on.ranks)), found.on.provenance, found.library,
      *found.order_tau);
  figure.columns = figure_columns(table);
  figure.options = bar_options("layout_text", "side", false, {"time_s"});
  figure.options.emplace_back("long_labels", true);
  figure.options.emplace_back("low", Names{"low_s"});
  figure.options.emplace_back("high", Names{"high_s"});
  return figure;
}

FigureResult scaling_figure(const FigureInput& input) {
  const FoundScaling& found = *input.documents.scaling;
  Table table(
      columns(concatenated(Uses{Column{.key = "rank_count", .title = "devices"}, "tokens_per_s_per_rank",
                                "tokens_per_s_low_per_rank", "tokens_per_s_high_per_rank"},
                           interval_uses(), Uses{"scaling_share", "layout_text", "provenance", "reason"})));
  Figure figure;
  for (const FoundOnDevices& point : found.rows) {
    if (!point.layout) {
      std::vector<Cell> cells(table.columns().size());
      cells.front() = Cell(point.ranks);
      cells.back() = Cell(point.reason);
      table.add(std::move(cells));
      continue;
    }
    const WithInterval& seconds = point.layout->seconds;
    const double tokens = point.tokens_per_s * seconds.value / static_cast<double>(point.ranks);
    table.add(concatenated(std::vector<Cell>{Cell(point.ranks), Cell(tokens / seconds.value),
                                             Cell(tokens / seconds.high), Cell(tokens / seconds.low)},
                           cells_of(*point.layout),
                           std::vector<Cell>{Cell(point.scaling), Cell(point.layout->text),
                                             Cell(point.layout->provenance), Cell()}));
  }
  figure.kind = FigureKind::lines;
  figure.caption = fmt::format("{}. The fastest layout on each number of devices, of the same batch ({}). {}",
                               searched_text(found.on, fmt::format("up to {}", devices_text(found.on.ranks))),
                               found.on.name, source_of_times(found.on));
  figure.columns = figure_columns(table);
  figure.options = {{"x", std::string("rank_count")},
                    {"toggles", Names{"tokens_per_s_per_rank", "time_s", "scaling_share"}},
                    {"low", Names{"tokens_per_s_low_per_rank", "low_s", ""}},
                    {"high", Names{"tokens_per_s_high_per_rank", "high_s", ""}},
                    {"log_x", true},
                    {"log_base", std::int64_t{2}}};
  return figure;
}

}  // namespace commlens
