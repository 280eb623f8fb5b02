#include "commlens/report/figures/slow_ranks_figure.hpp"

#include <cctype>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/slow_ranks_report.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

const char* verdict_of(const RankWork& work) {
  return work.blocks == 0   ? "not compared"
         : !work.is_slow()  ? "not slow"
         : work.blocks == 1 ? "slow in one block"
                            : "slow";
}

std::string sentence(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + ".";
}

}  // namespace

FigureResult slow_ranks_figure(const FigureInput& input) {
  if (!input.waits) {
    return no_figure(no_times_reason(input.trace()));
  }
  const SlowRanks& found = input.waits->slow;
  if (found.blocks == 0) {
    return no_figure("no calls of several ranks could be compared");
  }
  Table table(columns({"rank", "verdict", "between_calls_ns", "in_calls_ns", "excess_ns", "slow_blocks",
                       Column{"blocks", "of"}, "group_text"}));
  for (const RankWork& work : found.ranks) {
    const bool is_compared = work.blocks > 0;
    table.add({work.rank, verdict_of(work), work.between_calls, work.in_calls,
               is_compared ? Cell(work.excess) : Cell(), is_compared ? Cell(work.slow) : Cell(), work.blocks,
               is_compared ? Cell(slow_ranks_group(found, work)) : Cell()});
  }
  Figure figure;
  figure.kind = FigureKind::bars;
  figure.caption =
      "How long each rank worked between its calls, by its own clock: what holds the others up. One that "
      "merely waits for a slow rank spends that time in calls.";
  for (const std::string& verdict : slow_ranks_verdicts(found)) {
    figure.caption += " " + sentence(verdict);
  }
  if (found.differing > 0) {
    figure.notes.push_back(sentence(skipped_parts_text(found)));
  }
  figure.columns = figure_columns(table);
  figure.options = {
      {"category", std::string("rank")},
      {"series", std::string("verdict")},
      {"value", std::string("between_calls_ns")},
      {"stacked", true},
      {"toggles", std::vector<std::string>{"between_calls_ns", "excess_ns", "in_calls_ns", "slow_blocks"}}};
  figure.formulas = {"slow-ranks"};
  return figure;
}

}  // namespace commlens
