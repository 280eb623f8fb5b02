#pragma once
#include <memory>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Joins the MPI job this process was started in. The MPI module (libcommlens-mpi-openmpi.so or
/// libcommlens-mpi-mpich.so) is loaded now, from beside the program or ../lib/commlens; `library` is
/// "openmpi", "mpich", or empty: the one whose launcher's variables are in the environment. Fails, with
/// advice, if there is no module or no launcher, or MPI does not start. MPI is finalised when the process
/// exits normally. `progress`: a thread progresses calls while the rank computes, if the library supports it
/// (Communicator::makes_progress).
Result<std::unique_ptr<Communicator>> open_mpi_world(const std::string& library, bool progress = false);

/// An MPI job whose collective calls can be made with a choice of algorithms (Communicator::algorithms).
struct TunableMpiWorld {
  std::unique_ptr<Communicator> world;
  std::string library;  // "openmpi", "mpich"
  std::string version;  // what the library says of itself, one line
};

/// The same, without progress. Lets Open MPI take algorithms from a program (coll_tuned_use_dynamic_rules);
/// what was not chosen stays its own decision.
Result<TunableMpiWorld> open_tunable_mpi_world(const std::string& library);

}  // namespace commlens
