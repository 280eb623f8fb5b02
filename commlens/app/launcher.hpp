#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace commlens {

/// Environment variables by which a launcher (Open MPI, MPICH's PMI, Slurm, torchrun) passes ranks to the
/// processes of a job.

/// The first of these variables that holds a number of at least zero.
std::optional<std::int64_t> number_from_environment(std::initializer_list<const char*> names);

/// The rank of this process in the job; 0 if no launcher started it.
std::int64_t rank_of_process();

/// How many processes the launcher started; 1 where there is none.
std::int64_t launched_ranks();

/// The local rank and number of processes on this machine; `rank` and `ranks` if the launcher does not
/// provide them.
std::int64_t local_rank(std::int64_t rank);
std::int64_t local_ranks(std::int64_t ranks);

}  // namespace commlens
