#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"

namespace commlens::formats::otf2 {

/// Whether that is a function of MPI, "MPI_Allreduce".
bool is_mpi_function(std::string_view name);

/// Whether a function of MPI of that name returns before its call is over: MPI_Irecv, MPI_Send_init (which
/// marks its start), MPI_Rput. Others are assumed not to.
bool returns_at_once(std::string_view name);

/// The name of the function that a call is shown as: its own where that is one of MPI's or its kind is
/// `other`, else MPI's for its kind, "MPI_Iallreduce" when the call `has_request`.
std::string otf2_region_name(CommKind kind, std::string_view own_name, bool has_request);

/// What a communicator is shown as: "MPI_COMM_WORLD" of all ranks, "MPI_COMM_SELF" of one, else "ranks 0-3"
/// or "tp ranks 0,2,4,6", in its order; the second communicator of the same ranks (`ordinal` 2) is a "dup" of
/// the first, the third "dup 2".
std::string otf2_comm_name(const std::vector<Rank>& members, std::int64_t job_ranks, Axis axis,
                           std::int64_t ordinal);

}  // namespace commlens::formats::otf2
