#pragma once
#include <vector>

#include "commlens/model/job.hpp"
#include "commlens/model/version.hpp"

namespace commlens::torchtitan {

/// What releases of torchtitan do differently.
struct Behaviour {
  KnownVersion version;
  /// What selective recomputation saves includes reduce_scatters, which are then not sent again: those of
  /// DTensor are functional, those of spmd_types are not. models/llama3/infra/parallelize.py of 0.2.2,
  /// _op_sac_save_list.
  bool saves_scattered = false;
  /// Context parallelism goes round PyTorch's ring, keys and values in one all_gather, which selective
  /// recomputation saves with the attention; else keys and values are gathered apart.
  /// distributed/context_parallel.py of 0.2.2.
  bool has_ring = false;
};

/// Of the job's release.
const Behaviour& behaviour(const Job& job);
/// The releases, in ascending order.
std::vector<KnownVersion> known_versions();
/// Place of the release that a job without a version is of.
constexpr std::size_t k_default_version = 1;

}  // namespace commlens::torchtitan
