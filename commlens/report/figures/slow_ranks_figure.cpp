#include "commlens/report/figures/slow_ranks_figure.hpp"

#include <cctype>

#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/slow_ranks_report.hpp"

namespace commlens {
namespace {

struct WorkColumns {
  FigureColumn rank = whole_column("rank", "rank");
  FigureColumn verdict = text_column("verdict", "verdict");
  FigureColumn between = whole_column("between_calls_ns", "between calls", "ns");
  FigureColumn in_calls = whole_column("in_calls_ns", "in calls", "ns");
  FigureColumn excess = whole_column("excess_ns", "more than the median", "ns");
  FigureColumn slow = whole_column("slow_blocks", "slow blocks");
  FigureColumn blocks = whole_column("blocks", "of");
  FigureColumn group = text_column("group", "group");

  void add(const SlowRanks& found, const RankWork& work) {
    const bool is_compared = work.blocks > 0;
    wholes(rank).push_back(work.rank.value);
    texts(verdict).add(!is_compared       ? "not compared"
                       : !work.is_slow()  ? "not slow"
                       : work.blocks == 1 ? "slow in one block"
                                          : "slow");
    wholes(between).push_back(work.between_calls.count());
    wholes(in_calls).push_back(work.in_calls.count());
    wholes(excess).push_back(is_compared ? work.excess.count() : k_no_value);
    wholes(slow).push_back(is_compared ? work.slow : k_no_value);
    wholes(blocks).push_back(work.blocks);
    texts(group).add(is_compared ? slow_ranks_group(found, work) : "");
  }
};

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
  WorkColumns columns;
  for (const RankWork& work : found.ranks) {
    columns.add(found, work);
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
    figure.notes.push_back(sentence(slow_ranks_left_out(found)));
  }
  figure.columns = {std::move(columns.rank),     std::move(columns.verdict), std::move(columns.between),
                    std::move(columns.in_calls), std::move(columns.excess),  std::move(columns.slow),
                    std::move(columns.blocks),   std::move(columns.group)};
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
