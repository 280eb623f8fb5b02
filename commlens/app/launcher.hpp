#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace commlens {

/// What the launcher of a parallel job tells its processes in the environment: Open MPI's, MPICH's (PMI),
/// Slurm's and torchrun's variables.

/// The first of these variables that holds a number of at least zero.
std::optional<std::int64_t> number_from_environment(std::initializer_list<const char*> names);

/// Of this process in the job; 0 when no launcher started it.
std::int64_t rank_of_process();

/// How many processes the launcher started; 1 where there is none.
std::int64_t launched_ranks();

/// This process's place among those the launcher started on this machine; where it does not say, `rank` and
/// `ranks`.
std::int64_t local_rank(std::int64_t rank);
std::int64_t local_ranks(std::int64_t ranks);

}  // namespace commlens
