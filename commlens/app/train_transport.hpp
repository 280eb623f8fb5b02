#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "commlens/app/train_request.hpp"
#include "commlens/transport/call_watch.hpp"

namespace commlens {

/// Cores that this process may use.
std::int64_t usable_cores();

/// The number of threads, besides the ranks of one process, that carry out calls while the ranks compute:
/// --progress, by default the free cores, at most one per rank and four.
int assistants_of(const TrainRequest& request, std::int64_t ranks, std::int64_t threads_a_rank);

/// Whether a thread of each process progresses MPI calls: --progress, by default if each process of the
/// machine has a free core. `ranks`: of the whole job, used if the launcher does not provide the number on
/// this machine.
bool wants_mpi_progress(const TrainRequest& request, std::int64_t ranks);

/// Watches the ranks on `board`: none waits longer for a call than the request allows. `clean_up`, if any, is
/// called before the request's give_up.
std::shared_ptr<CallWatch> watch_of(const TrainRequest& request, CallBoard board,
                                    std::function<void()> clean_up = {});

}  // namespace commlens
