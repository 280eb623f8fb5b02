#pragma once
#include <cstdint>

namespace commlens {

/// Transport of a job that a verb runs: threads of this process, MPI, or NCCL.
enum class Transport : std::uint8_t { threads, mpi, nccl };

/// Whether separate threads progress calls while ranks compute; automatic: if there are free cores.
enum class CallProgress : std::uint8_t { automatic, on, off };

}  // namespace commlens
