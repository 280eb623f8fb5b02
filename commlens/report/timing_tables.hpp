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

/// The share of communication in the time of one rank, or summed over all.
std::vector<Column> communication_columns(ColumnScope scope);
Cells communication_cells(const CommunicationTime& time);

/// The time of each rank by kind; text shows shares.
Table overlap_by_rank_table(const std::vector<OverlapTotal>& rows);
/// The overlap of calls of one op (`group_size` and `axis` are empty), or on one kind of group.
Table overlap_by_op_table(const Trace& trace, const std::vector<OverlapTotal>& rows);
Table overlap_by_stream_table(const std::vector<OverlapTotal>& rows);

Table collective_waits_table(const std::vector<CollectiveWait>& rows);
Table lateness_table(const std::vector<RankLateness>& rows);
Table pair_waits_table(const std::vector<PairWait>& rows);
Table worst_waits_table(const std::vector<WaitInstance>& rows);

Table bubbles_table(const std::vector<PipelineBubble>& rows);
Table bubble_totals_table(const std::vector<BubbleTotal>& rows);

}  // namespace commlens
