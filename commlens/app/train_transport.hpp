#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "commlens/app/transport_choice.hpp"
#include "commlens/base/result.hpp"
#include "commlens/transport/call_watch.hpp"

namespace commlens {

/// Cores that this process may use.
std::int64_t usable_cores();

/// The number of threads, besides the ranks of one process, that carry out calls while the ranks compute:
/// --progress, by default the free cores, at most one per rank and four.
int assistants_of(CallProgress progress, std::int64_t ranks, std::int64_t threads_a_rank);

/// Whether a thread of each process progresses MPI calls: --progress, by default if each process of the
/// machine has a free core. `ranks`: of the whole job, used if the launcher does not provide the number on
/// this machine. `threads`: of each rank; absent: its share of the cores.
bool wants_mpi_progress(CallProgress progress, std::int64_t ranks, std::optional<std::int64_t> threads);

/// How long a rank may wait for one call (0: any time), and what is called if a rank is stuck after the job
/// was ended for it.
struct WaitLimit {
  std::chrono::nanoseconds timeout{};
  std::function<void(const std::string& reason)> give_up;
};

/// Watches the ranks on `board`: none waits longer for a call than allowed. `clean_up`, if any, is called
/// before give_up.
std::shared_ptr<CallWatch> watch_of(const WaitLimit& limit, CallBoard board,
                                    std::function<void()> clean_up = {});

/// Whether every rank of `world` is ready; `own`: whether this one is. If some are not, the first of them
/// gets its error. Collective.
Result<bool> all_ready(Communicator& world, const Result<void>& own);

}  // namespace commlens
