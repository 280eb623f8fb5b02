#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/breakdown.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// One block per class of ranks (classes that do the same share a block), with the calls of one rank each.
/// `accounting`: the definition of the rows' message bytes.
std::string breakdown_text(const Trace& trace, const std::vector<BreakdownRow>& rows, const TextStyle& style,
                           Accounting accounting = Accounting::messages);

/// `rows` of `predict --format json` (docs/output.md): bytes per rank of the class, each key ending in its
/// unit. `by_node` adds the inter-node part.
nlohmann::ordered_json breakdown_json(const Trace& trace, const std::vector<BreakdownRow>& rows,
                                      bool by_node);

/// The same table with a title line.
std::string breakdown_csv(const Trace& trace, const std::vector<BreakdownRow>& rows, bool by_node);

/// "0-7", "3": ranks of a class.
std::string to_text(RankRange ranks);

/// "all_reduce"; an op without a kind of its own under its original name.
std::string op_text(const Trace& trace, CommKind kind, NameId name);

/// "dp x16", "x4" if the axis is not known, "" if the group is not known either; for send and recv the axis
/// or "pair".
std::string group_text(CommKind kind, Axis axis, std::int64_t size);
/// The same of a call; "world x4 #2" on the second communicator of the same ranks.
std::string group_text(const Trace& trace, const CommOp& op);

}  // namespace commlens
