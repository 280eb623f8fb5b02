#pragma once
#include <cstdint>
#include <memory>

#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// What mpi_world.cpp tells the module it loads.
struct MpiLaunch {
  std::int64_t ranks = 0;  // how many the launcher says it started; 0 when it does not say
  bool progress = false;   // a thread is to move calls on while the rank computes
};

/// The one function of a libcommlens-mpi-*.so, exported as k_mpi_module_entry: starts MPI and puts the
/// communicator of all ranks, or why there is none, into `world`.
using MpiModuleEntry = void(const MpiLaunch& launch, Result<std::unique_ptr<Communicator>>& world);
constexpr const char* k_mpi_module_entry = "commlens_open_mpi";

}  // namespace commlens
