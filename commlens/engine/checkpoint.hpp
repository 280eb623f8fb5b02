#pragma once
#include <cstdint>
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/engine/data_parallel.hpp"
#include "commlens/engine/groups.hpp"
#include "commlens/engine/loss_scaler.hpp"
#include "commlens/model/job.hpp"

namespace commlens::engine {

/// The directory of checkpoints, and the seed of the run, which determines data and initial values.
struct CheckpointPlace {
  std::filesystem::path directory;
  std::uint64_t seed = 0;
};

/// The progress of a training.
struct Progress {
  std::int64_t iteration = 0;
  std::optional<LossScaler::State> scaler;  // absent in a checkpoint of another element type than fp16
};

/// Writes DIR/iteration-N: the fp32 values and moments, each rank the part it owns, with checksums, and then
/// DIR/latest. A reader sees a complete checkpoint or the previous one, also after a crash of the machine
/// (fsync). A save that fails removes what it wrote. Collective over the world (barriers). Throws
/// SystemError.
void save_checkpoint(const CheckpointPlace& place, const Progress& progress, const Job& job,
                     DataParallel& parameters, RankGroups& groups);

/// Creates the directory. Fails before the training if it cannot be written or another job writes to it.
Result<void> prepare_save_directory(const std::filesystem::path& directory);

/// The number of completed iterations of the directory's newest checkpoint. Fails if there is none, or its
/// model, tensor or pipeline layout or seed differs (the data-parallel size and the ZeRO stage may differ).
Result<std::int64_t> check_checkpoint(const CheckpointPlace& place, const Job& job);

/// Reads values and moments from the newest checkpoint and returns its progress. Collective (one barrier): no
/// rank returns before all files were verified. Throws SystemError if a file is missing or damaged
/// (checksums).
Progress load_checkpoint(const CheckpointPlace& place, const Job& job, DataParallel& parameters,
                         RankGroups& groups);

}  // namespace commlens::engine
