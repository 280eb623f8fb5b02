#pragma once
#include <optional>
#include <string>

#include "commlens/base/rank.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/trace/trace.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// The call of transports that a recorded one of kind `other` is, by its name: "gather", "MPI_Gather",
/// "MPI_Igather", "MPI_Gatherv", "ncclGather", "Gather", and the same for scatter. none: no transport makes
/// it.
OtherCall other_call_of(const Trace& trace, const CommOp& op);

/// Why `rank` cannot make a call of kind `other` again; std::nullopt: it can. Besides its name, that takes
/// its group, its root, and sizes as CommCall has them: a part, and all parts at the root alone.
std::optional<std::string> fault_of_other(const Trace& trace, const CommOp& op, Rank rank);

}  // namespace commlens::bench
