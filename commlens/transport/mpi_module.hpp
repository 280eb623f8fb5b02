#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Arguments that mpi_world.cpp passes to the module.
struct MpiLaunch {
  std::int64_t ranks = 0;                  // number of processes from the launcher; 0 if unknown
  bool progress = false;                   // a thread progresses calls while the rank computes
  bool chooses_algorithms = false;         // Communicator::with_algorithm will be used
  std::string* library_version = nullptr;  // receives what the library says of itself
};

/// The one function of a libcommlens-mpi-*.so, exported as k_mpi_module_entry: starts MPI and stores the
/// communicator of all ranks, or the error, in `world`.
using MpiModuleEntry = void(const MpiLaunch& launch, Result<std::unique_ptr<Communicator>>& world);
constexpr const char* k_mpi_module_entry = "commlens_open_mpi";

}  // namespace commlens
