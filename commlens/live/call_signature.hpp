#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commlens/live/job_progress.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// How a call of `rank` waits for others.
CallPart part_of(const Trace& tables, const CommOp& op, Rank rank);

/// Where it meets them; precondition: its part is collective, send or receive.
CallChannel channel_of(const Trace& tables, const CommOp& op, Rank rank, CallPart part);

/// What its other members must ask for too.
CallSignature signature_of(const Trace& tables, const CommOp& op, Rank rank);
/// The same of a call whose names and root are known; `root`: a rank, -1: none.
CallSignature signature_of(const CommOp& op, const std::string& name, std::int64_t root);

/// Whether calls of two members can be one call. A type that MPI's program made of others is recorded as
/// bytes (uint8), which other members may give in another type.
bool are_compatible(const CallSignature& a, const CallSignature& b);

/// The rank of its root; -1: it has none.
std::int64_t root_of(const Trace& tables, const CommOp& op, Rank rank);

/// Whether the members of a function of MPI may move different amounts: MPI_Gatherv, MPI_Ialltoallw_c.
bool has_own_sizes(std::string_view function);

/// A call of `rank` with what is known of its place among others.
SeenCall seen_call(const Trace& tables, Rank rank, const StatedCall& call, CallPart part, std::size_t channel,
                   std::int64_t number);

/// Ranks by what they asked for in what is one call, most ranks first; `calls` by rank.
std::vector<std::pair<CallSignature, std::vector<Rank>>> sides_of(
    const std::vector<std::pair<Rank, const CallSignature*>>& calls);

}  // namespace commlens
