#pragma once
#include <string>
#include <utility>
#include <vector>

namespace commlens::tune {

/// A node of MPICH's selection tree: the first child whose condition holds is taken, until one names an
/// algorithm.
struct SelectionNode {
  std::string condition;  // "comm_size<8", "algorithm=MPIR_Bcast_intra_binomial"
  std::vector<SelectionNode> children;
};

/// The choices of MPICH 4.0 without a file, for every collective of MPI 3.
std::vector<SelectionNode> mpich_defaults();

}  // namespace commlens::tune
