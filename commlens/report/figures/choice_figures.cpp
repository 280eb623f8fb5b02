#include "commlens/report/figures/choice_figures.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/report/documents/document_words.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

struct NamedPart {
  std::string title;
  double seconds = 0;
};

/// The parts of a layout's time that are worth a line, the longest first.
std::vector<NamedPart> longest_parts(const FoundLayout& layout) {
  constexpr double least_share = 5e-4;
  std::vector<NamedPart> parts;
  for (std::size_t part = 0; part < k_part_keys.size(); ++part) {
    if (layout.parts[part] >= least_share * layout.seconds.value) {
      parts.push_back({std::string(output_key(k_part_keys[part]).title), layout.parts[part]});
    }
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const NamedPart& a, const NamedPart& b) { return a.seconds > b.seconds; });
  return parts;
}

std::string with_twice_text(const FoundLayouts& found) {
  const FoundLayout& first = found.fastest.front();
  if (!found.with_twice) {
    return "no layout would be faster";
  }
  const FoundLayout& faster = *found.with_twice;
  return fmt::format(
      "{} would take {}, {:.1f} % less, and need {}", faster.text, seconds_with_interval(faster.seconds),
      100 * (1 - faster.seconds.value / first.seconds.value), bytes_with_interval(faster.memory));
}

std::string change_text(const FoundChange& change) {
  return fmt::format("{} {} instead of {}", change.setting, change.then, change.now);
}

/// "3.2 % less (…)" in words: what the best change that fits gives.
std::string best_change_text(const FoundLayouts& found) {
  const FoundChange* best = nullptr;
  for (const FoundChange& change : found.changes) {
    if (change.fits && (best == nullptr || change.slower < best->slower)) {
      best = &change;
    }
  }
  if (best == nullptr) {
    return "No change of one setting fits.";
  }
  return fmt::format("Of those that fit, {} costs least: {}, {:.1f} % {}.", change_text(*best),
                     seconds_with_interval(best->seconds), 100 * std::abs(best->slower),
                     best->slower < 0 ? "less" : "more");
}

}  // namespace

FigureResult binding_figure(const FigureInput& input) {
  const FoundLayouts& found = *input.documents.layouts;
  const FoundLayout& first = found.fastest.front();
  Table table(columns({"what", "value"}));
  table.add({"iteration", seconds_with_interval(first.seconds)});
  for (const NamedPart& part : longest_parts(first)) {
    constexpr double billion = 1e9;
    table.add({part.title, fmt::format("{}, {:.1f} %", time_text(billion * part.seconds),
                                       100 * part.seconds / first.seconds.value)});
  }
  table.add({"memory", fmt::format("{} of {}", bytes_with_interval(first.memory),
                                   to_text(Bytes{found.on.memory_limit}))});
  table.add({"with twice the memory", with_twice_text(found)});
  Figure figure;
  figure.caption =
      fmt::format("What the time and the memory of the fastest layout ({}) go to, on {} ({}). {}.",
                  first.text, found.on.machine, found.on.processor, first.provenance);
  figure.columns = figure_columns(table);
  return figure;
}

FigureResult changes_figure(const FigureInput& input) {
  const FoundLayouts& found = *input.documents.layouts;
  if (found.changes.empty()) {
    return no_figure("no other layout is one step from the fastest");
  }
  Table table(
      columns({Column{.key = "title", .title = "one change"}, Column{.key = "fits", .title = "in memory"},
               "time_s", "low_s", "high_s", "slower_share", "memory_bytes_per_rank",
               "memory_low_bytes_per_rank", "memory_high_bytes_per_rank"}));
  const auto add = [&](const std::string& title, bool fits, const WithInterval& seconds, double slower,
                       const WithInterval& memory) {
    table.add(concatenated(std::vector<Cell>{Cell(title), Cell(fits ? "fits" : "does not fit")},
                           interval_cells(seconds), std::vector<Cell>{Cell(slower)}, memory_cells(memory)));
  };
  const FoundLayout& first = found.fastest.front();
  add("as it is", true, first.seconds, 0, first.memory);
  for (const FoundChange& change : found.changes) {
    add(change_text(change), change.fits, change.seconds, change.slower, change.memory);
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption = fmt::format(
      "What one change of the fastest layout ({}) gives: the time of an iteration with its 90 % interval. {} "
      "On {} ({}), {}.",
      first.text, best_change_text(found), found.on.machine, found.on.processor, first.provenance);
  figure.columns = figure_columns(table);
  figure.options = bar_options("title", "fits", false, {"time_s"});
  figure.options.emplace_back("long_labels", true);
  figure.options.emplace_back("one_each", true);
  figure.options.emplace_back("low", std::vector<std::string>{"low_s"});
  figure.options.emplace_back("high", std::vector<std::string>{"high_s"});
  return figure;
}

}  // namespace commlens
