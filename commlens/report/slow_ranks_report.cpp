#include "commlens/report/slow_ranks_report.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/report/breakdown_report.hpp"
#include "commlens/report/most_rows.hpp"
#include "commlens/report/shares.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/timing_tables.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_most_verdicts = 4;

/// Persistently slow ranks, the one that cost most first.
std::vector<RankWork> slow_ranks_of(const SlowRanks& slow) {
  std::vector<RankWork> rows;
  std::copy_if(slow.ranks.begin(), slow.ranks.end(), std::back_inserter(rows),
               [](const RankWork& row) { return row.is_slow(); });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RankWork& a, const RankWork& b) { return a.excess > b.excess; });
  return rows;
}

Cell communicator_cell(const GroupWork& group) {
  return group.communicator == k_no_communicator ? Cell() : Cell(text_of(group.communicator));
}

std::string verdict_text(const SlowRanks& slow, const RankWork& row) {
  if (row.blocks == 1) {
    return fmt::format(
        "rank {} stands out in the only block of {}: it spent {} more between its calls than the median "
        "rank; one block does not show whether that lasts",
        row.rank.value, slow_ranks_group(slow, row), to_text(row.excess));
  }
  return fmt::format(
      "rank {} is slow: in {} of {} blocks of {} it spent {} more between its calls than the median rank",
      row.rank.value, with_commas(row.slow), with_commas(row.blocks), slow_ranks_group(slow, row),
      to_text(row.excess));
}

/// The verdict if no rank is persistently slow. Ranks whose calls are open all the time compute meanwhile,
/// which no call shows; and a rank may be slow for a while only.
std::string no_slow_rank_text(const SlowRanks& slow) {
  constexpr double least_share = 0.05;
  std::int64_t between = 0;
  std::int64_t all = 0;
  const RankWork* most = nullptr;
  for (const RankWork& row : slow.ranks) {
    between += row.between_calls.count();
    all += (row.between_calls + row.in_calls).count();
    most = row.slow > 0 && (most == nullptr || row.excess > most->excess) ? &row : most;
  }
  if (static_cast<double>(between) < least_share * static_cast<double>(all)) {
    return fmt::format(
        "who is slow cannot be determined: calls are open for {} of the time, and what ranks do beneath them "
        "is "
        "not "
        "seen",
        percent(all - between, all));
  }
  if (most == nullptr) {
    return "no rank is slow: none stands out from its group in any block";
  }
  return fmt::format(
      "no rank is slow in half of the blocks; rank {} stands out for a while: in {} of {} blocks of {}, by "
      "{}",
      most->rank.value, with_commas(most->slow), with_commas(most->blocks), slow_ranks_group(slow, *most),
      to_text(most->excess));
}

}  // namespace

std::string slow_ranks_group(const SlowRanks& slow, const RankWork& rank) {
  const GroupWork& group = slow.groups[rank.group];
  return group_text(CommKind::all_reduce, group.axis, std::ssize(group.members));
}

std::vector<std::string> slow_ranks_verdicts(const SlowRanks& slow) {
  if (slow.blocks == 0) {
    return {};
  }
  const std::vector<RankWork> rows = slow_ranks_of(slow);
  if (rows.empty()) {
    return {no_slow_rank_text(slow)};
  }
  std::vector<std::string> lines;
  for (std::size_t place = 0; place < std::min(rows.size(), k_most_verdicts); ++place) {
    const RankWork& row = rows[place];
    lines.push_back(verdict_text(slow, row));
  }
  if (const std::size_t more = rows.size() - lines.size(); more > 0) {
    lines.push_back(fmt::format("and {} more rank{}", with_commas(static_cast<std::int64_t>(more)),
                                more == 1 ? "" : "s"));
  }
  return lines;
}

std::string skipped_parts_text(const SlowRanks& slow) {
  return slow.differing == 0
             ? ""
             : fmt::format(
                   "skipped in the blocks: {} part{} in which the members of a group made different calls "
                   "or numbers of calls; a rank that lacks records seems to work in their place",
                   with_commas(slow.differing), slow.differing == 1 ? "" : "s");
}

std::string slow_ranks_text(const SlowRanks& slow, const TextStyle& style) {
  if (slow.blocks == 0) {
    return slow.differing == 0 ? "" : "\n" + wrapped(skipped_parts_text(slow) + "\n", style);
  }
  std::vector<RankWork> rows = slow.ranks;
  const std::string hidden = keep_most(rows, "ranks with the largest excess", [](const RankWork& row) {
    return std::tuple(row.excess, row.between_calls);
  });
  std::string notes;
  for (const std::string& verdict : slow_ranks_verdicts(slow)) {
    notes += verdict + "\n";
  }
  notes += slow.differing == 0 ? "" : skipped_parts_text(slow) + "\n";
  return "\n" + in_colour("who is slow: time between calls, by each rank's own clock", Colour::bold, style) +
         "\n" + hidden + slow_ranks_table(slow, rows).text_with_hidden(style) + wrapped(notes, style);
}

Table slow_ranks_table(const SlowRanks& slow, const std::vector<RankWork>& rows) {
  Table table(columns(
      {"rank", "between_calls_ns", Column{.key = "between_calls_share", .title = "share", .drop_first = 3},
       Column{.key = "in_calls_ns", .drop_first = 4}, "slow_blocks", Column{.key = "blocks", .title = "of"},
       "excess_ns",
       Column{.key = "group_row", .title = "group", .align = Column::Align::left, .drop_first = 2},
       data("slow"), Column{.key = "communicator", .in_text = false, .optional = true}}));
  for (const RankWork& row : rows) {
    const bool is_compared = row.blocks > 0;
    Cell slow_blocks = row.slow;
    Cell excess = row.excess;
    table.add({row.rank, row.between_calls,
               share_cell(row.between_calls.count(), (row.between_calls + row.in_calls).count()),
               row.in_calls, is_compared ? slow_blocks : std::move(slow_blocks).shown("-"), row.blocks,
               is_compared ? excess : std::move(excess).shown("-"),
               is_compared ? Cell(row.group).shown(slow_ranks_group(slow, row)) : Cell(), row.is_slow(),
               is_compared ? communicator_cell(slow.groups[row.group]) : Cell()});
  }
  return table;
}

Json slow_ranks_json(const SlowRanks& slow) {
  Table groups(columns({"axis", "group", "calls", "blocks", "slow_blocks", "parts_not_compared",
                        Column{.key = "communicator", .optional = true}}));
  for (const GroupWork& group : slow.groups) {
    groups.add({name_of(group.axis), members_cell(group.members), group.calls, group.blocks,
                group.slow_blocks, group.differing, communicator_cell(group)});
  }
  return {{"block_calls", k_block_calls},
          {"blocks", slow.blocks},
          {"parts_not_compared", slow.differing},
          {"by_rank", rows_json(slow_ranks_table(slow, slow.ranks))},
          {"groups", rows_json(groups)}};
}

}  // namespace commlens
