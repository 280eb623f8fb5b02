#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "commlens/app/train_request.hpp"
#include "commlens/transport/call_watch.hpp"

namespace commlens {

/// Cores that this process may use.
std::int64_t usable_cores();

/// Threads beside the ranks of one process that carry out calls while these compute: --progress, by default
/// as many as cores are left, at most one a rank and four.
int assistants_of(const TrainRequest& request, std::int64_t ranks, std::int64_t threads_a_rank);

/// Whether a thread of each process moves calls on over MPI: --progress, by default where each process of the
/// machine has a core left for it. `ranks`: of the whole job, where the launcher does not say how many are
/// here.
bool wants_mpi_progress(const TrainRequest& request, std::int64_t ranks);

/// Watches over the ranks on `board`: none waits longer for a call than the request allows. `clean_up`, if
/// any, comes before the request's give_up.
std::shared_ptr<CallWatch> watch_of(const TrainRequest& request, CallBoard board,
                                    std::function<void()> clean_up = {});

}  // namespace commlens
