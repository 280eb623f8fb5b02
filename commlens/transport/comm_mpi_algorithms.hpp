#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <mpi.h>

#include "commlens/base/result.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// The algorithms of the MPI library for blocking calls of `kind` on `ranks` ranks, by the library's names:
/// those of Open MPI's variable coll_tuned_<op>_algorithm, and of MPICH's MPIR_CVAR_<OP>_INTRA_ALGORITHM.
/// Those that are errors, or silently another one, for this number of ranks are not listed, nor those that
/// other settings change; nor is any where
/// the library does not let a program choose (Open MPI: unless coll_tuned_use_dynamic_rules was set before it
/// started).
std::vector<std::string> mpi_algorithms(CommKind kind, std::int64_t ranks);

/// Before MPI ends: closes what mpi_algorithms() has opened. No choice can be made or used after it.
void close_mpi_tools();

/// Which algorithm the calls of each kind on one communicator use; of the other kinds the library's choice.
class MpiAlgorithmChoice {
 public:
  /// Adds a choice. Fails unless mpi_algorithms() lists it.
  Result<void> choose(CommKind kind, const std::string& algorithm, std::int64_t ranks);

  /// A duplicate of `comm` whose calls use the choices. Open MPI reads them while it makes a communicator.
  /// Collective over `comm`.
  MPI_Comm duplicate(MPI_Comm comm) const;

  /// A choice: what to write to the library's variable, and what it was before.
  struct Choice {
    MPI_T_cvar_handle handle = nullptr;
    int value = 0;
    int initial = 0;
    int write(int chosen) const;
  };

  /// Around a blocking call: MPICH reads the variable in every call. Null: no choices.
  class Scope {
   public:
    Scope(const MpiAlgorithmChoice* choices, CommKind kind);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    const Choice* choice_ = nullptr;  // null: nothing to restore
  };

 private:
  std::map<CommKind, Choice> choices_;
};

}  // namespace commlens
