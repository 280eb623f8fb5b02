#pragma once
#include <string>
#include <vector>

#include "commlens/base/table.hpp"
#include "commlens/summary/bubble.hpp"
#include "commlens/summary/overlap.hpp"
#include "commlens/summary/overlap_totals.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// [first, last], and "0-7" for people.
Cell ranks_cell(RankRange ranks);
/// The ranks of a group.
Cell members_cell(const std::vector<Rank>& members);

/// How much of the time is communication, for one rank, or added up over all.
std::vector<Column> communication_columns(ColumnScope scope);
std::vector<Cell> communication_cells(const CommunicationTime& time);

/// Where the time of each rank went; people see parts of the time.
Table overlap_by_rank_table(const std::vector<OverlapTotal>& rows);
/// What calls of one op (`group_size` and `axis` stay empty), or on one kind of group, hide.
Table overlap_by_op_table(const Trace& trace, const std::vector<OverlapTotal>& rows);
Table overlap_by_stream_table(const std::vector<OverlapTotal>& rows);

Table collective_waits_table(const std::vector<CollectiveWait>& rows);
Table lateness_table(const std::vector<RankLateness>& rows);
Table pair_waits_table(const std::vector<PairWait>& rows);
Table worst_waits_table(const std::vector<WaitInstance>& rows);

Table bubbles_table(const std::vector<PipelineBubble>& rows);
Table bubble_totals_table(const std::vector<BubbleTotal>& rows);

}  // namespace commlens
